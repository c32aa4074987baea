"""The collected table of the clouds' errors, each raised by the vendor's SDK at an emulator's answer.

``error_table.csv`` is what was collected about the clouds, apart from the tables that the providers use. In a
``note``, ``match=`` restricts a row to messages that hold one of the quoted texts before the first semicolon.
``scope`` is how far the refusal reaches, and ``hint`` has words of what the user is told to do, where those
were collected.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from gpucloud.clouds.cloud import Cloud
from gpucloud.clouds.error_table import table_of
from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import Provider
from gpucloud.errors import ErrorClass, Scope
from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_aws.provider import AwsProvider
from gpucloud_azure.provider import AzureProvider
from gpucloud_sandbox.client import SandboxClient
from tests.builders import a_machine
from tests.profiles import own_profile

MEANS = {
    "throttle": {ErrorClass.THROTTLED},
    "retry": {ErrorClass.EVENTUAL, ErrorClass.SERVER},
    "gone": {ErrorClass.NOT_FOUND},
}
"""The collected classes that have another name or are finer in gpucloud; the others have the same name."""

STATUS = {"auth": 403, "throttle": 429, "gone": 404, "conflict": 409}
"""A plausible HTTP status of each class: the code decides, whatever the status. Else 400."""


@dataclass(frozen=True, slots=True)
class Row:
    """One collected error."""

    cloud: str
    code: str
    says: str
    texts: tuple[str, ...]
    scope: str
    hint: str

    @property
    def allowed(self) -> set[Any]:
        """The classes that mean the same."""
        return MEANS.get(self.says, {self.says})


def rows() -> Iterator[Row]:
    with Path(__file__).with_name("error_table.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            note = row["note"]
            texts = re.findall(r'"([^"]+)"', note.partition(";")[0]) if note.startswith("match=") else []
            yield Row(row["cloud"], row["code"], row["class"], tuple(texts), row["scope"], row["hint"])


def on_the_wire(cloud: str) -> list[Row]:
    """The rows of a cloud that a server can answer with. What a dry run answers is no failure."""
    return [
        row
        for row in rows()
        if row.cloud == cloud and not row.code.startswith("py:") and row.says != "dryrun_ok"
    ]


def code_of(row: Row) -> str:
    """A code that the row is about: a trailing ``*`` stands for anything."""
    return row.code.replace("*", "Whatever")


def message_of(row: Row) -> str:
    return f"It is so: {row.texts[0]}, they say." if row.texts else "It is so, they say."


def raised(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    pytest.fail("the SDK raised nothing")


def classified(
    sandbox: SandboxClient, provider: Provider, ask: Callable[[], object], row: Row, message: str
) -> Any:
    """What the provider makes of the SDK's exception when its cloud answers so."""
    sandbox.fault(
        effect="error",
        cloud=row.cloud,
        action=CREATES[row.cloud],
        times=None,
        code=code_of(row),
        status=STATUS.get(row.says, 400),
        message=message,
    )
    try:
        verdict = provider.classify(raised(ask))
    finally:
        sandbox.clear_faults()
    assert verdict is not None
    assert verdict.code == code_of(row)
    assert message in verdict.message
    assert verdict.request_id
    return verdict


HERE_OTHERWISE: Mapping[str, ErrorClass] = {
    # Only just-made things are "not there yet"; these we never make, or meet only when asking by id.
    "InvalidKeyPair.NotFound": ErrorClass.BAD_PARAM,
    "InvalidSubnetID.NotFound": ErrorClass.UNSUPPORTED,
    "InvalidVpcID.NotFound": ErrorClass.UNSUPPORTED,
    "InvalidSpotInstanceRequestID.NotFound": ErrorClass.NOT_FOUND,
    "InvalidNetworkInterfaceID.NotFound": ErrorClass.NOT_FOUND,
    "InvalidPlacementGroup.Unknown": ErrorClass.EVENTUAL,  # in a launch, right after it was made
}


def ask_aws(provider: Any) -> object:
    return provider.own_account.clients.ec2_once("us-east-1").run_instances(
        MinCount=1, MaxCount=1, ImageId="ami-0123456789abcdef0"
    )


def ask_azure(provider: Any) -> object:
    machines = provider.own_account.clients.compute().virtual_machines
    return machines.begin_create_or_update("g", "m", {"location": "eastus"}, polling=False)


def ask_alibaba(provider: Any) -> object:
    from alibabacloud_ecs20140526.models import RunInstancesRequest

    request = RunInstancesRequest(region_id="cn-hangzhou", instance_charge_type="PostPaid")
    return provider.own_account.clients.ecs("cn-hangzhou").run_instances(request)


def opened(cloud: str) -> Provider:
    """A cloud's provider, signed in."""
    makers: dict[str, Callable[[Profile], Provider]] = {
        "aws": AwsProvider,
        "azure": AzureProvider,
        "alibaba": AlibabaProvider,
    }
    made = makers[cloud](own_profile())
    made.account()
    return made


provider_of = cache(opened)
"""One for all tests of this file, whose sandbox is the same: it keeps its clients."""

ASK: Mapping[str, Callable[[Any], object]] = {
    "aws": ask_aws,
    "azure": ask_azure,
    "alibaba": ask_alibaba,
}
CREATES = {"aws": "RunInstances", "azure": "PUT virtualMachines", "alibaba": "RunInstances"}


@pytest.mark.parametrize("cloud", list(ASK))
def test_what_an_account_is_refused_for_comes_with_sentences_that_say_what_to_do(cloud: str) -> None:
    """Of exceptions of the SDK, those without one are about credentials, which the cloud has a hint for."""
    rows = [row for each in table_of(f"gpucloud_{cloud}").values() for row in each]
    account = {ErrorClass.AUTH, ErrorClass.BILLING}
    silent = [row.code for row in rows if row.error_class in account and not row.hint]
    assert [code for code in silent if not code.startswith("py:")] == []
    hints = {row.hint for row in rows if row.hint}
    assert [hint for hint in hints if not hint[0].isupper() or not hint.endswith((".", ")"))] == []
    assert [hint for hint in hints if "UNVERIFIED" in hint] == []


@pytest.mark.parametrize(
    ("cloud", "reason", "error_class", "scope", "hint"),
    [
        ("aws", "Client.InternalError", ErrorClass.AUTH, Scope.REGION, "kms:CreateGrant"),
        ("aws", "Client.VolumeLimitExceeded", ErrorClass.QUOTA, Scope.REGION, "Amazon EBS"),
        ("aws", "Server.InsufficientInstanceCapacity", ErrorClass.CAPACITY, Scope.ATTEMPT, "later"),
        ("aws", "Server.SpotInstanceTermination", ErrorClass.CAPACITY, Scope.ATTEMPT, "later"),
        ("aws", "Client.NeverHeardOf", ErrorClass.CAPACITY, Scope.ATTEMPT, ""),
        ("azure", "AllocationFailed", ErrorClass.CAPACITY, Scope.TYPE_IN_REGION, ""),
        ("azure", "OSProvisioningTimedOut", ErrorClass.CAPACITY, Scope.ATTEMPT, ""),
        ("alibaba", "SystemFailure.Delete", ErrorClass.CAPACITY, Scope.ATTEMPT, ""),
        ("alibaba", None, ErrorClass.CAPACITY, Scope.ATTEMPT, ""),
    ],
)
@pytest.mark.usefixtures("sandbox")
def test_a_machine_that_ends_before_it_runs_was_refused_for_its_reason(
    cloud: str,
    reason: str | None,
    error_class: ErrorClass,
    scope: Scope,
    hint: str,
) -> None:
    """Whatever the reason, nothing is left of it, and another offer may start."""
    refused = Cloud(provider=provider_of(cloud)).never_started(a_machine(reason=reason))
    assert (refused.error_class, refused.scope, refused.code) == (error_class, scope, reason)
    assert hint in str(refused.hint)
    assert refused.listed is (reason != "Client.NeverHeardOf")
    assert f"ended before it ran: {reason or 'no reason given'}" in refused.message


@pytest.mark.parametrize(
    "row", [row for cloud in ASK for row in on_the_wire(cloud)], ids=lambda row: f"{row.cloud}-{row.code}"
)
def test_an_answer_means_what_was_collected(sandbox: SandboxClient, row: Row) -> None:
    provider = provider_of(row.cloud)
    verdict = classified(sandbox, provider, partial(ASK[row.cloud], provider), row, message_of(row))
    meant = {HERE_OTHERWISE[row.code]} if row.code in HERE_OTHERWISE else row.allowed
    assert verdict.error_class in meant
    assert verdict.scope == (row.scope or verdict.scope)
    assert row.hint in (verdict.hint or "")


@pytest.mark.parametrize(
    "row",
    [row for cloud in ASK for row in on_the_wire(cloud) if row.texts],
    ids=lambda row: f"{row.cloud}-{row.code}-{row.says}",
)
def test_another_message_is_not_what_a_text_of_the_table_is_about(sandbox: SandboxClient, row: Row) -> None:
    """The default is the row of the same code without a text, if there is one."""
    provider = provider_of(row.cloud)
    others = [other for other in on_the_wire(row.cloud) if other.code == row.code and not other.texts]
    verdict = classified(sandbox, provider, partial(ASK[row.cloud], provider), row, "It is otherwise.")
    said = verdict.error_class
    assert said in others[0].allowed if others else said not in row.allowed
