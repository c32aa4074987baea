"""``gpucloud equivalents``, and offers sorted by what work costs."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal

import pytest

from tests.shell import Run


def test_as_much_memory_as_eight_a100(run: Run) -> None:
    code, out, _ = run("equivalents", "--gpu", "A100-40GB:8", "--cloud", "aws", "--json")
    document = json.loads(out)
    assert (code, document["schema"]) == (0, "gpucloud.equivalents/v1")
    assert (document["by"], document["amount"], document["unit"]) == ("memory", 320, "GiB")
    gpus = {
        (each["offer"]["gpu"]["model"], each["offer"]["gpu"]["memory_gib"]): each["gpus"]
        for each in document["equivalents"]
    }
    assert gpus["A100", 40] == 8
    assert gpus["A100", 80] == gpus["H100", 80] == 4
    assert all(each["offer"]["cloud"] == "aws" for each in document["equivalents"])


def test_by_precision_the_weak_figures_are_named(run: Run) -> None:
    code, out, err = run("equivalents", "--gpu", "H100:1", "--by", "fp16")
    assert code == 0
    assert "AS MUCH AS" in out
    assert "A10G" in err, "no figure of it is known"
    assert "T4" in err, "its figure rests on nothing that can be relied on"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (["--gpu", "A100:8"], "A100-40GB or A100-80GB"),
        (["--gpu", "A100:8,H100:4"], "one GPU"),
        (["--gpu", "T4", "--by", "weight"], "weight"),
        ([], "--gpu"),
    ],
)
def test_what_cannot_be_compared_is_refused(run: Run, line: list[str], why: str) -> None:
    code, _, err = run("equivalents", *line)
    assert code == 2
    assert why in err


FP16 = {"T4": Decimal(65), "A100": Decimal(312), "H100": Decimal("989.4")}


def per_unit(row: dict[str, str], amount: Decimal) -> Decimal:
    return Decimal(row["price_usd"]) / (Decimal(row["gpu_count"]) * amount)


def test_offers_are_sorted_by_what_a_gib_costs(run: Run) -> None:
    where = ("--cloud", "aws", "--region", "us-east-1", "--gpu", "A100:8,T4:1..8,H100:8")
    code, out, _ = run("offers", *where, "--sort", "gpu-memory-price", "--csv")
    assert code == 0
    priced = [row for row in csv.DictReader(io.StringIO(out)) if row["price_usd"]]
    prices = [per_unit(row, Decimal(row["gpu_memory_gib"])) for row in priced]
    assert len(prices) > 5
    assert prices == sorted(prices)
    assert "PER GIB" in run("offers", *where, "--sort", "gpu-memory-price")[1]
    assert "PER TFLOPH" in run("offers", *where, "--sort", "fp16-price")[1]
    _, out, _ = run("offers", *where, "--sort", "fp16-price", "--csv")
    priced = [row for row in csv.DictReader(io.StringIO(out)) if row["price_usd"]]
    prices = [per_unit(row, FP16[row["gpu_model"]]) for row in priced]
    assert prices == sorted(prices)
    assert {row["gpu_model"] for row in priced} == set(FP16)
