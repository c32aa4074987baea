"""Sessions of roles: who gets one, what it may do with every service, and when it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from gpucloud_sandbox.client import Endpoint
from tests.sandbox.running import client
from tests.sandbox.test_aws_launch import refused

ACCOUNT = "123456789012"
ROOT = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
READS = {"Effect": "Allow", "Action": ["ec2:Describe*", "iam:List*", "ssm:Get*"], "Resource": "*"}


def trust(principal: Any = ROOT, **more: Any) -> str:
    statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole", **more}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


@pytest.fixture
def iam(endpoint: Endpoint) -> Iterator[Any]:
    """IAM of the sandbox; moto keeps its state as long as the process lives, so that roles are deleted."""
    found = client(endpoint, "iam")
    yield found
    for role in found.list_roles()["Roles"]:
        for name in found.list_role_policies(RoleName=role["RoleName"])["PolicyNames"]:
            found.delete_role_policy(RoleName=role["RoleName"], PolicyName=name)
        found.delete_role(RoleName=role["RoleName"])


def make_role(iam: Any, document: str, *allowed: dict[str, Any], name: str = "r", **more: Any) -> str:
    arn: str = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document, **more)["Role"]["Arn"]
    if allowed:
        iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=policy(*allowed))
    return arn


def assume(sts: Any, role: str, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = sts.assume_role(RoleArn=role, RoleSessionName="s1", **more)
    return answer


def as_session(endpoint: Endpoint, answer: dict[str, Any], service: str, **changes: Any) -> Any:
    keys = {**answer["Credentials"], **changes}
    return boto3.client(
        service,  # type: ignore[call-overload]
        region_name="us-east-1",
        endpoint_url=endpoint.endpoints["aws"],
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
        config=Config(retries={"total_max_attempts": 1, "mode": "standard"}),
    )


def test_a_session_is_someone_else_to_every_service(endpoint: Endpoint, iam: Any) -> None:
    role = make_role(iam, trust(), READS)
    answer = assume(client(endpoint, "sts"), role)
    assert answer["AssumedRoleUser"]["Arn"] == f"arn:aws:sts::{ACCOUNT}:assumed-role/r/s1"
    told = as_session(endpoint, answer, "sts").get_caller_identity()
    assert told["Arn"] == answer["AssumedRoleUser"]["Arn"]
    assert told["UserId"] == answer["AssumedRoleUser"]["AssumedRoleId"]
    assert as_session(endpoint, answer, "ec2").describe_regions()["Regions"]
    assert as_session(endpoint, answer, "iam").list_roles()["Roles"]
    assert as_session(endpoint, answer, "ssm").get_parameters(Names=["/none"])["InvalidParameters"]
    quotas = as_session(endpoint, answer, "service-quotas").list_service_quotas
    assert refused(quotas, ServiceCode="ec2") == ("AccessDeniedException", 400)
    assert refused(as_session(endpoint, answer, "iam").delete_role, RoleName="r") == ("AccessDenied", 403)
    group = as_session(endpoint, answer, "ec2").create_security_group
    assert refused(group, GroupName="g", Description="d") == ("UnauthorizedOperation", 403)


def test_a_session_policy_narrows_and_never_widens(endpoint: Endpoint, iam: Any) -> None:
    role, sts = make_role(iam, trust(), READS), client(endpoint, "sts")
    one = policy({"Effect": "Allow", "Action": ["ec2:DescribeRegions", "ec2:CreateVpc"], "Resource": "*"})
    answer = assume(sts, role, Policy=one)
    assert answer["PackedPolicySize"] > 0
    ec2 = as_session(endpoint, answer, "ec2")
    assert ec2.describe_regions()["Regions"]
    assert refused(ec2.describe_images)[0] == "UnauthorizedOperation", "the role alone allows it"
    assert refused(as_session(endpoint, answer, "iam").list_roles)[0] == "AccessDenied"
    nothing = as_session(endpoint, assume(sts, make_role(iam, trust(), name="bare")), "ec2")
    assert refused(nothing.describe_regions)[0] == "UnauthorizedOperation", "a role without a policy"
    assert refused(sts.assume_role, RoleArn=role, RoleSessionName="s1", Policy="{") == (
        "MalformedPolicyDocument",
        400,
    )


def test_a_managed_policy_of_the_role_counts(endpoint: Endpoint, iam: Any) -> None:
    role = make_role(iam, trust())
    managed = iam.create_policy(PolicyName="reads", PolicyDocument=policy(READS))["Policy"]["Arn"]
    iam.attach_role_policy(RoleName="r", PolicyArn=managed)
    ec2 = as_session(endpoint, assume(client(endpoint, "sts"), role), "ec2")
    assert ec2.describe_regions()["Regions"]
    iam.detach_role_policy(RoleName="r", PolicyArn=managed)
    iam.delete_policy(PolicyArn=managed)
    assert refused(ec2.describe_regions) == ("UnauthorizedOperation", 403), "IAM decides at each call"


TRUSTS: list[tuple[Any, dict[str, Any], bool]] = [
    (ROOT, {}, True),
    ({"AWS": ACCOUNT}, {}, True),
    ({"AWS": [f"arn:aws:iam::{ACCOUNT}:user/sandbox"]}, {}, True),
    ({"AWS": f"arn:aws:iam::{ACCOUNT}:user/other"}, {}, False),
    ({"Service": "ec2.amazonaws.com"}, {}, False),
    (ROOT, {"Effect": "Deny"}, False),
    (ROOT, {"Action": "sts:TagSession"}, False),
    (ROOT, {"Condition": {"StringEquals": {"sts:ExternalId": "agreed"}}}, False),
]


@pytest.mark.parametrize(("principal", "more", "trusted"), TRUSTS, ids=str)
def test_the_trust_policy_decides(
    endpoint: Endpoint, iam: Any, principal: Any, more: dict[str, Any], trusted: bool
) -> None:
    role, sts = make_role(iam, trust(principal, **more)), client(endpoint, "sts")
    if trusted:
        assert assume(sts, role)["Credentials"]["SessionToken"]
    else:
        assert refused(sts.assume_role, RoleArn=role, RoleSessionName="s1") == ("AccessDenied", 403)


def test_an_external_id_is_asked_for(endpoint: Endpoint, iam: Any) -> None:
    condition = {"StringEquals": {"sts:ExternalId": "agreed"}}
    role, sts = make_role(iam, trust(Condition=condition)), client(endpoint, "sts")
    other = {"RoleArn": role, "RoleSessionName": "s1", "ExternalId": "another"}
    assert refused(sts.assume_role, **other) == ("AccessDenied", 403)
    assert assume(sts, role, ExternalId="agreed")["Credentials"]


def test_a_role_that_does_not_exist_or_belongs_to_others_is_refused(endpoint: Endpoint, iam: Any) -> None:
    sts = client(endpoint, "sts")
    for role in (f"arn:aws:iam::{ACCOUNT}:role/none", "arn:aws:iam::210987654321:role/theirs"):
        assert refused(sts.assume_role, RoleArn=role, RoleSessionName="s1") == ("AccessDenied", 403)
    malformed = {"RoleArn": "arn:aws:s3:::no-role-at-all", "RoleSessionName": "s1"}
    assert refused(sts.assume_role, **malformed) == ("ValidationError", 400)
    role = make_role(iam, trust())
    named = refused(sts.assume_role, RoleArn=role, RoleSessionName="with blanks in it")
    assert named == ("ValidationError", 400)


def test_durations_have_limits(endpoint: Endpoint, iam: Any) -> None:
    sts = client(endpoint, "sts", validated=False)
    assuming = {"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}
    role = make_role(iam, trust(), assuming, MaxSessionDuration=7200)
    asked = {"RoleArn": role, "RoleSessionName": "s1"}
    assert refused(sts.assume_role, **asked, DurationSeconds=899) == ("ValidationError", 400)
    assert refused(sts.assume_role, **asked, DurationSeconds=7201) == ("ValidationError", 400)
    chained = as_session(endpoint, assume(sts, role, DurationSeconds=7200), "sts")
    assert refused(chained.assume_role, **asked, DurationSeconds=3601) == ("ValidationError", 400)
    assert assume(chained, role, DurationSeconds=3600)["Credentials"]


def test_a_key_ends_by_the_clouds_clock_in_each_services_words(endpoint: Endpoint, iam: Any) -> None:
    answer = assume(client(endpoint, "sts"), make_role(iam, trust(), READS), DurationSeconds=900)
    calls = {
        "ec2": "describe_regions",
        "sts": "get_caller_identity",
        "iam": "list_roles",
        "service-quotas": "list_service_quotas",
        "s3": "list_buckets",
    }
    endpoint.client.clock(advance_s=890)
    assert as_session(endpoint, answer, "ec2").describe_regions()["Regions"]
    endpoint.client.clock(advance_s=20)
    codes = {}
    for service, call in calls.items():
        asked = {"ServiceCode": "ec2"} if service == "service-quotas" else {}
        codes[service] = refused(getattr(as_session(endpoint, answer, service), call), **asked)
    assert codes == {
        "ec2": ("RequestExpired", 400),
        "sts": ("ExpiredToken", 403),
        "iam": ("ExpiredToken", 403),
        "service-quotas": ("ExpiredTokenException", 400),
        "s3": ("ExpiredToken", 400),
    }


def test_a_key_is_nothing_without_its_token(endpoint: Endpoint, iam: Any) -> None:
    answer = assume(client(endpoint, "sts"), make_role(iam, trust(), READS))
    for token, code in ((None, "InvalidAccessKeyId"), ("another", "InvalidToken")):
        listing = as_session(endpoint, answer, "s3", SessionToken=token).list_buckets
        assert refused(listing)[0] == code
    without = as_session(endpoint, answer, "ec2", SessionToken=None)
    assert refused(without.describe_regions) == ("AuthFailure", 401)
