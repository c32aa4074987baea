"""``launch --count N --spread PLACES``: several boxes of one run, or what is said instead."""

from __future__ import annotations

import signal
from decimal import Decimal

from tests.shell import Shell
from tests.waiting import until

T4 = ("--gpu", "T4", "--yes")


def test_boxes_of_one_run_start_in_different_clouds_and_end_together(cli: Shell) -> None:
    plan = cli("plan", *T4[:2], "--count", "3", "--spread", "cloud", "--name", "w", "--json").json
    assert {each["cloud"] for each in plan["attempts"][:3]} == {"aws", "azure", "alibaba"}
    ran = cli("launch", *T4, "--count", "3", "--spread", "cloud", "--name", "w", "--json")
    boxes = ran.json["boxes"]
    assert (ran.code, ran.json["failure"], ran.json["box"]) == (0, None, boxes[0])
    assert sorted(each["cloud"] for each in boxes) == ["alibaba", "aws", "azure"]
    assert [each["name"] for each in boxes] == ["w-1", "w-2", "w-3"]
    per_hour = sum(
        Decimal(each["per_hour"]["total"]["amount"]) for each in boxes if each["cloud"] != "alibaba"
    )
    assert 0 < per_hour < Decimal(plan["at_most"]["per_hour"]["amount"])
    assert plan["at_most"]["nodes"] == 3
    taken = cli("launch", *T4, "--count", "2", "--name", "w")
    assert (taken.code, "a box named 'w-1' exists already" in taken.err) == (2, True)
    [run_id] = {each["run_id"] for each in boxes}
    assert cli("down", "--run-id", run_id, "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []


def test_boxes_that_start_stay_if_others_find_no_place(cli: Shell) -> None:
    cli.sandbox.stock(count=1)
    where = ("--instance-type", "g4dn.xlarge", "--region", "us-east-1", "--zone", "use1-az1", "--count", "3")
    ran = cli("launch", *T4, *where, "--json")
    assert ran.code == 5
    assert ran.json["failure"]["class"] == "capacity"
    assert [each["state"] for each in ran.json["boxes"]] == ["ready"]
    assert "Not all boxes are ready" in ran.err
    assert len(cli.billed()) == 1


def test_what_was_refused_for_one_box_is_not_the_first_try_of_the_next(cli: Shell) -> None:
    cli.sandbox.stock(count=0, region="us-east-1")
    where = ("--cloud", "aws", "--region", "us-east-1,us-east-2", "--instance-type", "g4dn.xlarge")
    ran = cli("launch", *T4, *where, "--count", "2", "--json")
    assert [each["region"] for each in ran.json["boxes"]] == ["us-east-2", "us-east-2"]
    tried = sum(call["count"] for call in cli.sandbox.calls() if call["action"] == "RunInstances")
    regions = [each["region"] for each in cli("plan", *T4[:2], *where, "--json").json["attempts"]]
    assert tried == regions.index("us-east-2") + 2


def test_a_signal_ends_all_boxes(cli: Shell) -> None:
    process = cli.start("launch", *T4, "--cloud", "aws", "--count", "2", "--setup", "sleep 60")
    until(lambda: len(cli.billed()) == 2)
    process.send_signal(signal.SIGTERM)
    ran = cli.finish(process)
    assert ran.code == 143
    assert "nothing of this launch is left" in ran.err
    assert cli.sandbox.status()["billing"] == []


def test_what_takes_one_box_refuses_several(cli: Shell) -> None:
    ran = cli("run", "--gpu", "T4", "--count", "2", "--", "true")
    assert (ran.code, "this launches one box, and the spec asks for 2" in ran.err) == (125, True)
    ran = cli("launch", *T4, "--spread", "zone")
    assert (ran.code, "spread needs count" in ran.err) == (2, True)
    assert cli.sandbox.calls() == []
