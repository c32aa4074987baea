"""The calls that gpucloud may send to AWS, and whether each may be repeated.

Every request is checked against the table just before it is sent, so that a call that is not in it, above all
a purchase, cannot be sent even by mistake.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from gpucloud.clouds.fetch import is_trusted
from gpucloud_aws.errors import ActionRefusedError, MalformedAnswerError


class Repeat(StrEnum):
    """Why a call may be repeated. No call is used that must never be repeated."""

    SAFE = "safe"  # changes nothing
    TOKEN = "token"  # the cloud recognises the repetition by its ClientToken  # noqa: S105
    BY_NAME = "by-name"  # a second call on the same name or id finds the work done
    BY_TAG = "by-tag"  # what an earlier call made is looked up by its tags before


ACTIONS: dict[tuple[str, str], Repeat] = {
    ("ec2", "DescribeAddresses"): Repeat.SAFE,
    ("ec2", "DescribeAvailabilityZones"): Repeat.SAFE,
    ("ec2", "DescribeCapacityBlockOfferings"): Repeat.SAFE,
    ("ec2", "DescribeCapacityReservations"): Repeat.SAFE,
    ("ec2", "DescribeImages"): Repeat.SAFE,
    ("ec2", "DescribeInstanceTypeOfferings"): Repeat.SAFE,
    ("ec2", "DescribeInstanceTypes"): Repeat.SAFE,
    ("ec2", "DescribeInstances"): Repeat.SAFE,
    ("ec2", "DescribeNetworkInterfaces"): Repeat.SAFE,
    ("ec2", "DescribePlacementGroups"): Repeat.SAFE,
    ("ec2", "DescribeRegions"): Repeat.SAFE,
    ("ec2", "DescribeReservedInstances"): Repeat.SAFE,
    ("ec2", "DescribeRouteTables"): Repeat.SAFE,
    ("ec2", "DescribeSecurityGroups"): Repeat.SAFE,
    ("ec2", "DescribeSpotInstanceRequests"): Repeat.SAFE,
    ("ec2", "DescribeSpotPriceHistory"): Repeat.SAFE,
    ("ec2", "DescribeSubnets"): Repeat.SAFE,
    ("ec2", "DescribeVolumes"): Repeat.SAFE,
    ("ec2", "DescribeSnapshots"): Repeat.SAFE,
    ("ec2", "GetConsoleOutput"): Repeat.SAFE,
    ("pricing", "GetProducts"): Repeat.SAFE,
    ("savingsplans", "DescribeSavingsPlans"): Repeat.SAFE,
    ("savingsplans", "DescribeSavingsPlansOfferingRates"): Repeat.SAFE,
    ("service-quotas", "GetServiceQuota"): Repeat.SAFE,
    ("s3", "GetBucketLocation"): Repeat.SAFE,
    ("s3", "GetObject"): Repeat.SAFE,
    ("s3", "ListObjectsV2"): Repeat.SAFE,
    ("sts", "AssumeRole"): Repeat.SAFE,
    ("sts", "GetCallerIdentity"): Repeat.SAFE,
    ("sts", "GetFederationToken"): Repeat.SAFE,
    ("scheduler", "GetSchedule"): Repeat.SAFE,
    ("ec2", "CreateVolume"): Repeat.TOKEN,
    ("ec2", "RunInstances"): Repeat.TOKEN,
    ("scheduler", "CreateSchedule"): Repeat.TOKEN,
    ("ec2", "AssociateAddress"): Repeat.BY_NAME,
    ("ec2", "AttachVolume"): Repeat.BY_NAME,
    ("ec2", "AuthorizeSecurityGroupEgress"): Repeat.BY_NAME,
    ("ec2", "AuthorizeSecurityGroupIngress"): Repeat.BY_NAME,
    ("ec2", "CancelSpotInstanceRequests"): Repeat.BY_NAME,
    ("ec2", "CreatePlacementGroup"): Repeat.BY_NAME,
    ("ec2", "CreateSecurityGroup"): Repeat.BY_NAME,
    ("ec2", "CreateTags"): Repeat.BY_NAME,
    ("ec2", "DeleteNetworkInterface"): Repeat.BY_NAME,
    ("ec2", "DeletePlacementGroup"): Repeat.BY_NAME,
    ("ec2", "DeleteSecurityGroup"): Repeat.BY_NAME,
    ("ec2", "DeleteVolume"): Repeat.BY_NAME,
    ("ec2", "AllocateAddress"): Repeat.BY_TAG,
    ("ec2", "CreateImage"): Repeat.BY_TAG,
    ("ec2", "CreateSnapshot"): Repeat.BY_TAG,
    ("ec2", "DeleteSnapshot"): Repeat.BY_NAME,
    ("ec2", "DeregisterImage"): Repeat.BY_NAME,
    ("ec2", "ReleaseAddress"): Repeat.BY_NAME,
    ("ec2", "RevokeSecurityGroupIngress"): Repeat.BY_NAME,
    ("ec2", "StartInstances"): Repeat.BY_NAME,
    ("ec2", "StopInstances"): Repeat.BY_NAME,
    ("ec2", "TerminateInstances"): Repeat.BY_NAME,
    ("s3", "DeleteObject"): Repeat.BY_NAME,
    ("s3", "PutObject"): Repeat.BY_NAME,
    ("scheduler", "DeleteSchedule"): Repeat.BY_NAME,
    ("scheduler", "UpdateSchedule"): Repeat.BY_NAME,
}


def refuse_nonsense(*, http_response: Any, parsed: Any, model: Any, **_: Any) -> None:
    """Handler of botocore's ``after-call`` event.

    Raises:
        MalformedAnswerError: a successful answer has none of its members. Deletions, whose answers are empty,
            are not checked.
    """
    members: Any = model.output_shape.members if model.output_shape is not None else {}
    empty = not any(name in parsed for name in members)
    if http_response.status_code < 300 and members and empty and not model.name.startswith(_SILENT):
        raise MalformedAnswerError(f"the answer to {model.name} is malformed")


_SILENT = ("Authorize", "CreateTags", "Delete", "Release", "Revoke")


def refuse_unlisted(*, event_name: str, request: Any, **_: Any) -> None:
    """Handler of botocore's ``before-send`` event, the last one before the wire.

    Args:
        event_name: ``before-send.<service>.<operation>``.
        request: botocore's ``AWSPreparedRequest``.

    Raises:
        ActionRefusedError: the call is not on the list, or would go without TLS to another machine.
    """
    service, operation = event_name.split(".")[1:3]
    if (service, operation) not in ACTIONS:
        raise ActionRefusedError(
            f"{service}:{operation} is not among the calls that gpucloud may send, and was not sent"
        )
    url = str(request.url)
    if not is_trusted(url):
        raise ActionRefusedError(f"{service}:{operation} was not sent: {url} does not use TLS")
