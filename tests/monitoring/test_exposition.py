"""What a box says of itself is read as if an enemy had written it, and written as Prometheus reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucloud.monitor.exposition import LONGEST_VALUE, MOST_SAMPLES, read, sample, text_of
from gpucloud.monitor.families import INFO, OF_GUARD, OF_JOURNAL
from gpucloud_templates.guard.metrics import GPU_FIELDS, metrics_text

LEFT = "gpucloud_box_seconds_left 60\n"
STATUS = {"box": "b", "left_s": 1, "idle_s": 2, "taken_back_at": 3, "saved_at": 4, "at": 5, "health": {}}
GPU = "0, 87, 0, 41, 1, 2, 61, 66.25, 1410, Disabled, 00000000:00:1E.0, Tesla T4, GPU-1\n"


def names(text: str) -> list[str]:
    return [each.family.name for each in read(text, OF_GUARD)]


def test_everything_that_a_guard_writes_is_read_and_nothing_that_it_cannot_write_is_allowed() -> None:
    written = metrics_text(STATUS, GPU, {})
    lines = [line for line in written.splitlines() if not line.startswith("#")]
    found = read(written, OF_GUARD)
    assert len(found) == len(lines)
    assert {each.family.name for each in found} == set(OF_GUARD)
    assert len(GPU.split(", ")) == len(GPU_FIELDS)
    for each in found:
        assert f"# TYPE {each.family.name} {each.family.kind}\n" in written, "one type on both sides"


@pytest.mark.parametrize(
    "line",
    [
        "gpucloud_box_price_per_hour 9000",  # of the journal: a box may not say what it costs
        "up 1",
        'gpucloud_box_seconds_left{box="another"} 60',
        'gpucloud_box_health{what="ecc",cloud="aws"} 1',
        'gpucloud_box_health{what="ecc",what="gpus"} 1',
        f'gpucloud_box_health{{what="{"x" * (LONGEST_VALUE + 1)}"}} 1',
        'gpucloud_box_health{what="ecc} 1',
        "gpucloud_box_seconds_left 60 1700000000000",
        "gpucloud_box_seconds_left NaN",
        "gpucloud_box_seconds_left +Inf",
        "gpucloud_box_seconds_left 1e999",
        "gpucloud_box_seconds_left 0x10",
        "gpucloud_box_seconds_left",
        "\x1b[2J",
        "{" * 100_000,
    ],
)
def test_what_no_guard_says_is_left_out_and_what_follows_is_read(line: str) -> None:
    assert names(line + "\n" + LEFT) == ["gpucloud_box_seconds_left"]


def test_a_metric_is_told_once_and_the_number_of_samples_is_bounded() -> None:
    assert names(LEFT * 3) == ["gpucloud_box_seconds_left"]
    many = "".join(f'gpucloud_box_health{{what="{number}"}} 1\n' for number in range(3 * MOST_SAMPLES))
    assert len(names(many)) == MOST_SAMPLES


@given(st.text(max_size=300))
def test_whatever_a_box_says_is_one_line_of_one_known_metric(value: str) -> None:
    """A label's value cannot end its line, whatever is in it: nothing can be slipped in behind it."""
    line = text_of([sample(INFO, 1, box=value)])
    assert len(line.splitlines()) == 3
    [again] = read(line, OF_JOURNAL)
    assert again.labels.get("box", "") == "".join(filter(str.isprintable, value))[:LONGEST_VALUE]


@given(st.text(max_size=300))
def test_nothing_makes_the_reader_fail(text: str) -> None:
    read(text, OF_GUARD)
    read(f'gpucloud_box_health{{what="{text}"}} 1\n', OF_GUARD)
