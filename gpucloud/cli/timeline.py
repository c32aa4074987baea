"""Progress as it happens: one live line on a terminal, plain lines with seconds elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from gpucloud.cli.output import Output, clean


class Timeline:
    """Shows the steps of a command on stderr, with the seconds since its start and each step's own."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._start = time.monotonic()
        self._live: Any = None
        self._line = ""
        self.steps: list[tuple[str, float]] = []

    def __enter__(self) -> Timeline:
        if self._output.styled(sys.stderr):
            from rich.console import Console

            self._live = Console(stderr=True, highlight=False).status("starting")
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pause()
        self._live = None

    def _print_last(self) -> None:
        """What was live becomes a line that stays."""
        if self._live is not None and self._line:
            self._live.console.print(self._line, style="dim", markup=False)
            self._line = ""

    def pause(self) -> None:
        """Ends the live line, to ask a question or print something: what it said stays."""
        if self._live is not None:
            self._live.stop()
            self._print_last()

    def resume(self) -> None:
        """Brings the live line back."""
        if self._live is not None:
            self._live.start()

    @property
    def elapsed_s(self) -> float:
        """How long the command has run."""
        return time.monotonic() - self._start

    def tell(self, step: str, text: str, /) -> None:
        """A step begins or has news."""
        elapsed = self.elapsed_s
        if not self.steps or self.steps[-1][0] != step:
            self.steps.append((step, elapsed))
        line = f"{elapsed:6.1f} s  {step:<8} {clean(text)}"
        if self._live is not None:
            from rich.markup import escape

            self._print_last()
            self._line = line
            self._live.update(escape(line))
        else:
            self._output.say(line)
