"""Every metric that gpucloud writes: its name, its kind, its labels, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric. ``labels`` are those that its samples may have."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: str = "gauge"


def _by_name(*families: Family) -> Mapping[str, Family]:
    return {family.name: family for family in families}


_GPU = ("gpu", "UUID", "device", "modelName", "Hostname")
_BOX = ("box", "cloud")

OF_GUARD: Mapping[str, Family] = _by_name(
    Family(name="gpucloud_box_seconds_left", help="Seconds until the box ends by itself."),
    Family(name="gpucloud_box_idle_seconds", help="Seconds since somebody or something used the box."),
    Family(
        name="gpucloud_box_taken_back_timestamp_seconds",
        help="When the cloud takes the box back, by its notice; 0 if that has begun.",
    ),
    Family(
        name="gpucloud_checkpoint_timestamp_seconds",
        help="When the last checkpoint of the run was uploaded, or restored.",
    ),
    Family(name="gpucloud_guard_poll_timestamp_seconds", help="When the guard of the box last looked."),
    Family(name="gpucloud_box_health", help="Whether the guard reports a fault: 1 or 0.", labels=("what",)),
    Family(name="DCGM_FI_DEV_GPU_UTIL", help="GPU utilization (in %).", labels=_GPU),
    Family(name="DCGM_FI_DEV_MEM_COPY_UTIL", help="Memory utilization (in %).", labels=_GPU),
    Family(name="DCGM_FI_DEV_FB_USED", help="Frame buffer memory used (in MiB).", labels=_GPU),
    Family(name="DCGM_FI_DEV_FB_FREE", help="Frame buffer memory free (in MiB).", labels=_GPU),
    Family(name="DCGM_FI_DEV_GPU_TEMP", help="GPU temperature (in C).", labels=_GPU),
    Family(name="DCGM_FI_DEV_POWER_USAGE", help="Power draw (in W).", labels=_GPU),
    Family(name="DCGM_FI_DEV_SM_CLOCK", help="SM clock frequency (in MHz).", labels=_GPU),
    Family(
        name="DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        help="Total number of double-bit volatile ECC errors.",
        labels=_GPU,
        kind="counter",
    ),
    Family(
        name="DCGM_FI_DEV_XID_ERRORS",
        help="The last Xid error of this boot; 0 for none.",
        labels=_GPU,
    ),
)
"""What a box may tell (``gpucloud_templates.guard.metrics``); anything else that it says is left out."""

INFO = Family(
    name="gpucloud_box_info",
    help="A living box: its place, its machines, its owner; always 1.",
    labels=(*_BOX, "id", "region", "zone", "instance_type", "gpu", "gpus", "purchase", "owner", "run"),
)
STATE = Family(
    name="gpucloud_box_state", help="The state of a living box: 1 for its own.", labels=(*_BOX, "state")
)
PRICE = Family(
    name="gpucloud_box_price_per_hour",
    help="Present spending per hour on a box, volume or snapshot, where prices are known.",
    labels=(*_BOX, "kind", "currency"),
)
COST = Family(
    name="gpucloud_box_cost_total",
    help="What a living box has cost so far, where prices are known.",
    labels=(*_BOX, "currency"),
    kind="counter",
)
CREATED = Family(
    name="gpucloud_box_created_timestamp_seconds", help="When the launch of a box began.", labels=_BOX
)
EXPIRES = Family(
    name="gpucloud_box_expires_timestamp_seconds",
    help="The deadline of a box; none for a box without one.",
    labels=_BOX,
)
BOOT = Family(
    name="gpucloud_box_boot_seconds",
    help="How long a step of the first boot took.",
    labels=(*_BOX, "step"),
)
OWED = Family(
    name="gpucloud_owed_things",
    help="What may still be billed of a box that was to be deleted, or that nobody works on any more.",
    labels=(*_BOX, "kind"),
)
SPENT = Family(
    name="gpucloud_month_spent",
    help="What boxes, volumes and snapshots have cost since the start of the month (UTC).",
    labels=("cloud", "currency"),
)
_BUDGET = ("budget", "per", "currency")
LIMIT = Family(name="gpucloud_budget_limit", help="The amount of a budget.", labels=_BUDGET)
BUDGET_SPENT = Family(
    name="gpucloud_budget_spent", help="What a budget counts as spent in its period.", labels=_BUDGET
)
COMMITTED = Family(
    name="gpucloud_budget_committed",
    help="What living boxes of a budget will cost until their end, or that of its period.",
    labels=_BUDGET,
)
FORECAST = Family(
    name="gpucloud_budget_forecast",
    help="The cost of the whole period of a budget: expected, and its 10th and 90th percentile.",
    labels=(*_BUDGET, "estimate"),
)
WATCHED = Family(
    name="gpucloud_price_per_hour",
    help="The cheapest prices of the GPUs in use, per hour and machine, as last refreshed.",
    labels=("cloud", "place", "instance_type", "gpu", "purchase", "currency"),
)
EVENT = Family(
    name="gpucloud_journal_event_timestamp_seconds", help="When the last event was written into the journal."
)
READ = Family(name="gpucloud_journal_read_timestamp_seconds", help="When the journal was read for this.")

OF_JOURNAL: Mapping[str, Family] = _by_name(
    *(INFO, STATE, PRICE, COST, CREATED, EXPIRES, BOOT, OWED, SPENT),
    *(LIMIT, BUDGET_SPENT, COMMITTED, FORECAST, WATCHED, EVENT, READ),
)
