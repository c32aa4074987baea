"""``gpucloud policy``: what it shows, and what is refused from then on."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.shell import Result, Shell

T4 = ("--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--yes", "--json")


def apply(cli: Shell, text: str) -> None:
    file = cli.home / "policy.yaml"
    file.write_text(text)
    done = cli("policy", "apply", str(file))
    assert done.code == 0, done.err


def refused(result: Result, rule: str, outcome: str = "nothing was bought") -> None:
    assert (result.code, result.error["class"]) == (4, "policy"), result.err
    assert f"`{rule}`" in result.error["message"]
    assert outcome in result.error["message"]


def test_rules_are_shown_as_they_were_applied_and_lifted_by_a_file_without_them(cli: Shell) -> None:
    assert "everything is allowed" in cli("policy", "show").err
    assert cli("policy", "show", "--json").json["policy"] is None
    text = (
        'clouds: [aws, "!azure"]\nregions: [us-*, eu]\ninstance_types: [g4dn.*]\ngpus: [T4, A10*]\n'
        "purchase: [spot, on-demand]\nmax_price: 4.50\nboxes: 3\n"
        'per_hour: {"*": 10, boss: 50}\ntags: [team]\nttl: 1d12h\ncheckpoint_to: [s3://lab]\n'
    )
    apply(cli, text)
    assert cli("policy", "show").out == text
    shown = cli("policy", "show", "--json").json["policy"]
    assert (shown["ttl_s"], shown["max_price"]["amount"], shown["boxes"]) == (
        129600,
        "4.50",
        [{"owner": "*", "most": 3}],
    )
    assert cli("journal", "verify").code == 0
    apply(cli, "# nothing\n")
    assert cli("policy", "show").out == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ttl: 24h\nregoins: [eu]\n", "policy.yaml:2: unknown key 'regoins'; did you mean regions?"),
        ("clouds: [aws, azur]", "policy.yaml:1: clouds: unknown cloud 'azur'; did you mean azure?"),
        ("instance_types: [g9dn.*]", "unknown instance type 'g9dn.*'"),
        ("gpus: [T5]", "policy.yaml:1: gpus: unknown GPU 'T5'"),
        ("purchase: [auction]", "unknown purchase option 'auction'"),
        ("ttl: none", "policy.yaml:1: ttl: "),
        ("boxes: many", "policy.yaml:1: boxes: 'many' is not allowed"),
        ("per_hour: {a b: 3}", "'a b' is no owner id"),
        ("checkpoint_to: [lab]", "'lab' is not an address"),
    ],
)
def test_a_policy_that_cannot_be_kept_is_refused_with_its_line(cli: Shell, text: str, says: str) -> None:
    file = cli.home / "policy.yaml"
    file.write_text(text)
    result = cli("policy", "apply", str(file), "--json")
    assert result.code == 2
    assert says in result.error["message"]
    assert cli("policy", "show", "--json").json["policy"] is None


@pytest.mark.parametrize(
    ("rule", "flags"),
    [
        ("ttl: 12h", ()),
        ("ttl: 12h", ("--ttl", "none")),
        ("tags: [team]", ("--ttl", "3h", "--tag", "tean=a")),
        ("clouds: [azure]", ("--ttl", "3h")),
        ("regions: [eu]", ("--ttl", "3h")),
        ("instance_types: [p5.*]", ()),
        ('gpus: ["!T4"]', ()),
        ("purchase: [on-demand]", ("--spot",)),
        ("max_price: 0.1", ()),
        ("boxes: 0", ()),
        ("per_hour: 0.2", ()),
    ],
)
def test_what_a_rule_forbids_is_refused_in_its_words_before_anything_is_bought(
    cli: Shell, rule: str, flags: tuple[str, ...]
) -> None:
    apply(cli, rule)
    refused(cli("launch", *T4, *flags), rule)
    assert cli("list", "--all", "--json").json["boxes"] == []
    assert cli.sandbox.status()["billing"] == []


def test_offers_that_are_forbidden_are_left_out_of_a_plan_and_marked_in_the_market(cli: Shell) -> None:
    apply(cli, "clouds: [aws]\npurchase: [on-demand]\nmax_price: 0.6\n")
    line = ("--gpu", "T4", "--region", "us-east-1", "--region", "eastus", "--spot", "--on-demand", "--json")
    offers = cli("offers", *line).json
    marked = {each["purchase"] for each in offers["offers"] if "forbidden" in each["flags"]}
    assert marked == {"spot", "on_demand"}
    assert {each["rule"] for each in offers["policy"]} == {
        "clouds: [aws]",
        "purchase: [on-demand]",
        "max_price: 0.6",
    }
    plan = cli("plan", *line).json
    assert {(each["cloud"], each["purchase"]) for each in plan["attempts"]} == {("aws", "on_demand")}
    assert all(Decimal(each["ceiling_usd"]["amount"]) <= Decimal("0.6") for each in plan["attempts"])
    left = plan["left_out"]["by policy"]
    assert "by `clouds: [aws]`" in left
    assert "by `purchase: [on-demand]`" in left
    assert "by `max_price: 0.6`" in left


def test_a_box_that_is_there_is_never_kept_by_a_policy_and_not_for_longer_than_it_allows(cli: Shell) -> None:
    """Its end may be moved within the policy, and to an earlier one at any time; it ends at any time."""
    box = cli("launch", *T4, "--name", "x", "--on-demand").box
    assert cli("stop", "x", "--yes").code == 0
    apply(cli, "ttl: 5h\ntags: [team]\n")
    refused(cli("start", "x", "--ttl", "3h", "--yes", "--json"), "tags: [team]")
    apply(cli, "ttl: 5h\nmax_price: 0.1\n")
    refused(cli("start", "x", "--ttl", "3h", "--max-price", "3", "--yes", "--json"), "max_price: 0.1")
    apply(cli, "ttl: 5h\nper_hour: 0.1\n")
    refused(cli("start", "x", "--ttl", "3h", "--yes", "--json"), "per_hour: 0.1")
    apply(cli, "ttl: 5h\n")
    refused(cli("start", "x", "--ttl", "6h", "--yes", "--json"), "ttl: 5h")
    assert cli("start", "x", "--ttl", "3h", "--yes").code == 0
    refused(cli("extend", "x", "--ttl", "+3h", "--json"), "ttl: 5h", "the deadline was not changed")
    refused(cli("extend", "x", "--ttl", "none", "--json"), "ttl: 5h", "the deadline was not changed")
    assert cli("extend", "x", "--ttl", "4h").code == 0
    apply(cli, "ttl: 1h\nclouds: [azure]\nboxes: 0\nregions: [eu]\n")
    assert cli("extend", "x", "--ttl", "2h", "--yes").code == 0
    refused(
        cli("volume", "create", "data", "--size", "10", "--near", "T4", "--cloud", "aws", "--yes", "--json"),
        "clouds: [azure]",
    )
    assert cli("sweep", "--dry-run").code == 0
    ended = cli("down", "x", "--yes", "--json")
    assert (ended.code, ended.json["boxes"][0]["id"]) == (0, box["id"])
    assert cli.sandbox.status()["billing"] == []


def test_a_run_is_a_launch(cli: Shell) -> None:
    apply(cli, "boxes: 0\nttl: 24h\n")
    ran = cli("run", *T4, "--", "true")
    assert (ran.code, ran.error["class"]) == (125, "policy")
    [run] = cli("runs", "list", "--all", "--json").json["runs"]
    assert (run["state"], run["failure"]["class"]) == ("failed", "policy")
