"""A detached command on a box, over ssh: a lost connection neither ends it nor loses its output.

The command, with its environment, is a script that only the box's user can read; it is sent on a pipe, so
that no process list and no log shows its contents. Its output goes to files, from which it is followed; a
new connection continues where the old one was lost.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpucloud.errors import GpucloudError
from gpucloud.ssh.client import (
    SSH_FAILED,
    ConnectionFailedError,
    ConnectionFailure,
    Target,
    client,
    connect,
    run,
)
from gpucloud.ssh.environment import environment_text
from gpucloud_templates import GUARD_CONTROL

FOLDER = ".gpucloud/jobs"
"""The folder of a node's jobs, in its user's home. Each has one of its own, named by its id, with the files
``script``, ``out``, ``err``, ``pid``, ``keeper`` (which waits for it), ``exit``, ``late`` (was stopped)."""
RUN = "run"
"""The id of the job that a launch or a run starts; a node has one of these."""
SETUP = "setup"
"""The id of the job that prepares a node for its user."""
PID = f"{FOLDER}/{RUN}/pid"
"""The file with the process group of that job."""
JOB_ID = re.compile(r"[a-z0-9]{1,32}")
JOBS = "/run/gpucloud/jobs"
"""Where the guard finds the process ids of jobs, to know that the box is not idle."""
CHUNK = 65536
CALL_TIMEOUT_S = 60.0
WAIT_S = 24 * 3600.0
"""How long to wait for the end of a job at a time: it has no limit of its own."""
MOST_BYTES = 1024
"""The most bytes to read of a job's exit code."""

_START = f"""
set -e; umask 077; cd; mkdir -p {FOLDER}/"$1"; cd {FOLDER}/"$1"
if [ "$(cat token 2>/dev/null)" = "$4" ]; then
  for i in $(seq 100); do [ ! -e pid ] || exit 0; sleep 0.05; done  # no pid: the first call ended too early
fi
if [ -e pid ] && [ ! -e exit ] && kill -0 "$(cat pid)" 2>/dev/null; then
  echo 'another job is still running' >&2; exit 75
fi
rm -f out err pid exit late token; cat >script; : >out; : >err
[ "$(wc -c <script)" -eq "$5" ] || exit 76
echo "$4" >token
setsid bash -c '
  job={FOLDER}/$1; cd; echo $$ >$job/keeper; setsid bash $job/script </dev/null >$job/out 2>$job/err & pid=$!
  echo $pid >$job/.pid; mv $job/.pid $job/pid
  if [ -n "$2" ]; then
    setsid bash -c "sleep $2; : >$job/late; kill -TERM -- -$pid; sleep 10; kill -KILL -- -$pid" & timer=$!
  fi
  wait $pid; code=$?
  [ -z "$2" ] || kill -KILL -- $timer -$timer; [ ! -e $job/late ] || code=124
  [ -z "$3" ] || sudo -n {GUARD_CONTROL} keep on
  echo $code >$job/.exit; mv $job/.exit $job/exit; rm -f $job/script
' bash "$1" "$2" "$3" </dev/null >/dev/null 2>&1 &
while [ ! -e pid ]; do sleep 0.01; done
sudo -n sh -c 'mkdir -p {JOBS}; : >"{JOBS}/$1"' sh "$(cat pid)"
"""
_FOLLOW = f'cd {FOLDER}/"$1"; exec tail -q -c "+$3" -s 0.1 -f --pid="$(cat pid)" "$2"'
_REST = f'cd {FOLDER}/"$1"; tail -q -c "+$3" "$2"'
"""The output between the last read and the end."""
_ENDED = f"""
cd {FOLDER}/"$1"
for i in $(seq 100); do
  [ ! -e exit ] || {{ cat exit; exit; }}
  [ "$i" -le 10 ] || ! kill -0 "$(cat pid)" 2>/dev/null || {{ echo running; exit; }}
  kill -0 "$(cat keeper)" 2>/dev/null || break
  sleep 0.1
done
if [ -e exit ]; then cat exit; elif kill -0 "$(cat pid)" 2>/dev/null; then echo running; fi
"""
"""Between its end and its exit code there may be a moment, in which its keeper lives."""
_WAIT = f'cd {FOLDER}/"$1" && exec tail -q -s 0.1 -f --pid="$(cat pid)" /dev/null'
_STOP = f"""
cd {FOLDER}/"$1"; kill -TERM -- "-$(cat pid)"
for i in $(seq 100); do [ ! -e exit ] || exit 0; sleep 0.1; done
kill -KILL -- "-$(cat pid)"
"""
_LIST = f"""
cd {FOLDER} 2>/dev/null || exit 0
for job in *; do
  [ -e "$job/pid" ] || continue
  if [ -e "$job/exit" ]; then said="$(head -c 4 "$job/exit")"; [ ! -e "$job/late" ] || said="$said late"
  elif kill -0 "$(head -c 10 "$job/pid")" 2>/dev/null; then said=running
  elif kill -0 "$(head -c 10 "$job/keeper")" 2>/dev/null; then said=running
  else said=lost; fi
  echo "$job" "$said"
done
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


def new_id() -> str:
    """An id for a job that no other job has."""
    return secrets.token_hex(3)


def start(
    target: Target,
    script: bytes,
    job: str = RUN,
    *,
    token: str | None = None,
    timeout_s: float | None = None,
    has_results: bool = False,
) -> None:
    """Starts a script on the box, in its user's home folder; returns once it runs.

    A job with the same id that has ended is replaced, but for one that was started with this ``token``: after
    a lost connection nobody knows whether it was, and the same call again runs it once. A script of which
    only a part arrives is not run. With ``timeout_s``, the box ends it after this as
    :func:`stop` does, with the exit code 124. With ``has_results``, being idle does not end the box later.

    Raises:
        ConnectionFailedError: the box could not be reached.
        GpucloudError: another job still runs there.
    """
    limit = "" if timeout_s is None else f"{timeout_s:.3f}"
    kept, one = "kept" if has_results else "", token or secrets.token_hex(4)
    argv = ["bash", "-c", _START, "bash", job, limit, kept, one, str(len(script))]
    done = run(target, argv, stdin=script, timeout_s=CALL_TIMEOUT_S)
    if done.code:
        raise GpucloudError(
            f"the job could not be started on {target.alias}: {done.err.decode(errors='replace').strip()}"
        )


def stop(target: Target, job: str = RUN) -> None:
    """Ends a job and every process that it started: SIGTERM first, SIGKILL after ten seconds.

    Raises:
        ConnectionFailedError: the box could not be reached.
    """
    run(target, ["bash", "-c", _STOP, "bash", job], timeout_s=CALL_TIMEOUT_S)


def wait(target: Target, job: str) -> int:
    """Waits until a job has ended; returns its exit code. May be called again after a failure.

    Raises:
        ConnectionFailedError: the connection was lost.
        JobLostError: it ended without an exit code.
    """
    run(target, ["bash", "-c", _WAIT, "bash", job], timeout_s=WAIT_S)
    return _exit_code(target, job)


def _exit_code(target: Target, job: str) -> int:
    """The exit code of a job that has ended.

    Raises:
        ConnectionFailedError: it still runs, or the box could not be reached.
        JobLostError: it has none.
    """
    ended = run(target, ["bash", "-c", _ENDED, "bash", job], timeout_s=CALL_TIMEOUT_S, most_bytes=MOST_BYTES)
    said = ended.out.decode(errors="replace").strip()
    if said == "running":
        raise ConnectionFailedError(
            f"lost the output of the job on {target.alias}", failure=ConnectionFailure.BROKEN
        )
    if not re.fullmatch("[0-9]{1,3}", said):
        raise JobLostError(
            f"the job on {target.alias} ended without an exit code",
            hint="the box was restarted, or it ran out of memory",
        )
    return int(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """A job on a node.

    Attributes:
        id: unique on the node.
        running: whether it still runs.
        exit_code: of its command; ``None`` while it runs, and of a job that was lost: the node was restarted,
            or ran out of memory.
        timed_out: whether the box ended it because its time was over.
    """

    id: str
    running: bool
    exit_code: int | None
    timed_out: bool = False


def jobs(target: Target) -> list[JobState]:
    """The jobs of a node, sorted by id. What a box says of them is not trusted.

    Raises:
        ConnectionFailedError: the box could not be reached.
    """
    said = run(target, ["bash", "-c", _LIST], timeout_s=CALL_TIMEOUT_S)
    found: list[JobState] = []
    for line in said.out.decode(errors="replace").splitlines():
        name, _, state = line.partition(" ")
        if JOB_ID.fullmatch(name):
            said_code, _, late = state.partition(" ")
            code = int(said_code) if re.fullmatch("[0-9]{1,3}", said_code) else None
            timed_out = code is not None and late == "late"
            found.append(JobState(id=name, running=state == "running", exit_code=code, timed_out=timed_out))
    return sorted(found, key=lambda job: job.id)


@dataclass(slots=True)
class Follower:
    """Copies the output of the job :data:`RUN` to this machine as it arrives.

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
        code = _exit_code(self.target, RUN)
        self._bring(_REST)
        return code

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
        argv = ["bash", "-c", script, "bash", RUN, name, str(self._seen.get(name, 0) + 1)]
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
                    self._trouble.append(ConnectionFailedError(lost, failure=ConnectionFailure.BROKEN))
            except OSError as error:
                self._trouble.append(error)
                self.close()
