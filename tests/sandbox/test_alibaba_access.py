"""Who may ask the emulated Alibaba Cloud, in which words, and what is said to the others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest

from tests.sandbox.alibaba_lab import REGION, TAG, Alibaba, Signed, Wire


def code(answer: Wire) -> tuple[str, int]:
    return answer.body["Code"], answer.status


# --- signatures


def test_both_signature_versions_are_taken(alibaba: Alibaba) -> None:
    for answer in (Signed(alibaba).third(), Signed(alibaba).first(), Signed(alibaba).first("POST")):
        assert (answer.status, answer.body["TotalCount"]) == (200, 0)


def test_what_was_changed_after_signing_is_refused(alibaba: Alibaba) -> None:
    mismatch = ("SignatureDoesNotMatch", 400)
    assert code(Signed(alibaba).third(x_acs_action="DescribeDisks")) == mismatch
    assert code(Signed(alibaba).third(x_acs_signature_nonce="another")) == mismatch
    assert code(Signed(alibaba).first(RegionId="eu-central-1")) == mismatch
    assert code(Signed(alibaba).first(Signature="")) == ("MissingSignature", 400)


@pytest.mark.parametrize("header", ["host", "x-acs-action", "x-acs-date", "x-acs-signature-nonce"])
def test_what_matters_has_to_be_signed(alibaba: Alibaba, header: str) -> None:
    assert code(Signed(alibaba).third(leave_out=header)) == ("IncompleteSignature", 400)


def test_a_signature_of_another_form_is_refused(alibaba: Alibaba) -> None:
    assert code(Signed(alibaba).third(Authorization="Bearer x")) == ("IncompleteSignature", 400)
    assert code(Signed(alibaba).third(x_acs_content_sha256="0" * 64))[0] == "InvalidContentSha256"


def test_keys_and_secrets_have_to_be_the_accounts(alibaba: Alibaba) -> None:
    def refused(**changes: str) -> tuple[str, int]:
        return alibaba.refused("DescribeRegions", client=alibaba.client(**changes))

    assert refused(access_key_id="LTAI-nobody") == ("InvalidAccessKeyId.NotFound", 404)
    assert refused(access_key_secret="wrong") == ("SignatureDoesNotMatch", 400)
    assert refused(security_token="made-up") == ("InvalidSecurityToken.Malformed", 400)


def test_a_request_counts_once(alibaba: Alibaba) -> None:
    request = Signed(alibaba)
    assert request.third().status == 200
    assert code(request.third()) == ("SignatureNonceUsed", 400)
    assert code(request.first()) == ("SignatureNonceUsed", 400)
    assert code(Signed(alibaba, nonce="").first()) == ("MissingSignatureNonce", 400)


@pytest.mark.parametrize("minutes", [-16, 16])
def test_a_callers_clock_may_be_a_quarter_of_an_hour_off(alibaba: Alibaba, minutes: int) -> None:
    def at(off: float) -> Signed:
        return Signed(alibaba, moment=datetime.now(UTC) + timedelta(minutes=off))

    for wrong in (at(minutes).third(), at(minutes).first()):
        assert code(wrong) == ("InvalidTimeStamp.Expired", 400)
    assert at(minutes * 14 / 16).third().status == 200
    assert code(at(0).first(Timestamp="yesterday"))[0] == "SignatureDoesNotMatch"


def test_callers_do_not_travel_along_with_the_clouds_time(alibaba: Alibaba) -> None:
    alibaba.sandbox.clock(advance_s=7200)
    assert alibaba.instances() == []


def test_temporary_credentials_end(alibaba: Alibaba) -> None:
    until = datetime.now(UTC) + timedelta(days=30)
    given = alibaba.sandbox.cloud("alibaba", "expire", until=until.isoformat())
    parts = {"access_key_id": given["key"], "access_key_secret": given["secret"]}
    client = alibaba.client(**parts, security_token=given["token"])
    assert alibaba.ask("GetCallerIdentity", "sts", client=client)["AccountId"]
    assert alibaba.refused("GetCallerIdentity", "sts", client=alibaba.client(**parts)) == (
        "InvalidSecurityToken.Malformed",
        400,
    )
    past = datetime.now(UTC) - timedelta(days=1)
    ended = alibaba.sandbox.cloud("alibaba", "expire", until=past.isoformat())
    client = alibaba.client(**parts, security_token=ended["token"])
    assert alibaba.refused("GetCallerIdentity", "sts", client=client) == ("InvalidSecurityToken.Expired", 400)


# --- calls


def test_a_refusal_has_the_clouds_form(alibaba: Alibaba) -> None:
    answer = Signed(alibaba, "DescribeInstanceAttribute", parameters={"InstanceId": "i-0"}).third()
    assert (answer.status, answer.body["Code"]) == (404, "InvalidInstanceId.NotFound")
    assert set(answer.body) == {"Code", "HostId", "Message", "Recommend", "RequestId"}
    assert answer.headers["x-acs-request-id"] == answer.body["RequestId"]


def test_unknown_calls_regions_and_versions_are_refused(alibaba: Alibaba) -> None:
    assert alibaba.refused("DescribeNothing") == ("InvalidAction.NotFound", 404)
    assert alibaba.refused("DescribeVpcs", "sts") == ("InvalidAction.NotFound", 404)
    assert alibaba.refused("DescribeInstances", RegionId="mars-1") == ("InvalidRegionId.NotFound", 404)


def test_what_is_not_emulated_says_so(alibaba: Alibaba) -> None:
    assert alibaba.refused("ReplaceSystemDisk", InstanceId="i-0") == ("UnsupportedOperation", 400)


@pytest.mark.parametrize(
    ("action", "product", "parameters", "wanted"),
    [
        ("DescribeInstances", "ecs", {"InstanceIDs": "[]"}, "UnsupportedOperation"),
        ("DescribeInstances", "ecs", {"Tag.Key": "a"}, "InvalidParameter.Tag.Key"),
        ("DescribeInstanceStatus", "ecs", {"InstanceId": "i-0"}, "InvalidParameter.InstanceId"),
        ("DescribeInstances", "ecs", {"PageSize": "ten"}, "InvalidParameter.PageSize"),
        ("DescribeInstances", "ecs", {"InstanceIds": "i-0"}, "InvalidParameter"),
        ("DescribeInstances", "ecs", {"DryRun": "perhaps"}, "InvalidParameter.DryRun"),
        ("DescribeInstanceAttribute", "ecs", {}, "MissingParameter"),
        ("DeleteVpc", "vpc", {}, "MissingParameter.VpcId"),
        ("RunInstances", "ecs", {"SystemDisk": {"Colour": "red"}}, "UnsupportedOperation"),
        (
            "RunInstances",
            "ecs",
            {"SystemDisk": {"Encrypted": "very"}},
            "InvalidParameter.SystemDisk.Encrypted",
        ),
        (
            "AuthorizeSecurityGroup",
            "ecs",
            {"SecurityGroupId": "sg-0", "Permissions": [{"Port": "22"}]},
            "UnsupportedOperation",
        ),
    ],
)
def test_parameters_are_known_typed_and_complete(
    alibaba: Alibaba, action: str, product: str, parameters: dict[str, Any], wanted: str
) -> None:
    assert alibaba.refused(action, product, **parameters)[0] == wanted


def test_lists_come_in_pages_by_number_and_by_token(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    ids = {alibaba.launch(network) for _ in range(3)}
    pages = [alibaba.ask("DescribeInstances", PageNumber=number, PageSize=2) for number in (1, 2, 3)]
    assert [len(page["Instances"]["Instance"]) for page in pages] == [2, 1, 0]
    assert {page["TotalCount"] for page in pages} == {3}

    seen: set[str] = set()
    token = ""
    for _ in range(2):
        page = alibaba.ask("DescribeInstances", MaxResults=2, NextToken=token)
        seen |= {each["InstanceId"] for each in page["Instances"]["Instance"]}
        token = page["NextToken"]
    assert (seen, token) == (ids, "")


def test_too_many_calls_and_broken_servers_are_told_as_the_cloud_does(alibaba: Alibaba) -> None:
    alibaba.sandbox.fault(cloud="alibaba", effect="throttle", action="DescribeRegions", times=1)
    assert alibaba.refused("DescribeRegions") == ("Throttling.User", 400)
    fault = {"code": "ServiceUnavailable", "status": 503, "times": 1}
    alibaba.sandbox.fault(cloud="alibaba", effect="error", action="DescribeRegions", **fault)
    assert alibaba.refused("DescribeRegions") == ("ServiceUnavailable", 503)
    assert alibaba.ask("DescribeRegions")["Regions"]["Region"]


@pytest.mark.parametrize("form", ["XML", None])
def test_the_older_signature_is_answered_in_xml_unless_it_asks_for_json(
    alibaba: Alibaba, form: str | None
) -> None:
    ids = {alibaba.launch() for _ in range(2)}
    answer = Signed(alibaba).first(form=form)
    assert (answer.status, answer.body.tag) == (200, "DescribeInstancesResponse")
    assert {each.findtext("InstanceId") for each in answer.body.findall("Instances/Instance")} == ids
    assert answer.body.findtext("Instances/Instance/IoOptimized") == "true"
    refused = Signed(alibaba, "DeleteDisk", parameters={"DiskId": "d-0"}).first(form=form)
    assert (refused.status, refused.body.tag) == (404, "Error")
    assert refused.body.findtext("Code") == "InvalidDiskId.NotFound"
    assert refused.body.findtext("RequestId") == refused.headers["x-acs-request-id"]
    alibaba.sandbox.fault(cloud="alibaba", effect="throttle", action="DescribeInstances", times=1)
    assert Signed(alibaba).first(form=form).body.findtext("Code") == "Throttling.User"


def test_a_version_that_no_product_has_is_refused(alibaba: Alibaba) -> None:
    answer = Signed(alibaba, product="2010-01-01").first()
    assert code(answer) == ("InvalidVersion", 400)


def test_what_is_named_by_its_id_is_found_in_whichever_region_it_is(alibaba: Alibaba) -> None:
    id_ = alibaba.launch()
    assert alibaba.ask("DescribeInstanceAttribute", RegionId=None, InstanceId=id_)["RegionId"] == REGION
    assert alibaba.refused("DeleteInstance", RegionId=None, InstanceId=id_)[0] == "IncorrectInstanceStatus"
    alibaba.ask("StopInstance", RegionId=None, InstanceId=id_)
    alibaba.ask("DeleteInstance", RegionId=None, InstanceId=id_)
    assert alibaba.billed() == []
    assert alibaba.refused("StopInstance", RegionId=None, InstanceId=id_)[0] == "InvalidInstanceId.NotFound"


# --- permissions


def test_what_ram_does_not_allow_is_refused_but_some_lists_are_only_empty(alibaba: Alibaba) -> None:
    alibaba.launch()
    alibaba.sandbox.cloud("alibaba", "deny", actions=["ecs:Describe*"])
    assert alibaba.refused("DescribeDisks") == ("Forbidden.RAM", 403)
    assert alibaba.instances() == []
    assert alibaba.refused("DescribeInstances", DryRun=True) == ("Forbidden.RAM", 403)
    alibaba.sandbox.cloud("alibaba", "deny", actions=[])
    assert len(alibaba.instances()) == 1
    assert alibaba.refused("DescribeInstances", DryRun=True)[0] == "DryRunOperation"


def test_a_policy_looks_at_tags(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    theirs = alibaba.ask("CreateSecurityGroup", VpcId=network.vpc)["SecurityGroupId"]
    owned = {"StringLike": {"acs:ResourceTag/gpucloud:owner": "?*"}}
    statement = {"Effect": "Allow", "Action": "ecs:DeleteSecurityGroup", "Resource": "*", "Condition": owned}
    alibaba.sandbox.cloud("alibaba", "policy", document={"Version": "1", "Statement": [statement]})
    assert alibaba.refused("DeleteSecurityGroup", SecurityGroupId=theirs) == ("Forbidden.RAM", 403)
    assert alibaba.refused("DescribeSecurityGroups") == ("Forbidden.RAM", 403)
    assert alibaba.ask("DeleteSecurityGroup", SecurityGroupId=network.group)["RequestId"]


@pytest.mark.parametrize(
    "action", ["PurchaseReservedInstancesOffering", "CreateCapacityReservation", "RenewInstance"]
)
def test_no_purchase_can_be_made(alibaba: Alibaba, action: str) -> None:
    answer = Signed(alibaba, action, parameters={"RegionId": REGION}).third()
    assert code(answer) == ("Forbidden.RAM", 403)
    assert "commits to pay" in answer.body["Message"]


def test_the_typed_client_of_the_vendor_is_served_too(alibaba: Alibaba) -> None:
    models: Any = import_module("alibabacloud_vpc20160428.models")
    client: Any = import_module("alibabacloud_vpc20160428.client").Client(alibaba.settings())
    network = alibaba.make_network()
    [vpc] = client.describe_vpcs(models.DescribeVpcsRequest(region_id=REGION)).body.vpcs.vpc
    assert (vpc.vpc_id, vpc.tags.tag[0].key) == (network.vpc, TAG[0]["Key"])
