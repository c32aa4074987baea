"""The guard of a box, over ssh."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpucloud.ssh import Target, run
from gpucloud_templates import GUARD_STATUS

MOST_BYTES = 65536


def guard_status(target: Target) -> Mapping[str, Any] | None:
    """What the guard last said; ``None`` where it has not said anything (yet).

    Its fields are those of ``gpucloud_templates.guard.watch``.

    Raises:
        ConnectionFailedError: the box could not be reached.
    """
    text = run(target, ["sh", "-c", f"cat {GUARD_STATUS} 2>/dev/null || true"]).out[:MOST_BYTES]
    try:
        found: Any = json.loads(text) if text.strip() else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType]
