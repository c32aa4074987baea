"""What counts as a good GPU, by what was measured on it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpucloud.bring_up.acceptance import Measurements, shortcomings

A100 = {
    "name": "NVIDIA A100-SXM4-40GB",
    "capability": "8.0",
    "multiprocessors": 108,
    "clock_mhz": 1410,
    "memory_bytes": 40 << 30,
    "tested_bytes": 36 << 30,
    "wrong_words": 0,
    "product_tflops": 9.7,
    "product_errors": 0,
    "from_host_gbs": 24.0,
    "to_host_gbs": 24.0,
}
RING = [(0, 1), (1, 2), (2, 3), (3, 0)]


def measured(
    changes: dict[int, dict[str, Any]] | None = None, *, count: int = 4, **pair: Any
) -> Measurements:
    gpus = [{"index": index, **A100, **(changes or {}).get(index, {})} for index in range(count)]
    pairs = [{"from": a, "to": b, "direct": True, "gbs": 240.0, **pair} for a, b in RING if count == 4]
    return Measurements.model_validate_json(json.dumps({"gpus": gpus, "pairs": pairs}))


def wrong(found: Measurements, **wanted: Any) -> str:
    return "; ".join(shortcomings(found, **{"count": 4, "interconnect": "nvswitch", **wanted}))


def test_a_good_box_has_no_shortcoming() -> None:
    assert wrong(measured()) == ""


def test_the_peak_is_what_the_vendor_says() -> None:
    """NVIDIA's data sheets: A100 19.5 TFLOPS of FP32, T4 8.1, H100 SXM 67 (at its boost clock)."""
    [a100] = measured(count=1).gpus
    assert a100.peak_tflops == pytest.approx(19.5, rel=0.01)
    t4 = a100.model_copy(update={"capability": "7.5", "multiprocessors": 40, "clock_mhz": 1590})
    assert t4.peak_tflops == pytest.approx(8.1, rel=0.01)
    h100 = a100.model_copy(update={"capability": "9.0", "multiprocessors": 132, "clock_mhz": 1980})
    assert h100.peak_tflops == pytest.approx(67, rel=0.01)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"wrong_words": 3}, "GPU 2: 3 words of memory read back differently than written"),
        ({"tested_bytes": 3 << 30}, "only 3.0 of 40.0 GiB"),
        ({"product_errors": 1}, "1 entries of a matrix product are wrong"),
        ({"product_tflops": 0.3}, "0.30 TFLOPS, at least 2.92"),
        ({"product_tflops": 5.0}, "GPU 2: 5.0 TFLOPS, the other GPUs 9.7"),
        ({"from_host_gbs": 0.8}, "0.8 GB/s from the machine's memory"),
        ({"to_host_gbs": 0.8}, "0.8 GB/s to the machine's memory"),
        ({"error": "CUDA error 79: GPU is lost"}, "GPU 2: CUDA error 79"),
    ],
)
def test_one_sick_gpu_of_four_is_named(change: dict[str, Any], said: str) -> None:
    found = wrong(measured({2: change}))
    assert said in found
    assert "GPU 1:" not in found


def test_a_box_without_a_driver_and_one_with_a_gpu_too_few() -> None:
    assert wrong(Measurements(error="libcuda.so.1: cannot open")) == "libcuda.so.1: cannot open"
    assert wrong(measured(count=3)) == "3 of 4 GPUs answer the driver"


def test_a_share_of_a_gpu_does_a_share_of_the_work() -> None:
    found = measured({0: {"product_tflops": 0.6}}, count=1)
    assert "TFLOPS" in wrong(found, count=1, interconnect="none")
    assert wrong(found, count=1, share=1 / 6, interconnect="none") == ""


def test_connections_are_held_against_what_was_rented() -> None:
    slow = measured(direct=False, gbs=9.0)
    assert wrong(slow, interconnect="pcie") == ""
    assert wrong(slow, interconnect="nvlink").count("no NVLink to any other GPU") == 4
    assert wrong(slow, interconnect="nvswitch").count("9 GB/s, at least 15") == 4
    assert "GPU 0 to 1: CUDA error" in wrong(measured(error="CUDA error 217"), interconnect="pcie")


def test_with_nvlink_between_some_each_gpu_needs_one_neighbour() -> None:
    """V100 boxes of eight join each GPU to four others only."""
    found = measured()
    pairs = tuple(pair.model_copy(update={"direct": pair.source % 2 == 0}) for pair in found.pairs)
    assert wrong(found.model_copy(update={"pairs": pairs}), interconnect="nvlink") == ""
