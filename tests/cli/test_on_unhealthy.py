"""``launch --on-unhealthy replace``: ``tend`` replaces a box whose hardware is faulty, and leaves one box."""

from __future__ import annotations

import json
import signal
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.shell import Shell
from tests.waiting import until

LAUNCH = ("--gpu", "T4", "--cloud", "aws", "--name", "x", "--ttl", "2h", "--on-unhealthy", "replace")
FAULT = "79, pid=7, GPU has fallen off the bus."
ERROR_OF_A_PROGRAM = "31, pid=7, name=python, Ch 00000008, MMU Fault"


def root_of(cli: Shell, box: Any) -> Path:
    """The root of a box's disk."""
    [machine] = [each["id"] for each in cli.billed() if each["box"] == box["id"]]
    return cli.endpoint.folder / "boxes" / str(machine) / "root"


def logged(cli: Shell, box: Any, text: str, health: str) -> None:
    """The driver of a box logs an Xid, which its guard has seen."""
    root = root_of(cli, box)
    with (root / "dev/kmsg").open("a") as log:
        log.write(f"4,1,2,-;NVRM: Xid (PCI:0000:00:1e): {text}\n")
    status = root / "run/gpucloud/guard.json"
    until(lambda: health in json.loads(status.read_text())["health"], "the guard to see it")


def sick(cli: Shell, *more: str) -> Any:
    """A box with a file, whose hardware is faulty."""
    box = cli.launch(*LAUNCH, *more)
    assert cli("exec", "x", "--", "sh", "-c", "echo kept > file").code == 0
    logged(cli, box, FAULT, "hardware")
    return box


def tended(cli: Shell) -> tuple[str, str]:
    """One look: what was done about the box."""
    looked = cli("tend", "--json")
    assert looked.code == 0, looked.err
    [done] = looked.json["boxes"]
    return done["did"], done["message"]


def machines(cli: Shell) -> list[str]:
    """The boxes whose machines are billed."""
    return [each["box"] for each in cli.billed()]


def test_a_box_with_faulty_hardware_is_elsewhere_with_its_files_variables_and_run(cli: Shell) -> None:
    """Not for an error of a program; by one of two tenders; and under the limits of its launch."""
    old = cli.launch(*LAUNCH, "--env", "KEY=a  b", "--run-id", "r", "--max-price", "0.60")
    assert cli("exec", "x", "--", "sh", "-c", "echo kept > file").code == 0
    logged(cli, old, ERROR_OF_A_PROGRAM, "xid")
    assert tended(cli) == ("left", "its guard reports no faulty hardware")
    logged(cli, old, FAULT, "hardware")
    both = [cli.finish(each) for each in [cli.start("tend", "--json") for _ in range(2)]]
    assert [each.code for each in both] == [0, 0], [each.err for each in both]
    looked = [done for each in both for done in each.json["boxes"]]
    assert sorted(done["did"] for done in looked if done["name"] == "x")[-1] == "replaced"
    [done] = [done for done in looked if done["did"] == "replaced"]
    assert done["replaced_by"] == "x-2"
    assert f"Xid {FAULT}" in done["message"]
    [new] = cli.boxes()
    assert (new["name"], new["run_id"]) == ("x-2", "r")
    ends = [datetime.fromisoformat(box["expires_at"]) for box in (old, new)]
    assert abs(ends[0] - ends[1]) < timedelta(minutes=1), "but for the seconds of the launch"
    assert new["zone"] != old["zone"]
    assert machines(cli) == [new["id"]]
    assert cli("exec", "x-2", "--", "sh", "-c", 'cat file; echo "$KEY"').out == "kept\na  b\n"
    assert tended(cli) == ("left", "its guard reports no faulty hardware")
    assert [each["event"] for each in cli.sandbox.ledger() if each["kind"] == "instance"].count("born") == 2


def test_a_tender_that_is_killed_leaves_what_the_next_one_finishes(cli: Shell) -> None:
    """A box without the files is deleted, and another one launched; once one has them, the old one ends."""
    sick(cli, "--checkpoint", "until [ -e ~/go ]; do sleep 0.1; done")
    process = cli.start("tend")
    assert process.stderr is not None
    next(line for line in process.stderr if "running the checkpoint command" in line)
    process.kill()
    cli.finish(process)
    remains = cli.boxes()[-1]
    assert remains["name"] == "x-2"
    process = cli.start("tend")
    assert process.stderr is not None
    next(line for line in process.stderr if "running the checkpoint command" in line)
    [old, new] = cli.boxes()
    assert (new["name"], new["id"] != remains["id"]) == ("x-2", True)
    # What follows the copy is a look at the old box, before anything of its end is written.
    cli.sandbox.fault(cloud="aws", action="DescribeInstances", effect="kill", stage="received")
    assert cli("exec", "x", "--", "touch", "go").code == 0
    assert cli.finish(process).code == -signal.SIGKILL
    cli.sandbox.clear_faults()
    assert [box["state"] for box in cli.boxes()] == ["ready", "ready"]
    assert machines(cli) == [old["id"], new["id"]]
    looked = cli("tend", "--json").json["boxes"]
    assert (looked[0]["did"], looked[0]["message"]) == ("ended", "x-2 has replaced it")
    assert machines(cli) == [new["id"]]
    assert cli("exec", "x-2", "--", "cat", "file").out == "kept\n"
    assert tended(cli) == ("left", "its guard reports no faulty hardware")


def test_a_box_whose_files_cannot_be_copied_stays_and_is_not_replaced_for_ever(cli: Shell) -> None:
    """Each of three machines is deleted again; then no more are bought."""
    old = sick(cli, "--setup", "mkdir -p results/old/deep")
    assert cli("exec", "x", "--", "sh", "-c", "rm -r results; mkdir results; echo > results/old").code == 0
    for _ in range(3):
        looked = cli("tend", "--json")
        assert (looked.code, looked.json["boxes"]) == (1, [])
        [trouble] = looked.json["troubles"]
        assert "box 'x' is faulty (Xid 79" in trouble["message"]
        assert "was not replaced: " in trouble["message"]
        assert machines(cli) == [old["id"]]
    asked = cli.changes_asked()
    assert tended(cli)[1].endswith("3 machines were bought in place of it, and of those that it replaced")
    assert cli.changes_asked() == asked


def test_a_box_is_never_replaced_above_its_price_and_waits_where_there_is_no_machine(cli: Shell) -> None:
    old = sick(cli, "--region", "us-east-1", "--max-price", "0.60")
    cli.sandbox.price(factor="5")
    dearer = cli("tend", "--json")
    assert dearer.code == 7
    assert "was not replaced: " in dearer.json["troubles"][0]["message"]
    cli.sandbox.price(factor="1")
    cli.sandbox.stock(cloud="aws", zone="*", count=0)
    refused = cli("tend", "--json")
    assert refused.code == 5
    assert "was not replaced: none of" in refused.json["troubles"][0]["message"]
    assert tended(cli)[1].endswith("and is not replaced: no machine was to be had in its place a moment ago")
    assert machines(cli) == [old["id"]]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("launch", "--gpu", "T4", "--nodes", "2", "--yes"), "boxes with one node"),
        (("run", "--gpu", "T4", "--restarts", "3", "--", "true"), "tend looks after"),
        (("run", "--detach", "--gpu", "T4", "--", "true"), "needs restarts"),
    ],
)
def test_a_replacement_that_nobody_would_make_is_refused(
    cli: Shell, line: tuple[str, ...], words: str
) -> None:
    refused = cli(line[0], "--on-unhealthy", "replace", *line[1:])
    assert refused.code in {2, 125}
    assert words in refused.err
    assert not cli.sandbox.ledger()
