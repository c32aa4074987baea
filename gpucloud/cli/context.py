"""What every command receives: its environment, its output, the API, and the user's defaults."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from gpucloud.cli.output import Output
from gpucloud.config import DEFAULTS, Paths, find_paths
from gpucloud.spec.defaults import ALLOWED, Defaults, read_defaults, with_defaults
from gpucloud.spec.model import Spec

if TYPE_CHECKING:
    from gpucloud.api.client import Client
    from gpucloud.cli.timeline import Timeline
    from gpucloud.planning.documents import DefaultsDocument


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


def defaults_of(app: App) -> Defaults:
    """The defaults of this user.

    Raises:
        UsageError: the file is invalid.
    """
    return read_defaults(app.paths.config / DEFAULTS)


def completed(
    app: App, spec: Spec, fields: Collection[str] = ALLOWED
) -> tuple[Spec, DefaultsDocument | None]:
    """A spec with the user's defaults of these fields; what these decided is said.

    Returns:
        The spec, and what was decided, as plain JSON; ``None`` if nothing was.

    Raises:
        UsageError: the file is invalid, or contradicts the spec.
    """
    defaults = defaults_of(app)
    whole, decided = with_defaults(spec, defaults, fields)
    if not decided:
        return spec, None
    app.output.say(f"Defaults of {defaults.file}: {fields_text(decided)}.")
    return whole, {"file": str(defaults.file), "fields": {**decided}}


def say_preset(app: App, spec: Spec) -> None:
    """Says what the preset of a spec decided."""
    if spec.from_preset:
        app.output.say(f"Preset {spec.preset}: {fields_text(spec.preset_document())}.")


def say_gpu(app: App, given: str | None, spec: Spec) -> None:
    """Says how a flag was read that is written as other tools write it: ``8xH100``."""
    if given is not None and spec.gpu is not None and "".join(given.split()) != "".join(spec.gpu.split()):
        app.output.say(f"--gpu {given}: read as {spec.gpu}")


def fields_text(fields: Mapping[str, Any]) -> str:
    """Fields of a spec for people: ``clouds aws, azure; ttl 4h; tags team=ml``."""
    return "; ".join(f"{name} {_value_text(value)}" for name, value in fields.items())


def _value_text(value: object) -> str:
    match value:
        case list():
            return ", ".join(map(str, cast("list[object]", value)))
        case dict():
            return ", ".join(f"{key}={each}" for key, each in cast("dict[str, object]", value).items())
        case _:
            return str(value)
