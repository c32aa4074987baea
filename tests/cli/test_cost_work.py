"""``gpucloud cost --tokens`` and ``--work``, as a user runs them."""

from __future__ import annotations

import csv
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.shell import Run

A100 = ("cost", "--gpu", "A100-40GB:8")
TOKENS = (*A100, "--tokens", "300M", "--epochs", "3", "--throughput", "25k")
"""3 x 300,000,000 tokens at 25,000 a second: ten hours."""


def amount(money: dict[str, str]) -> Decimal:
    return Decimal(money["amount"])


def options(run: Run, *line: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*line, "--json")[1])["options"]
    return found


def test_tokens_are_hours_with_a_price_of_an_epoch_and_of_a_million(run: Run) -> None:
    """Everything else is as for ten hours; an epoch is a third of it, a million tokens a 900th."""
    document = json.loads(run(*TOKENS, "--json")[1])
    assert document["usage"]["hours"] == 10
    assert document["usage"]["tokens"] == {"per_epoch": 300_000_000, "per_second": 25_000, "epochs": 3}
    per_work = ("per_epoch", "per_million_tokens")
    plain = [{name: each[name] for name in each if name not in per_work} for each in document["options"]]
    assert plain == options(run, *A100, "--hours", "10")
    known = [each for each in document["options"] if each["expected_total"]]
    for each in known:
        total = amount(each["expected_total"])
        assert amount(each["per_epoch"]) == pytest.approx(total / 3, abs=Decimal("0.0001"))
        assert amount(each["per_million_tokens"]) == pytest.approx(total / 900, abs=Decimal("0.000001"))
    assert known


def test_every_form_shows_the_price_of_tokens(run: Run, tmp_path: Path) -> None:
    """The table, the sentence above it, CSV, Markdown, --explain and the page have the same figures."""
    first = next(each for each in options(run, *TOKENS, "--on-demand", "--cloud", "aws"))
    epoch = f"${amount(first['per_epoch']):,.2f}"
    million = f"${amount(first['per_million_tokens']):.4f}"
    page = tmp_path / "report.html"
    line = (*TOKENS, "--on-demand", "--cloud", "aws")
    code, text, _ = run(*line, "--explain", "--html", str(page))
    assert code == 0
    sentence, _, head, row, *_ = text.splitlines()
    assert f"for 10 h, {epoch} per epoch, {million} per million tokens" in sentence
    assert all(name in head for name in ("PER EPOCH", "PER 1M TOKENS", "EXPECTED"))
    assert epoch in row
    assert million in row
    assert "expected_total / 900 million tokens" in text
    assert "300000000 tokens x 3 / (25000 per second x 3600 s)" in text
    assert epoch in page.read_text(encoding="utf-8")
    markdown = run(*line, "--markdown")[1]
    assert "| paid as | for 10 h | per epoch | per 1M tokens |" in markdown
    assert f"| {epoch} | {million} |" in markdown
    (told, *_) = csv.DictReader(run(*line, "--csv")[1].splitlines())
    assert Decimal(told["hours"]) == 10
    assert Decimal(told["per_epoch"]) == round(amount(first["per_epoch"]), 4)
    assert Decimal(told["per_million_tokens"]) == round(amount(first["per_million_tokens"]), 4)


def test_a_price_of_tokens_without_a_rate_of_interruptions_is_a_lower_bound(run: Run) -> None:
    line = (*TOKENS, "--spot", "--cloud", "azure")
    option = options(run, *line)[0]
    assert option["expected_total"] is None
    assert amount(option["per_epoch"]) == pytest.approx(amount(option["total"]) / 3, abs=Decimal("0.0001"))
    assert run(*line)[1].count("≥") >= 3


WORK = ("cost", "--gpu", "A100-40GB:8,T4:1,K80:1", "--work", "3.59424e20 flop")
"""A hundred hours of eight A100 at 0.4 of 312 TFLOPS; 3,840 of a T4 at 0.4 of 65."""


def test_each_option_has_the_hours_of_its_own_gpus(run: Run) -> None:
    document = json.loads(run(*WORK, "--json", "--limit", "3", "--on-demand", "--boot", "0")[1])
    assert document["usage"]["hours"] is None
    assert document["usage"]["computation"]["mfu"] == 0.4
    hours = {"A100": 100, "T4": 3840}
    *measured, last = document["options"]
    for each in measured:
        assert each["hours"] == hours[each["offer"]["gpu"]["model"]]
        price = amount(each["offer"]["price_usd"])
        assert amount(each["compute"]) == pytest.approx(price * each["hours"], rel=Decimal("1e-6"))
    totals = [amount(each["expected_total"]) for each in measured if each["complete"]]
    assert totals == sorted(totals)
    assert last["offer"]["gpu"]["model"] == "K80"
    assert last["total"] is last["hours"] is None
    assert "no BF16 or FP16 rate of K80 is known" in last["unknown"]["total"]
    assert document["usage"]["unmeasured"] == {"K80": last["unknown"]["total"]}


def test_the_best_place_is_that_of_the_lowest_total_and_not_of_the_cheapest_hour(run: Run) -> None:
    """An hour of a T4 is the cheapest of all; the work costs less on other GPUs, wherever they are."""
    work = ("cost", "--cloud", "aws", "--on-demand", "--work", "1e21 flop")
    best = options(run, *work)[0]
    each = [options(run, *work, "--gpu", gpu)[0] for gpu in ("T4", "L40S:1", "H100:8", "A100-40GB:8")]
    assert amount(best["expected_total"]) == min(amount(one["expected_total"]) for one in each)
    assert best["offer"]["gpu"]["model"] != "T4"


def test_the_table_has_hours_and_says_why_a_gpu_is_not_compared(run: Run) -> None:
    code, out, err = run(*WORK)
    sentence, _, head, *_ = out.splitlines()
    assert code == 0
    assert "for 3.59424e+20 FLOP, in " in sentence
    assert "HOURS" in head
    assert "no BF16 or FP16 rate of K80 is known (Kepler has no FP16 arithmetic)" in err
    assert "arXiv:2407.21783" in run(*WORK, "--explain")[1]


def test_hours_of_nobody_are_exit_3(run: Run) -> None:
    code, out, err = run("cost", "--gpu", "K80:1", "--work", "1e18 flop")
    assert (code, out) == (3, "")
    assert "no BF16 or FP16 rate of K80 is known" in err


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (("--tokens", "2B"), "--throughput"),
        (("--throughput", "25k"), "--tokens"),
        (("--epochs", "2"), "--tokens"),
        (("--tokens", "0", "--throughput", "1"), "--tokens"),
        (("--tokens=-1", "--throughput", "1"), "--tokens"),
        (("--tokens", "nan", "--throughput", "1"), "--tokens"),
        (("--tokens", "2X", "--throughput", "1"), "--tokens"),
        (("--tokens", "1e999999B", "--throughput", "1"), "--tokens"),
        (("--tokens", "2B", "--throughput", "0"), "--throughput"),
        (("--tokens", "2B", "--throughput", "inf"), "--throughput"),
        (("--tokens", "2B", "--throughput", "1", "--epochs", "0"), "--epochs"),
        (("--tokens", "2B", "--throughput", "0.001"), "allowed: 0.01 to 1000000 h"),
        (("--tokens", "2B", "--throughput", "25k", "--hours", "3"), "--hours and --tokens"),
        (("--work", "1e21 flop", "--hours", "3"), "--hours and --work"),
        (("--work", "1e21"), "1e21 flop"),
        (("--work", "0 flop"), "--work"),
        (("--work=-1e21 flop",), "--work"),
        (("--work", "nan flop"), "--work"),
        (("--work", "1e999999999 flop"), "--work"),
        (("--work", "1e21 flop", "--mfu", "0"), "--mfu"),
        (("--work", "1e21 flop", "--mfu", "40"), "--mfu"),
        (("--work", "1e21 flop", "--mfu", "nan"), "--mfu"),
        (("--mfu", "0.4"), "--work"),
        (("--work", "1e21 flop", "--project", "project.toml"), "--work"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else each,
)
def test_work_that_cannot_be_is_exit_2(run: Run, line: tuple[str, ...], named: str) -> None:
    gpu = () if "--project" in line else ("--gpu", "T4")
    code, out, err = run("cost", *gpu, *line)
    assert (code, out) == (2, "")
    assert named in err


@pytest.mark.parametrize(
    ("text", "same"), [("500 EFLOP", "5e20 flop"), ("5e20flop", "5e20 flop"), ("0.5 zflop", "5e20 flop")]
)
def test_work_has_prefixes(run: Run, text: str, same: str) -> None:
    line = ("cost", "--gpu", "T4", "--on-demand", "--cloud", "aws", "--work")
    assert options(run, *line, text) == options(run, *line, same)
