"""Checks whether gpucloud works with these credentials: identity, permissions, clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.resources import files
from typing import Any

from gpucloud.clouds.abilities import Checkup, NetworkCheck
from gpucloud.clouds.kit import in_threads
from gpucloud.errors import ErrorClass
from gpucloud.resources import Identity, Permission, Tags
from gpucloud_aws.account import AwsAccount
from gpucloud_aws.clients import READ_ATTEMPTS, Clients
from gpucloud_aws.errors import MalformedAnswerError, classify, reading
from gpucloud_aws.network import Subnets

THREADS = 8
DRY_RUN_PASSED = "DryRunOperation"
CREDENTIALS_HINT = "aws configure sso, or aws configure; or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
FIX = (
    "grant it: aws iam put-user-policy --user-name USER --policy-name gpucloud "
    '--policy-document "$(gpucloud check --policy aws)"'
)
_NOBODY = Tags(owner="check", box="check", op="check", run="", expires="none").as_dict()


def policy() -> str:
    """The least privileges, in IAM's JSON."""
    return files("gpucloud_aws").joinpath("policy.json").read_text(encoding="utf-8")


class AwsCheckup(Checkup, NetworkCheck):
    """The credentials of the account."""

    def __init__(self, account: AwsAccount) -> None:
        self._account = account

    @property
    def credentials_hint(self) -> str:
        """How to get credentials."""
        return CREDENTIALS_HINT

    @property
    def policy(self) -> str:
        """The least privileges, in IAM's JSON."""
        return policy()

    def identity(self) -> Identity:
        """The identity of the credentials, and where the SDK found them."""
        clients = self._account.clients
        with reading("GetCallerIdentity"):
            answer = clients.sts().get_caller_identity()
            return Identity(account=answer["Account"], who=answer["Arn"], source=clients.credentials_source())

    def permissions(self, region: str, /) -> Sequence[Permission]:
        """Each action that can be tried without effect: reads, and changes as dry runs."""
        return in_threads(_tried, _tries(self._account.clients, region).items(), threads=THREADS)

    def network(self, region: str, /) -> str:
        """Which subnets a launch in a region would use.

        Raises:
            NoNetworkError: there is none.
            ClosedSubnetError: nobody would reach a box in any of them.
        """
        with reading("DescribeSubnets"):
            return Subnets(self._account).check(region)

    def server_time(self) -> datetime:
        """The ``Date`` of an answer. A refusal has one too, as of a request that a wrong clock signed.

        Raises:
            MalformedAnswerError: the answer has none.
        """
        from botocore.exceptions import ClientError

        with reading("GetCallerIdentity"):
            try:
                answer: Mapping[str, Any] = self._account.clients.sts().get_caller_identity()
            except ClientError as refusal:
                answer = refusal.response
            headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        if "date" not in headers:
            raise MalformedAnswerError("the answer to GetCallerIdentity has no Date")
        return parsedate_to_datetime(headers["date"]).astimezone(UTC)


def _tried(item: tuple[str, Callable[[], object]]) -> Permission:
    action, attempt = item
    try:
        attempt()
    except Exception as error:
        if _dry_run_passed(error):
            return Permission(action=action, allowed=True, said=DRY_RUN_PASSED, fix="")
        verdict = classify(error)
        if verdict is None:
            raise
        said = f"{verdict.code}: {verdict.message}"
        if verdict.error_class is ErrorClass.AUTH:
            return Permission(action=action, allowed=False, said=said, fix=FIX)
        # An error about the parameters proves nothing about the permission.
        return Permission(action=action, allowed=None, said=said, fix="")
    return Permission(action=action, allowed=True, said="", fix="")


def _dry_run_passed(error: Exception) -> bool:
    """Whether an error means that the dry run passed: EC2 reports that as an error."""
    response: Mapping[str, Any] = getattr(error, "response", {})
    return bool(response.get("Error", {}).get("Code") == DRY_RUN_PASSED)


def _tries(clients: Clients, region: str) -> Mapping[str, Callable[[], object]]:
    """The actions, each with a call without effect: dry runs of changes name resources that do not exist.

    Deletions are not tried: the policy allows them by a resource's tags only, so they are refused for one
    that does not exist.
    """
    ec2: Any = clients.ec2_once(region)
    plans: Any = clients.client("savingsplans", "us-east-1", attempts=READ_ATTEMPTS)
    quotas: Any = clients.client("service-quotas", region, attempts=READ_ATTEMPTS)
    tags = [{"Key": key, "Value": value} for key, value in _NOBODY.items()]
    kinds = ("instance", "volume", "network-interface")

    def dry(operation: str, **parameters: Any) -> Callable[[], object]:
        return lambda: getattr(ec2, operation)(DryRun=True, **parameters)

    return {
        "ec2:RunInstances": dry(
            "run_instances",
            ImageId="ami-00000000000000000",
            InstanceType="g4dn.xlarge",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[{"ResourceType": kind, "Tags": tags} for kind in kinds],
        ),
        "ec2:CreateSecurityGroup": dry(
            "create_security_group",
            GroupName="gpucloud-check",
            Description="dry run",
            TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
        ),
        "ec2:DescribeInstances": dry("describe_instances"),
        "ec2:DescribeVolumes": dry("describe_volumes"),
        "ec2:DescribeNetworkInterfaces": dry("describe_network_interfaces"),
        "ec2:DescribeSecurityGroups": dry("describe_security_groups"),
        "ec2:DescribeSpotInstanceRequests": dry("describe_spot_instance_requests"),
        "ec2:DescribeAddresses": dry("describe_addresses"),
        "ec2:DescribeSubnets": dry("describe_subnets"),
        "ec2:DescribeImages": dry("describe_images", Owners=["self"]),
        "ec2:DescribeRegions": dry("describe_regions"),
        "ec2:DescribeAvailabilityZones": dry("describe_availability_zones"),
        "ec2:DescribeCapacityBlockOfferings": dry(
            "describe_capacity_block_offerings", CapacityDurationHours=24
        ),
        "ec2:DescribeCapacityReservations": dry("describe_capacity_reservations"),
        "ec2:DescribeReservedInstances": dry("describe_reserved_instances"),
        "ec2:DescribeInstanceTypeOfferings": dry("describe_instance_type_offerings"),
        "ec2:DescribeInstanceTypes": dry("describe_instance_types"),
        "ec2:DescribePlacementGroups": dry("describe_placement_groups"),
        "ec2:DescribeSpotPriceHistory": dry("describe_spot_price_history"),
        "savingsplans:DescribeSavingsPlans": lambda: plans.describe_savings_plans(maxResults=1),
        "servicequotas:GetServiceQuota": lambda: quotas.get_service_quota(
            ServiceCode="ec2", QuotaCode="L-DB2E81BA"
        ),
    }
