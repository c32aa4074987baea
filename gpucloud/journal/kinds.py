"""The kinds of what is bought under a name."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """The kinds of holding: what is bought under a name, and billed until it is deleted.

    A holding of any kind has an owner, lease, intents, resources, usage and deadline as a box has, and ends
    by the same code.
    """

    BOX = "box"
    VOLUME = "volume"
    SNAPSHOT = "snapshot"


POLICY_ID = "policy:"
"""The id under which the events of the policy stand; no box, run or budget has such a one."""

HOLDINGS = "kind IN ('box', 'volume', 'snapshot')"
LIVING = "living = 1"
"""Conditions of rows of ``states``; SQLite uses a partial index only for a query with exactly the same."""
