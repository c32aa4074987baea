"""Whatever a cloud answers: a reader returns, or refuses the answer with a class; it never crashes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from botocore.session import get_session
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from gpucloud.clouds.provider import BegunError
from gpucloud.errors import UsageError
from gpucloud.resources import ResourceKind
from gpucloud_alibaba import actions as alibaba_actions
from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_aws import actions as aws_actions
from gpucloud_aws.errors import MalformedAnswerError
from gpucloud_aws.provider import AwsProvider
from gpucloud_pricing.demand import Purchase
from tests.profiles import own_profile
from tests.providers import alibaba_sandbox, alibaba_wire, aws_wire
from tests.providers.answers import Damage, alibaba_answer, aws_answer

Reader = Callable[[Any], object]

alibaba_environment = alibaba_sandbox.alibaba_environment
EXAMPLES = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)
DAMAGES = st.builds(Damage, st.integers(0, 2**32), st.sampled_from([0.0, 0.02, 0.1, 0.4]))


def every(list_of: Callable[[], Any]) -> list[object]:
    """The answers to all inquiries of a list; one that fails does not keep the others from being asked."""
    return [inquiry.ask() for inquiry in list_of()]


BOUGHT = (Purchase.ON_DEMAND, Purchase.SPOT)


def get(wire: Any, kind: ResourceKind, cloud: Any) -> object:
    return cloud.get(wire.ref(kind, f"{kind}-1", account=cloud.account()))


def quotes(region: str, types: list[str], purchase: Purchase, cloud: Any) -> object:
    return cloud.quotes(region, types, purchase)


def headroom(region: str, types: list[str], purchase: Purchase, cloud: Any) -> object:
    return cloud.headroom(region, types, purchase)


def readers(wire: Any, region: str, instance_type: str) -> Mapping[str, Reader]:
    """What reads answers, by name."""
    types = [instance_type]
    kinds = (
        ResourceKind.INSTANCE,
        ResourceKind.DISK,
        ResourceKind.NIC,
        ResourceKind.GROUP,
        ResourceKind.ADDRESS,
    )
    return {
        "account": lambda cloud: cloud.account(),
        **{f"get {kind}": partial(get, wire, kind) for kind in kinds},
        **{f"quotes {purchase}": partial(quotes, region, types, purchase) for purchase in BOUGHT},
        **{f"headroom {purchase}": partial(headroom, region, types, purchase) for purchase in BOUGHT},
        "held": lambda cloud: cloud.held(region, types),
        "prices": lambda cloud: every(lambda: cloud.inquiries(types, [region])),
        "commitments": lambda cloud: every(cloud.commitment_inquiries),
        "console": lambda cloud: cloud.console(
            wire.ref(ResourceKind.INSTANCE, "i-1", account=cloud.account())
        ),
        "admit": lambda cloud: cloud.admit(
            wire.ref(ResourceKind.GROUP, "sg-1", account=cloud.account()), ["203.0.113.7/32"], []
        ),
        "identity": lambda cloud: cloud.identity(),
        "launch": lambda cloud: launch(cloud, wire),
    }


def launch(cloud: Any, wire: Any) -> object:
    for zone in (wire.order().zone, None):
        for purchase in BOUGHT:
            order = wire.order(zone=zone, purchase=purchase)
            with suppress(UsageError):
                cloud.create(cloud.prepare(order, aws_wire.Remembered()))
    return None


def read(cloud: Any, reader: Reader) -> None:
    """The reader's result, or a refusal with a class."""
    try:
        reader(cloud)
    except UsageError:
        return
    except Exception as error:
        cause = error.__cause__ if isinstance(error, BegunError) else error
        assert isinstance(cause, Exception)
        if cloud.classify(cause) is None:
            raise


class Generated(dict[str, Any]):
    """A wire's answers, made when they are asked for; what a test has said comes first."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self._make = make

    def get(self, action: str, default: Any = None) -> Any:
        """The answers to an action."""
        made = self._make(action.removesuffix(" (dry run)"))
        return default if made is None else [made]


def aws_answers(damage: Damage) -> Callable[[str], aws_wire.Answer | None]:
    services = {operation: service for service, operation in aws_actions.ACTIONS}

    def make(action: str) -> aws_wire.Answer | None:
        if action not in services:
            return None
        model = get_session().get_service_model(services[action])
        return aws_wire.Answer(aws_answer(model, action, damage))

    return make


def alibaba_answers(damage: Damage) -> Callable[[str], alibaba_wire.Answer | None]:
    products = {action: product for product, action in alibaba_actions.ACTIONS}

    def make(action: str) -> alibaba_wire.Answer | None:
        if action == "GetCallerIdentity":
            return alibaba_wire.Answer(alibaba_wire.IDENTITY)
        if action not in products:
            return None
        return alibaba_wire.Answer(alibaba_answer(products[action], action, damage))

    return make


AWS_READERS = {
    name: reader
    for name, reader in readers(aws_wire, "us-east-1", "g4dn.xlarge").items()
    if name
    in {"account", "held", "identity", "admit"}  # the others take minutes: botocore's models are large
}
ALIBABA_READERS = readers(alibaba_wire, "cn-hangzhou", "ecs.gn6i-c4g1.xlarge")


@pytest.mark.parametrize("name", list(AWS_READERS))
def test_no_answer_of_aws_makes_a_reader_crash(wire: aws_wire.Wire, name: str) -> None:
    @seed(17)
    @EXAMPLES
    @given(damage=DAMAGES)
    def holds(damage: Damage) -> None:
        wire.answers = Generated(aws_answers(damage))
        cloud = AwsProvider(own_profile())
        read(cloud, AWS_READERS[name])

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


@pytest.fixture
def alibaba(alibaba_environment: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[alibaba_wire.Wire]:
    with alibaba_wire.Wire() as server:
        monkeypatch.setenv("GPUCLOUD_ALIBABA_ENDPOINT", server.url)
        yield server


@pytest.mark.parametrize("name", list(ALIBABA_READERS))
def test_no_answer_of_alibaba_makes_a_reader_crash(alibaba: alibaba_wire.Wire, name: str) -> None:
    @seed(17)
    @EXAMPLES
    @given(damage=DAMAGES)
    def holds(damage: Damage) -> None:
        alibaba.answers = Generated(alibaba_answers(damage))
        cloud = AlibabaProvider(own_profile())
        read(cloud, ALIBABA_READERS[name])

    holds()
