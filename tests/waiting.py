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
    began = time.monotonic()
    end = began + PATIENCE_S
    while not (found := condition()):
        now = time.monotonic()
        assert now < end, f"waited in vain for {what}"
        time.sleep(max(PAUSE_S, 2 * (now - began)))  # a look that is dear is taken less often
        began = time.monotonic()
    return found
