"""How commands print: the answer to stdout, everything else to stderr.

Text from a cloud or a box passes :func:`clean`, so that it cannot control the user's terminal.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from json import dumps, loads
from pathlib import Path
from typing import Any, TextIO

from gpucloud.cli.listing import AS_TABLE, Form, Layout, csv_lines, rendered
from gpucloud.errors import UsageError
from gpucloud.rendering.table import Role, Table, has_value
from gpucloud.rendering.terminal import Column, by_column, chosen, fit, lines_of, paint
from gpucloud.rendering.texts import clean

Document = Mapping[str, Any]


def money(amount: Decimal | None, currency: str = "USD") -> dict[str, str] | None:
    """Money as the JSON documents hold it: ``{"amount": "32.7726", "currency": "USD"}``."""
    return None if amount is None else {"amount": format(amount, "f"), "currency": currency}


def schema_name(document: str) -> str:
    """The ``schema`` of a document: ``gpucloud.offers/v1`` for ``offers``."""
    return f"gpucloud.{document}/v1"


def utc_now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


def time_text(when: datetime) -> str:
    """RFC 3339 in UTC, whole seconds: ``2025-01-31T12:00:00Z``."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """All output of a command.

    ``json`` asks for documents instead of tables; ``color`` allows colour, which also needs a terminal and
    no ``NO_COLOR``; ``layout`` is the form of a list.
    """

    json: bool = False
    color: bool = True
    layout: Layout = AS_TABLE

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
        """Writes one document to stdout: ``schema`` is ``offers`` for ``gpucloud.offers/v1``.

        It is JSON, or what ``-o`` asks for. A program is given one line: writing a thousand offers indented
        takes four times as long.
        """
        document = {"schema": schema_name(schema), **fields}
        if self.layout.form in {Form.TABLE, Form.JSON}:
            self.line(encode(document, indent=2 if sys.stdout.isatty() else None))
            return
        for line in rendered(self.layout, loads(encode(document))):
            self.line(line)

    def csv(self, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Writes comma-separated values to stdout, with the columns and the order that were asked for."""
        for line in csv_lines(self.layout, names, list(rows)):
            self.line(line)

    def record(self, schema: str, fields: Document) -> None:
        """Writes one document as a line of NDJSON to stdout, at once."""
        self.line_at_once(encode({"schema": schema_name(schema), **fields}))

    def line(self, text: str) -> None:
        """Writes a line of the answer to stdout."""
        sys.stdout.write(text + "\n")

    def line_at_once(self, text: str) -> None:
        """Writes a line of a stream to stdout, for a reader who waits for it."""
        self.line(text)
        sys.stdout.flush()

    def sentence(self, text: str, *, indent: int = 0) -> None:
        """Writes prose of the answer to stdout; on a terminal it wraps between words.

        What continues it is indented by so many spaces.
        """
        self.line(_wrapped(text, sys.stdout, indent=indent))

    def fields(self, texts: Mapping[str, str | None]) -> None:
        """Writes what is known of one thing to stdout: a line for each name, with its text.

        Args:
            texts: the text of each name; several lines are one below the other, and ``None`` is left out.
        """
        known = {name: text for name, text in texts.items() if text}
        width = max(map(len, known), default=0) + 2
        for name, text in known.items():
            first, *others = text.rstrip().split("\n")
            self.sentence(f"{name:<{width}}{first}", indent=width)
            for line in others:
                self.sentence(" " * width + line)

    def table(self, table: Table) -> None:
        """Writes a table to stdout; it fits a terminal's width, and has one uncut line per row elsewhere.

        A column without any value is left out, unless ``--columns`` names it.

        Raises:
            UsageError: ``--columns`` or ``--sort-by`` names no column.
        """
        every = [Column(name, cells, right=name in table.right) for name, cells in table.cells().items()]
        layout = self.layout
        if layout.sort_by:
            every = by_column(every, layout.sort_by)
        shown = (
            chosen(every, layout.columns)
            if layout.columns
            else [each for each in every if has_value(each.cells)]
        )
        framed = sys.stdout.isatty()
        narrow = framed and not layout.columns and layout.form is not Form.WIDE
        fitted = fit(shown, shutil.get_terminal_size().columns if narrow else None, table.optional)
        text = lines_of(fitted, framed=framed, styled=self.styled(sys.stdout))
        sys.stdout.write("".join(line + "\n" for line in text))
        if fitted.hidden:
            ways = "-o wide or --columns" if layout.rows else "widen the terminal, or use a pipe"
            self.say(f"Not shown at this width: {', '.join(fitted.hidden)}. To see them: {ways}.")

    def say(self, text: str, *, role: Role | None = None, indent: int = 0) -> None:
        """Writes progress, a sentence or a hint to stderr. A closed stderr does not stop the command.

        With a role, what is before the first colon gets its colour. What continues it on a terminal is
        indented by so many spaces.
        """
        gone = (OSError, ValueError, AttributeError)
        with suppress(*gone):  # keeps the order where both streams go to one place
            sys.stdout.flush()
        with suppress(*gone):
            head, colon, rest = _wrapped(clean(text), sys.stderr, indent=indent).partition(":")
            head = paint(head, role) if self.styled(sys.stderr) else head
            sys.stderr.write(f"{head}{colon}{rest}\n")
            sys.stderr.flush()

    def say_each(self, texts: Iterable[str]) -> None:
        """Writes each of some sentences as :meth:`say` does."""
        for text in texts:
            self.say(text)

    def ask(self, question: str) -> bool:
        """Asks a yes-or-no question on the terminal; any other answer, or the end of input, is a no."""
        text = _wrapped(f"{question} [y/N]", sys.stderr)
        try:
            sys.stderr.write(f"{text} ")
            sys.stderr.flush()  # whoever reads the question may press Ctrl-C before this returns
            return sys.stdin.readline().strip().lower() in {"y", "yes"}
        except BaseException:  # Ctrl-C: what is said next begins a line
            sys.stderr.write("\n")
            raise


def _wrapped(text: str, stream: TextIO, *, indent: int = 0) -> str:
    """Prose, wrapped where a stream is a terminal."""
    return wrapped(text, shutil.get_terminal_size().columns, indent=indent) if stream.isatty() else text


def wrapped(text: str, width: int, *, indent: int = 0) -> str:
    """Prose wrapped between words to a width; no word, identifier or amount is broken.

    What continues a line is indented as the line is, and by ``indent``.
    """
    wrap = partial(textwrap.wrap, width=width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(
        "\n".join(wrap(line, subsequent_indent=" " * (len(line) - len(line.lstrip(" ")) + indent)))
        if len(line) > width
        else line
        for line in _INSIDE_AMOUNT.sub(_NO_BREAK, text).split("\n")
    ).replace(_NO_BREAK, " ")


_INSIDE_AMOUNT = re.compile(r"(?:(?<=\b[A-Z]{3})|(?<=[≥≤×])) (?=[0-9$])|(?<=[0-9]) (?=×)")
_NO_BREAK = "\u00a0"
"""A space between whose neighbours no line ends: ``CNY 31.27``."""


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
            hint="free disk space, or name another file"
            if error.errno == errno.ENOSPC
            else "name another file",
        ) from error


def refuse_unwritable(what: str, file: Path) -> None:
    """Refuses a file that cannot be written, before anything is asked or computed for it. Makes no file.

    Raises:
        UsageError: it is a folder, its folder does not exist, or it may not be written.
    """
    with writing(what, file):
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not file.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, f"there is no folder {file.parent}")
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


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
