"""The logs of a box: the files of each kind of log, and the command that reads them."""

from __future__ import annotations

from gpucloud.ssh.job import FOLDER
from gpucloud_templates import BOOT_LOG, GUARD_LOG

LOGS = {
    "boot": ("/var/log/cloud-init-output.log", BOOT_LOG),
    "guard": (GUARD_LOG,),
    "job": (f"{FOLDER}/out", f"{FOLDER}/err"),
}
"""The files of each kind of log, on the box."""
LOGS_TIMEOUT_S = 300.0
MOST_LOG_BYTES = 32 * 1024 * 1024
"""The most bytes to read of a log that is not followed: it may be endless."""


def log_command(kind: str, *, follow: bool = False) -> list[str]:
    """The command that prints a log, as far as its files exist; with ``follow``, also while they grow."""
    script = 'for file; do [ ! -r "$file" ] || files="$files $file"; done; exec '
    script += 'tail -q -n +1 -F "$@"' if follow else "cat $files </dev/null"
    return ["sh", "-c", script, "sh", *LOGS[kind]]
