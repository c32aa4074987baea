"""How long a launch waits before it gives up; estimates count with the same."""

from __future__ import annotations

SSH_TIMEOUT_S = 600.0
BOOT_TIMEOUT_S = 1800.0
STEP_TIMEOUT_S = SSH_TIMEOUT_S + BOOT_TIMEOUT_S
"""How long for a machine to answer, for its boot, and for both."""
