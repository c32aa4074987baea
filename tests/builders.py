"""Builders of values: a test names only what it is about, the rest is plausible and the same every time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box, Holding, Snapshot, Volume
from gpucloud.resources import (
    Machine,
    Order,
    Quote,
    Ref,
    Resource,
    ResourceKind,
    State,
    Tags,
    cloud_name,
    token_for,
)
from gpucloud_pricing import InstanceType, Offer, Price
from gpucloud_pricing.purchases import Purchase

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
"""When every test's clock starts: a Monday noon."""


class Clock:
    """A clock that a test moves. ``sleep`` moves it too, so that waiting costs no time."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start

    def __call__(self) -> datetime:
        return self._now

    def sleep(self, seconds: float) -> None:
        """Moves the clock forward (or back, for a clock that is put right)."""
        self._now += timedelta(seconds=seconds)


class Told:
    """A ``Record`` that remembers what it was told, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, ResourceKind, str]] = []
        self.refs: list[Ref] = []
        self.timers: list[str] = []

    def making(self, kind: ResourceKind, name: str, /) -> None:
        self.events.append(("making", kind, name))

    def made(self, ref: Ref, /) -> None:
        self.events.append(("made", ref.kind, ref.id))
        if ref not in self.refs:
            self.refs.append(ref)

    def armed(self, timers: Sequence[str], /) -> None:
        self.timers.extend(timers)


def some_tags(**changes: str) -> Tags:
    """The five tags of a box."""
    values: dict[str, Any] = {
        "owner": "u-tester",
        "box": "b-1",
        "op": "o-1",
        "run": "r-1",
        "expires": "2026-01-06T12:00:00Z",
    }
    return Tags(**(values | changes))


def an_order(*, attempt: int = 1, **changes: Any) -> Order:
    """One attempt to buy a small box. Key and name follow from the rest unless they are given."""
    order = Order(
        key="",
        name="",
        account="account-1",
        region="us-east-1",
        zone="use1-az4",
        instance_type="g4dn.xlarge",
        arch="x86_64",
        gpu_model="T4",
        gpu_count=Decimal(1),
        purchase=Purchase.ON_DEMAND,
        nodes=1,
        disk_gib=100,
        image="ubuntu-22.04",
        user_data=b"#cloud-config\n{}\n",
        allow_from=("198.51.100.7/32",),
        ports=(),
        tags=some_tags(),
        max_price_usd=Decimal(100),
        deadline=START + timedelta(hours=24),
    )
    order = replace(order, **changes)
    key = token_for(
        op=order.tags.op, account=order.account, region=order.region, zone=order.zone, attempt=attempt
    )
    return replace(order, key=order.key or key, name=order.name or cloud_name(order.tags.box, order.tags.box))


_numbers = itertools.count(1)


def a_ref(**changes: Any) -> Ref:
    """A name for one instance."""
    values: dict[str, Any] = {
        "cloud": "aws",
        "account": "account-1",
        "region": "us-east-1",
        "kind": ResourceKind.INSTANCE,
        "id": f"i-{next(_numbers):08x}",
    }
    return Ref(**(values | changes))


def a_resource(**changes: Any) -> Resource:
    """One thing that its cloud shows."""
    values: dict[str, Any] = {
        "ref": a_ref(kind=ResourceKind.GROUP),
        "state": State.RUNNING,
        "tags": some_tags(),
        "created_at": START,
    }
    return Resource(**(values | changes))


def a_machine(**changes: Any) -> Machine:
    """One running instance."""
    values: dict[str, Any] = {
        "ref": a_ref(),
        "state": State.RUNNING,
        "tags": some_tags(),
        "created_at": START,
        "zone": "use1-az4",
        "instance_type": "g4dn.xlarge",
        "purchase": Purchase.ON_DEMAND,
        "public_ip": "203.0.113.10",
        "private_ip": "10.0.0.10",
    }
    return Machine(**(values | changes))


def a_quote(**changes: Any) -> Quote:
    """Today's price of a type in a region."""
    values: dict[str, Any] = {
        "cloud": "aws",
        "region": "us-east-1",
        "zone": None,
        "instance_type": "g4dn.xlarge",
        "purchase": Purchase.ON_DEMAND,
        "price_per_hour": Decimal("0.526"),
        "currency": "USD",
        "as_of": START,
        "source": "the test",
    }
    return Quote(**(values | changes))


def an_instance_type(**changes: Any) -> InstanceType:
    """A small type with one T4."""
    values: dict[str, Any] = {
        "cloud": "aws",
        "name": "g4dn.xlarge",
        "gpu_model": "T4",
        "gpu_count": Decimal(1),
        "gpu_memory_gib": Decimal(16),
        "vcpus": 4,
        "memory_gib": Decimal(16),
    }
    return InstanceType(**(values | changes))


def a_price(amount: str = "1", **changes: Any) -> Price:
    """What this type costs on demand in one region."""
    values: dict[str, Any] = {
        "cloud": "aws",
        "region": "us-east-1",
        "zone": None,
        "instance_type": "g4dn.xlarge",
        "purchase": "on_demand",
        "amount": Decimal(amount),
        "currency": "USD",
        "as_of": START.date(),
        "source": "test",
    }
    return Price(**(values | changes))


def an_offer(usd: str | None = "1", **changes: Any) -> Offer:
    """This type in one region, at a price in USD or at none that is known."""
    values: dict[str, Any] = {
        "kind": an_instance_type(),
        "region": "us-east-1",
        "zone": None,
        "purchase": "on_demand",
        "quote": None,
        "price_usd": None if usd is None else Decimal(usd),
    }
    return Offer(**(values | changes))


def a_box(**changes: Any) -> Box:
    """A box as the journal holds it: ready, of this tester, ending tomorrow."""
    values: dict[str, Any] = {
        "id": "b-1",
        "name": "box-1",
        "owner": "u-tester",
        "run_id": None,
        "op": "o-1",
        "state": BoxState.READY,
        "epoch": 1,
        "lease": None,
        "created_at": START,
        "started_at": START,
        "ended_at": None,
        "expires_at": START + timedelta(hours=24),
        "seen_at": START,
        "taken_over_at": None,
    }
    return Box(**(values | changes))


def a_volume(**changes: Any) -> Volume:
    """A volume as the journal holds it: ready, of the owner of :func:`a_box`, ending on the same day."""
    return Volume(**{**_shared_with(a_box()), "id": "v-1", "name": "data", "keep_s": 60.0, **changes})


def a_snapshot(**changes: Any) -> Snapshot:
    """A snapshot as the journal holds it, otherwise as :func:`a_volume`."""
    return Snapshot(**{**_shared_with(a_box()), "id": "s-1", "name": "monday", **changes})


def _shared_with(box: Box) -> dict[str, Any]:
    return {each.name: getattr(box, each.name) for each in fields(Holding)}
