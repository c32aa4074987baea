"""Calls slurmctld by ``scontrol`` and ``squeue``, never through a shell."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from gpucloud.elastic.slurm.rules import Update
from gpucloud.elastic.slurm.states import JOB_FORMAT, SlurmJob, SlurmNode, read_jobs, read_nodes, version
from gpucloud.errors import GpucloudError, UsageError

TIMEOUT_S = 60.0
AT_ONCE = 500
"""The most names in one call: a line of arguments has a limit."""
CONFIGURATION = "/etc/slurm/slurm.conf"


class SlurmError(GpucloudError):
    """Slurm's own commands are missing, failed, or did not answer; the message quotes them."""


@dataclass(frozen=True, slots=True)
class Controller:
    """slurmctld, as its commands reach it with these variables of the environment."""

    variables: Mapping[str, str]

    @property
    def configuration(self) -> Path:
        """The file slurm.conf."""
        return Path(self.variables.get("SLURM_CONF") or CONFIGURATION)

    def refuse_elsewhere(self) -> None:
        """Refuses to work where Slurm's commands are missing; none is called.

        Raises:
            UsageError: they are.
        """
        if which("scontrol", path=self.variables.get("PATH", os.defpath)) is None:
            raise _elsewhere("scontrol")

    def nodes(self, hostlist: str | None = None) -> list[SlurmNode]:
        """Its nodes, or some.

        Raises:
            SlurmError: it does not answer, or there is no such node.
        """
        return read_nodes(self._run("scontrol", "--oneliner", "show", "node", *filter(None, (hostlist,))))

    def jobs(self) -> list[SlurmJob]:
        """The jobs that run or wait for their nodes to come up.

        Raises:
            SlurmError: it does not answer.
        """
        states = "--states=CONFIGURING,RUNNING"
        return read_jobs(self._run("squeue", "--noheader", states, f"--Format={JOB_FORMAT}"))

    def version(self) -> tuple[int, int]:
        """The version of its commands.

        Raises:
            SlurmError: they are missing.
        """
        return version(self._run("scontrol", "--version"))

    def tell(self, updates: Iterable[Update]) -> list[GpucloudError]:
        """Changes nodes and jobs; what it refuses keeps nothing else away.

        Returns:
            One error for each change that was refused.
        """
        troubles: list[GpucloudError] = []
        for update in updates:
            for part in _parts(update.what):
                what = "jobid" if update.is_job else "nodename"
                try:
                    self._run("scontrol", "update", f"{what}={','.join(part)}", *update.settings)
                except SlurmError as error:
                    troubles.append(error)
        return troubles

    def _run(self, *command: str) -> str:
        try:
            done = subprocess.run(
                command,
                env={**self.variables},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError as error:
            raise _elsewhere(command[0]) from error
        except subprocess.TimeoutExpired as error:
            raise SlurmError(f"{' '.join(command[:3])}: slurmctld does not answer") from error
        if done.returncode:
            said = " ".join(done.stderr.split() or done.stdout.split())[:300]
            raise SlurmError(
                f"{' '.join(command)[:200]}: {said or f'exit code {done.returncode}'}",
                hint="see whether slurmctld answers: scontrol ping",
            )
        return done.stdout


def _elsewhere(command: str) -> UsageError:
    return UsageError(
        f"there is no {command} here: is this the machine of slurmctld?",
        hint="install slurm-client, or name its folder in PATH",
    )


def _parts(names: Sequence[str]) -> Iterable[Sequence[str]]:
    return [names[first : first + AT_ONCE] for first in range(0, len(names), AT_ONCE)]


def configuration_lines(file: Path, depth: int = 3) -> list[str]:
    """The lines of slurm.conf or gres.conf, with those that they include.

    Raises:
        UsageError: a file cannot be read.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {file}: {getattr(error, 'strerror', None) or error}",
            hint="SLURM_CONF names slurm.conf where it is not /etc/slurm/slurm.conf",
        ) from error
    found: list[str] = []
    for line in lines:
        words = line.split(maxsplit=1)
        if len(words) == 2 and words[0].lower() == "include" and depth:
            found += configuration_lines(file.parent / words[1].strip(), depth - 1)
        elif line.strip() and not line.lstrip().startswith("#"):
            found.append(line)
    return found
