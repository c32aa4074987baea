"""What every command receives: its environment, its output and the API."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpucloud.cli.output import Output
from gpucloud.config import Paths, find_paths

if TYPE_CHECKING:
    from gpucloud.api.client import Client
    from gpucloud.cli.timeline import Timeline


@dataclass(frozen=True, kw_only=True)
class App:
    """The running program, for one command. Everything is read or made when first used."""

    output: Output
    environment: Mapping[str, str]
    command: str = ""
    sandbox: bool = False
    verbose: int = 0

    @cached_property
    def paths(self) -> Paths:
        """The folders; in sandbox mode ``paths.state`` is the sandbox's own."""
        return find_paths(self.environment, sandbox=self.sandbox)

    @cached_property
    def client(self) -> Client:
        """The API; it shows only notices and warnings until :meth:`working` also shows progress."""
        from gpucloud.api.client import Client
        from gpucloud.cli.timeline import Timeline
        from gpucloud.clouds.profile import Profile

        show = Timeline(self.output, quiet=True).show
        profile = Profile(self.environment)
        client = (Client.sandbox if self.sandbox else Client)(profile=profile, on_event=show)
        client.command = self.command
        return client

    @contextmanager
    def working(self, *, quiet: bool = False) -> Generator[tuple[Client, Timeline]]:
        """The API, for a command that waits for clouds; signals are handled while the body runs.

        Progress is shown; if ``quiet``, only notices and warnings.
        """
        from gpucloud.cli.timeline import Timeline
        from gpucloud.runtime.tasks import Tasks

        tasks = Tasks()
        tasks.at_terminal = sys.stdin.isatty()
        with Timeline(self.output, quiet=quiet) as timeline, tasks.listening():
            self.client.on_event = timeline.show
            self.client.work_with(tasks)
            yield self.client, timeline


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """In the annotation of a command's parameter: the options of the command line that it is read from.

    ``read`` is given their values by name.
    """

    options: Sequence[inspect.Parameter]
    read: Callable[[App, dict[str, Any]], Any]
