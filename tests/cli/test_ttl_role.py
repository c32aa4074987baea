"""``--ttl-role``: on AWS the cloud itself ends a box whose guest does not."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.shell import Shell
from tests.waiting import until

ROLE = "arn:aws:iam::123456789012:role/gpucloud-ttl"
HOUR_S = 3600.0
LAUNCH = ("--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--name", "x", "--ttl", "2h")


def rules(shell: Shell) -> list[Any]:
    """The rules that instances have, as the vendor's own client shows them."""
    shown = []
    for resource in shell.billed():
        name = ("--region", "us-east-1", "--name", f"gpucloud-{resource['id']}")
        ran = shell.run("aws", "--output", "json", "scheduler", "get-schedule", *name)
        shown += [ran.json] if ran.code == 0 else []
    return shown


def hang(shell: Shell) -> None:
    """The guest does nothing any more: no guard, no timer."""
    for unit in ("gpucloud-guard.service", "gpucloud-end.timer"):
        assert shell("exec", "x", "--", "sudo", "systemctl", "stop", unit).code == 0


def test_a_guest_that_hangs_is_ended_from_outside(own_clouds: Shell) -> None:
    box = own_clouds.launch(*LAUNCH, "--ttl-role", ROLE)
    [rule] = rules(own_clouds)
    assert rule["Target"]["RoleArn"] == ROLE
    assert json.loads(rule["Target"]["Input"]) == {"InstanceIds": [box["nodes"][0]["instance_id"]]}
    assert rule["ActionAfterCompletion"] == "DELETE"
    hang(own_clouds)
    own_clouds.sandbox.clock(advance_s=2 * HOUR_S + 300)
    time.sleep(0.5)
    assert own_clouds.billed(), "the guard has its time first"
    own_clouds.sandbox.clock(advance_s=120)
    until(lambda: own_clouds.billed() == [])


def test_without_the_role_nothing_outside_ends_it(own_clouds: Shell) -> None:
    own_clouds.launch(*LAUNCH)
    assert rules(own_clouds) == []
    hang(own_clouds)
    own_clouds.sandbox.clock(advance_s=5 * HOUR_S)
    time.sleep(0.5)
    assert own_clouds.billed()


def test_the_rule_moves_with_the_end_and_goes_with_the_box(own_clouds: Shell) -> None:
    own_clouds.launch(*LAUNCH, "--ttl-role", ROLE)
    before = rules(own_clouds)[0]["ScheduleExpression"]
    assert own_clouds("extend", "x", "--ttl", "5h").code == 0
    [after] = rules(own_clouds)
    assert after["ScheduleExpression"] > before
    hang(own_clouds)
    own_clouds.sandbox.clock(advance_s=3 * HOUR_S)
    time.sleep(0.5)
    assert own_clouds.billed()
    assert own_clouds("down", "x", "--yes").code == 0
    name = ("--region", "us-east-1", "--name", after["Name"])
    assert "ResourceNotFoundException" in own_clouds.run("aws", "scheduler", "get-schedule", *name).err


def test_all_nodes_are_in_one_rule(cli: Shell) -> None:
    box = cli.launch(*LAUNCH, "--nodes", "2", "--ttl-role", ROLE)
    [rule] = rules(cli)
    ids = json.loads(rule["Target"]["Input"])["InstanceIds"]
    assert sorted(ids) == sorted(node["instance_id"] for node in box["nodes"])


@pytest.mark.parametrize(("code", "status"), [("AccessDeniedException", 403), ("ValidationException", 400)])
def test_a_rule_that_is_refused_leaves_no_box(cli: Shell, code: str, status: int) -> None:
    cli.sandbox.fault(
        cloud="aws", action="CreateSchedule", effect="error", code=code, status=status, times=None
    )
    failed = cli("launch", *LAUNCH, "--ttl-role", ROLE, "--yes", "--json")
    assert failed.code != 0
    assert code in failed.error["message"]
    assert cli.sandbox.status()["billing"] == []


def test_a_lost_answer_makes_no_second_rule(cli: Shell) -> None:
    cli.sandbox.fault(cloud="aws", action="CreateSchedule", effect="drop", stage="applied")
    cli.launch(*LAUNCH, "--ttl-role", ROLE)
    assert len(rules(cli)) == 1
    assert len(cli.billed()) == 1


def test_what_is_no_role_is_refused_before_anything_is_made(cli: Shell) -> None:
    refused = cli("launch", *LAUNCH, "--ttl-role", "admin", "--yes")
    assert refused.code == 2
    assert "--ttl-role" in refused.err
    assert cli.changes_asked() == []
