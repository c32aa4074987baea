"""``list --live``: the clouds' own word, in every region, whatever the journal says."""

from __future__ import annotations

import shutil

from tests.shell import Shell

OWNER = {"GPUCLOUD_OWNER": "u-live"}


def test_what_a_lost_journal_forgot_is_shown(cli: Shell) -> None:
    box = cli("launch", "--gpu", "T4", "--cloud", "aws", "--yes", "--json", **OWNER).box
    known = cli("list", "--live", "--json", **OWNER).json
    assert ([each["id"] for each in known["boxes"]], known["strangers"]) == ([box["id"]], [])
    shutil.rmtree(cli.home / "state-sandbox")
    lost = cli("list", "--live", "--json", **OWNER).json
    assert lost["boxes"] == []
    assert {(each["kind"], each["box"]) for each in lost["strangers"]} >= {("instance", box["id"])}
    assert box["nodes"][0]["instance_id"] in cli("list", "--live", **OWNER).out


def test_resources_of_other_owners_are_shown_when_asked_for(cli: Shell) -> None:
    theirs = cli("launch", "--gpu", "T4", "--cloud", "aws", "--yes", "--json", GPUCLOUD_OWNER="u-them").box
    assert cli("list", "--live", "--json", **OWNER).json["strangers"] == []
    seen = cli("list", "--live", "--all-owners", "--json", **OWNER).json
    assert seen["boxes"] == []
    assert ("instance", "u-them", theirs["id"]) in {
        (each["kind"], each["owner"], each["box"]) for each in seen["strangers"]
    }
    assert "u-them" in cli("list", "--live", "--all-owners", **OWNER).out
    assert cli("list", "--all-owners", **OWNER).code == 2


def test_a_region_that_cannot_be_read_is_said(cli: Shell) -> None:
    cli.sandbox.fault(
        effect="error",
        cloud="aws",
        action="DescribeInstances",
        region="eu-west-1",
        times=None,
        code="UnauthorizedOperation",
        status=403,
        message="You are not authorized to perform this operation.",
    )
    ran = cli("list", "--live", "--json")
    found = ran.json
    assert ran.code == 8, "a region that was not read may hold what is billed"
    assert [(each["cloud"], each["region"]) for each in found["unread"]] == [("aws", "eu-west-1")]
    shown = cli("list", "--live")
    assert (shown.code, "eu-west-1" in shown.err) == (8, True)
    assert cli("list").code == 0, "which reads the journal alone"


def test_a_look_changes_nothing(cli: Shell) -> None:
    assert cli("list", "--live").code == 0
    assert not cli.changes_asked()


def test_a_lower_bound_says_which_price_is_not_known(cli: Shell) -> None:
    place = ("--cloud", "alibaba", "--region", "cn-heyuan")
    assert cli("launch", "--gpu", "T4", *place, "--name", "x", "--yes").code == 0
    listed = cli("list")
    assert "≥ CNY" in listed.out
    assert "≥: no price is known for disk of x." in listed.err
