"""The variables of a launch (``env``) on a box: one file that only the box's user can read.

``exec``, ``ssh``, the set-up and the logs read it there, so that no value is stored on this machine.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

ENVIRONMENT = ".gpucloud/env"
"""The file, in the home folder of the box's user: lines of ``export NAME=VALUE`` for a shell."""
STORE = f"""set -e; umask 077; mkdir -p .gpucloud
cat >{ENVIRONMENT}.new; mv {ENVIRONMENT}.new {ENVIRONMENT}
"""
"""A script that replaces the file by its input."""
FABRIC = ".gpucloud/fabric"
"""A file of the same form, of the RDMA network that joins the nodes; the user's own variables win."""
LOAD = "".join(f"[ ! -r {file} ] || . ./{file}; " for file in (FABRIC, ENVIRONMENT))
"""Shell text that sets the variables, for what comes after it; it runs in the home folder."""


def environment_text(environment: Mapping[str, str]) -> bytes:
    """The contents of the file."""
    lines = (f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())
    return "".join(lines).encode()


def variables_in(text: str) -> dict[str, str]:
    """The variables in the contents of the file; none of a text that is damaged."""
    try:
        words = shlex.split(text)
    except ValueError:
        return {}
    return {name: value for word in words for name, equals, value in [word.partition("=")] if equals}


def values_in(text: str) -> list[str]:
    """Their values, without empty ones."""
    return [value for value in variables_in(text).values() if value]


def loading(argv: Sequence[str]) -> list[str]:
    """A program and its arguments, run with the variables."""
    return ["sh", "-c", LOAD + 'exec "$@"', "sh", *argv]
