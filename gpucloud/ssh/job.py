"""A detached command on a box, over ssh: a lost connection neither ends it nor loses its output.

The command, with its environment, is a script that only the box's user can read; it is sent on a pipe, so
that no process list and no log shows its contents. Its output goes to files, from which it is followed; a
new connection continues where the old one was lost.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpucloud.errors import GpucloudError
from gpucloud.ssh.client import SSH_FAILED, ConnectionFailedError, Failure, Target, client, connect, run
from gpucloud.ssh.environment import environment_text

FOLDER = ".gpucloud/job"
"""The folder of a box's one job, in its user's home: ``script``, ``out``, ``err``, ``pid``, ``exit``."""
JOBS = "/run/gpucloud/jobs"
"""Where the guard finds the process ids of jobs, to know that the box is not idle."""
CHUNK = 65536
CALL_TIMEOUT_S = 60.0
MOST_BYTES = 1024
"""The most bytes to read of a job's exit code."""

_START = f"""
set -e; umask 077; cd; mkdir -p {FOLDER}; cd {FOLDER}
if [ -e pid ] && [ ! -e exit ] && kill -0 "$(cat pid)" 2>/dev/null; then
  echo 'another job is still running' >&2; exit 75
fi
rm -f out err pid exit; cat >script; : >out; : >err
setsid bash -c '
  cd; setsid bash {FOLDER}/script </dev/null >{FOLDER}/out 2>{FOLDER}/err & echo $! >{FOLDER}/.pid
  mv {FOLDER}/.pid {FOLDER}/pid; wait $!; echo $? >{FOLDER}/.exit; mv {FOLDER}/.exit {FOLDER}/exit
  rm -f {FOLDER}/script
' </dev/null >/dev/null 2>&1 &
while [ ! -e pid ]; do sleep 0.01; done
sudo -n sh -c 'mkdir -p {JOBS}; : >"{JOBS}/$1"' sh "$(cat pid)"
"""
_FOLLOW = f'cd; exec tail -q -c "+$1" -s 0.1 -f --pid="$(cat {FOLDER}/pid)" "{FOLDER}/$2"'
_REST = f'cd; tail -q -c "+$1" "{FOLDER}/$2"'
"""The output between the last read and the end."""
_ENDED = f"""
cd {FOLDER}
for i in 1 2 3 4 5 6 7 8 9 10; do [ ! -e exit ] || {{ cat exit; exit; }}; sleep 0.1; done
kill -0 "$(cat pid)" 2>/dev/null && echo running
"""
_STOP = f"""
cd {FOLDER}; kill -TERM -- "-$(cat pid)"
for i in $(seq 100); do [ ! -e exit ] || exit 0; sleep 0.1; done
kill -KILL -- "-$(cat pid)"
"""


class JobLostError(GpucloudError):
    """The job ended without an exit code: the box was restarted, or ran out of memory."""


def script_of(command: Sequence[str] | str, environment: Mapping[str, str]) -> bytes:
    """The script that runs on the box.

    Args:
        command: a program and its arguments, passed unchanged; or a text for bash.
        environment: its variables.
    """
    line = command if isinstance(command, str) else f"exec {shlex.join(command)}"
    return environment_text(environment) + f"{line}\n".encode()


def start(target: Target, script: bytes) -> None:
    """Starts a script on the box, in its user's home folder; returns once it runs.

    Raises:
        ConnectionFailedError: the box could not be reached.
        GpucloudError: another job still runs there.
    """
    done = run(target, ["bash", "-c", _START], stdin=script, timeout_s=CALL_TIMEOUT_S)
    if done.code:
        raise GpucloudError(
            f"the job could not be started on {target.alias}: {done.err.decode(errors='replace').strip()}"
        )


def stop(target: Target) -> None:
    """Ends the job and every process that it started: SIGTERM first, SIGKILL after ten seconds.

    Raises:
        ConnectionFailedError: the box could not be reached.
    """
    run(target, ["bash", "-c", _STOP], timeout_s=CALL_TIMEOUT_S)


@dataclass(slots=True)
class Follower:
    """Copies a job's output to this machine as it arrives.

    Args:
        target: the node of the job.
        sinks: receive the bytes of ``out`` and of ``err``, in threads of their own.
    """

    target: Target
    sinks: Mapping[str, Callable[[bytes], object]]
    _seen: dict[str, int] = field(default_factory=dict[str, int])
    _readers: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    _trouble: list[Exception] = field(default_factory=list[Exception])

    def follow(self) -> int:
        """Copies output until the job has ended; returns its exit code. May be called again after a failure.

        Raises:
            ConnectionFailedError: the connection was lost.
            JobLostError: it ended without an exit code.
            OSError: a sink is closed.
        """
        connect(self.target)
        self._bring(_FOLLOW)
        ended = run(self.target, ["bash", "-c", _ENDED], timeout_s=CALL_TIMEOUT_S, most_bytes=MOST_BYTES)
        said = ended.out.decode(errors="replace").strip()
        if said == "running":
            raise ConnectionFailedError(
                f"lost the output of the job on {self.target.alias}", failure=Failure.BROKEN
            )
        if not re.fullmatch("[0-9]{1,3}", said):
            raise JobLostError(
                f"the job on {self.target.alias} ended without an exit code",
                hint="the box was restarted, or it ran out of memory",
            )
        self._bring(_REST)
        return int(said)

    def close(self) -> None:
        """Stops copying output; the job continues."""
        for reader in self._readers:
            reader.kill()

    def _bring(self, script: str) -> None:
        """Copies the output of a script as it arrives, so that none of it is kept in memory."""
        threads = [
            threading.Thread(target=self._pump, args=(name, script), daemon=True) for name in self.sinks
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._trouble:
            first = self._trouble[0]
            self._trouble.clear()
            raise first

    def _pump(self, name: str, script: str) -> None:
        argv = ["bash", "-c", script, "bash", str(self._seen.get(name, 0) + 1), name]
        command = [*client(self.target), "-T", self.target.alias, "--", shlex.join(argv)]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as reader:
            self._readers.append(reader)
            assert reader.stdout is not None  # noqa: S101  (it is a pipe)
            try:
                while chunk := os.read(reader.stdout.fileno(), CHUNK):
                    self._seen[name] = self._seen.get(name, 0) + len(chunk)
                    self.sinks[name](chunk)
                if reader.wait() == SSH_FAILED:
                    lost = f"lost the output of the job on {self.target.alias}"
                    self._trouble.append(ConnectionFailedError(lost, failure=Failure.BROKEN))
            except OSError as error:
                self._trouble.append(error)
                self.close()
