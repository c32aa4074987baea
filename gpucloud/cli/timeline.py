"""Progress as it happens: one live line on a terminal, plain lines with seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from gpucloud.cli.output import Output, wrapped
from gpucloud.rendering.texts import clean
from gpucloud.runtime.events import Event, JobEnded, JobStarted, Noticed, Warned

if TYPE_CHECKING:
    from gpucloud.cli.documents.boxes import StepDocument

TEXT_FROM = 19
"""The column at which the text of a step begins, after its seconds and its name."""


class Timeline:
    """Shows the steps of a command on stderr, with the seconds since its start and each step's own."""

    def __init__(self, output: Output, *, quiet: bool = False) -> None:
        """Prints nothing yet. If ``quiet``, only notices and warnings are printed later."""
        self._output = output
        self._quiet = quiet
        self._start = time.monotonic()
        self._live: Any = None
        self._line = ""
        self.steps: list[tuple[str, float]] = []

    def __enter__(self) -> Timeline:
        if not self._quiet and self._output.styled(sys.stderr):
            from rich.console import Console

            self._live = Console(stderr=True, highlight=False).status("starting")
            self._draw(self._live.start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pause()
        self._live = None

    def _draw(self, draw: Callable[[], object]) -> None:
        """Draws on the terminal, as long as there is one: a window may have been closed."""
        try:
            draw()
        except OSError:
            self._live = None

    def _print_last(self) -> None:
        """Prints the live line as a permanent one."""
        if self._live is not None and self._line:
            console = self._live.console
            line = wrapped(self._line, console.width, indent=_indent(self._line))
            self._draw(lambda: console.print(line, style="dim", markup=False))
            self._line = ""

    def pause(self) -> None:
        """Stops the live line and keeps its text, before a question or other output."""
        if self._live is not None:
            self._draw(self._live.stop)
            self._print_last()

    def resume(self) -> None:
        """Starts the live line again."""
        if self._live is not None:
            self._draw(self._live.start)

    def document(self) -> list[StepDocument]:
        """The steps with the seconds at which they began, for JSON."""
        return [{"step": step, "at_s": round(at, 3)} for step, at in self.steps]

    @property
    def elapsed_s(self) -> float:
        """How long the command has run."""
        return time.monotonic() - self._start

    def show(self, event: Event) -> None:
        """Shows an event of the API."""
        match event:
            case Noticed():
                self._output.say(event.text)
            case Warned():
                self._output.say(event.text)
                if event.hint:
                    self._output.say(f"  {event.hint}")
            case JobEnded():
                self.resume()
            case _ if self._quiet:
                pass
            case _:
                self._tell(event.step, event.text)
        if isinstance(event, JobStarted):  # the job's output follows
            self.pause()

    def _tell(self, step: str, text: str) -> None:
        """Shows that a step begins or proceeds."""
        elapsed = self.elapsed_s
        if not self.steps or self.steps[-1][0] != step:
            self.steps.append((step, elapsed))
        line = f"{elapsed:6.1f} s  {step:<8} {clean(text)}"  # its text begins at TEXT_FROM
        if self._live is not None:
            from rich.markup import escape

            live = self._live
            self._print_last()
            self._line = line
            self._draw(lambda: live.update(escape(line)))
        else:
            self._output.say(line, indent=_indent(line))


def _indent(line: str) -> int:
    """How far what continues a line is indented beyond its beginning: to its text."""
    return TEXT_FROM - (len(line) - len(line.lstrip(" ")))
