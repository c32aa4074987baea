"""The console sessions of a page, run word for word by one shell in a fresh home, and what they print.

``python -m tests.tutorials PAGE...`` runs the sessions of pages, and writes what appears into them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from tests.journals import Postgres, a_server
from tests.pages import shape
from tests.shell import PROGRAMS

WORK = "work"
"""The folder of a home in which a page is followed."""

TIMEOUT_S = 840
MARK = "\x1e"
"""Stands in the output between commands."""

LEFT_OUT = "…"
"""A line of a page that stands for any number of lines."""

_BLOCK = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)
_PROGRESS = re.compile(r"\s+\d+\.\d s  \w")
_SLOW = re.compile(r"no answer|is not known|does not answer")
"""What a command says of a busy machine, and no page shows."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a session, which may have several lines, and the lines below it."""

    command: str
    shown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command has printed, both streams as they came, and its exit code."""

    lines: tuple[str, ...]
    code: int


def steps(page: str) -> list[Step]:
    """The commands of all sessions of a page, in order."""
    return [step for block in _BLOCK.findall(page) for step in _steps(block)]


def _steps(block: str) -> Iterator[Step]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        first, *rest = part.splitlines()
        more = [line[2:] for line in rest if line.startswith("> ")]
        yield Step("\n".join([first, *more]), tuple(rest[len(more) :]))


def run(page: str, home: Path, environment: Mapping[str, str]) -> list[Ran]:
    """Runs the sessions of a page in an empty folder of a home, as a person at one terminal would."""
    folder = home / WORK
    folder.mkdir(exist_ok=True)
    between = f'status=$?; printf "\\n{MARK}%s{MARK}" "$status"; (exit "$status")'
    script = "\n".join(["exec 2>&1", *(f"{step.command}\n{between}" for step in steps(page))])
    done = subprocess.run(
        ["/bin/bash", "-c", script],
        env={**environment, "HOME": str(home)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    parts = done.stdout.split(MARK)
    return [
        Ran(tuple(text.removesuffix("\n").splitlines()), int(code))
        for text, code in zip(parts[::2], parts[1::2], strict=False)
    ]


def differences(step: Step, ran: Ran) -> list[str]:
    """What the page shows and did not appear (``-``), and what appeared and the page lacks (``+``).

    Progress that a page leaves out is no difference: how much of it there is depends on the machine. The
    shown lines of it must come in their order.
    """
    appeared = [line for line in ran.lines if line in step.shown or not _SLOW.search(line)]
    wanted = [_form(line) for line in step.shown]
    found: list[str] = []
    free = False  # after a line that stands for others
    for line in appeared:
        if wanted and wanted[0] == LEFT_OUT:
            wanted, free = wanted[1:], True
        if wanted and _form(line) == wanted[0]:
            wanted, free = wanted[1:], False
        elif not free and not _PROGRESS.match(line):
            found.append(f"+ {line}")
    return [*found, *(f"- {line}" for line in wanted if line != LEFT_OUT)]


def _form(line: str) -> str:
    """A line without what differs each time: beside those of :func:`shape`, durations, names, paths."""
    line = re.sub(r"\b(\d+[dhms])+\b", "0", re.sub(r"GPU-[0-9a-f-]+", "ID", line))
    line = re.sub(r"(?<![\w:/])(/[\w.~-]+)+/?", "/", line)
    line = re.sub(r"\b(b|u|vol|sg|i)-[0-9a-z]{6,}\b|-[0-9a-f]{8}\b", "ID", line)
    line = re.sub(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9A-F]{8}-[0-9A-F-]{27}\b", "ID", line)
    return re.sub(r"-{3,}|\s+", " ", shape(line)).strip()


def needs_server(page: str) -> bool:
    """Whether who follows a page needs a PostgreSQL server, one without a journal."""
    return "`PGHOST`" in page


def environment(runtime: Path, server: Postgres | None = None) -> dict[str, str]:
    """The variables of a newcomer.

    Args:
        runtime: a folder for sockets, whose paths must be short.
        server: is named by them.
    """
    path = os.pathsep.join((str(PROGRAMS), os.environ["PATH"]))
    own = {"PATH": path, "LC_ALL": "C.UTF-8", "XDG_RUNTIME_DIR": str(runtime)}
    if server is None:
        return own
    url = urlsplit(server.url)
    database = url.path.removeprefix("/")
    return {
        **own,
        "PGHOST": str(url.hostname),
        "PGPORT": str(url.port),
        "PGUSER": str(url.username),
        "PGDATABASE": database,
    }


def filled(page: str, ran: list[Ran]) -> str:
    """The page with what has appeared below each command."""
    left = iter(ran)

    def block(match: re.Match[str]) -> str:
        lines: list[str] = []
        for step in _steps(match[1]):
            first, *more = step.command.splitlines()
            lines += [f"$ {first}", *(f"> {line}" for line in more)]
            lines += [line for line in next(left).lines if not _SLOW.search(line)]
        return "\n".join(lines) + "\n"

    return _BLOCK.sub(block, page)


def _main() -> None:
    for name in sys.argv[1:]:
        page = Path(name)
        text = page.read_text(encoding="utf-8")
        with ExitStack() as stack:
            home = stack.enter_context(TemporaryDirectory(prefix="home-"))
            runtime = stack.enter_context(TemporaryDirectory(prefix="run-"))
            server = stack.enter_context(a_server()) if needs_server(text) else None
            ran = run(text, Path(home), environment(Path(runtime), server))
        page.write_text(filled(text, ran).replace(home, "/home/you"), encoding="utf-8")


if __name__ == "__main__":
    _main()
