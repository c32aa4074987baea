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


def test_a_type_stands_for_its_gpus_and_with_a_gpu_names_the_machines(run: Run) -> None:
    by_type = json.loads(run("equivalents", "--instance-type", "p4d.24xlarge", "--json")[1])
    by_gpu = json.loads(run("equivalents", "--gpu", "A100-40GB:8", "--json")[1])
    assert by_type == by_gpu
    _, out, _ = run("equivalents", "--gpu", "A100-40GB:8", "--instance-type", "g5.*", "--json")
    assert {each["offer"]["gpu"]["model"] for each in json.loads(out)["equivalents"]} == {"A10G"}
    code, _, err = run("equivalents", "--instance-type", "g4dn.*")
    assert code == 2
    assert "--instance-type: specify one GPU and a count" in err


def test_by_precision_what_is_doubtful_or_not_known_is_named(run: Run) -> None:
    code, out, err = run("equivalents", "H100-80GB:1", "--by", "fp16")
    assert code == 0
    assert "AS MUCH AS" in out
    assert "Not compared: RTX-PRO-4500, only those of the workstation card were found" in err
    assert "fp16 of RTX-PRO-6000 96GB is doubtful: an estimate" in err
    assert "fp16 of A100" not in err
    document = json.loads(run("equivalents", "H100-80GB:1", "--by", "fp16", "--json")[1])
    by_model = {each["offer"]["gpu"]["model"]: each for each in document["equivalents"]}
    assert "estimate" in by_model["RTX-PRO-6000"]["figure_doubt"]
    assert by_model["A100"]["figure_doubt"] is None
    assert "A100" in by_model["A100"]["figure_source"]
    assert set(document["without_figure"]) == set(document["unknown"])


def test_as_much_bandwidth(run: Run) -> None:
    """Eight times 2039 GB/s are five of an H100's 3350."""
    code, out, _ = run("equivalents", "A100-80GB:8", "--by", "bandwidth", "--cloud", "aws", "--json")
    document = json.loads(out)
    assert (code, document["amount"], document["unit"]) == (0, 16.312, "TB/s")
    gpus = {each["offer"]["gpu"]["model"]: each["gpus"] for each in document["equivalents"]}
    assert gpus["H100"] == pytest.approx(8 * 2039 / 3350, abs=0.001)


def test_two_sizes_are_compared_by_every_measure(run: Run) -> None:
    code, out, err = run("equivalents", "A100-80GB:8", "H100-80GB:4", "--json")
    assert code == 0, err
    document = json.loads(out)
    assert document["schema"] == "gpucloud.equivalents/v1"
    measures = {each["by"]: each for each in document["measures"]}
    ratios = {by: each["ratio"]["low"] for by, each in measures.items() if each["ratio"]}
    by_hand = {"memory": 320 / 640, "bandwidth": 13.4 / 16.312, "fp64": 134 / 77.6, "fp16": 3957.6 / 2496}
    assert {by: ratios[by] for by in by_hand} == pytest.approx(by_hand, abs=0.0001)
    assert measures["fp8"]["ratio"] is None
    assert measures["fp8"]["unknown"] == {"A100-80GB:8": "Ampere has no FP8 units"}
    first, second = document["sizes"]
    assert first["cards"] == ["NVIDIA A100 SXM4 80 GB"]
    cheapest = [Decimal(each["offers"][0]["per_hour_usd"]["amount"]) for each in (first, second)]
    assert document["price_ratio"] == pytest.approx(float(cheapest[1] / cheapest[0]), abs=0.001)
    for size, model in ((first, "A100"), (second, "H100")):
        assert {each["offer"]["gpu"]["model"] for each in size["offers"]} == {model}
        prices = [Decimal(each["per_hour_usd"]["amount"]) for each in size["offers"]]
        assert prices == sorted(prices)


def test_two_sizes_in_a_table(run: Run) -> None:
    code, out, err = run("equivalents", "A100:8", "H100:4", "--cloud", "aws")
    assert code == 0
    assert "H100:4 / A100:8" in out
    (memory,) = [line for line in out.splitlines() if line.startswith("memory")]
    assert "320 to 640" in memory
    assert "0.50 to 1.18" in memory, "either size of memory of either"
    assert "fp8 of A100:8: not known, Ampere has no FP8 units." in err
    assert "times as much" in err


def test_doubts_about_one_of_two_sizes_are_told_once(run: Run) -> None:
    _, out, err = run("equivalents", "L40S:1", "RTX-PRO-6000:1", "--json")
    measures = {each["by"]: each for each in json.loads(out)["measures"]}
    assert set(measures["fp16"]["doubts"]) == {"RTX-PRO-6000"}
    assert measures["bandwidth"]["doubts"] == {}
    _, _, err = run("equivalents", "L40S:1", "RTX-PRO-6000:1")
    assert err.count("fp16, bf16 of RTX-PRO-6000: doubtful, an estimate") == 1
    assert "L40S: doubtful" not in err


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (["--gpu", "A100:8"], "A100-40GB or A100-80GB"),
        (["--gpu", "A100:8,H100:4"], "one GPU"),
        (["--gpu", "T4", "--by", "weight"], "weight"),
        ([], "--gpu"),
        (["A100:8", "--gpu", "T4"], "once"),
        (["A100:8", "H100:4", "T4:1"], "two sizes at most"),
        (["A100:8", "H100:1..4"], "a count"),
        (["A100:8", "H1OO:4"], "did you mean H100"),
        (["A100:8", "H100:4", "--by", "fp16"], "every measure"),
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


def test_offers_are_sorted_by_what_bandwidth_costs(run: Run) -> None:
    """In TB/s: 1.555 of an A100 with 40 GB, 2.039 of one with 80 in the SXM form, 1.935 in the PCIe form."""
    bandwidth = {"p4d.24xlarge": "1.555", "p4de.24xlarge": "2.039", "Standard_NC24ads_A100_v4": "1.935"}
    where = ("--gpu", "A100:1..8", "--cloud", "aws", "--cloud", "azure", "--sort", "bandwidth-price")
    code, out, _ = run("offers", *where, "--csv")
    assert code == 0
    rows = [row for row in csv.DictReader(io.StringIO(out)) if row["instance_type"] in bandwidth]
    priced = [row for row in rows if row["price_usd"]]
    assert {row["instance_type"] for row in priced} == set(bandwidth)
    keys = [(bool(row["flags"]), per_unit(row, Decimal(bandwidth[row["instance_type"]]))) for row in priced]
    assert keys == sorted(keys), "what has a flag is last"
    assert "PER TB/S" in run("offers", *where)[1]
