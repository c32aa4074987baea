"""``gpucloud cost --project``: the cheapest places for several specs and the data between them."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.pages import ROOT
from tests.shell import Run

TWO = """
parts:
  prepare: {gpu: T4, hours: 100, boot: "0", clouds: aws, regions: us-east-1, purchase: on-demand}
  train: {gpu: "A100-40GB:8", hours: 10, boot: "0", clouds: azure, regions: eastus, purchase: on-demand}
transfers:
  - {from: prepare, to: train, size: 150GB}
  - {from: prepare, to: internet, size: 50GB}
  - {from: train, to: internet, size: 110GB}
"""


def written(folder: Path, text: str) -> str:
    file = folder / "project.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def usd(money: dict[str, str]) -> Decimal:
    return Decimal(money["amount"])


def answer(run: Run, *line: str) -> Any:
    code, out, err = run("cost", *line, "--json")
    assert code == 0, err
    return json.loads(out)


def test_what_leaves_a_cloud_shares_its_free_amount(run: Run, tmp_path: Path) -> None:
    """From AWS us-east-1 leave 150 + 50 GiB: 100 free, then 100 x 0.09 = 9.00 USD, 6.75 and 2.25 of them.

    From Azure leave 110 GiB: 100 free, then 10 x 0.087 = 0.87 USD.
    """
    told = answer(run, "--project", written(tmp_path, TWO))
    assert told["schema"] == "gpucloud.project/v1"
    best = told["cheapest"]
    assert [usd(each["cost"]) for each in best["transfers"]] == [
        Decimal("6.75"),
        Decimal("2.25"),
        Decimal("0.87"),
    ]
    assert [each["path"] for each in best["transfers"]] == ["internet"] * 3
    # T4 on AWS: 100 h x 0.526 + 100 GiB x 0.08 x 100 / 730 + 100 h x 0.005 = 52.60 + 1.0959 + 0.50
    assert usd(best["parts"][0]["cost"]) == Decimal("54.1959")
    parts = sum(usd(each["cost"]) for each in best["parts"])
    assert usd(best["total"]) == pytest.approx(parts + Decimal("9.87"), abs=Decimal("0.0002"))
    assert told["period"] == "all"
    assert told["one_cloud"] is None
    assert told["saving"] is None
    assert told["unknown"] == {"saving": "no cloud has offers for all parts"}


def test_data_keeps_parts_on_one_cloud_where_moving_it_costs_more(run: Run, tmp_path: Path) -> None:
    """One part is bound to a cloud. Little data lets the other go where it is cheapest, much does not."""
    text = """
parts:
  prepare: {{gpu: T4, hours: 100, clouds: azure, regions: eastus}}
  train: {{gpu: "A100-80GB:8", hours: 72}}
transfers: [{{from: prepare, to: train, size: {size}}}]
"""
    few, much = (
        answer(run, "--project", written(tmp_path, text.format(size=size))) for size in ("1GB", "500TB")
    )
    assert len(few["cheapest"]["clouds"]) == 2
    assert usd(few["saving"]) > 0
    difference = usd(few["one_cloud"]["total"]) - usd(few["cheapest"]["total"])
    assert usd(few["saving"]) == pytest.approx(difference, abs=Decimal("0.0002"))
    assert much["cheapest"]["clouds"] == ["azure"]
    assert usd(much["saving"]) == 0


@pytest.mark.parametrize(
    ("zones", "paths", "cost"),
    [
        # g4dn.xlarge costs the same in each of its zones; so both parts can be in one of them.
        (("", ""), ["zone", "zone"], Decimal(0)),
        (("zones: use1-az4, ", "zones: use1-az4, "), ["zone", "zone"], Decimal(0)),
        # 1000 GiB and 500 GiB cross zones, at 0.01 USD when they leave and when they arrive
        (("zones: use1-az1, ", "zones: use1-az4, "), ["region", "region"], Decimal(30)),
    ],
)
def test_data_within_one_zone_is_free(
    run: Run, tmp_path: Path, zones: tuple[str, str], paths: list[str], cost: Decimal
) -> None:
    part = "{{gpu: T4, hours: 10, clouds: aws, {}regions: us-east-1, purchase: on-demand}}"
    text = f"""
parts:
  prepare: {part.format(zones[0])}
  train: {part.format(zones[1])}
transfers: [{{from: prepare, to: train, size: 1000GB}}, {{from: train, to: prepare, size: 500GB}}]
"""
    file = written(tmp_path, text.replace("{{", "{").replace("}}", "}"))
    best = answer(run, "--project", file)["cheapest"]
    assert [each["path"] for each in best["transfers"]] == paths
    assert sum(usd(each["cost"]) for each in best["transfers"]) == cost
    in_zones = {part["offer"]["zone"] for part in best["parts"]}
    assert len(in_zones) == (1 if cost == 0 else 2)
    assert "use1-az4" in in_zones or not zones[0]
    _, out, _ = run("cost", "--project", file, "--explain")
    assert ("free within use1-az" in out) == (cost == 0)


def test_spot_in_the_zone_of_the_other_part_is_worth_what_the_data_would_cost(
    run: Run, tmp_path: Path
) -> None:
    """With little data each part is where it is cheapest, with much data both are in one zone."""
    text = """
parts:
  prepare: {{gpu: T4, hours: 1000, clouds: aws, regions: us-east-1, purchase: spot}}
  train: {{gpu: "A100-40GB:8", hours: 10, clouds: aws, regions: us-east-1, purchase: spot}}
transfers: [{{from: prepare, to: train, size: {}}}]
"""
    few, much = (
        answer(run, "--project", written(tmp_path, text.format(size)))["cheapest"] for size in ("1GB", "90TB")
    )
    alone = [{part["offer"]["zone"] for part in placement["parts"]} for placement in (few, much)]
    assert [len(zones) for zones in alone] == [2, 1]
    assert [placement["transfers"][0]["path"] for placement in (few, much)] == ["region", "zone"]
    parts = [sum(usd(part["cost"]) for part in placement["parts"]) for placement in (few, much)]
    assert parts[0] < parts[1] < parts[0] + usd(few["transfers"][0]["cost"]) * 90 * 1024


def test_a_commitment_counts_only_if_the_part_lasts(run: Run, tmp_path: Path) -> None:
    """A machine that always runs: a year of it is cheaper reserved, but not by the hour for a month."""
    text = """
parts:
  serve: {{gpu: T4, profile: 24h/day, clouds: aws, regions: us-east-1{lasts}}}
"""
    short = answer(run, "--project", written(tmp_path, text.format(lasts="")))
    year = answer(run, "--project", written(tmp_path, text.format(lasts=", lasts: 365d")))
    forced = answer(run, "--project", written(tmp_path, text.format(lasts="")), "--all-terms")
    assert short["period"] == "month"
    assert short["cheapest"]["parts"][0]["purchase"] == "on_demand"
    assert year["cheapest"]["parts"][0]["purchase"] in {"reserved_1y", "savings_1y"}
    assert usd(year["cheapest"]["total"]) < usd(short["cheapest"]["total"])
    assert forced["cheapest"]["parts"][0]["purchase"] in {"reserved_1y", "reserved_3y", "savings_3y"}


def test_what_is_unknown_makes_a_lower_bound_and_never_wins(run: Run, tmp_path: Path) -> None:
    """Disks of cn-heyuan have no price."""
    text = """
parts:
  serve: {{gpu: T4, hours: 10, clouds: alibaba, regions: [{regions}]}}
"""
    alone = written(tmp_path, text.format(regions="cn-heyuan"))
    told = answer(run, "--project", alone)["cheapest"]
    assert not told["complete"]
    assert {"part": "serve", "what": "disk"} in told["unknown"]
    _, out, err = run("cost", "--project", alone)
    assert "≥ $" in out
    assert "disk of serve" in err
    both = answer(run, "--project", written(tmp_path, text.format(regions="cn-heyuan, cn-hangzhou")))
    assert both["cheapest"]["parts"][0]["offer"]["region"] == "cn-hangzhou"


def test_it_begins_with_a_sentence_and_has_at_most_three_notes(run: Run, tmp_path: Path) -> None:
    code, out, err = run("cost", "--project", written(tmp_path, TWO))
    assert code == 0
    assert out.startswith("Cheapest: prepare on aws us-east-1 on-demand, train on azure eastus on-demand: $")
    assert "FROM" in out
    assert len(err.splitlines()) <= 3


def test_every_figure_of_the_total_is_explained(run: Run, tmp_path: Path) -> None:
    """The last line of figures adds up to the total."""
    _, out, _ = run("cost", "--project", written(tmp_path, TWO), "--explain")
    assert "150 of 200 GiB that leave the cloud, together 100 GiB free + 100 GiB x 0.09 USD" in out
    (line,) = (line for line in out.splitlines() if line.startswith("total "))
    total, terms = line.removeprefix("total ").split(" USD = ")
    added = sum(Decimal(each) for each in terms.split(" + "))
    assert added == pytest.approx(Decimal(total), abs=Decimal("0.03"))


def test_csv_and_markdown_hold_the_same_figures(run: Run, tmp_path: Path) -> None:
    file = written(tmp_path, TWO)
    rows = list(csv.DictReader(io.StringIO(run("cost", "--project", file, "--csv")[1])))
    assert [row["name"] for row in rows] == ["prepare", "train", "prepare", "prepare", "train"]
    assert rows[2]["cost"] == "6.7500"
    markdown = run("cost", "--project", file, "--markdown")[1]
    assert "| prepare | train | 150 | over the internet | $6.75 |" in markdown


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("parts: {a: {gpu: T4, hours: 1}}\nother: {}\n", ":2: unknown key 'other'"),
        ("transfers: []\n", ":1: parts are missing"),
        ("parts:\n  a: {gpu: T4}\n", ":2: a: hours or profile is missing"),
        ("parts:\n  a: {gpu: T4, hours: 1, profile: 8h/day}\n", "hours and profile contradict"),
        ("parts:\n  a:\n    gpu: T4\n    hours: 0\n", ":4: hours: 0 is not allowed"),
        ("parts:\n  a:\n    gpu: T4\n    hourz: 1\n", ":4: unknown field 'hourz'; did you mean hours?"),
        ("parts:\n  a:\n    gpu: A10O\n    hours: 1\n", ":3: gpu: unknown GPU 'A10O'"),
        ("parts:\n  a: {hours: 1}\n", ":2: a: gpu is missing"),
        ("parts:\n  a: {gpu: T4, hours: 1, budget: 5}\n", "budget is not allowed here"),
        ("parts:\n  a: {gpu: T4, hours: 1, lasts: 365d}\n", "only what has a profile lasts"),
        ("parts:\n  internet: {gpu: T4, hours: 1}\n", ":2: 'internet' is not a name"),
        ("parts:\n  a: {gpu: T4, profile: 30h/day}\n", ":2: profile: '30h/day' has more hours"),
        ("parts: [a]\n", "an entry must be a mapping"),
    ],
)
def test_a_file_that_is_not_valid_is_exit_2_and_names_the_line(
    run: Run, tmp_path: Path, text: str, told: str
) -> None:
    code, out, err = run("cost", "--project", written(tmp_path, text))
    assert (code, out) == (2, "")
    assert told in err


@pytest.mark.parametrize(
    ("transfer", "told"),
    [
        ("{from: a, to: c, size: 1GB}", ":5: there is no part 'c'; allowed: a, b, internet"),
        ("{from: a, to: a, size: 1GB}", ":5: a cannot send data to itself"),
        ("{from: internet, to: a, size: 1GB}", ":5: there is no part 'internet'"),
        ("{from: a, to: b}", ":5: size missing"),
        ("{from: a, to: b, size: lots}", ":5: size: 'lots' is not a size"),
        ("{from: a, to: b, size: 0}", ":5: size: 0 GiB is not allowed"),
        ("{from: a, to: b, size: 1GB, by: mail}", ":5: unknown field 'by'"),
    ],
)
def test_a_transfer_that_is_not_valid_names_the_line(
    run: Run, tmp_path: Path, transfer: str, told: str
) -> None:
    parts = "parts:\n  a: {gpu: T4, hours: 1}\n  b: {gpu: T4, hours: 1}\ntransfers:\n"
    code, _, err = run("cost", "--project", written(tmp_path, f"{parts}  - {transfer}\n"))
    assert code == 2
    assert told in err


def test_flags_of_one_spec_do_not_go_with_a_project(run: Run, tmp_path: Path) -> None:
    line = ("--gpu", "T4", "--hours", "3", "--limit", "2", "--against", "x.yaml", "--max-age", "2y")
    code, out, err = run("cost", "--project", written(tmp_path, TWO), *line)
    assert (code, out) == (2, "")
    assert all(flag in err for flag in ("--gpu", "--hours", "--limit", "--against", "--max-age"))


def test_a_part_that_nothing_matches_is_named(run: Run, tmp_path: Path) -> None:
    code, _, err = run("cost", "--project", written(tmp_path, "parts:\n  odd: {gpu: 'A100:3', hours: 1}\n"))
    assert code == 3
    assert "odd: " in err


def test_the_example_of_the_documentation_has_an_answer(run: Run) -> None:
    told = answer(run, "--project", str(ROOT / "docs/examples/project-cost/project.yaml"), "--explain")
    assert told["period"] == "month"
    assert [each["name"] for each in told["cheapest"]["parts"]] == ["preprocess", "train", "infer"]
    assert {each["of"] for each in told["figures"]} == {"preprocess", "train", "infer", "transfers"}
