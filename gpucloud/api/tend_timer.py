"""The timer of the user's system that runs ``tend``: written and enabled, or removed.

It is systemd's where a manager of the user's units answers, else launchd's, else cron's.
"""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpucloud.config import Paths, make_private
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.runs import RUNS_OVER
from gpucloud.runs import timer_files as files
from gpucloud.spec.file import load_spec

if TYPE_CHECKING:
    from gpucloud.api.session import Session

SCRIPT, SECRETS, LOG = "tend.sh", "tend.env", "tend.log"
WITHIN_S = 30.0


class TimerError(GpucloudError):
    """The user's system did not take the timer."""


def script_of(config: Path) -> Path:
    """The script that a timer runs; it is there while one is installed."""
    return config / SCRIPT


def install(session: Session, paths: Paths, environment: Mapping[str, str], clouds: Sequence[str]) -> str:
    """Writes and enables a timer; returns what it is, for people.

    Raises:
        UsageError: something that it needs is only in this shell, or there is no program for it.
        TimerError: the system did not take it.
    """
    kind, secrets, log = _kind(), paths.config / SECRETS, session.state / LOG
    kept = files.names_in(secrets.read_text(encoding="utf-8")) if secrets.exists() else set[str]()
    missing = files.lacking(environment, clouds, _needed(session), kept)
    if missing:
        raise UsageError(
            f"a timer would not have what is only in this shell: {', '.join(missing)}",
            hint=f"write them as NAME=VALUE, one a line, into {secrets}, which only you can read (chmod 600)",
        )
    script = script_of(make_private(paths.config))
    settings = files.taken_along(environment, clouds)
    script.write_text(
        files.script(_command(), settings, secrets=str(secrets), log=str(log)), encoding="utf-8"
    )
    script.chmod(0o700)
    try:
        _ENABLE[kind](script)
    except TimerError:
        script.unlink()
        raise
    return f"{kind} looks after the runs every {files.EVERY_S // 60} minutes, and {log} has what it says"


def uninstall(config: Path) -> bool:
    """Takes the timer back; returns whether there was one.

    Raises:
        TimerError: the system did not let it go.
    """
    script = script_of(config)
    was_there = script.exists()
    for kind in _ENABLE:
        if _has(kind):
            _DISABLE[kind]()
    script.unlink(missing_ok=True)
    return was_there


def _needed(session: Session) -> set[str]:
    """The variables that the living detached runs of this owner take from whoever restarts them."""
    runs = [each for each in session.journal.runs(owner=session.owner) if each.state not in RUNS_OVER]
    return {name for each in runs if each.detached for name in load_spec(None, dict(each.work.spec)).env}


def _command() -> Sequence[str]:
    own = shutil.which("gpucloud")
    return [own, "tend"] if own else [sys.executable, "-m", "gpucloud", "tend"]


def _kind() -> str:
    for kind in _ENABLE:
        if _has(kind):
            return kind
    raise UsageError(
        "there is no systemctl, launchctl or crontab here that takes a timer of this user",
        hint="look after the runs yourself: gpucloud tend --every 60s",
    )


def _has(kind: str) -> bool:
    program = _PROGRAMS[kind]
    if shutil.which(program) is None:
        return False
    return kind != "systemd" or _ask([program, "--user", "show-environment"]).returncode == 0


def _ask(command: Sequence[str], sent: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=sent, capture_output=True, text=True, check=False, timeout=WITHIN_S)


def _do(command: Sequence[str], sent: str | None = None) -> None:
    """Runs a program of the system.

    Raises:
        TimerError: it failed.
    """
    done = _ask(command, sent)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise TimerError(f"{' '.join(command)}: {said[-1]}")


# --- systemd


def _units() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd/user"


def _enable_systemd(script: Path) -> None:
    folder = _units()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.systemd_files(str(script)).items():
        (folder / name).write_text(text, encoding="utf-8")
    _do(["systemctl", "--user", "daemon-reload"])
    _do(["systemctl", "--user", "enable", "--now", f"{files.NAME}.timer"])
    if shutil.which("loginctl"):  # without it, the timer ends when the user logs out
        _ask(["loginctl", "enable-linger"])


def _disable_systemd() -> None:
    folder = _units()
    if (folder / f"{files.NAME}.timer").exists():
        _do(["systemctl", "--user", "disable", "--now", f"{files.NAME}.timer"])
        for name in files.systemd_files(""):
            (folder / name).unlink(missing_ok=True)
        _do(["systemctl", "--user", "daemon-reload"])


# --- launchd


def _agent() -> Path:
    return Path.home() / "Library/LaunchAgents" / f"{files.LABEL}.plist"


def _enable_launchd(script: Path) -> None:
    _disable_launchd()
    agent = _agent()
    agent.parent.mkdir(parents=True, exist_ok=True)
    agent.write_bytes(plistlib.dumps(files.launchd_agent(str(script))))
    _do(["launchctl", "bootstrap", f"gui/{os.getuid()}", str(agent)])


def _disable_launchd() -> None:
    if _agent().exists():
        _do(["launchctl", "bootout", f"gui/{os.getuid()}/{files.LABEL}"])
        _agent().unlink()


# --- cron


def _crontab() -> str:
    done = _ask(["crontab", "-l"])
    return "" if done.returncode else done.stdout  # a user without a crontab has an exit code of 1


def _enable_cron(script: Path) -> None:
    _do(["crontab", "-"], files.with_line(_crontab(), str(script)))


def _disable_cron() -> None:
    known = _crontab()
    if (without := files.without_line(known)) != known:
        _do(["crontab", "-"], without)


_PROGRAMS = {"systemd": "systemctl", "launchd": "launchctl", "cron": "crontab"}
_ENABLE = {"systemd": _enable_systemd, "launchd": _enable_launchd, "cron": _enable_cron}
_DISABLE = {"systemd": _disable_systemd, "launchd": _disable_launchd, "cron": _disable_cron}
