"""The output of several nodes as one."""

from __future__ import annotations

from threading import Lock

import pytest

from gpucloud.clusters.output import Labelled


def labelled(*chunks: bytes, longest: int = 65536) -> bytes:
    """What node 1 has written, after it has ended."""
    written: list[bytes] = []
    stream = Labelled(1, written.append, Lock(), longest=longest)
    for chunk in chunks:
        stream(chunk)
    stream.close()
    return b"".join(written)


@pytest.mark.parametrize(
    ("chunks", "shown", "sentence"),
    [
        ((b"a\nb\n",), b"[1] a\n[1] b\n", "each line has its node"),
        (
            (b"a", b"b", b"\n\nc\n"),
            b"[1] ab\n[1] \n[1] c\n",
            "a line is one, in however many pieces it comes",
        ),
        ((b"a\nend",), b"[1] a\n[1] end\n", "a last line without an end has one"),
        ((b"1%\r2%\r", b"\ndone\r\n"), b"[1] 1%\n[1] 2%\n[1] done\n", "a progress bar's steps are lines"),
        ((b"\xff\x00\n",), b"[1] \xff\x00\n", "bytes stay as they are"),
        ((), b"", "nothing is nothing"),
    ],
)
def test_each_line_begins_with_its_node(chunks: tuple[bytes, ...], shown: bytes, sentence: str) -> None:
    assert labelled(*chunks) == shown, sentence


def test_an_endless_line_is_split() -> None:
    assert labelled(b"abcdef", b"g", longest=3) == b"[1] abc\n[1] def\n[1] g\n"


def test_a_line_is_passed_on_before_the_next_one_comes() -> None:
    written: list[bytes] = []
    stream = Labelled(0, written.append, Lock())
    stream(b"1%\r2%")
    assert written == [b"[0] 1%\n"]
