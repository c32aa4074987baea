"""`launch` as a user has it: what it gives, what the cloud then shows, and what it refuses."""

from __future__ import annotations

import json
import signal
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.shell import Shell
from tests.waiting import until

BOX = {
    *(
        "name",
        "id",
        "run_id",
        "owner",
        "state",
        "cloud",
        "region",
        "zone",
        "instance_type",
        "gpu",
        "purchase",
    ),
    *("nodes", "price", "created_at", "expires_at", "seen_at", "cost_so_far"),
}
NODE = {"instance_id", "state", "public_ip", "private_ip"}
TAGS = {"gpucloud:owner", "gpucloud:box", "gpucloud:op", "gpucloud:run", "gpucloud:expires"}


def gpus(listed: str) -> list[str]:
    """The models of ``nvidia-smi -L``, one per line."""
    return [line.split(": ")[1].split(" (")[0] for line in listed.splitlines()]


def instance(cli: Shell, box: Any) -> Any:
    """A box's first machine as the vendor's client sees it."""
    seen = cli.ec2(box["region"]).describe_instances(InstanceIds=[box["nodes"][0]["instance_id"]])
    return seen["Reservations"][0]["Instances"][0]


def tags(resource: Any) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in resource["Tags"]}


def test_a_launch_gives_the_document_of_the_contract_and_nothing_else_on_stdout(cli: Shell) -> None:
    ran = cli("launch", "--gpu", "T4", "--yes", "--json")
    document = ran.json
    assert document["schema"] == "gpucloud.launch/v1"
    box = ran.box
    assert set(box) >= BOX
    assert box["state"] == "ready"
    assert box["gpu"] == {"model": "T4", "count": 1, "memory_gib": 16}
    [node] = box["nodes"]
    assert set(node) == NODE
    assert node["state"] == "running"
    assert set(box["price"]) == {"amount", "currency"}
    assert isinstance(box["price"]["amount"], str)
    assert all(box[time].endswith("Z") for time in ("created_at", "expires_at", "seen_at"))
    life = datetime.fromisoformat(box["expires_at"]) - datetime.fromisoformat(box["created_at"])
    assert timedelta(hours=23, minutes=59) < life <= timedelta(hours=24)
    assert f"gpucloud ssh {box['name']}" in ran.err, "the next likely command is said"
    assert "per hour" in ran.err
    assert [each["name"] for each in cli.boxes()] == [box["name"]]


@pytest.mark.parametrize(
    ("gpu", "paid", "answers"),
    [
        ("T4", "spot", ["Tesla T4"]),
        ("V100:1", "on-demand", ["Tesla V100"]),
        ("A100:8", "spot", ["NVIDIA A100"] * 8),
    ],
)
def test_what_was_asked_for_answers_over_ssh(cli: Shell, gpu: str, paid: str, answers: list[str]) -> None:
    box = cli.launch("--gpu", gpu, f"--{paid}", "--name", "a")
    assert box["purchase"] == paid.replace("-", "_")
    assert box["zone"] or box["cloud"] == "azure", "which places what names no zone by itself"
    listed = gpus(cli("exec", "a", "--", "nvidia-smi", "-L").out)
    assert [name[: len(want)] for name, want in zip(listed, answers, strict=True)] == answers
    [billed] = cli.billed()
    assert billed["price"] == box["price"], "it costs what was said"


def test_the_vendors_client_sees_what_was_promised_and_the_end_of_it(cli: Shell) -> None:
    box = cli.launch("--gpu", "T4", "--name", "a", "--disk", "120", "--run-id", "ci-7", "--tag", "team=ml")
    seen = instance(cli, box)
    assert seen["State"]["Name"] == "running"
    assert seen["InstanceType"] == box["instance_type"]
    assert seen["MetadataOptions"]["HttpTokens"] == "required"
    assert seen["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert set(tags(seen)) >= TAGS
    assert tags(seen)["gpucloud:box"] == box["id"]
    assert tags(seen)["gpucloud:run"] == "ci-7"
    assert tags(seen)["team"] == "ml"
    ec2 = cli.ec2(box["region"])
    behaviour = ec2.describe_instance_attribute(
        InstanceId=seen["InstanceId"], Attribute="instanceInitiatedShutdownBehavior"
    )
    assert behaviour["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"
    [volume] = ec2.describe_volumes()["Volumes"]
    assert volume["Encrypted"]
    assert (volume["Size"], volume["VolumeType"]) == (120, "gp3")
    [interface] = ec2.describe_network_interfaces()["NetworkInterfaces"]
    for part in (volume, {"Tags": interface["TagSet"]}):
        assert set(tags(part)) >= TAGS
    of_box = [{"Name": "tag:gpucloud:box", "Values": [box["id"]]}]
    [open_to] = ec2.describe_security_groups(Filters=of_box)["SecurityGroups"][0]["IpPermissions"]
    assert (open_to["FromPort"], open_to["ToPort"]) == (22, 22)
    assert [each["CidrIp"] for each in open_to["IpRanges"]] == [f"{cli.sandbox.address()}/32"]
    assert not open_to.get("Ipv6Ranges")

    ended = cli("down", "a", "--yes", "--json")
    assert ended.code == 0, ended.err
    assert [each["state"] for each in ended.json["boxes"]] == ["deleted"]
    assert instance(cli, box)["State"]["Name"] == "terminated"
    assert cli.sandbox.status()["billing"] == []
    assert cli.boxes() == []
    # The group bills nothing: it may stay a moment longer, but the next changing command removes it.
    cli.launch("--gpu", "T4", "--name", "b")
    assert ec2.describe_security_groups(Filters=of_box)["SecurityGroups"] == []


def test_three_nodes_know_their_ranks_and_each_other(cli: Shell) -> None:
    box = cli.launch("--gpu", "T4", "--nodes", "3", "--name", "trio")
    assert len(cli.billed()) == len(box["nodes"]) == 3
    peers = [node["private_ip"] for node in box["nodes"]]
    for rank in range(3):
        told = cli("exec", "--node", str(rank), "trio", "--", "cat", "/var/lib/gpucloud/peers.json")
        assert told.json == {"rank": rank, "nodes": 3, "peers": peers}
        assert gpus(cli("exec", "--node", str(rank), "trio", "--", "nvidia-smi", "-L").out) == ["Tesla T4"]


@pytest.mark.parametrize("cloud", ["aws", "azure", "alibaba"])
def test_nodes_start_together_or_not_at_all(cli: Shell, cloud: str) -> None:
    cli.sandbox.stock(count=2)
    place = ("--cloud", cloud, "--region", "eastus" if cloud == "azure" else "us-east-1")
    failed = cli("launch", "--gpu", "T4", *place, "--nodes", "3", "--yes", "--json")
    assert failed.code == 5
    assert cli.sandbox.status()["billing"] == []
    started = [event for event in cli.sandbox.ledger() if event["kind"] == "instance"]
    assert started == [] or cloud == "azure", "which has no call for several at once"


def test_a_name_that_lives_is_refused_before_anything_is_asked(cli: Shell) -> None:
    cli.launch("--gpu", "T4", "--name", "x")
    cli.sandbox.calls(clear=True)
    again = cli("launch", "--gpu", "T4", "--name", "x", "--yes", "--json")
    assert again.code == 2
    assert "gpucloud down x" in again.error["hint"]
    assert cli.changes_asked() == []
    assert cli("down", "x", "--yes").code == 0
    assert cli.launch("--gpu", "T4", "--name", "x")["state"] == "ready", "afterwards the name is free"


def test_without_a_terminal_and_without_a_yes_nothing_is_bought(cli: Shell) -> None:
    refused = cli("launch", "--gpu", "T4", "--json")
    assert refused.code == 2
    assert "--yes" in refused.error["hint"]
    misspelt = cli("launch", "--gpu", "T4", "--region", "us-esat-1", "--json")
    assert misspelt.code == 2
    assert "did you mean us-east-1?" in misspelt.error["message"], "what is wrong with the spec comes first"
    assert cli.changes_asked() == []


def test_a_type_by_its_name_is_planned_saved_and_launched(cli: Shell) -> None:
    saved = cli.home / "plan.json"
    wanted = ("--instance-type", "G4DN.2xlarge,p3.2*", "--on-demand", "--budget", "5")
    planned = cli("plan", *wanted, "--save", str(saved), "--json")
    types = {each["instance_type"] for each in planned.json["attempts"]}
    assert "g4dn.2xlarge" in types <= {"g4dn.2xlarge", "p3.2xlarge"}
    box = cli.launch(str(saved))
    assert (box["instance_type"], box["gpu"]["model"]) == ("g4dn.2xlarge", "T4")


def test_a_plan_that_cannot_be_saved_is_refused_before_a_cloud_is_asked(cli: Shell) -> None:
    for file in ("no/such/plan.json", "."):
        refused = cli("plan", "--gpu", "T4", "--save", file, "--json")
        assert refused.code == 2
        assert f"cannot write the plan to {file}" in refused.error["message"]
    assert cli.sandbox.calls() == []


def test_the_quota_of_a_type_by_its_name_is_read_first(cli: Shell) -> None:
    place = ("--instance-type", "g4dn.xlarge", "--region", "us-east-1", "--on-demand")
    cli.sandbox.cloud("aws", "quota", region="us-east-1", code="L-DB2E81BA", value=0)
    refused = cli("launch", *place, "--yes", "--json")
    assert (refused.code, refused.error["class"]) == (6, "quota")
    assert cli.changes_asked() == []


def test_a_count_that_no_machine_has_is_refused_with_those_that_exist(cli: Shell) -> None:
    for command in (("plan",), ("launch", "--yes")):
        refused = cli(*command, "--gpu", "H100:3", "--json")
        assert (refused.code, refused.error["message"]) == (3, "no offer matches: H100 comes as 1, 2, 8")


def test_a_saved_plan_is_launched_exactly_as_it_says(cli: Shell) -> None:
    saved = cli.home / "plan.json"
    assert cli("plan", "--gpu", "T4", "--spot", "--disk", "150", "--save", str(saved)).code == 0
    first = json.loads(saved.read_text())["attempts"][0]
    box = cli.launch(str(saved))
    assert {key: box[key] for key in ("region", "zone", "instance_type", "purchase")} == {
        key: first[key] for key in ("region", "zone", "instance_type", "purchase")
    }
    assert box["price"] == first["price"]


def test_a_saved_plan_whose_price_moved_is_refused_and_says_what_moved(cli: Shell) -> None:
    saved = cli.home / "plan.json"
    cli("plan", "--gpu", "T4", "--spot", "--cloud", "aws", "--save", str(saved))
    first = json.loads(saved.read_text())["attempts"][0]
    cli.sandbox.price(zone=first["zone"], purchase="spot", factor="1.1")
    refused = cli("launch", str(saved), "--yes", "--json")
    assert refused.code == 7
    assert first["zone"] in refused.error["message"]
    assert f"the price rose from {first['price']['amount']} to " in refused.error["message"]
    assert cli.changes_asked() == []


def test_a_plan_costs_and_changes_nothing(cli: Shell) -> None:
    planned = cli("plan", "--gpu", "A100:8", "--spot", "--json")
    assert planned.code == 0, planned.err
    attempts = planned.json["attempts"]
    prices = [Decimal(each["price_usd"]["amount"]) for each in attempts if not each["flags"]]
    assert prices == sorted(prices)
    assert 0 < len(attempts) <= 20
    assert cli.changes_asked() == []
    assert cli.boxes("--all") == []


def test_a_budget_goes_by_the_disk_as_it_is_billed(cli: Shell) -> None:
    """Azure bills 513 GiB as 1024."""
    line = ("plan", "--gpu", "T4", "--cloud", "azure", "--region", "eastus", "--budget", "10", "--json")
    small, odd, even = (cli(*line, "--disk", size).json["ends"] for size in ("512", "513", "1024"))
    assert odd == even != small


def test_a_budget_becomes_a_deadline(cli: Shell) -> None:
    """One dollar over compute, disk and address, as the clouds of the sandbox bill them."""
    box = cli.launch("--gpu", "T4", "--budget", "1", "--max-price", "0.526")
    life = datetime.fromisoformat(box["expires_at"]) - datetime.fromisoformat(box["created_at"])
    per_hour = Decimal(cli.sandbox.status()["billed_per_hour"]["amount"])
    spent = per_hour * Decimal(life.total_seconds()) / 3600
    assert Decimal("0.95") < spent <= 1


def test_a_box_that_reaches_its_end_ends_itself(own_clouds: Shell) -> None:
    box = own_clouds.launch("--gpu", "T4", "--name", "brief", "--ttl", "10m")
    own_clouds.sandbox.clock(advance_s=601)
    until(lambda: not own_clouds.sandbox.status()["billing"])
    assert instance(own_clouds, box)["State"]["Name"] == "terminated"
    [seen] = own_clouds.boxes("--live")
    assert seen["state"] == "deleting", "until a changing command has confirmed that nothing is left"
    assert own_clouds("down", "--all", "--yes").code == 0
    assert [each["state"] for each in own_clouds.boxes("--all")] == ["deleted"]


def test_a_spot_box_that_the_cloud_takes_back_is_shown_so_and_bills_nothing(cli: Shell) -> None:
    box = cli.launch("--gpu", "T4", "--spot", "--cloud", "aws", "--name", "cheap")
    cli.sandbox.interrupt(box["nodes"][0]["instance_id"], notice_s=0)
    until(lambda: not cli.sandbox.status()["billing"])
    [seen] = cli.boxes("--live")
    assert seen["state"] == "interrupted"
    assert cli("down", "cheap", "--yes").code == 0
    assert cli.boxes() == []


def test_interruptions_of_ones_own_boxes_are_what_the_next_estimate_is_made_from(cli: Shell) -> None:
    """Three machines that ran for 100 hours, and were all taken back."""
    estimate = ("cost", "--gpu", "T4", "--spot", "--cloud", "aws", "--hours", "10")
    box = cli.launch("--gpu", "T4", "--spot", "--cloud", "aws", "--nodes", "3", "--ttl", "10d")
    where = ("--region", box["region"])
    [before] = cli(*estimate, *where, "--json").json["options"]
    assert before["spot"]["evidence"]["kind"] == "band"
    cli.sandbox.clock(advance_s=100 * 3600)
    for node in box["nodes"]:
        cli.sandbox.interrupt(node["instance_id"], notice_s=0)
    until(lambda: not cli.sandbox.status()["billing"])
    cli.boxes("--live")
    [after] = cli(*estimate, *where, "--json").json["options"]
    own = after["spot"]["evidence"]
    assert (own["kind"], own["interruptions"]) == ("own_history", 3)
    assert 300 <= own["machine_hours"] < 303
    assert after["spot"]["interruptions_per_hour"]["middle"] == pytest.approx(
        3.5 / own["machine_hours"], rel=0.01
    )
    told = cli(*estimate, *where, "--explain").out
    assert "from your own 300 h on spot with 3 interruptions" in told
    assert cli("down", "--all", "--yes").code == 0
    assert cli(*estimate, *where, "--json").json["options"][0]["spot"]["evidence"] == own, (
        "deleted boxes count too"
    )


def test_held_capacity_is_used_where_it_is_and_nothing_is_bought_where_none_is(cli: Shell) -> None:
    none = cli("launch", "--gpu", "A100:8", "--reserved", "--yes", "--json")
    assert none.code == 3
    assert cli.changes_asked() == []

    held = cli.sandbox.cloud(
        "aws", "reserve", region="us-east-2", zone="use2-az1", instance_type="p4d.24xlarge"
    )
    box = cli.launch("--gpu", "A100:8", "--reserved", "--name", "ours")
    assert (box["zone"], box["purchase"]) == ("use2-az1", "reserved")
    assert instance(cli, box)["CapacityReservationId"] == held


@pytest.mark.parametrize("commitment", ["reserved_1y", "reserved_3y", "capacity_block"])
def test_a_commitment_cannot_be_bought_by_a_launch(cli: Shell, commitment: str) -> None:
    refused = cli("launch", "--gpu", "A100:8", "--purchase", commitment, "--yes")
    assert refused.code == 2
    assert commitment in refused.err
    assert cli.sandbox.calls() == [], "no cloud was even asked"


def test_a_launch_that_waits_for_capacity_buys_it_when_it_is_there(cli: Shell) -> None:
    cli.sandbox.fault(effect="error", code="InsufficientInstanceCapacity", action="RunInstances", times=1)
    one_place = ("--instance-type", "g4dn.xlarge", "--cloud", "aws", "--zone", "use1-az4")
    launched = cli("launch", *one_place, "--wait", "1s", "--yes", "--json")
    assert launched.code == 0, launched.err
    assert "trying again in 1 s, until" in launched.err
    assert [entry["box"] for entry in cli.billed() if entry["kind"] == "instance"] == [launched.box["id"]]


def test_a_signal_ends_a_launch_that_waits_at_once_and_nothing_was_bought(cli: Shell) -> None:
    cli.sandbox.stock(count=0)
    process = cli.start("launch", "--gpu", "T4", "--zone", "use1-az4", "--wait", "6h", "--yes")
    assert process.stderr is not None
    assert any("trying again in 60 s" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    ended = cli.finish(process)
    assert ended.code == 130
    assert "nothing of this launch is left" in ended.err
    assert cli.billed() == []


def test_a_wait_that_is_no_time_is_refused(cli: Shell) -> None:
    refused = cli("launch", "--gpu", "T4", "--wait", "soon", "--yes", "--json")
    assert (refused.code, "--wait" in refused.error["message"]) == (2, True)
