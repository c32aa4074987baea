"""``--token-file``: a secret that is in a file, since other users of a machine see arguments."""

from __future__ import annotations

from pathlib import Path

from gpucloud.errors import UsageError


def read_token(file: Path) -> str:
    """The token of a file, without the white space around it.

    Raises:
        UsageError: the file cannot be read, or is empty.
    """
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"--token-file: cannot read {file}: {why}") from error
    if not token:
        raise UsageError(f"--token-file: {file} is empty")
    return token
