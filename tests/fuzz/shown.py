"""What holds of every error of a reader: it is fit to be shown."""

from __future__ import annotations

from gpucloud.cli.failure import as_text, explain
from gpucloud.rendering.texts import clean

LONGEST_ERROR = 20_000
"""The most characters of an error as a person reads it."""


def is_shown(error: Exception) -> None:
    """An error is short, and nothing in it may control a terminal.

    Raises:
        AssertionError: it is not.
    """
    shown = as_text(explain(error))
    assert shown == clean(shown), "an error controls the terminal"
    assert len(shown) <= LONGEST_ERROR, f"an error of {len(shown)} characters"
