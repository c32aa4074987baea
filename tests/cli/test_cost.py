"""``gpucloud cost``, as a user runs it."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

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
    sentence, _, head, *_ = out.splitlines()
    assert "per hour" in sentence
    assert all(word in head for word in ("HOUR", "DAY", "MONTH"))
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
    line = ("cost", "--gpu", "T4", "--region", "cn-heyuan", "--cloud", "alibaba", "--hours", "5")
    _, out, _ = run(*line, "--json")
    option = next(o for o in json.loads(out)["options"] if o["purchase"] == "on_demand")
    assert option["disk"] is None
    assert "no disk price is known" in option["unknown"]["disk"]
    assert not option["complete"]
    _, out, err = run(*line)
    assert "≥" in out
    assert "disk of alibaba cn-heyuan" in err


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
    out = run(*line)[1]
    assert "RANGE" in out
    assert "15-20 % 2025-06-28" in out
    explained = run(*line, "--explain")[1]
    assert "chance of at least one interruption" in explained
    assert "from the band 15-20 % of 2025-06-28" in explained
    assert "best checkpoint interval" in explained


def test_what_is_not_known_of_interruptions_is_said(run: Run) -> None:
    """Nobody publishes a rate for Azure."""
    _, out, err = run("cost", "--gpu", "T4", "--cloud", "azure", "--spot", "--hours", "5", "--explain")
    assert "Unknown (≥, ?): interruptions of azure" in err
    assert "no interruption rate is known, so the expected cost is unknown" in out
    assert "unknown" in out


def test_without_hours_the_chance_is_that_of_a_month(run: Run) -> None:
    """0.15, 0.175 and 0.2 interruptions in 730 h and 5 minutes."""
    line = ("cost", "--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--spot")
    explained = run(*line, "--explain")[1]
    assert "in a month, 16 % chance of at least one interruption (14 to 18 %)" in explained
    assert "complete after" not in explained
    out = run(*line)[1]
    assert "15-20 % 2025-06-28" in out


def test_a_damaged_journal_costs_an_estimate_its_own_history_alone(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCLOUD_HOME", str(tmp_path))
    line = ("cost", "--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--hours", "5")
    assert "own history" not in run(*line)[2], "there is no journal"
    assert not (tmp_path / "state" / "journal.db").exists(), "and none is made"
    (tmp_path / "state").mkdir(mode=0o700, exist_ok=True)
    (tmp_path / "state" / "journal.db").write_text("no journal" * 1000)
    code, out, err = run(*line)
    assert code == 0
    assert "15-20 % 2025-06-28" in out
    assert "Your own history on spot is not counted" in err
    assert "not counted" not in run(*line, "--on-demand")[2], "and it is not opened in vain"


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
    assert "on-demand up to 312 h; reserved-3y up to 730 h" in run(*line, "--explain")[1]


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
        ["--egress", "500"],
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


A100 = ("cost", "--gpu", "A100:8", "--hours", "72")


def test_the_answer_begins_with_one_sentence(run: Run) -> None:
    """What to start now, what spot saves and risks, and when a commitment pays, each as in the options."""
    code, out, err = run(*A100)
    assert code == 0
    sentence = out.splitlines()[0]
    document = json.loads(run(*A100, "--json")[1])
    verdict = document["verdict"]
    steady = [
        option
        for option in document["options"]
        if option["purchase"] == "on_demand" and option["complete"] and not option["offer"]["flags"]
    ]
    assert verdict["now"] == min(steady, key=lambda option: amount(option["expected_total"]))
    spot = verdict["spot"]
    saving = amount(verdict["now"]["expected_total"]) - amount(spot["expected_total"])
    assert amount(verdict["saving"]) == pytest.approx(saving, abs=Decimal("0.001"))
    offer = verdict["now"]["offer"]
    assert sentence.startswith(
        f"Without interruptions: on-demand, {offer['cloud']} {offer['region']} {offer['instance_type']}"
    )
    assert spot["offer"]["flags"] == ["stale"]
    told = re.search(r"on spot: \$([0-9,.]+) at its price of ([0-9-]+) \(", sentence)
    assert told is not None
    assert Decimal(told[1].replace(",", "")) == pytest.approx(amount(spot["expected_total"]), abs=1)
    assert told[2] == spot["offer"]["as_of"]
    assert re.search(r"\(our estimate: .* chance of an interruption; published: .* % a month\)", sentence)
    months = verdict["commitment"]["break_even_hours"]
    assert f"a 1-year commitment is cheaper above {months:.0f} h a month." in sentence
    assert len(err.splitlines()) <= 3


def test_commitments_are_shown_where_they_pay(run: Run) -> None:
    """72 h pay for no term; 8,000 h of a year pay for one: 8,760 x 13.93 against 8,000 x 21.96."""
    assert "reserved" not in run(*A100)[1]
    assert "reserved-1y" in run(*A100, "--all-terms")[1]
    year = run("cost", "--gpu", "A100:8", "--hours", "8000", "--cloud", "aws")[1]
    assert "reserved-1y" in year


def test_the_table_is_grouped_by_cloud_and_compares_each(run: Run) -> None:
    rows = [line.split()[0] for line in run(*A100)[1].splitlines()[3:]]
    assert set(rows) == {"aws", "azure", "alibaba"}
    assert rows == sorted(rows, key=rows.index)
    assert rows[0] == "aws"


def test_every_figure_shown_is_explained(run: Run) -> None:
    plain, explained = run(*A100)[1], run(*A100, "--explain")[1].split("compute", 1)[1]
    shown = set(re.findall(r"\$[0-9][0-9.,]*[0-9]", plain))
    assert len(shown) > 15
    assert {figure for figure in shown if figure not in explained} == set()
    assert re.search(r"([0-9]+) h a month", plain)[1] + " h" in explained  # type: ignore[index]


def test_part_of_an_hour_is_told_in_four_digits(run: Run, tmp_path: Path) -> None:
    line = ("cost", "--gpu", "A100:8", "--hours", "20m")
    page = tmp_path / "page.html"
    texts = [run(*line, *form)[1] for form in ((), ("--explain",), ("--markdown",), ("--html", str(page)))]
    assert "for 0.3333 h;" in texts[0]
    for text in (*texts, page.read_text(encoding="utf-8")):
        assert not re.search(r"[0-9]\.[0-9]{7,} ?h", text)


@pytest.mark.parametrize(
    ("words", "plain"),
    [
        (("--hours", "3d"), ("--hours", "72")),
        (("--hours", "1d12h"), ("--hours", "36")),
        (("--hours", "72", "--egress", "1TB"), ("--hours", "72", "--egress", "1024")),
        (("--hours", "72", "--boot", "10m"), ("--hours", "72", "--boot", "10")),
        (("--hours", "72", "--snapshots", "50GB"), ("--hours", "72", "--snapshots", "50")),
    ],
)
def test_times_and_sizes_have_units_as_everywhere(
    run: Run, words: tuple[str, ...], plain: tuple[str, ...]
) -> None:
    with_units, without = (
        json.loads(run("cost", "--gpu", "T4", *each, "--json")[1]) for each in (words, plain)
    )
    assert with_units == without


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
    where = ("--gpu", "T4", "--cloud", "aws", "--region", "us-gov-west-1", "--on-demand")
    line = ("cost", *where, "--hours", "10", "--boot", "30", "--json")
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
    line = ("cost", "--gpu", "T4", "--cloud", "aws", "--region", "us-gov-west-1", "--on-demand")
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
    assert re.search(
        r"^The other spec: \$5\.\d\d; this one: \$1\d\.\d\d, \$5\.\d\d more", run(*line)[1], re.MULTILINE
    )
    [row] = csv.DictReader(run(*line, "--csv")[1].splitlines())
    more = Decimal(row["expected_total"]) - Decimal(row["against"])
    assert Decimal(row["difference"]) == pytest.approx(more, abs=Decimal("0.001"))
    assert Decimal(row["against"]) == pytest.approx(amount(against["before"]), abs=Decimal("0.001"))
    [plain_row] = csv.DictReader(run(*line[:-2], "--csv")[1].splitlines())
    assert (plain_row["against"], plain_row["difference"]) == ("", "")
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
    assert "List prices before tax less your own discounts" in err
    assert "paid for already" in run("cost", *T4, "--conditions", str(own), "--explain")[1]


def test_conditions_that_make_no_sense_are_exit_2(run: Run, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("discounts: [{cloud: aws, percent: 200}]", encoding="utf-8")
    code, _, err = run("cost", *T4, "--conditions", str(own))
    assert code == 2
    assert "discounts[0].percent" in err


def figures_of(run: Run, *where: str) -> dict[str, Any]:
    """The figures of an on-demand box for 73 hours without boot, a tenth of a month, by part."""
    line = ("cost", *where, "--on-demand", "--hours", "73", "--boot", "0", "--explain", "--json")
    option = json.loads(run(*line)[1])["options"][0]
    return {figure["part"]: figure for figure in option["figures"]}


AWS = ("--gpu", "T4", "--cloud", "aws", "--region", "us-east-1")
AZURE = ("--gpu", "T4", "--cloud", "azure", "--region", "eastus")
ALIBABA = ("--gpu", "T4", "--cloud", "alibaba", "--region", "cn-hangzhou")


@pytest.mark.parametrize(
    ("line", "part", "expected"),
    [
        ((*AWS, "--egress", "50"), "egress", "0.0000"),  # of the free 100
        ((*AWS, "--egress", "500"), "egress", "36.0000"),  # 400 x 0.09
        ((*AZURE, "--egress", "500"), "egress", "34.8000"),  # 400 x 0.087
        ((*AZURE, "--disk", "1024"), "disk", "13.5170"),  # a tenth of a P30, 135.17
        ((*AZURE, "--disk", "200"), "disk", "3.8012"),  # a tenth of a P15, 38.012142
        ((*AWS, "--snapshots", "100"), "snapshots", "0.5000"),  # 100 x 0.05 / 10
        (ALIBABA, "address", "0.0000"),
        ((*ALIBABA, "--disk", "100"), "disk", "2.2865"),  # 100 x 0.0021 x 73 CNY / 6.7046
    ],
)
def test_the_parts_beside_compute_cost_what_their_steps_and_classes_say(
    run: Run, line: tuple[str, ...], part: str, expected: str
) -> None:
    figure = figures_of(run, *line)[part]
    assert figure["amount"]["amount"] == expected
    assert figure["rows"], "also a price of zero has a source"
    assert all(row["source"] for row in figure["rows"])


def test_a_tariff_is_explained_with_its_allowance_its_doubts_and_another_source_that_disagrees(
    run: Run,
) -> None:
    free = figures_of(run, *AWS, "--egress", "500")["egress"]
    assert "100 GiB free + 400 GiB x 0.09 USD" in free["formula"]
    assert "per account and month" in free["formula"]
    assert [row["amount"] for row in free["rows"]] == ["0", "0.09"]
    azure = ("--gpu", "T4", "--cloud", "azure", "--egress", "500", "--region")
    resort = figures_of(run, *azure, "brazilsouth")["egress"]
    assert "used for want of a better source (second-hand)" in resort["formula"]
    doubted = figures_of(run, *azure, "israelcentral")["egress"]
    [other] = [row for row in doubted["rows"] if "not used" in row["what"]]
    assert (other["amount"], other["source"]) == ("0.181", "idx-38830923261")


def test_a_discount_of_a_hundred_percent_is_free_and_no_crash(run: Run, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("discounts: [{cloud: aws, percent: 100, purchase: on-demand}]", encoding="utf-8")
    line = ("cost", *T4, "--conditions", str(own), "--explain")
    code, out, err = run(*line, "--json")
    assert code == 0, err
    options = {o["purchase"]: o for o in json.loads(out)["options"]}
    assert amount(options["on_demand"]["compute"]) == 0
    assert options["on_demand"]["offer"]["flags"] == [], "a free hour is a condition, no implausible price"
    assert options["reserved_1y"]["break_even_hours"] is None
    code, out, _ = run(*line, "--all-terms")
    assert code == 0
    assert "never" in out


def test_longer_terms_can_be_left_out(run: Run) -> None:
    line = ("cost", "--gpu", "A100-40GB:8", "--cloud", "aws", "--hours", "100", "--json")

    def purchases(*more: str) -> set[str]:
        return {o["purchase"] for o in json.loads(run(*line, *more)[1])["options"]}

    assert purchases() - purchases("--max-term", "1y") == {"reserved_3y"}
    assert purchases("--max-term", "364d") == {"on_demand", "spot"}
    code, _, err = run(*line[:-1], "--reserved", "--max-term", "1m")
    assert code == 3
    assert "--max-term" in err


@pytest.mark.parametrize(
    "wrong",
    [
        ("--max-term", "long"),
        ("--max-term", "0y"),
        ("--cost-of-capital", "much"),
        ("--cost-of-capital", "101%"),
    ],
    ids=" ".join,
)
def test_terms_that_cannot_be_are_refused(run: Run, wrong: tuple[str, str]) -> None:
    code, out, err = run("cost", *T4, *wrong)
    assert (code, out) == (2, "")
    assert wrong[0] in err


def test_capital_has_a_cost(run: Run) -> None:
    """A year that is paid as it goes, at 8 %: (1 - 1 / 1.08) / ln 1.08 of it, 0.962488."""
    line = (
        "cost",
        "--gpu",
        "T4",
        "--cloud",
        "aws",
        "--region",
        "us-east-1",
        "--hours",
        "8760",
        "--boot",
        "0",
    )
    told = json.loads(run(*line, "--cost-of-capital", "8%", "--explain", "--json")[1])
    assert told["usage"]["cost_of_capital"] == 0.08
    option = next(o for o in told["options"] if o["purchase"] == "on_demand")
    worth = amount(option["present_value"])
    assert worth == pytest.approx(amount(option["expected_total"]) * Decimal("0.962488"), rel=Decimal("1e-6"))
    (figure,) = [each for each in option["figures"] if each["part"] == "present_value"]
    assert figure["amount"] == option["present_value"]
    costs = [amount(o["present_value"]) for o in told["options"] if not o["offer"]["flags"]]
    assert costs == sorted(costs)
    assert "present_value" not in json.loads(run(*line, "--json")[1])["options"][0]
    words = run(*line, "--cost-of-capital", "8%", "--explain")[1]
    assert "PRESENT VALUE" in words
    assert "at 8 % a year" in words


def test_a_mix_counts_every_node_over_the_hours_asked(run: Run) -> None:
    line = ("cost", "--gpu", "A100-40GB:8", "--cloud", "aws", "--region", "us-east-1", "--profile", "24h/day")
    (one,) = json.loads(run(*line, "--json")[1])["mixes"]
    (two,) = json.loads(run(*line, "--nodes", "2", "--json")[1])["mixes"]
    assert amount(two["month"]) == 2 * amount(one["month"])
    assert [(s["machines"], s["purchase"]) for s in two["shares"]] == [(2, "reserved_3y")]
    (short,) = json.loads(run(*line, "--hours", "72", "--json")[1])["mixes"]
    assert short["for_hours"] == 72
    assert [s["purchase"] for s in short["shares"]] == ["on_demand"], "no term pays for three days"
    assert "over 72 h" in run(*line, "--hours", "72")[1]


def test_a_year_and_the_boot_is_no_second_year(run: Run) -> None:
    line = ("cost", "--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--hours", "8760", "--explain")
    options = {o["purchase"]: o for o in json.loads(run(*line, "--json")[1])["options"]}
    hours = {
        name: Decimal(options[name]["offer"]["price"]["amount"]) for name in ("reserved_1y", "on_demand")
    }
    five_minutes = hours["on_demand"] * 5 / 60
    assert amount(options["reserved_1y"]["compute"]) == round(hours["reserved_1y"] * 8760 + five_minutes, 4)
    compute = options["reserved_1y"]["figures"][0]
    assert compute["formula"].endswith(" USD x 8760 h + 0.526 USD x 0.0833 h on demand) x 1")
    assert len(compute["rows"]) == 2, "the row of the price on demand too"
    assert "after the last whole term are priced on demand" in run(*line)[1]


@pytest.mark.parametrize(
    ("line", "checkpoint_s"),
    [
        (("--hours", "1y"), 1800),
        (("--hours", "25"), 1800),
        (("--hours", "24"), None),
        (("--hours", "1y", "--checkpoint-every", "2h"), 7200),
        ((), None),
    ],
)
def test_long_work_on_spot_is_computed_with_checkpoints_and_says_so(
    run: Run, line: tuple[str, ...], checkpoint_s: int | None
) -> None:
    """Without any, a year of V100:4 would cost $11,208 to $455,441,804: nobody begins it again each time."""
    spot = ("cost", "--gpu", "V100:4", "--purchase", "spot", "--cloud", "aws", "-n", "1", *line)
    code, out, _ = run(*spot, "--json")
    assert code == 0
    assert json.loads(out)["usage"]["checkpoint_s"] == checkpoint_s
    shown = "".join(run(*spot)[1:])
    assert ("a checkpoint each 30 min is assumed" in shown) is (checkpoint_s == 1800)
    assert "e+" not in shown
