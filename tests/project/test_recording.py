"""The recording of a terminal: what it shows is what appears, and the picture is its last screen."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence

import pytest
from rich.text import Text

from docs.recording import CAST, COMMANDS, SVG, Event, Screen, read, record, screen_of, svg
from tests.pages import shape
from tests.shell import PROGRAMS, Shell, cli, endpoint

__all__ = ["cli", "endpoint"]


def shown(events: Sequence[Event]) -> list[str]:
    """The lines of the last screen, without colours."""
    return [Text.from_ansi(line).plain for line in screen_of(events).lines]


def test_the_recording_shows_what_appears(cli: Shell) -> None:
    """Each command is run on a terminal again: nothing but seconds, names and addresses differs."""
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    now = list(record({**cli.environ, "PATH": path, "TERM": "xterm-256color"}))
    kept = read(CAST.read_text(encoding="utf-8"))
    missing = {shape(line) for line in shown(kept)} - {shape(line) for line in shown(now)}
    assert not missing, "the recording is behind the program: run `make recording`"
    assert [line for line in shown(kept) if line.startswith("$ ")] == [f"$ {each}" for each in COMMANDS]
    assert cli.sandbox.status()["billing"] == []


def test_the_recording_is_a_cast_and_the_picture_is_made_of_it() -> None:
    text = CAST.read_text(encoding="utf-8")
    header, *lines = map(json.loads, text.splitlines())
    assert (header["version"], header["width"] > 0, header["height"] > 0) == (2, True, True)
    moments = [at_s for at_s, kind, _ in lines if kind == "o"]
    assert len(moments) == len(lines)
    assert moments == sorted(moments)
    assert SVG.read_text(encoding="utf-8") == svg(read(text)), "run `make recording`"
    assert "http" not in SVG.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")


def test_a_line_that_is_written_again_is_shown_as_it_was_last() -> None:
    spun = "\x1b[?25l| wait\r\x1b[2K/ wait\r\n\r\x1b[1A\x1b[2K\x1b[2mdone\x1b[0m\r\n\x1b[?25hend\r\n"
    assert shown([Event(0.0, spun)]) == ["done", "end", ""]
    with pytest.raises(ValueError, match="not known here"):
        Screen().show(Event(0.0, "\x1b[3;4H"))
    with pytest.raises(ValueError, match="is written over"):
        Screen().show(Event(0.0, "one\rtwo"))


def test_a_command_that_fails_gives_no_recording() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        list(record(os.environ, ["test -e /no/such/file"]))
