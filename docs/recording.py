"""Records a terminal: the commands of the main job, typed and run in the sandbox. Run by ``make recording``.

``recording.cast`` is for asciinema's players (format 2: a header, then ``[seconds, "o", text]``, one a line;
https://docs.asciinema.org/manual/asciicast/v2/). ``recording.svg`` is its last screen, on which each line
appears when it did.
"""

from __future__ import annotations

import codecs
import fcntl
import io
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

CAST = Path(__file__).with_name("recording.cast")
SVG = Path(__file__).with_name("recording.svg")
COMMANDS = (
    "gpucloud --sandbox offers --gpu T4 --limit 3",
    "gpucloud --sandbox launch --gpu T4 --name demo --ttl 1h --yes",
    "gpucloud --sandbox exec demo -- nvidia-smi -L",
    "gpucloud --sandbox list",
    "gpucloud --sandbox down demo --yes",
)
WIDTH, HEIGHT = 100, 36
PROMPT = "\x1b[1;32m$\x1b[0m "
KEY_S, READING_S = 0.03, 1.0
SILENCE_S = 0.6
"""Longer waits are cut to this, as a viewer learns nothing from them; programs print the true seconds."""
TOKEN = re.compile(
    r"\x1b\[(?P<parameters>[0-9;?]*)(?P<action>[A-Za-z])|(?P<move>[\r\n])|(?P<text>[^\x1b\r\n]+)"
)
UNFINISHED = re.compile(r"\x1b(\[[0-9;?]*)?$")

PAGE = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>gpucloud in the sandbox: offers, launch, exec, list, down</title>
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-matrix text {{ animation: appear 0s both; }}
.{unique_id}-title {{ font: bold 18px ui-sans-serif, system-ui, sans-serif; }}
@keyframes appear {{ from {{ visibility: hidden; }} }}
@media (prefers-reduced-motion: reduce) {{ .{unique_id}-matrix text {{ animation: none; }} }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""rich's own, without fonts from elsewhere, and with the moment of each line."""


class Event(NamedTuple):
    """What the terminal showed at a moment."""

    at_s: float
    text: str


@dataclass(slots=True)
class Screen:
    """What a terminal shows of a program that writes lines, and may write the last one or two again.

    Attributes:
        lines: with their colours, as escape sequences.
        written_s: when each got what it has.
    """

    lines: list[str] = field(default_factory=lambda: [""])
    written_s: list[float] = field(default_factory=lambda: [0.0])
    _row: int = 0
    _at_start: bool = True

    def show(self, event: Event) -> None:
        """Shows what was written.

        Raises:
            ValueError: it moves about on the screen in a way that is not known here.
        """
        for token in TOKEN.finditer(event.text):
            match token["action"], token["move"]:
                case None, "\r":
                    self._at_start = True
                case None, "\n":
                    self._row += 1
                    if self._row == len(self.lines):
                        self.lines.append("")
                        self.written_s.append(event.at_s)
                    self._at_start = True
                case "A", None:
                    self._row -= int(token["parameters"] or 1)
                case "K", None:
                    self.lines[self._row] = ""
                case (("h" | "l"), None):
                    pass  # the cursor
                case ((None | "m"), None):
                    self._write(token[0], event.at_s)
                case _:
                    raise ValueError(f"not known here: {token[0]!r}")

    def _write(self, text: str, at_s: float) -> None:
        if self._at_start and self.lines[self._row]:
            raise ValueError(f"{text!r} is written over {self.lines[self._row]!r}")
        self._at_start = False
        self.lines[self._row] += text
        self.written_s[self._row] = at_s


def record(environment: Mapping[str, str], commands: Sequence[str] = COMMANDS) -> Iterator[Event]:
    """Runs commands in this environment, in which a sandbox is found or made; what appears, as it does.

    Raises:
        subprocess.CalledProcessError: a command failed.
    """
    at_s = 0.0
    for command in commands:
        yield Event(at_s, PROMPT)
        at_s += READING_S
        for key in command:
            at_s += KEY_S
            yield Event(at_s, key)
        yield Event(at_s, "\r\n")
        before = time.monotonic()
        for text in shown_by(shlex.split(command), environment):
            now = time.monotonic()
            at_s, before = at_s + min(now - before, SILENCE_S), now
            yield Event(at_s, text)
        at_s += READING_S


def shown_by(argv: Sequence[str], environment: Mapping[str, str]) -> Iterator[str]:
    """What a program writes to a terminal of its own, in pieces that end after whole sequences."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    with subprocess.Popen(
        argv, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        decode = codecs.getincrementaldecoder("utf-8")().decode
        held = ""
        while read := _read(ours):
            held += decode(read)
            cut = found.start() if (found := UNFINISHED.search(held)) else len(held)
            if cut:
                yield held[:cut]
            held = held[cut:]
        os.close(ours)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, argv)


def _read(terminal: int) -> bytes:
    """What is next at a terminal; nothing when its program has ended."""
    try:
        return os.read(terminal, 65536)
    except OSError:  # EIO: nobody writes there any more
        return b""


def cast(events: Sequence[Event]) -> str:
    """A recording as a file for asciinema."""
    header = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": "gpucloud in the sandbox"}
    lines = [[round(event.at_s, 3), "o", event.text] for event in events]
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in (header, *lines))


def read(text: str) -> list[Event]:
    """The events of such a file."""
    _, *lines = map(json.loads, text.splitlines())
    return [Event(at_s, shown) for at_s, _, shown in lines]


def screen_of(events: Sequence[Event]) -> Screen:
    """What is on the screen after all of it."""
    screen = Screen()
    for event in events:
        screen.show(event)
    return screen


def svg(events: Sequence[Event]) -> str:
    """The last screen as a picture, on which each line appears when it was written."""
    screen = screen_of(events)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), legacy_windows=False)
    for line in screen.lines:
        console.print(Text.from_ansi(line), no_wrap=True, crop=True, highlight=False)
    picture = console.export_svg(title="gpucloud", theme=MONOKAI, code_format=PAGE, unique_id="gpucloud")

    waits = (later - sooner for sooner, later in pairwise(screen.written_s))
    moments_s = list(accumulate((min(wait, SILENCE_S) for wait in waits), initial=0.0))

    def timed(found: re.Match[str]) -> str:
        return f'{found[0]} style="animation-delay: {moments_s[int(found[1])]:.2f}s"'

    return re.sub(r'(?<=" )clip-path="url\(#gpucloud-line-(\d+)\)"', timed, picture)


def main() -> None:
    """Records, and writes both files."""
    with TemporaryDirectory(prefix="gpucloud-") as home:
        environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": home,
            "GPUCLOUD_HOME": home,
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color",
        }
        try:
            events = list(record(environment))
        finally:
            for line in ("--sandbox down --all --yes", "sandbox stop"):
                subprocess.run(["gpucloud", *line.split()], env=environment, capture_output=True, check=False)
    CAST.write_text(cast(events), encoding="utf-8")
    SVG.write_text(svg(events), encoding="utf-8")


if __name__ == "__main__":
    main()
