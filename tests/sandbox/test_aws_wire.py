"""AWS's wire formats in the sandbox: signatures, queries, versions, and each service's own refusals."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import botocore.session
import pytest
import requests
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from gpucloud_sandbox.client import Endpoint
from tests.sandbox.running import HERE, client
from tests.sandbox.test_aws_launch import refused
from tests.waiting import PATIENCE_S

VERSION = "2016-11-15"


def credentials(endpoint: Endpoint, token: str | None = None) -> Credentials:
    environ = endpoint.environ
    return Credentials(environ["AWS_ACCESS_KEY_ID"], environ["AWS_SECRET_ACCESS_KEY"], token)


def sent(
    endpoint: Endpoint,
    values: Mapping[str, str],
    *,
    signer: type[SigV4Auth] = SigV4Auth,
    service: str = "ec2",
    region: str = "us-east-1",
    token: str | None = None,
    **headers: str,
) -> requests.Response:
    """A GET request with its parameters in the query, signed as asked."""
    claim = AWSRequest("GET", endpoint.endpoints["aws"] + "/", params=dict(values), headers=headers)
    signer(credentials(endpoint, token), service, region).add_auth(claim)
    prepared = claim.prepare()
    return requests.get(prepared.url, headers=dict(prepared.headers), timeout=PATIENCE_S)


@pytest.mark.parametrize("signer", [SigV4Auth, SigV4QueryAuth])
def test_ec2_answers_get_requests_signed_in_header_or_query(
    endpoint: Endpoint, signer: type[SigV4Auth]
) -> None:
    values = {
        "Action": "DescribeRegions",
        "Version": VERSION,
        "Filter.1.Name": "region-name",
        "Filter.1.Value.1": "eu-*",
    }
    answer = sent(endpoint, values, signer=signer)
    assert answer.status_code == 200, answer.text
    assert "<regionName>eu-west-1</regionName>" in answer.text
    assert "us-east-1</regionName>" not in answer.text


def test_a_presigned_request_is_good_for_its_time_and_as_it_was_signed(endpoint: Endpoint) -> None:
    ec2 = client(endpoint)
    url = ec2.generate_presigned_url("describe_regions", HttpMethod="GET", ExpiresIn=60)
    assert requests.get(url, timeout=PATIENCE_S).status_code == 200
    assert "SignatureDoesNotMatch" in requests.get(url + "&DryRun=true", timeout=PATIENCE_S).text
    expired = ec2.generate_presigned_url("describe_regions", HttpMethod="GET", ExpiresIn=-60)
    assert "RequestExpired" in requests.get(expired, timeout=PATIENCE_S).text


def test_the_headers_that_the_client_signed_are_verified_and_no_others(endpoint: Endpoint) -> None:
    class Everything(SigV4Auth):
        """Signs the user agent too, as some SDKs do."""

        def headers_to_sign(self, request: Any) -> Any:
            headers = super().headers_to_sign(request)
            headers["user-agent"] = request.headers["User-Agent"]
            return headers

    values = {"Action": "DescribeRegions", "Version": VERSION}
    answer = sent(endpoint, values, signer=Everything, **{"User-Agent": "other/1"})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"Version": "1999-01-01"}, "NoSuchVersion"),
        ({"Version": None}, "MissingParameter"),
        ({"region": "mars-north-1"}, "SignatureDoesNotMatch"),
        ({"token": "a-session-of-nobody"}, "AuthFailure"),
        ({"Action": "DescribeMoons"}, "InvalidAction"),
    ],
)
def test_what_does_not_exist_is_refused(endpoint: Endpoint, changes: dict[str, Any], code: str) -> None:
    how = {name: changes.pop(name) for name in ("region", "token") if name in changes}
    values = {"Action": "DescribeRegions", "Version": VERSION, **changes}
    answer = sent(endpoint, {name: value for name, value in values.items() if value is not None}, **how)
    assert answer.status_code >= 400
    assert f"<Code>{code}</Code>" in answer.text


@pytest.mark.parametrize(
    ("service", "call", "parameters"),
    [
        ("s3", "list_objects", {"Bucket": "bucket"}),
        ("autoscaling", "describe_auto_scaling_groups", {}),
        ("budgets", "describe_budgets", {"AccountId": "123456789012"}),
        ("lambda", "list_functions", {}),
        ("sqs", "list_queues", {}),
    ],
)
def test_a_service_that_is_not_emulated_refuses_in_its_own_protocol(
    endpoint: Endpoint, service: str, call: str, parameters: dict[str, Any]
) -> None:
    code, _ = refused(getattr(client(endpoint, service), call), **parameters)
    assert code == "UnsupportedOperation"


def test_each_protocol_names_an_unknown_key_in_its_own_way(endpoint: Endpoint) -> None:
    codes = {
        service: refused(getattr(client(endpoint, service, key="AKIANOBODY"), call))[0]
        for service, call in (
            ("ec2", "describe_regions"),
            ("sts", "get_caller_identity"),
            ("s3", "list_buckets"),
        )
    }
    assert codes == {"ec2": "AuthFailure", "sts": "InvalidClientTokenId", "s3": "InvalidAccessKeyId"}


def test_a_filter_of_ec2s_own_is_not_emulated_and_another_is_invalid(ec2: Any) -> None:
    model = botocore.session.get_session().get_service_model("ec2").operation_model("DescribeInstances")
    assert model.input_shape is not None
    assert "hypervisor" in str(model.input_shape.members["Filters"].documentation)
    own = [{"Name": "hypervisor", "Values": ["xen"]}]
    assert refused(ec2.describe_instances, Filters=own) == ("UnsupportedOperation", 400)
    others = [{"Name": "hyperviser", "Values": ["xen"]}]
    assert refused(ec2.describe_instances, Filters=others) == ("InvalidParameterValue", 400)


def test_addresses_of_a_subnet_are_counted(ec2: Any, group: str) -> None:
    from tests.sandbox.running import launch

    before = {each["SubnetId"]: each["AvailableIpAddressCount"] for each in ec2.describe_subnets()["Subnets"]}
    assert set(before.values()) == {4091}
    made = ec2.run_instances(**launch(group))["Instances"][0]
    after = {each["SubnetId"]: each["AvailableIpAddressCount"] for each in ec2.describe_subnets()["Subnets"]}
    assert after == {**before, made["SubnetId"]: 4090}


def test_types_say_what_their_disks_network_and_placement_can_do(ec2: Any) -> None:
    (found,) = ec2.describe_instance_types(InstanceTypes=["p5.48xlarge"])["InstanceTypes"]
    assert found["NetworkInfo"]["EfaInfo"] == {"MaximumEfaInterfaces": 32}
    assert found["EbsInfo"]["EbsOptimizedInfo"]["MaximumIops"] == 260000
    assert "cluster" in found["PlacementGroupInfo"]["SupportedStrategies"]


def test_egress_rules_are_those_that_were_set(ec2: Any, group: str) -> None:
    everything = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    some = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": [{"CidrIp": HERE}]}
    ec2.revoke_security_group_egress(GroupId=group, IpPermissions=[everything])
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=[some])
    (seen,) = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    assert [each["FromPort"] for each in seen["IpPermissionsEgress"]] == [443]
    gone = refused(ec2.revoke_security_group_egress, GroupId=group, IpPermissions=[everything])
    assert gone == ("InvalidPermission.NotFound", 400)
    twice = refused(ec2.authorize_security_group_egress, GroupId=group, IpPermissions=[some])
    assert twice == ("InvalidPermission.Duplicate", 400)


def test_the_clouds_clock_expires_no_presigned_request(endpoint: Endpoint) -> None:
    endpoint.client.clock(advance_s=timedelta(days=1).total_seconds())
    assert requests.get(
        client(endpoint).generate_presigned_url("describe_regions", HttpMethod="GET"), timeout=30
    ).ok


def test_a_call_without_an_answer_of_its_own_returns_true(ec2: Any, group: str, endpoint: Endpoint) -> None:
    """Apache Libcloud takes anything else for a failure."""
    tag = {"ResourceId.1": group, "Tag.1.Key": "of", "Tag.1.Value": "mine"}
    answer = sent(endpoint, {"Action": "CreateTags", "Version": VERSION, **tag})
    assert "<return>true</return>" in answer.text
