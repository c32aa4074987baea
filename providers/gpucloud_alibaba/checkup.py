"""Checks whether gpucloud works with these credentials: identity, permissions, clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from importlib.resources import files
from typing import Any

from gpucloud.clouds.abilities import Checkup
from gpucloud.clouds.kit import in_threads
from gpucloud.errors import ErrorClass
from gpucloud.resources import Identity, Permission, Tags
from gpucloud_alibaba.account import AlibabaAccount
from gpucloud_alibaba.clients import Clients, send
from gpucloud_alibaba.errors import DRY_RUN_PASSED, MalformedAnswerError, classify, code_of, reading
from gpucloud_alibaba.models import ecs_models

THREADS = 8
CREDENTIALS_HINT = (
    "aliyun configure (key: https://ram.console.alibabacloud.com/users); "
    "or make an AccessKey for a RAM user there (China site: https://ram.console.aliyun.com/users), and set "
    "ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET"
)
FIX = "grant it: gpucloud check --policy alibaba prints the policy; attach it at https://ram.console.alibabacloud.com/policies"

NOBODY = "gpucloud-check"
"""An id that no resource has, for calls that need one."""

TYPE = "ecs.gn6i-c4g1.xlarge"
TAGS = Tags(owner=NOBODY, box=NOBODY, op=NOBODY, run="", expires="none").as_dict()
"""The tags that the policy requires in every create call."""

FEW = {"max_results": 10}
OF_TYPE = {"instance_type": TYPE}
ECS_READS: Mapping[str, Mapping[str, Any]] = {
    "DescribeInstances": {"dry_run": True},
    "DescribeRegions": {},
    "DescribeDisks": FEW,
    "DescribeNetworkInterfaces": FEW,
    "DescribeSecurityGroups": FEW,
    "DescribeImages": {"image_owner_alias": "system", "page_size": 1},
    "DescribeInstanceHistoryEvents": FEW,
    "DescribePrice": {**OF_TYPE, "resource_type": "instance", "price_unit": "Hour", "amount": 1},
    "DescribeSpotPriceHistory": {**OF_TYPE, "network_type": "vpc", "spot_duration": 0},
    "DescribeSpotAdvice": {"instance_types": [TYPE]},
    "DescribeAccountAttributes": {"attribute_name": ["max-postpaid-instance-vcpu-count"]},
    "DescribeAvailableResource": {
        **OF_TYPE,
        "destination_resource": "InstanceType",
        "instance_charge_type": "PostPaid",
    },
    "DescribeCapacityReservations": FEW,
    "DescribeElasticityAssurances": FEW,
    "DescribeReservedInstances": {"page_size": 10},
}
"""The reads of ECS that gpucloud makes, each with fields of a request that costs little."""
VPC_CALLS: Mapping[str, Mapping[str, Any]] = {
    "DescribeVpcs": {"PageSize": 10},
    "DescribeVSwitches": {"PageSize": 10},
    "DescribeEipAddresses": {"PageSize": 10},
    "CreateVpc": {
        "CidrBlock": "10.42.0.0/16",
        "Tag": [{"Key": key, "Value": value} for key, value in TAGS.items()],
        "DryRun": True,
    },
}
"""The same of VPC; what makes something is a dry run."""


def policy() -> str:
    """The least privileges, in RAM's JSON."""
    return files("gpucloud_alibaba").joinpath("policy.json").read_text(encoding="utf-8")


class AlibabaCheckup(Checkup):
    """The credentials of the account."""

    def __init__(self, account: AlibabaAccount) -> None:
        self._account = account

    @property
    def credentials_hint(self) -> str:
        """Where to get credentials."""
        return CREDENTIALS_HINT

    @property
    def policy(self) -> str:
        """The least privileges, in RAM's JSON."""
        return policy()

    def identity(self) -> Identity:
        """The identity of the credentials, and where the SDK found them."""
        body = self._account.caller()["body"]
        source = str(self._account.clients.credential().get_credential().provider_name or "")
        with reading("GetCallerIdentity"):
            return Identity(
                account=str(body["AccountId"]),
                who=str(body["Arn"]),
                source="environment" if source.startswith("static_") else source.removeprefix("default/"),
            )

    def permissions(self, region: str, /) -> Sequence[Permission]:
        """Each action that can be tried without effect: reads, and changes that have a dry run."""
        return in_threads(_tried, _tries(self._account.clients, region).items(), threads=THREADS)

    def server_time(self) -> datetime:
        """The ``Date`` of an answer.

        Raises:
            MalformedAnswerError: the answer has none.
        """
        date = self._account.caller()["headers"].get("date")
        if not date:
            raise MalformedAnswerError("the answer to GetCallerIdentity has no Date")
        return parsedate_to_datetime(date).astimezone(UTC)


def _tried(item: tuple[str, Callable[[], object]]) -> Permission:
    action, attempt = item
    try:
        attempt()
    except Exception as error:
        code = code_of(error)
        if code in DRY_RUN_PASSED:
            return Permission(action=action, allowed=True, said=code, fix="")
        verdict = classify(error)
        if verdict is None:
            raise
        said = f"{verdict.code}: {verdict.message}"
        if verdict.error_class is ErrorClass.AUTH:
            return Permission(action=action, allowed=False, said=said, fix=FIX)
        # Only a caller with permission gets a "not found"; other errors prove nothing.
        known = True if code.endswith(".NotFound") else None
        return Permission(action=action, allowed=known, said=said, fix="")
    return Permission(action=action, allowed=True, said="", fix="")


def _tries(clients: Clients, region: str) -> Mapping[str, Callable[[], object]]:
    """The actions, each with a harmless call.

    Without changes that have no dry run (groups, rules, release times), and without deletions: these are
    allowed by a resource's tags, and there is no resource to try with.
    """
    ecs, vpc = clients.ecs(region), partial(clients.vpc, region)
    calls: dict[str, Callable[[], object]] = {"ecs:RunInstances": partial(_dry_launch, ecs, region)}
    calls |= {f"ecs:{action}": partial(_read, ecs, region, action) for action in ECS_READS}
    calls |= {f"vpc:{action}": partial(vpc, action, values) for action, values in VPC_CALLS.items()}
    return calls


def _dry_launch(ecs: Any, region: str) -> object:
    m = ecs_models()
    return ecs.run_instances(
        m.RunInstancesRequest(
            region_id=region,
            instance_type=TYPE,
            image_id=NOBODY,
            v_switch_id=NOBODY,
            security_group_id=NOBODY,
            instance_charge_type="PostPaid",
            http_tokens="required",
            system_disk=m.RunInstancesRequestSystemDisk(category="cloud_essd", encrypted="true"),
            amount=1,
            tag=[m.RunInstancesRequestTag(key=key, value=value) for key, value in TAGS.items()],
            dry_run=True,
        )
    )


def _read(ecs: Any, region: str, action: str) -> object:
    request = getattr(ecs_models(), f"{action}Request")(**ECS_READS[action])
    request.region_id = region
    return send(ecs, request)
