"""How commands print: the answer to stdout, everything else to stderr.

Text from a cloud or a box passes :func:`clean`, so that it cannot control the user's terminal.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from json import dumps
from pathlib import Path
from typing import Any, TextIO

from gpucloud.errors import UsageError

Document = Mapping[str, Any]

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor moves
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC and other strings: titles, links, clipboard
    r"|\x1b[@-Z\\-_]?"  # two-character escapes
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # other controls; tab and newline stay
    r"|[\u200e\u200f\u202a-\u202e\u2066-\u2069]",  # bidirectional control characters
    re.DOTALL,
)


def clean(text: str) -> str:
    """Removes terminal escapes, control characters and direction marks from foreign text."""
    return _ESCAPES.sub("", text)


def money(amount: Decimal | None, currency: str = "USD") -> dict[str, str] | None:
    """Money as the JSON documents hold it: ``{"amount": "32.7726", "currency": "USD"}``."""
    return None if amount is None else {"amount": format(amount, "f"), "currency": currency}


def utc_now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


def time_text(when: datetime) -> str:
    """RFC 3339 in UTC, whole seconds: ``2025-01-31T12:00:00Z``."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration_text(duration: timedelta) -> str:
    """A duration as text: its two largest units (``1d4h``, ``2h30m``, ``45s``)."""
    seconds = abs(int(duration.total_seconds()))
    units = (
        ("d", seconds // 86400),
        ("h", seconds // 3600 % 24),
        ("m", seconds // 60 % 60),
        ("s", seconds % 60),
    )
    first = next((index for index, (_, count) in enumerate(units) if count), 3)
    text = "".join(f"{count}{unit}" for unit, count in units[first : first + 2] if count)
    return ("-" if duration < timedelta() else "") + (text or "0s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """All output of a command.

    ``json`` asks for documents instead of tables; ``color`` allows colour, which also needs a terminal and
    no ``NO_COLOR``.
    """

    json: bool = False
    color: bool = True

    @property
    def interactive(self) -> bool:
        """Whether a question can be asked: on a terminal, and without ``--json``."""
        return not self.json and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    def styled(self, stream: TextIO) -> bool:
        """Whether this stream may get colour and animation."""
        return (
            self.color
            and not self.json
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
            and sys.stdout.isatty()
            and stream.isatty()
        )

    def document(self, schema: str, fields: Document) -> None:
        """Writes one JSON document to stdout: ``schema`` is ``offers`` for ``gpucloud.offers/v1``.

        A program is given one line: writing a thousand offers indented takes four times as long.
        """
        indent = 2 if sys.stdout.isatty() else None
        self.line(encode({"schema": f"gpucloud.{schema}/v1", **fields}, indent=indent))

    def record(self, fields: Document) -> None:
        """Writes one line of NDJSON to stdout, at once."""
        self.line(encode(fields))
        sys.stdout.flush()

    def line(self, text: str) -> None:
        """Writes a line of the answer to stdout."""
        sys.stdout.write(text + "\n")

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Collection[str] = ()
    ) -> None:
        """Writes a table to stdout; it fits a terminal's width, and has one uncut line per row elsewhere.

        Args:
            columns: the headings.
            rows: one cell per column; ``None`` is shown as ``-``.
            right: the headings of columns that are aligned to the right (numbers).
        """
        cells = [["-" if cell is None else clean(str(cell)) for cell in row] for row in rows]
        lines = (self._framed if sys.stdout.isatty() else _aligned)(columns, cells, right)
        sys.stdout.write("".join(line.rstrip() + "\n" for line in lines))

    def _framed(
        self, columns: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[str]
    ) -> Iterable[str]:
        """A table in the terminal's width: long cells are folded."""
        import io

        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, justify="right" if column in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        buffer = io.StringIO()
        styled = self.styled(sys.stdout)
        Console(
            file=buffer,
            force_terminal=styled,
            color_system="standard" if styled else None,
            highlight=False,
        ).print(table)
        return buffer.getvalue().splitlines()

    def say(self, text: str) -> None:
        """Writes progress, a sentence or a hint to stderr. A closed stderr does not stop the command."""
        gone = (OSError, ValueError, AttributeError)
        with suppress(*gone):  # keeps the order where both streams go to one place
            sys.stdout.flush()
        with suppress(*gone):
            sys.stderr.write(clean(text) + "\n")
            sys.stderr.flush()

    def ask(self, question: str) -> bool:
        """Asks a yes-or-no question on the terminal; any other answer, or the end of input, is a no."""
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _aligned(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[str]) -> Iterator[str]:
    """A table without a frame, one line a row: quick, without rich."""
    lines = [list(columns), *([cell.replace("\n", " ").replace("\t", " ") for cell in row] for row in rows)]
    widths = [max(map(_cells_of, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        spaces = [" " * (width - _cells_of(cell)) for cell, width in zip(line, widths, strict=True)]
        yield "  ".join(
            space + cell if column in right else cell + space
            for column, cell, space in zip(columns, line, spaces, strict=True)
        )


def _cells_of(text: str) -> int:
    """How wide a text is in a font whose characters are one or two cells wide."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def abandon_stdout() -> None:
    """Discards what stdout still buffers, so that the interpreter does not fail to flush it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def writing(what: str, file: Path) -> Generator[None]:
    """Turns a failure of the body to write a file that the user named into a usage error.

    Raises:
        UsageError: the file could not be written.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot write {what} to {file}: {error.strerror or error}",
            hint="free disk space, or name another file",
        ) from error


def encode(document: Document, *, indent: int | None = None) -> str:
    """A document as JSON: decimals as strings, times as RFC 3339, durations as seconds. Pure ASCII."""
    return dumps(document, default=_plain, indent=indent)


def _plain(value: object) -> object:
    match value:
        case Decimal():
            return format(value, "f")
        case datetime():
            return time_text(value)
        case timedelta():
            return value.total_seconds()
        case _:
            raise TypeError(f"{type(value).__name__} cannot be written to a JSON document")
