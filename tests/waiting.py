"""What happens in its own time: an assertion that looks again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 100.0
PAUSE_S = 0.02


def until(condition: Callable[[], Any], what: str = "it") -> Any:
    """Asserts that a condition comes true, and returns what it found then.

    Raises:
        AssertionError: it has not come true after ``PATIENCE_S``; says what was waited for.
    """
    end = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(PAUSE_S)
    return found
