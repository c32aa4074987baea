"""Alibaba Cloud's older SDK, with its older signature, sees what gpucloud launched, and takes it down."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

from tests.fidelity.clients import CLIENTS, SCRIPTS
from tests.shell import Result, Shell

LAUNCH = ("--gpu", "T4", "--cloud", "alibaba", "--region", "us-east-1", "--name", "x")


def attempt(
    cli: Shell, action: str, members: dict[str, Any], form: str = "json", **environment: str
) -> Result:
    """How a call ends."""
    script = (SCRIPTS / "aliyun.py", action, json.dumps(members), form)
    return cli.run(CLIENTS / "python", *script, **environment)


def ask(cli: Shell, action: str, **members: Any) -> Any:
    """What a call that succeeds says."""
    ran = attempt(cli, action, members)
    assert ran.code == 0, ran.out + ran.err
    return ran.json


def answer(cli: Shell, action: str, **members: Any) -> ElementTree.Element:
    """What a call says in XML."""
    ran = attempt(cli, action, members, "xml")
    said = ElementTree.fromstring(ran.out)  # noqa: S314
    assert said.tag == f"{action}Response", ran.out
    return said


def test_smoke_lists_and_shows_what_gpucloud_launched(cli: Shell) -> None:
    box = cli.launch(*LAUNCH)
    [node] = box["nodes"]
    of_the_box = [{"Key": "gpucloud:box", "Value": box["id"]}]
    [instance] = ask(cli, "DescribeInstances", Tags=of_the_box)["Instances"]["Instance"]
    assert instance["InstanceId"] == node["instance_id"]
    assert instance["PublicIpAddress"]["IpAddress"] == [node["public_ip"]]
    assert (instance["Status"], instance["InstanceChargeType"]) == ("Running", "PostPaid")
    assert ask(cli, "DescribeInstances", Tags=[{"Key": "gpucloud:box", "Value": "b-0"}])["TotalCount"] == 0

    shown = ask(cli, "DescribeInstanceAttribute", InstanceId=instance["InstanceId"])
    assert shown["InstanceType"] == box["instance_type"]
    [disk] = ask(cli, "DescribeDisks", InstanceId=instance["InstanceId"])["Disks"]["Disk"]
    assert (disk["Encrypted"], disk["DeleteWithInstance"]) == (True, True)


def test_xml_says_what_json_says(cli: Shell) -> None:
    [node] = cli.launch(*LAUNCH)["nodes"]
    [instance] = answer(cli, "DescribeInstances").findall("Instances/Instance")
    assert instance.findtext("InstanceId") == node["instance_id"]
    assert instance.findtext("PublicIpAddress/IpAddress") == node["public_ip"]
    tags = {tag.findtext("TagKey") for tag in instance.findall("Tags/Tag")}
    assert "gpucloud:box" in tags


def test_disks_and_stops_of_others_work(cli: Shell) -> None:
    [node] = cli.launch(*LAUNCH)["nodes"]
    of_instance = {"InstanceId": node["instance_id"]}
    [system] = ask(cli, "DescribeDisks", **of_instance)["Disks"]["Disk"]
    zone = {"ZoneId": system["ZoneId"], "DiskCategory": "cloud_essd", "Size": 20}
    disk = ask(cli, "CreateDisk", **zone)["DiskId"]
    ask(cli, "AttachDisk", DiskId=disk, **of_instance)
    assert len(ask(cli, "DescribeDisks", **of_instance)["Disks"]["Disk"]) == 2
    ask(cli, "StopInstance", StoppedMode="StopCharging", **of_instance)
    kinds = sorted(entry["kind"] for entry in cli.sandbox.status()["billing"])
    assert kinds == ["address", "disk", "disk"]
    ask(cli, "StartInstance", **of_instance)
    ask(cli, "DetachDisk", DiskId=disk, **of_instance)
    ask(cli, "DeleteDisk", DiskId=disk)
    unknown = attempt(cli, "StopInstance", {**of_instance, "Hibernate": True})
    assert (unknown.code, unknown.json["Code"]) == (1, "UnsupportedOperation")
    assert cli("down", "x", "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []


def test_interfaces_key_pairs_and_rules_out_work_in_xml(cli: Shell) -> None:
    [node] = cli.launch(*LAUNCH)["nodes"]
    shown = ask(cli, "DescribeInstanceAttribute", InstanceId=node["instance_id"])
    [group] = shown["SecurityGroupIds"]["SecurityGroupId"]
    made = answer(cli, "CreateDeploymentSet", DeploymentSetName="near", Strategy="LowLatency")
    near = answer(cli, "DescribeDeploymentSets").find("DeploymentSets/DeploymentSet")
    assert near is not None
    assert near.findtext("DeploymentSetId") == made.findtext("DeploymentSetId")
    assert "PRIVATE KEY" in (
        answer(cli, "CreateKeyPair", KeyPairName="mine").findtext("PrivateKeyBody") or ""
    )
    answer(
        cli,
        "AuthorizeSecurityGroupEgress",
        SecurityGroupId=group,
        IpProtocol="tcp",
        PortRange="443/443",
        DestCidrIp="0.0.0.0/0",
    )
    rules = answer(cli, "DescribeSecurityGroupAttribute", SecurityGroupId=group, Direction="egress")
    assert [each.findtext("DestCidrIp") for each in rules.iter("Permission")] == ["0.0.0.0/0"]
    vswitch = shown["VpcAttributes"]["VSwitchId"]
    second = answer(cli, "CreateNetworkInterface", VSwitchId=vswitch, SecurityGroupId=group)
    interface = {"NetworkInterfaceId": second.findtext("NetworkInterfaceId")}
    answer(cli, "AttachNetworkInterface", InstanceId=node["instance_id"], **interface)
    assert cli("down", "x", "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []


def test_ends_what_gpucloud_launched(cli: Shell) -> None:
    [node] = cli.launch(*LAUNCH)["nodes"]
    ask(cli, "DeleteInstance", InstanceId=node["instance_id"], Force=True)
    assert ask(cli, "DescribeInstances")["TotalCount"] == 0
    assert cli.sandbox.status()["billing"] == []
    assert cli("down", "x", "--yes").code == 0
    assert cli.boxes() == []


def test_errors_are_the_clouds(cli: Shell) -> None:
    missing = attempt(cli, "DeleteInstance", {"InstanceId": "i-0", "Force": True})
    assert (missing.code, missing.json["Code"], missing.json["Status"]) == (
        1,
        "InvalidInstanceId.NotFound",
        404,
    )
    forged = attempt(cli, "DescribeInstances", {}, ALIBABA_CLOUD_ACCESS_KEY_SECRET="wrong")
    # The SDK makes this of SignatureDoesNotMatch where the cloud says that it signed the same text as itself
    assert (forged.code, forged.json["Code"]) == (1, "InvalidAccessKeySecret")
