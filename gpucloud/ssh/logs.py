"""The logs of a box: the files of each kind of log, and the commands that read them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from gpucloud.redaction import redact
from gpucloud.ssh.client import ConnectionFailedError, ConnectionFailure, Target, connect, run
from gpucloud.ssh.environment import ENVIRONMENT, values_in
from gpucloud.ssh.job import FOLDER, RUN, SETUP
from gpucloud_templates import BOOT_LOG, GUARD_LOG


def job_files(job: str) -> tuple[str, str]:
    """The files of a job's output."""
    return f"{FOLDER}/{job}/out", f"{FOLDER}/{job}/err"


LOGS = {
    "boot": ("/var/log/cloud-init-output.log", BOOT_LOG, *job_files(SETUP)),
    "guard": (GUARD_LOG,),
    "job": job_files(RUN),
}
"""The files of each kind of log, on the box."""
LOGS_TIMEOUT_S = 300.0
MOST_LOG_BYTES = 32 * 1024 * 1024
"""The most bytes to read of a log that is not followed: it may be endless."""
KEPT_BYTES = 256 * 1024
"""The most bytes to keep of the end of each file on this machine."""
KEEP_CONNECT_S = 3
"""How long a box that is about to be deleted may take to answer."""


def log_command(kind: str, *, job: str = RUN, follow: bool = False) -> list[str]:
    """The command that prints a log, as far as its files exist; with ``follow``, also while they grow.

    The log of a job is followed until the job has ended.

    What ``tail`` says of files that do not exist yet, or were truncated, is no line of the log.
    """
    files = job_files(job) if kind == "job" else LOGS[kind]
    if not follow:
        script = '[ ! -r "$file" ] || files="$files $file"; done; exec cat $files </dev/null'
        return ["sh", "-c", f"for file; do {script}", "sh", *files]
    while_it_runs = f'[ ! -r "{FOLDER}/$1/pid" ] || ends="--pid=$(cat "{FOLDER}/$1/pid")"; shift; '
    script = 'exec tail -q -n +1 -F $ends "$@" 2>/dev/null'
    return ["sh", "-c", f"{while_it_runs}{script}", "sh", job if kind == "job" else "", *files]


def log_ends(target: Target) -> Mapping[str, str]:
    """The ends of all logs of a node, by kind, without secrets: the values of its variables are removed.

    Raises:
        ConnectionFailedError: the box could not be reached, or gave other parts than were asked for.
    """
    connect(target, timeout_s=KEEP_CONNECT_S)
    most = sum(map(len, LOGS.values())) * (KEPT_BYTES + 1) + KEPT_BYTES
    done = run(target, ["sh", "-c", _ends_script()], most_bytes=most)
    *logs, environment = done.out.decode(errors="replace").split("\0")
    if len(logs) != len(LOGS):
        raise ConnectionFailedError(
            f"{target.alias} returned no readable logs", failure=ConnectionFailure.BROKEN
        )
    values = values_in(environment)
    return {kind: redact(text, values) for kind, text in zip(LOGS, logs, strict=True) if text}


def _ends_script() -> str:
    """Prints the end of each kind's files, with a NUL byte behind each kind, and then the variables."""
    files = "[ ! -r {0} ] || tail -c {1} {0} | tr -d '\\000'"
    kinds = (
        "; ".join(files.format(shlex.quote(file), KEPT_BYTES) for file in names) for names in LOGS.values()
    )
    return "; printf '\\000'; ".join((*kinds, f"[ ! -r {ENVIRONMENT} ] || cat {ENVIRONMENT}"))
