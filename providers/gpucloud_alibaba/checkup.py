"""Checks whether gpucloud works with these credentials: identity, permissions, clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from importlib.resources import files
from typing import Any

from gpucloud.clouds.kit import in_threads
from gpucloud.errors import ErrorClass
from gpucloud.resources import Identity, Permission, Tags
from gpucloud_alibaba.clients import Clients, ecs_models
from gpucloud_alibaba.errors import DRY_RUN_PASSED, MalformedAnswerError, classify, code_of, reading

THREADS = 8
CREDENTIALS_HINT = (
    "make an AccessKey for a RAM user at https://ram.console.alibabacloud.com/users (China site: "
    "https://ram.console.aliyun.com/users), then set ALIBABA_CLOUD_ACCESS_KEY_ID and "
    "ALIBABA_CLOUD_ACCESS_KEY_SECRET, or run: aliyun configure"
)
FIX = "grant it: gpucloud check --policy alibaba prints the policy; attach it at https://ram.console.alibabacloud.com/policies"

NOBODY = "gpucloud-check"
"""An id that no resource has, for calls that need one."""

TYPE = "ecs.gn6i-c4g1.xlarge"
TAGS = Tags(owner=NOBODY, box=NOBODY, op=NOBODY, run="", expires="none").as_dict()
"""The tags that the policy requires in every create call."""


def policy() -> str:
    """The least privileges, in RAM's JSON."""
    return files("gpucloud_alibaba").joinpath("policy.json").read_text(encoding="utf-8")


def caller(clients: Clients) -> Mapping[str, Any]:
    """The answer of STS about the caller: ``body`` and ``headers``."""
    return clients.call("sts", clients.home_region, "GetCallerIdentity", {})


def identity(clients: Clients) -> Identity:
    """The identity of the credentials, and where the SDK found them."""
    body = caller(clients)["body"]
    source = str(clients.credential().get_credential().provider_name or "")
    with reading("GetCallerIdentity"):
        return Identity(
            account=str(body["AccountId"]),
            who=str(body["Arn"]),
            source="environment" if source.startswith("static_") else source.removeprefix("default/"),
        )


def server_time(clients: Clients) -> datetime:
    """The ``Date`` of an answer.

    Raises:
        MalformedAnswerError: the answer has none.
    """
    date = caller(clients)["headers"].get("date")
    if not date:
        raise MalformedAnswerError("the answer to GetCallerIdentity has no Date")
    return parsedate_to_datetime(date).astimezone(UTC)


def permissions(clients: Clients, region: str) -> Sequence[Permission]:
    """Each action that can be tried without effect: reads, and changes that have a dry run."""
    return in_threads(_tried, _tries(clients, region).items(), threads=THREADS)


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
    m = ecs_models()

    ecs = clients.ecs(region)
    vpc = partial(clients.vpc, region)
    tags = [{"Key": key, "Value": value} for key, value in TAGS.items()]
    return {
        "ecs:RunInstances": lambda: ecs.run_instances(
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
        ),
        "ecs:DescribeInstances": lambda: ecs.describe_instances(
            m.DescribeInstancesRequest(region_id=region, dry_run=True)
        ),
        "ecs:DescribeRegions": lambda: ecs.describe_regions(m.DescribeRegionsRequest()),
        "ecs:DescribeDisks": lambda: ecs.describe_disks(
            m.DescribeDisksRequest(region_id=region, max_results=10)
        ),
        "ecs:DescribeNetworkInterfaces": lambda: ecs.describe_network_interfaces(
            m.DescribeNetworkInterfacesRequest(region_id=region, max_results=10)
        ),
        "ecs:DescribeSecurityGroups": lambda: ecs.describe_security_groups(
            m.DescribeSecurityGroupsRequest(region_id=region, max_results=10)
        ),
        "ecs:DescribeImages": lambda: ecs.describe_images(
            m.DescribeImagesRequest(region_id=region, image_owner_alias="system", page_size=1)
        ),
        "ecs:DescribeInstanceHistoryEvents": lambda: ecs.describe_instance_history_events(
            m.DescribeInstanceHistoryEventsRequest(region_id=region, max_results=10)
        ),
        "ecs:DescribePrice": lambda: ecs.describe_price(
            m.DescribePriceRequest(
                region_id=region,
                resource_type="instance",
                instance_type=TYPE,
                price_unit="Hour",
                amount=1,
            )
        ),
        "ecs:DescribeSpotPriceHistory": lambda: ecs.describe_spot_price_history(
            m.DescribeSpotPriceHistoryRequest(
                region_id=region, instance_type=TYPE, network_type="vpc", spot_duration=0
            )
        ),
        "ecs:DescribeSpotAdvice": lambda: ecs.describe_spot_advice(
            m.DescribeSpotAdviceRequest(region_id=region, instance_types=[TYPE])
        ),
        "ecs:DescribeAccountAttributes": lambda: ecs.describe_account_attributes(
            m.DescribeAccountAttributesRequest(
                region_id=region, attribute_name=["max-postpaid-instance-vcpu-count"]
            )
        ),
        "ecs:DescribeAvailableResource": lambda: ecs.describe_available_resource(
            m.DescribeAvailableResourceRequest(
                region_id=region,
                destination_resource="InstanceType",
                instance_type=TYPE,
                instance_charge_type="PostPaid",
            )
        ),
        "ecs:DescribeCapacityReservations": lambda: ecs.describe_capacity_reservations(
            m.DescribeCapacityReservationsRequest(region_id=region, max_results=10)
        ),
        "ecs:DescribeElasticityAssurances": lambda: ecs.describe_elasticity_assurances(
            m.DescribeElasticityAssurancesRequest(region_id=region, max_results=10)
        ),
        "ecs:DescribeReservedInstances": lambda: ecs.describe_reserved_instances(
            m.DescribeReservedInstancesRequest(region_id=region, page_size=10)
        ),
        "vpc:DescribeVpcs": lambda: vpc("DescribeVpcs", {"PageSize": 10}),
        "vpc:DescribeVSwitches": lambda: vpc("DescribeVSwitches", {"PageSize": 10}),
        "vpc:DescribeEipAddresses": lambda: vpc("DescribeEipAddresses", {"PageSize": 10}),
        "vpc:CreateVpc": lambda: vpc("CreateVpc", {"CidrBlock": "10.42.0.0/16", "Tag": tags, "DryRun": True}),
    }
