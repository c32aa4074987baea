"""What of a provider reads a cloud's answers: calls by name, and what they ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gpucloud.clouds.abilities import (
    Checkup,
    Commitments,
    ConsoleLog,
    Deadlines,
    Firewall,
    Prices,
    Quotas,
    Reservations,
)
from gpucloud.clouds.provider import PartialCreateError
from gpucloud.errors import UsageError
from gpucloud.resources import End, Machine, Ref, ResourceKind, Search, State
from gpucloud_azure.ids import id_in
from gpucloud_pricing.purchases import Purchase
from tests.providers import alibaba_wire, aws_wire, azure_wire
from tests.providers.abilities import able


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is asked of a cloud: its wire's orders (with an image), a region, a type, and ids by kind."""

    wire: Any
    image: str
    region: str
    instance_type: str
    ids: Mapping[ResourceKind, str]

    def ref(self, kind: ResourceKind) -> Ref:
        """The resource of a kind."""
        ref: Ref = self.wire.ref(kind, self.ids[kind])
        return ref

    def machine(self) -> Machine:
        """The instance, as a launch knows it."""
        return Machine(
            ref=self.ref(ResourceKind.INSTANCE),
            state=State.RUNNING,
            tags=self.wire.order().tags,
            zone=self.wire.order().zone,
            instance_type=self.instance_type,
            purchase=Purchase.ON_DEMAND,
        )


AT = {
    "aws": Place(
        wire=aws_wire,
        image="cuda-12.4",
        region="us-east-1",
        instance_type="g4dn.xlarge",
        ids={
            ResourceKind.INSTANCE: "i-1",
            ResourceKind.DISK: "vol-1",
            ResourceKind.NIC: "eni-1",
            ResourceKind.GROUP: "sg-1",
            ResourceKind.ADDRESS: "eip-1",
            ResourceKind.SCHEDULE: "gpucloud-i-1",
        },
    ),
    "azure": Place(
        wire=azure_wire,
        image="ubuntu-22.04",
        region="eastus",
        instance_type="Standard_NC4as_T4_v3",
        ids={
            kind: id_in(azure_wire.SUBSCRIPTION, "g", kind, "m")
            for kind in (
                ResourceKind.INSTANCE,
                ResourceKind.DISK,
                ResourceKind.NIC,
                ResourceKind.GROUP,
                ResourceKind.ADDRESS,
                ResourceKind.NETWORK,
            )
        },
    ),
    "alibaba": Place(
        wire=alibaba_wire,
        image="m-1",
        region="cn-hangzhou",
        instance_type="ecs.gn6i-c4g1.xlarge",
        ids={
            ResourceKind.INSTANCE: "i-1",
            ResourceKind.DISK: "d-1",
            ResourceKind.NIC: "eni-1",
            ResourceKind.GROUP: "sg-1",
            ResourceKind.ADDRESS: "eip-1",
            ResourceKind.NETWORK: "vpc-1",
        },
    ),
}
LATER = datetime.now(UTC) + timedelta(days=5)
BOUGHT = (Purchase.ON_DEMAND, Purchase.SPOT)
ROLES: Mapping[str, Mapping[str, Any]] = {
    "aws": {"ttl_role": "arn:aws:iam::123456789012:role/ends"},
    "azure": {"box_identity": "00000000-0000-0000-0000-000000000000"},
}


def ended(cloud: Any, at: Place) -> Iterator[object]:
    if cloud.name in ROLES:
        end = End(at=LATER, **ROLES[cloud.name])
        yield lambda: able(cloud, Deadlines).ensure_end([at.machine()], end, (), lambda timers: None)


def inquiries(list_of: Callable[[], Any]) -> Iterator[object]:
    """Lists what can be asked, asks it, and what follows from the answers."""
    left: list[Any] = []
    yield lambda: left.extend(list_of())
    while left:
        inquiry = left.pop()
        yield lambda inquiry=inquiry: left.extend(getattr(inquiry.ask(), "further", None) or ())


READERS: Mapping[str, Callable[[Any, Place], Iterator[Any]]] = {
    "account": lambda cloud, _at: iter([type(cloud)(cloud.own_account.clients.profile).account]),
    "identity": lambda cloud, _at: iter([able(cloud, Checkup).identity]),
    "permissions": lambda cloud, at: iter([lambda: able(cloud, Checkup).permissions(at.region)]),
    "get": lambda cloud, at: (lambda kind=kind: cloud.get(at.ref(kind)) for kind in at.ids),
    "find": lambda cloud, at: iter(
        [lambda: cloud.find(Search(regions=(at.region,))), lambda: cloud.find(Search(token="t"))]
    ),
    "quotes": lambda cloud, at: (
        lambda purchase=purchase: able(cloud, Prices).quotes(at.region, [at.instance_type], purchase)
        for purchase in BOUGHT
    ),
    "headroom": lambda cloud, at: (
        lambda purchase=purchase: able(cloud, Quotas).headroom(at.region, [at.instance_type], purchase)
        for purchase in BOUGHT
    ),
    "held": lambda cloud, at: iter([lambda: able(cloud, Reservations).held(at.region, [at.instance_type])]),
    "prices": lambda cloud, at: inquiries(
        lambda: able(cloud, Prices).inquiries([at.instance_type], [at.region])
    ),
    "tariffs": lambda cloud, at: inquiries(lambda: able(cloud, Prices).tariff_inquiries([at.region])),
    "commitments": lambda cloud, _at: inquiries(able(cloud, Commitments).commitment_inquiries),
    "console": lambda cloud, at: iter(
        [lambda: able(cloud, ConsoleLog).console(at.ref(ResourceKind.INSTANCE))]
    ),
    "admit": lambda cloud, at: iter(
        [lambda: able(cloud, Firewall).admit(at.ref(ResourceKind.GROUP), ["203.0.113.7/32"], [])]
    ),
    "extend": lambda cloud, at: iter(
        [
            lambda: able(cloud, Deadlines).extend(
                [at.ref(kind) for kind in at.ids], LATER, ["m/op-1"], lambda timers: None
            )
        ]
    ),
    "ensure_end": ended,
    "launch": lambda cloud, at: (
        lambda zone=zone, purchase=purchase: cloud.create(
            cloud.prepare(at.wire.order(image=at.image, zone=zone, purchase=purchase), at.wire.Remembered())
        )
        for zone in (at.wire.order().zone, None)
        for purchase in BOUGHT
    ),
}
"""The calls that read answers, by name."""


def read(cloud: Any, call: Callable[[], object]) -> None:
    """The result of a call, or a refusal with a class."""
    try:
        call()
    except UsageError:
        return
    except Exception as error:
        cause = error.__cause__ if isinstance(error, PartialCreateError) else error
        assert isinstance(cause, Exception)
        if cloud.classify(cause) is None:
            raise
