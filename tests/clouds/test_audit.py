"""The audit record is read from its end, as far as it is shown, in little memory."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

from gpucloud.clouds.audit import FILE, LONGEST_LINE, MOST_UNDER_WAY, read

LINES = 25_000
FEW_BYTES = 2 * 1024 * 1024


AT = "2026-11-22T10:00:00Z"


def a_call(number: int, **fields: Any) -> str:
    sent = {"at": AT, "call": str(number), "action": "ec2:RunInstances", "box": "b-1", **fields}
    return json.dumps(sent) + "\n"


def an_outcome(number: int) -> str:
    return json.dumps({"at": AT, "call": str(number), "outcome": "ok", "request_id": "r"}) + "\n"


def test_the_newest_calls_of_a_long_record_are_read_without_the_others(tmp_path: Path) -> None:
    with (tmp_path / FILE).open("w") as file:
        for number in range(LINES):
            file.write(a_call(number, box="b-old" if number < 7 else "b-1") + an_outcome(number))
    tracemalloc.start()
    newest = read(tmp_path, most=200)
    old = read(tmp_path, lambda call: call["box"] == "b-old", most=200)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [call["outcome"] for call in newest.calls] == ["ok"] * 200
    assert (newest.more, newest.damaged) == (True, 0)
    assert (len(old.calls), old.more) == (7, False)
    assert peak < FEW_BYTES


def test_calls_come_in_the_order_in_which_they_were_sent_each_with_its_outcome(tmp_path: Path) -> None:
    """Also where answers came in another order, or never."""
    lines = [a_call(1), a_call(2), an_outcome(2), a_call(3), an_outcome(1), "", "[1]\n", '{"torn": "']
    (tmp_path / FILE).write_text("".join(lines))
    record = read(tmp_path)
    assert [call["outcome"] for call in record.calls] == ["ok", "ok", None]
    assert (record.damaged, record.more) == (2, False)
    assert read(tmp_path, most=3).more is False
    assert read(tmp_path / "nowhere") == read(tmp_path / "nothing")


def test_what_is_no_record_at_all_is_passed_over_in_little_memory(tmp_path: Path) -> None:
    with (tmp_path / FILE).open("w") as file:
        file.write(a_call(1))
        file.write("x" * 100 * LONGEST_LINE + "\n")
        file.writelines(an_outcome(number) for number in range(10, 10 + 2 * MOST_UNDER_WAY))
        file.write(a_call(5))
    tracemalloc.start()
    record = read(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(record.calls), record.damaged) == (2, 1)
    assert peak < 8 * FEW_BYTES
