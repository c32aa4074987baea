"""Azure's network, firewall and address are made at the same time: the phase against its slowest call."""

from __future__ import annotations

import os
import secrets
import statistics
import time
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from unittest.mock import patch

from benchmarks.launch import LATENCY_S, RUNS, sandbox
from benchmarks.table import Row
from gpucloud.resources import Order, Ref, ResourceKind, Tags
from gpucloud_azure import network
from gpucloud_azure.ids import id_in
from gpucloud_azure.provider import AzureProvider
from gpucloud_pricing.purchases import Purchase
from tests.profiles import own_profile

PHASE = {ResourceKind.NETWORK, ResourceKind.GROUP, ResourceKind.ADDRESS}


class Watch:
    """A record that takes the time from the phase's beginning to its end."""

    def __init__(self) -> None:
        self._begin = self._end = 0.0

    def making(self, kind: ResourceKind, _name: str, /) -> None:
        """The last of these comes right before the calls."""
        if kind in PHASE:
            self._begin = time.perf_counter()

    def made(self, ref: Ref, /) -> None:
        """The first of these comes right after them."""
        if ref.kind in PHASE and not self._end:
            self._end = time.perf_counter()

    def armed(self, timers: Sequence[str], /) -> None:
        """Not of the phase."""

    @property
    def seconds(self) -> float:
        """How long the phase took."""
        return self._end - self._begin


def order(account: str) -> Order:
    """A box of its own for each turn."""
    token = secrets.token_hex(4)
    return Order(
        key=token,
        name=f"gpucloud-bench-{token}",
        account=account,
        region="eastus",
        zone="",
        instance_type="Standard_NC4as_T4_v3",
        arch="x86_64",
        gpu_model="T4",
        gpu_count=Decimal(1),
        purchase=Purchase.ON_DEMAND,
        nodes=1,
        disk_gib=64,
        image="ubuntu-22.04",
        user_data=b"#cloud-config\n",
        allow_from=("198.51.100.7/32",),
        ports=(),
        max_price_usd=Decimal(9),
        tags=Tags(owner="bench", box=token, op="bench", run="", expires="none"),
    )


def phase(provider: AzureProvider, wanted: Order) -> float:
    """Seconds for all three at once, as a launch makes them."""
    watch = Watch()
    provider.prepare(wanted, watch)
    return watch.seconds


def slowest(provider: AzureProvider, made: Order) -> float:
    """Seconds for the slowest of the three, put again one after another."""
    group = network.group_name(made)
    common = {"location": made.region, "tags": network.tags_of(made)}
    space = {"addressPrefixes": [network.VNET_RANGE]}
    subnet = {"name": network.SUBNET, "properties": {"addressPrefix": network.SUBNET_RANGE}}
    parts: dict[tuple[ResourceKind, str], dict[str, Any]] = {
        (ResourceKind.NETWORK, made.name): {"properties": {"addressSpace": space, "subnets": [subnet]}},
        (ResourceKind.GROUP, made.name): {
            "properties": {"securityRules": network.wanted_rules(made.allow_from, ())}
        },
        (ResourceKind.ADDRESS, "alone"): {
            "sku": {"name": "Standard"},
            "properties": {"publicIPAllocationMethod": "Static", "publicIPAddressVersion": "IPv4"},
        },
    }
    seconds: list[float] = []
    for (kind, name), body in parts.items():
        begin = time.perf_counter()
        network.put(
            provider.own_account.clients, id_in(made.account, group, kind, name), kind, {**common, **body}
        )
        seconds.append(time.perf_counter() - begin)
    return max(seconds)


def main() -> list[Row]:
    """Turn about, after one turn that loads the SDK and signs in."""
    with sandbox() as (endpoint, _), patch.dict(os.environ, endpoint.environ):
        endpoint.client.pace(latency_s=LATENCY_S)
        provider = AzureProvider(own_profile())
        turns: list[tuple[float, float]] = []
        for _ in range(RUNS + 1):
            wanted = order(provider.account())
            turns.append((phase(provider, wanted), slowest(provider, wanted)))
    together, alone = (statistics.median(column) for column in zip(*turns[1:], strict=True))
    what = f"azure: network, firewall, address at once, {LATENCY_S * 1000:.0f} ms per call"
    return [Row(what, alone, together, 1.3)]
