"""Whatever a cloud answers: a reader returns, or refuses the answer with a class; it never crashes.

``DAMAGED_ANSWERS`` is the number of tries of each reader, each with other damage.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gpucloud.clouds.profile import Profile
from gpucloud.resources import ResourceKind, Search
from gpucloud_alibaba import actions as alibaba_actions
from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_aws import actions as aws_actions
from gpucloud_aws.errors import MalformedAnswerError
from gpucloud_aws.provider import AwsProvider
from gpucloud_azure.errors import MalformedAnswerError as MalformedAnswerOfAzure
from gpucloud_azure.provider import AzureProvider
from tests.profiles import own_profile
from tests.providers import alibaba_wire, aws_wire, azure_wire
from tests.providers.answers import Damage, alibaba_answer, aws_answer, azure_answer
from tests.providers.azure_wire import Answer as AzureAnswer
from tests.providers.azure_wire import Wire as AzureServer
from tests.providers.readers import AT, READERS, read

TRIES = settings(
    max_examples=int(os.environ.get("DAMAGED_ANSWERS", "8")),
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
)
DAMAGES = st.builds(Damage, st.integers(0, 2**32), st.sampled_from([0.0, 0.02, 0.1, 0.4]))


BOMB = gzip.compress(bytes(64 << 20))


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
        clients = AwsProvider(profile).own_account.clients

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
            made.own_account.clients = clients  # the SDK's, which take long to make
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
        clients = AzureProvider(profile).own_account.clients
        clients.subscription()

        def opened(damage: Damage, of_the_caller: bool) -> AzureProvider:
            wire.damage = damage
            made = AzureProvider(profile)
            made.own_account.clients = clients  # the SDK's, which take long to make
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


def test_a_value_of_aws_that_is_there_twice_is_a_malformed_answer(wire: aws_wire.Wire) -> None:
    names = "<regionName>us-east-1</regionName><regionName>us-west-2</regionName>"
    wire.say(
        "DescribeRegions",
        aws_wire.answer("DescribeRegions", f"<regionInfo><item>{names}</item></regionInfo>"),
    )
    wire.say("GetCallerIdentity", aws_wire.IDENTITY)
    with pytest.raises(MalformedAnswerError, match="several values"):
        AwsProvider(own_profile()).find(Search(token="t"))


@pytest.mark.parametrize("body", ["", "[" * 3000], ids=["nothing", "deep"])
def test_an_answer_of_azure_that_is_no_object_is_malformed(azure_wire: AzureServer, body: str) -> None:
    for path in ("m", "permissions", "prices", "reservations", "resourcegroups", "resources", "skus"):
        azure_wire.say("GET", f"/{path}", AzureAnswer(body))
    azure_wire.say("GET", "/usages", AzureAnswer(body))
    azure_wire.say("POST", "/retrieveBootDiagnosticsData", AzureAnswer(body))
    provider = AzureProvider(own_profile())
    for name in ("commitments", "console", "find", "get", "headroom", "permissions", "quotes"):
        refused = 0
        for call in READERS[name](provider, AT["azure"]):
            try:
                call()
            except MalformedAnswerOfAzure:
                refused += 1
        assert refused, name


@pytest.mark.parametrize("call", ["quotes", "find"])
def test_an_answer_of_azure_that_unpacks_without_an_end_is_not_read(
    azure_wire: AzureServer, call: str
) -> None:
    """64 MB, which travel as 64 kB: nobody has as much to say about prices or boxes."""
    bomb = AzureAnswer(BOMB, headers={"content-encoding": "gzip"})
    for path in ("prices", "resources", "resourcegroups"):
        azure_wire.say("GET", f"/{path}", bomb)
    provider = AzureProvider(own_profile())
    for ask in READERS[call](provider, AT["azure"]):
        with pytest.raises(MalformedAnswerOfAzure, match="more than 8,388,608 bytes"):
            ask()
