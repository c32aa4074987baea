"""Whatever a cloud answers: a reader returns, or refuses the answer with a class; it never crashes.

``DAMAGED_ANSWERS`` is the number of tries of each reader, each with other damage.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import BegunError
from gpucloud.errors import UsageError
from gpucloud.resources import End, Machine, Ref, ResourceKind, Search, State
from gpucloud_alibaba import actions as alibaba_actions
from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_aws import actions as aws_actions
from gpucloud_aws.errors import MalformedAnswerError
from gpucloud_aws.provider import AwsProvider
from gpucloud_azure.ids import id_in
from gpucloud_azure.provider import AzureProvider
from gpucloud_pricing.demand import Purchase
from tests.profiles import own_profile
from tests.providers import alibaba_wire, aws_wire, azure_wire
from tests.providers.answers import Damage, alibaba_answer, aws_answer, azure_answer

TRIES = settings(
    max_examples=int(os.environ.get("DAMAGED_ANSWERS", "8")),
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
)
DAMAGES = st.builds(Damage, st.integers(0, 2**32), st.sampled_from([0.0, 0.02, 0.1, 0.4]))


# --- what reads answers


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
        yield lambda: cloud.ensure_end([at.machine()], end, (), lambda timers: None)


def inquiries(list_of: Callable[[], Any]) -> Iterator[object]:
    """Lists what can be asked, asks it, and what follows from the answers."""
    left: list[Any] = []
    yield lambda: left.extend(list_of())
    while left:
        inquiry = left.pop()
        yield lambda inquiry=inquiry: left.extend(getattr(inquiry.ask(), "further", None) or ())


READERS: Mapping[str, Callable[[Any, Place], Iterator[Any]]] = {
    "account": lambda cloud, _at: iter([type(cloud)(cloud.clients.profile).account]),
    "identity": lambda cloud, _at: iter([cloud.identity]),
    "permissions": lambda cloud, at: iter([lambda: cloud.permissions(at.region)]),
    "get": lambda cloud, at: (lambda kind=kind: cloud.get(at.ref(kind)) for kind in at.ids),
    "find": lambda cloud, at: iter(
        [lambda: cloud.find(Search(regions=(at.region,))), lambda: cloud.find(Search(token="t"))]
    ),
    "quotes": lambda cloud, at: (
        lambda purchase=purchase: cloud.quotes(at.region, [at.instance_type], purchase) for purchase in BOUGHT
    ),
    "headroom": lambda cloud, at: (
        lambda purchase=purchase: cloud.headroom(at.region, [at.instance_type], purchase)
        for purchase in BOUGHT
    ),
    "held": lambda cloud, at: iter([lambda: cloud.held(at.region, [at.instance_type])]),
    "prices": lambda cloud, at: inquiries(lambda: cloud.inquiries([at.instance_type], [at.region])),
    "tariffs": lambda cloud, at: inquiries(lambda: cloud.tariff_inquiries([at.region])),
    "commitments": lambda cloud, _at: inquiries(cloud.commitment_inquiries),
    "console": lambda cloud, at: iter([lambda: cloud.console(at.ref(ResourceKind.INSTANCE))]),
    "admit": lambda cloud, at: iter(
        [lambda: cloud.admit(at.ref(ResourceKind.GROUP), ["203.0.113.7/32"], [])]
    ),
    "extend": lambda cloud, at: iter(
        [lambda: cloud.extend([at.ref(kind) for kind in at.ids], LATER, ["m/op-1"], lambda timers: None)]
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
        cause = error.__cause__ if isinstance(error, BegunError) else error
        assert isinstance(cause, Exception)
        if cloud.classify(cause) is None:
            raise


# --- the clouds


class Generated(dict[str, Any]):
    """A wire's answers, made when they are asked for."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self._make = make

    def get(self, action: str, default: Any = None) -> Any:
        """The answers to an action."""
        made = self._make(action.removesuffix(" (dry run)"))
        return default if made is None else [made]


class AzureWire(azure_wire.Wire):
    """Resource Manager with damaged answers; signing in works."""

    damage: Damage | None = None

    def answer_to(self, method: str, path: str, body: str) -> azure_wire.Answer:
        """The answer to a request."""
        if self.damage is None or path.endswith(("/oauth2/v2.0/token", "/openid-configuration")):
            return super().answer_to(method, path, body)
        return azure_wire.Answer(azure_answer(method, path, self.damage))


Opened = Callable[[Damage, bool], Any]
"""Returns a provider whose cloud's answers are damaged, also those about the caller if so."""


@contextmanager
def aws(folder: Path) -> Iterator[Opened]:
    services = {operation: service for service, operation in aws_actions.ACTIONS}
    with aws_wire.Wire() as wire:
        profile = Profile(
            {
                "HOME": str(folder),
                "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
                "AWS_SECRET_ACCESS_KEY": "not-a-secret",
                "AWS_REGION": "us-east-1",
                "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_ENDPOINT_URL": wire.url,
                "GPUCLOUD_AWS_SPOT_ADVISOR_URL": f"{wire.url}/DescribeSavingsPlans",  # any JSON
            }
        )
        clients = AwsProvider(profile).clients

        def opened(damage: Damage, of_the_caller: bool) -> AwsProvider:
            def answer(action: str) -> aws_wire.Answer | None:
                if action == "GetCallerIdentity" and not of_the_caller:
                    return aws_wire.Answer(aws_wire.IDENTITY)
                asked = "GetSchedule" if action == AT["aws"].ids[ResourceKind.SCHEDULE] else action
                if asked not in services:
                    return None
                return aws_wire.Answer(aws_answer(services[asked], asked, damage))

            wire.answers = Generated(answer)
            made = AwsProvider(profile)
            made.clients = clients  # the SDK's, which take long to make
            return made

        yield opened


@contextmanager
def azure(folder: Path) -> Iterator[Opened]:
    certificate = azure_wire.self_signed(folder)
    with AzureWire(certificate) as wire:
        profile = Profile(
            {
                "HOME": str(folder),
                "AZURE_TENANT_ID": azure_wire.TENANT,
                "AZURE_CLIENT_ID": "00000000-0000-0000-0000-000000000002",
                "AZURE_CLIENT_SECRET": azure_wire.SECRET,
                "AZURE_SUBSCRIPTION_ID": azure_wire.SUBSCRIPTION,
                "AZURE_AUTHORITY_HOST": wire.url,
                "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential",
                "GPUCLOUD_AZURE_ENDPOINT": wire.url,
                "GPUCLOUD_AZURE_PRICES_URL": f"{wire.url}/api/retail/prices",
                "REQUESTS_CA_BUNDLE": str(certificate),
            }
        )
        clients = AzureProvider(profile).clients
        clients.subscription()

        def opened(damage: Damage, of_the_caller: bool) -> AzureProvider:
            wire.damage = damage
            made = AzureProvider(profile)
            made.clients = clients  # the SDK's, which take long to make
            return made

        yield opened


@contextmanager
def alibaba(folder: Path) -> Iterator[Opened]:
    products = {action: product for product, action in alibaba_actions.ACTIONS}
    with alibaba_wire.Wire() as wire:
        profile = Profile(
            {
                "HOME": str(folder),
                "ALIBABA_CLOUD_ACCESS_KEY_ID": "LTAI5tExample",
                "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "not-a-secret",
                "ALIBABA_CLOUD_ECS_METADATA_DISABLED": "true",
                "ALIBABA_CLOUD_REGION_ID": "cn-hangzhou",
                "GPUCLOUD_ALIBABA_ENDPOINT": wire.url,
            }
        )

        def opened(damage: Damage, of_the_caller: bool) -> AlibabaProvider:
            def answer(action: str) -> alibaba_wire.Answer | None:
                if action == "GetCallerIdentity":
                    said = damage.of(action).to(alibaba_wire.IDENTITY)
                    return alibaba_wire.Answer(said if of_the_caller else alibaba_wire.IDENTITY)
                if action not in products:
                    return None
                return alibaba_wire.Answer(alibaba_answer(products[action], action, damage))

            wire.answers = Generated(answer)
            return AlibabaProvider(profile, sleep=lambda _seconds: None)

        yield opened


CLOUDS = {"aws": aws, "azure": azure, "alibaba": alibaba}


@pytest.fixture(scope="module")
def open_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Opened]]:
    """Each cloud, opened when it is first needed."""
    opened: dict[str, Opened] = {}
    with ExitStack() as stack:

        def cloud(name: str) -> Opened:
            if name not in opened:
                opened[name] = stack.enter_context(CLOUDS[name](tmp_path_factory.mktemp(name)))
            return opened[name]

        yield cloud


# --- the readers


@pytest.mark.parametrize("name", list(READERS))
@pytest.mark.parametrize("cloud", list(CLOUDS))
def test_no_damaged_answer_makes_a_reader_crash(
    open_cloud: Callable[[str], Opened], cloud: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpucloud_azure.network.POLLING_S", 0)
    opened = open_cloud(cloud)

    @TRIES
    @given(damage=DAMAGES)
    def holds(damage: Damage) -> None:
        provider = opened(damage, name in {"account", "identity"})
        for call in READERS[name](provider, AT[cloud]):
            read(provider, call)

    holds()


def test_a_subnet_without_its_zone_is_a_malformed_answer(wire: aws_wire.Wire) -> None:
    subnet = (
        "<subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId><availabilityZone>us-east-1a</availabilityZone>"
    )
    wire.say(
        "DescribeSubnets", aws_wire.answer("DescribeSubnets", f"<subnetSet><item>{subnet}</item></subnetSet>")
    )
    with pytest.raises(MalformedAnswerError, match="AvailabilityZoneId"):
        AwsProvider(own_profile()).prepare(aws_wire.order(), aws_wire.Remembered())
