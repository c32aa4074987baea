"""What a box's guard says is data from a machine that may be anybody's by then."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucloud.ssh.guard import read_status

SAID: dict[str, Any] = {
    "box": "mine",
    "at": 1795247660,
    "left_s": 7199,
    "deadline": 1795254859,
    "clock_is_right": True,
    "clock_ahead_s": 0.7,
    "idle_s": 5,
    "gpu_percent": [0, 37],
    "sessions": 1,
    "jobs": False,
    "taken_back_at": None,
    "ending": None,
    "health": {"xid": "79, GPU has fallen off the bus."},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)


def test_the_guards_own_words_are_kept() -> None:
    status = read_status(json.dumps(SAID).encode())
    assert status == {key: value for key, value in SAID.items() if key != "box"}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"at": "now", "idle_s": 1}',
        b"[" * 9999,
        b'{"at": 1e400, "idle_s": 1}',
        b'{"at": 1' + b"0" * 4000 + b', "idle_s": 1}',
    ],
)
def test_nonsense_is_silence(text: bytes) -> None:
    assert read_status(text) is None


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(SAID, JSON)))
def test_whatever_a_box_writes_has_the_types_that_were_promised(said: dict[str, Any]) -> None:
    status = read_status(json.dumps({**SAID, **said}).encode())
    if status is None:
        return
    assert all(isinstance(status[name], bool) for name in ("clock_is_right", "jobs"))
    assert all(isinstance(percent, int | float) for percent in status["gpu_percent"])
    assert all(isinstance(words, str) and words.isprintable() for words in status["health"].values())
    assert status["ending"] is None or status["ending"].isprintable()
    json.dumps(status, allow_nan=False)


def test_escapes_for_the_terminal_do_not_arrive() -> None:
    status = read_status(json.dumps({**SAID, "ending": "\x1b[31mred"}).encode())
    assert status is not None
    assert status["ending"] == "?[31mred"
