"""``gpucloud cost``, as a user runs it."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud_pricing import Market
from tests.shell import Run


def amount(money: dict[str, str]) -> Decimal:
    return Decimal(money["amount"])


def test_json_has_every_way_of_paying_side_by_side(run: Run) -> None:
    code, out, _ = run("cost", "--gpu", "A100:8", "--hours", "72", "--json", "--boot", "0")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "gpucloud.cost/v1"
    assert document["usage"]["hours"] == 72
    options = document["options"]
    assert {o["purchase"] for o in options} >= {"on_demand", "spot", "reserved_1y", "reserved_3y"}
    on_demand = next(o for o in options if o["purchase"] == "on_demand" and o["offer"]["cloud"] == "aws")
    assert amount(on_demand["compute"]) == round(amount(on_demand["offer"]["price_usd"]) * 72, 4)
    parts = sum(amount(on_demand[part]) for part in ("compute", "disk", "address", "egress"))
    assert amount(on_demand["total"]) == pytest.approx(parts, abs=Decimal("0.001"))
    assert on_demand["break_even_hours"] is None
    committed = next(o for o in options if o["purchase"] == "reserved_1y")
    assert 0 < committed["break_even_hours"] < 730


def test_without_hours_it_shows_hour_day_and_month(run: Run) -> None:
    code, out, _ = run("cost", "--gpu", "T4")
    assert code == 0
    assert all(word in out.splitlines()[0] for word in ("HOUR", "DAY", "MONTH"))
    _, out, _ = run("cost", "--gpu", "T4", "--json")
    document = json.loads(out)
    assert document["usage"]["hours"] == 730
    assert document["usage"]["hours_assumed"]
    running = document["options"][0]["running"]
    assert amount(running["day"]) == pytest.approx(amount(running["hour"]) * 24, abs=Decimal("0.01"))


def test_only_the_ways_of_paying_that_are_asked_for_are_compared(run: Run) -> None:
    _, out, _ = run("cost", "--gpu", "T4", "--hours", "1", "--spot", "--json")
    assert {o["purchase"] for o in json.loads(out)["options"]} == {"spot"}


def test_what_the_data_lacks_is_unknown_and_said(run: Run) -> None:
    line = ("cost", "--gpu", "T4", "--region", "eu-north-1", "--cloud", "aws", "--hours", "5")
    _, out, _ = run(*line, "--json")
    option = next(o for o in json.loads(out)["options"] if o["purchase"] == "on_demand")
    assert option["disk"] is None
    assert "no disk price is known" in option["unknown"]["disk"]
    assert not option["complete"]
    _, out, err = run(*line)
    assert "≥" in out
    assert "no disk price is known for aws eu-north-1" in err


@pytest.mark.parametrize("hours", ["0", "-1", "nan", "many", "1e99"])
def test_impossible_hours_are_exit_2(run: Run, hours: str) -> None:
    code, out, err = run("cost", "--gpu", "T4", f"--hours={hours}")
    assert code == 2
    assert out == ""
    assert "--hours" in err


@pytest.mark.parametrize("forms", [("--csv", "--markdown"), ("--json", "--csv"), ("--json", "--markdown")])
def test_several_forms_of_the_answer_are_refused(run: Run, forms: tuple[str, str]) -> None:
    code, out, err = run("cost", "--gpu", "T4", "--hours", "1", *forms)
    assert code == 2
    assert f"{' and '.join(forms)} contradict each other" in out + err


def test_nodes_multiply(run: Run) -> None:
    line = ("cost", "--gpu", "T4", "--hours", "10", "--on-demand", "--json")
    one, four = (json.loads(run(*line, "--nodes", nodes)[1])["options"][0] for nodes in ("1", "4"))
    assert amount(four["compute"]) == pytest.approx(amount(one["compute"]) * 4, abs=Decimal("0.001"))


def test_no_match_is_exit_3(run: Run) -> None:
    assert run("cost", "--gpu", "A100:3")[0] == 3


def test_spot_tells_of_interruptions_and_when_the_work_is_done(run: Run) -> None:
    line = ("cost", "--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--spot", "--hours", "500")
    plain = json.loads(run(*line, "--json")[1])["options"][0]
    saved = json.loads(run(*line, "--json", "--checkpoint-every", "1h")[1])["options"][0]
    assert (
        plain["spot"]["hours"]["low"] <= plain["spot"]["hours"]["expected"] <= plain["spot"]["hours"]["high"]
    )
    assert amount(saved["expected_total"]) < amount(plain["expected_total"])
    assert amount(plain["low_total"]) < amount(plain["high_total"])
    assert saved["spot"]["best_checkpoint_interval_s"] > 3600
    _, out, err = run(*line)
    assert "RANGE" in out
    assert "interruptions and" in err
    assert "best checkpoint interval" in err


def test_from_how_many_hours_on_a_commitment_pays(run: Run) -> None:
    """p4d.24xlarge: 21.957642 on demand, 9.37422 for three years; 730 * 9.37422 / 21.957642 = 311.7."""
    line = ("cost", "--gpu", "A100-40GB:8", "--cloud", "aws", "--region", "us-east-1")
    code, out, _ = run(*line, "--json")
    (place,) = json.loads(out)["cheapest_by_hours"]
    assert code == 0
    assert place["stretches"] == [
        {"from_hours": 0.0, "to_hours": 311.7, "purchase": "on_demand", "terms": None},
        {"from_hours": 311.7, "to_hours": 730.0, "purchase": "reserved_3y", "terms": None},
    ]
    assert "on-demand up to 312 h; reserved-3y up to 730 h" in run(*line)[2]


def test_the_cheapest_mix_for_a_profile(run: Run) -> None:
    """Four boxes always: 4 * 730 * 9.37422; twelve for 40 of 168 hours: 12 * 173.8 * 21.957642."""
    line = ("cost", "--gpu", "A100-40GB:8", "--cloud", "aws", "--region", "us-east-1")
    profile = ("--profile", "8h/day,5d/week", "--steady", "4", "--burst", "12")
    (mix,) = json.loads(run(*line, *profile, "--json")[1])["mixes"]
    assert [(s["machines"], s["purchase"], s["month"]["amount"]) for s in mix["shares"]] == [
        (4, "reserved_3y", "27372.72"),
        (12, "on_demand", "45797.37"),
    ]
    assert mix["month"]["amount"] == "73170.09"
    assert "$73,170 per month" in run(*line, *profile)[1]


@pytest.mark.parametrize(
    "wrong",
    [
        ["--profile", "25h/day"],
        ["--steady", "4"],
        ["--checkpoint-every", "often"],
        ["--checkpoint-takes", "none"],
        ["--checkpoint-every", "0s"],
    ],
    ids=" ".join,
)
def test_usages_that_cannot_be_are_refused(run: Run, wrong: list[str]) -> None:
    assert run("cost", "--gpu", "T4", *wrong)[0] == 2


def test_every_figure_leads_to_rows_with_date_and_source(run: Run) -> None:
    """And what its formula says is what it is."""
    line = ("cost", "--gpu", "T4", "--hours", "72", "--egress", "10", "--explain")
    sources = {s["id"] for s in json.loads(run("prices", "show", "--json")[1])["sources"]}
    document = json.loads(run(*line, "--json")[1])
    for option in document["options"]:
        figures = {figure["part"]: figure for figure in option["figures"]}
        parts = [figures[part] for part in ("compute", "disk", "address", "egress", "snapshots")]
        for part, figure in figures.items():
            if figure["amount"] is None:
                assert figure["formula"] == option["unknown"][part]
                continue
            assert figure["amount"] == option[part], part
            assert all(row["source"] for row in figure["rows"])
        assert all(part["rows"] or part["formula"] == "none" or part["amount"] is None for part in parts)
        quote = figures["compute"]["rows"][0]
        assert quote["source"] in sources
        assert (quote["amount"], quote["as_of"]) == (
            option["offer"]["price"]["amount"],
            option["offer"]["as_of"],
        )
        due = {"upfront"} if amount(option.get("upfront") or {"amount": "0"}) else set()
        pays = {"break_even_hours"} if option["break_even_hours"] is not None else set()
        for part in due | pays:
            assert figures[part]["rows"], part
    out = run(*line)[1]
    assert "0.526 USD x 72.0833 h x 1; 72 h work + 0.0833 h boot" in out
    assert "3,000 IOPS" in out, "what is not billed apart is said"
    brief = run("cost", "--gpu", "T4", "--cloud", "aws", "--hours", "0.01", "--boot", "0", "--explain")[1]
    assert "0.526 USD x 0.0167 h x 1; 0.01 h work, each start billed for 60 s at least" in brief
    failed = run("cost", "--gpu", "T4", "--hours", "10", "--failed-attempts", "2", "--explain")[1]
    assert "0.526 USD x 10.25 h x 1; 10 h work + 0.0833 h boot + 0.1667 h failed attempts" in failed
    assert re.search(r"USD x 8760 h x 1$", failed, re.MULTILINE), "a term owes the same"
    assert "karpenter-aws: aws/karpenter-provider-aws" in out


def test_several_nodes_are_told_in_all_and_each(run: Run) -> None:
    line = ("cost", "--gpu", "T4", "--cloud", "aws", "--on-demand", "--hours", "10")
    (one,) = json.loads(run(*line, "--json")[1])["options"]
    (four,) = json.loads(run(*line, "--nodes", "4", "--json")[1])["options"]
    assert amount(four["expected_total"]) == pytest.approx(
        4 * amount(one["expected_total"]), abs=Decimal("0.001")
    )
    assert amount(four["expected_per_node"]) == pytest.approx(
        amount(one["expected_total"]), abs=Decimal("0.001")
    )
    assert "PER NODE" in run(*line, "--nodes", "4")[1]
    assert "PER NODE" not in run(*line)[1]


def test_failed_attempts_and_snapshots_are_on_the_bill(run: Run) -> None:
    """What nobody states a price of is named, and the total is a lower bound."""
    line = ("cost", "--gpu", "T4", "--cloud", "aws", "--on-demand", "--hours", "10", "--boot", "30", "--json")
    plain = json.loads(run(*line)[1])["options"][0]
    told = json.loads(run(*line, "--failed-attempts", "2", "--snapshots", "50")[1])["options"][0]
    hour = Decimal(told["offer"]["price"]["amount"])
    assert amount(told["compute"]) - amount(plain["compute"]) == hour, "two boots of half an hour"
    assert told["snapshots"] is None
    assert told["unknown"]["snapshots"].startswith("no snapshots price is known for aws")
    assert not told["complete"]
    assert amount(plain["low_total"]) == amount(plain["total"]) == amount(told["low_total"])
    assert amount(plain["low_total"]) < amount(plain["high_total"]) < amount(told["high_total"])
    words = run(*line[:-1], "--failed-attempts", "2", "--snapshots", "50")
    assert "≥" in words[1]
    assert "30 min of boot, 2 failed attempts" in words[2]


def test_ways_are_sorted_by_what_work_costs(run: Run) -> None:
    """An L4 is dearer than a T4, and has more than its share of TFLOPS."""
    where = ("--cloud", "aws", "--region", "us-east-1", "--on-demand", "--limit", "9")
    line = ("cost", "--gpu", "T4:1, L4:1", *where, "--hours", "10")
    options = json.loads(run(*line, "--sort", "fp16-price", "--explain", "--json")[1])["options"]
    costs = [amount(option["unit_cost"]["usd_per_hour"]) for option in options]
    assert costs == sorted(costs)
    best = options[0]
    assert best["offer"]["gpu"]["model"] == "L4"
    assert costs[0] == pytest.approx(amount(best["expected_total"]) / 10 / 121, rel=Decimal("0.001"))
    assert (best["unit_cost"]["measure"], best["unit_cost"]["source"] is None) == ("fp16", False)
    (figure,) = [figure for figure in best["figures"] if figure["part"] == "unit_cost"]
    assert figure["amount"] == best["unit_cost"]["usd_per_hour"]
    assert [(row["amount"], row["currency"]) for row in figure["rows"]] == [("121", "TFLOPS")]
    assert "PER TFLOPH" in run(*line, "--sort", "fp16-price")[1]
    one = (*line[:-4], "--limit", "1", "--hours", "10", "--json")
    (only,) = json.loads(run(*one, "--sort", "fp16-price")[1])["options"]
    assert only["offer"]["gpu"]["model"] == "L4", "by work it is chosen too"
    (plain,) = json.loads(run(*one)[1])["options"]
    assert plain["offer"]["gpu"]["model"] == "T4"
    assert "unit_cost" not in plain


def test_without_hours_work_costs_what_runs_and_no_whole_term(run: Run) -> None:
    line = (
        "cost",
        "--gpu",
        "T4",
        "--cloud",
        "aws",
        "--region",
        "us-east-1",
        "--sort",
        "fp16-price",
        "--explain",
    )
    options = {o["purchase"]: o for o in json.loads(run(*line, "--nodes", "2", "--json")[1])["options"]}
    for paid in ("on_demand", "reserved_1y"):
        told, hour = options[paid]["unit_cost"], amount(options[paid]["running"]["hour"])
        assert amount(told["usd_per_hour"]) == pytest.approx(hour / 2 / 65, abs=Decimal("0.00001"))
        (figure,) = [each for each in options[paid]["figures"] if each["part"] == "unit_cost"]
        assert figure["formula"] == "an hour of running / (2 x 65 TFLOPS)"


def test_a_running_hour_without_a_price_of_its_snapshots_is_a_lower_bound(run: Run) -> None:
    line = ("cost", "--gpu", "T4", "--cloud", "aws", "--on-demand")
    assert "≥" not in run(*line)[1]
    assert "≥" in run(*line, "--snapshots", "50")[1]


def test_a_price_in_yuan_is_explained_with_its_rate(run: Run) -> None:
    line = (
        "cost",
        "--gpu",
        "T4",
        "--cloud",
        "alibaba",
        "--region",
        "cn-hangzhou",
        "--hours",
        "1",
        "--explain",
    )
    figures = json.loads(run(*line, "--json")[1])["options"][0]["figures"]
    rate = Market.load().rate("CNY")
    assert rate is not None
    assert f" CNY / {rate.rate} x " in figures[0]["formula"]
    assert [row["what"] for row in figures[0]["rows"]][1] == "USD in CNY"


def test_comma_separated_values_have_a_row_for_each_way(run: Run) -> None:
    code, out, _ = run("cost", "--gpu", "T4", "--hours", "72", "--csv")
    header, *rows = list(csv.reader(out.splitlines()))
    assert code == 0
    assert header[:6] == ["cloud", "region", "zone", "instance_type", "purchase", "terms"]
    assert all(len(row) == len(header) for row in rows)
    assert {row[4] for row in rows} >= {"on_demand", "spot", "reserved_1y"}


@pytest.mark.parametrize(("budget", "code"), [("1000", 0), ("10", 7)])
def test_a_budget_is_a_gate(run: Run, budget: str, code: int) -> None:
    """What is shown is the same; a commitment cannot save it, as nothing would buy one."""
    line = ("cost", "--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--hours", "72")
    ended, out, err = run(*line, "--budget", budget)
    assert ended == code, err
    assert "on-demand" in out
    assert ("the budget is 10 USD" in err) == (code == 7)
    ended, out, _ = run(*line, "--budget", budget, "--json")
    assert (ended, "error" in json.loads(out)) == (code, code == 7), "one document"


def test_a_comment_for_a_pull_request_shows_the_difference_to_the_spec_at_another_commit(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two boxes instead of one cost twice as much, disk and address too."""
    monkeypatch.chdir(tmp_path)
    spec = tmp_path / "spec.yaml"
    plain = "gpu: T4\nclouds: [aws]\nregions: [us-east-1]\npurchase: [on-demand]\n"
    spec.write_text(plain)
    for command in (
        ["init", "-q", "-b", "main"],
        ["add", "spec.yaml"],
        ["-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *command], check=True, cwd=tmp_path)
    spec.write_text(f"{plain}nodes: 2\n")
    line = ("cost", "--file", "spec.yaml", "--hours", "10", "--against", "main:spec.yaml")
    against = json.loads(run(*line, "--json")[1])["against"]
    assert amount(against["after"]) == pytest.approx(2 * amount(against["before"]), abs=Decimal("0.001"))
    assert amount(against["difference"]) == pytest.approx(amount(against["before"]), abs=Decimal("0.001"))
    code, out, _ = run(*line, "--markdown")
    assert code == 0
    assert re.search(
        r"^\*\*\+\$5\.\d\d\*\* \(\+100\.0 %\): \$5\.\d\d before, \$1\d\.\d\d now$", out, re.MULTILINE
    )
    assert "| on-demand | $1" in out
    assert "more." in run(*line)[2]
    other = tmp_path / "other.yaml"
    other.write_text(plain)
    assert json.loads(run(*line[:-1], str(other), "--json")[1])["against"] == against


def test_a_spec_that_is_not_there_cannot_be_compared_with(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for wrong in ("nothing.yaml", "main:nothing.yaml", "--output=x:y"):
        assert run("cost", "--gpu", "T4", f"--against={wrong}")[0] == 2


T4 = ("--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--hours", "100")
CONDITIONS = """
discounts: [{cloud: aws, percent: 10, purchase: on-demand}]
credits: [{cloud: aws, amount: 20}]
commitments: [{cloud: aws, region: us-east-1, type: g4dn.xlarge, until: 2099-12-31}]
"""


def test_own_conditions_count(run: Run, tmp_path: Path) -> None:
    """Discount, credit and commitment, each where it belongs; and each is said."""
    own = tmp_path / "own.yaml"
    own.write_text(CONDITIONS, encoding="utf-8")
    plain, mine = (
        {o["purchase"]: o for o in json.loads(run("cost", *T4, "--json", *more)[1])["options"]}
        for more in ((), ("--conditions", str(own), "--explain"))
    )
    nine_tenths = amount(plain["on_demand"]["compute"]) * Decimal("0.9")
    assert amount(mine["on_demand"]["compute"]) == pytest.approx(nine_tenths, abs=Decimal("0.001"))
    left = amount(mine["on_demand"]["expected_total"]) - 20
    assert amount(mine["on_demand"]["after_credit"]) == pytest.approx(left, abs=Decimal("0.001"))
    assert amount(mine["owned"]["compute"]) == 0
    assert "owned" not in plain
    figures = {each["part"]: each for each in mine["on_demand"]["figures"]}
    assert "x 0.9 (own discount)" in figures["compute"]["formula"]
    assert figures["after_credit"]["amount"] == mine["on_demand"]["after_credit"]
    assert [row["source"] for row in figures["after_credit"]["rows"]] == ["own-conditions"]
    _, out, err = run("cost", *T4, "--conditions", str(own))
    assert "AFTER CREDIT" in out
    assert "paid for already" in err
    assert "own discounts" in err


def test_conditions_that_make_no_sense_are_exit_2(run: Run, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("discounts: [{cloud: aws, percent: 200}]", encoding="utf-8")
    code, _, err = run("cost", *T4, "--conditions", str(own))
    assert code == 2
    assert "discounts[0].percent" in err
