"""The spec's flags, derived from its fields. A command that takes them receives a checked spec::

def offers(app: App, spec: SpecFlags, *, why: Annotated[bool, typer.Option("--why")] = False) -> None: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from datetime import timedelta
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from gpucloud.cli.context import App, ReadFrom, say_gpu, say_preset
from gpucloud.errors import UsageError
from gpucloud.spec.declarations import ALIASES, FIELDS
from gpucloud.spec.fields import LONGEST_SCRIPT
from gpucloud.spec.file import flag_of, load_spec
from gpucloud.spec.flags import BOX, PANELS
from gpucloud.spec.model import Spec


def read_run_id(text: str) -> str:
    """Checks a run id. It must not be empty: boxes without a run have an empty one.

    Raises:
        typer.BadParameter: it is not allowed.
    """
    from gpucloud.resources import RUN_ID

    if not RUN_ID.fullmatch(text):
        raise typer.BadParameter(
            f"{text[:80]!r} is not allowed; allowed: 1-128 letters, digits and . _ : @ / = + % -"
        )
    return text


RunId = Annotated[
    str | None,
    typer.Option(
        "--run-id",
        help="ID of your choice for the boxes of one run; `down --run-id ID` finds them from any machine.",
        parser=read_run_id,
        metavar="ID",
    ),
]


Wait = Annotated[
    str | None,
    typer.Option(
        "--wait",
        help="Try again for this long until there is capacity: 30m, 6h. Nothing is billed meanwhile.",
        metavar="TIME",
    ),
]


def duration_of(flag: str, text: str | None) -> timedelta | None:
    """Reads the time of an option; ``None`` where it was not given, or is ``none``.

    Raises:
        UsageError: it is no time.
    """
    from gpucloud.spec.fields import end

    if text is None:
        return None
    try:
        value = end(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error
    return None if isinstance(value, str) else value


def _option(panel: str, text: str, *names: str, metavar: str | None = None, hidden: bool = False) -> Any:
    return typer.Option(
        *names, help=text, rich_help_panel=panel, metavar=metavar, show_default=False, hidden=hidden
    )


def _parameter(name: str, kind: Any, option: Any, default: object = None) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _parameters_of(name: str) -> Iterator[inspect.Parameter]:
    """The options of a field: texts and switches, parsed later by the rules of spec files."""
    field = FIELDS[name]
    flag, text = field.flag, field.description
    for value, what in flag.switches.items():
        yield _parameter(_switch(value), bool, _option(flag.panel, what, f"--{value}"), default=False)
    repeats = isinstance(field.default, (tuple, dict))
    kind = bool if flag.metavar is None else list[str] if repeats else str
    text += " Repeatable." if repeats else ""
    yield _parameter(
        name, kind | None, _option(flag.panel, text, *flag.names_for(name), metavar=flag.metavar)
    )


def _switch(value: str) -> str:
    """The parameter name of a value's switch."""
    return value.replace("-", "_")


_FILE = _parameter(
    "file",
    Path | None,
    _option(BOX, "Spec file in YAML. Flags override its fields.", "--file", "-f", metavar="FILE"),
)
_SETUP_FILE = _parameter(
    "setup_file",
    Path | None,
    _option(BOX, "File with the commands of --setup, up to 1 MiB.", "--setup-file", metavar="FILE"),
)
_PARAMETERS = [
    *(
        parameter
        for panel in PANELS
        for name, field in FIELDS.items()
        if field.flag.panel == panel
        for parameter in _parameters_of(name)
    ),
    *(
        _parameter(
            alias,
            str | None,
            _option(FIELDS[name].flag.panel, FIELDS[name].description, flag_of(alias), hidden=True),
        )
        for alias, name in ALIASES.items()
    ),
    _SETUP_FILE,
    _FILE,
]


def spec_from(flags: dict[str, Any]) -> Spec:
    """The spec of a command line.

    Raises:
        UsageError: the file or a flag is invalid.
    """
    file: Path | None = flags.pop("file")
    script: Path | None = flags.pop("setup_file")
    for name, field in FIELDS.items():
        switched = [value for value in field.flag.switches if flags.pop(_switch(value))]
        if switched:
            flags[name] = [*(flags[name] or ()), *switched]
    if script is not None:
        if flags["setup"] is not None:
            raise UsageError("--setup and --setup-file contradict each other", hint="use one of them")
        flags["setup"] = _read(script)
    return load_spec(file, flags)


def _read(script: Path) -> str:
    """The text of a file with commands.

    Raises:
        UsageError: it cannot be read, is no text, or is empty or too long.
    """
    try:
        with script.open("rb") as stream:
            text = stream.read(LONGEST_SCRIPT + 1)
        if not 0 < len(text) <= LONGEST_SCRIPT:
            raise UsageError(f"--setup-file: {script} is not allowed; allowed: 1 to {LONGEST_SCRIPT} bytes")
        if b"\0" in text:
            raise UsageError(f"--setup-file: {script} is no text")
        return text.decode()
    except OSError as error:
        raise UsageError(f"--setup-file: {script} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--setup-file: {script} is no text") from error


def _read_spec(app: App, values: dict[str, Any]) -> Spec:
    """The spec of a command line; says how its GPU was read, and what a preset decided."""
    gpu = values["gpu"]
    spec = spec_from(values)
    say_gpu(app, gpu, spec)
    say_preset(app, spec)
    return spec


SpecFlags = Annotated[Spec, ReadFrom(_PARAMETERS, _read_spec)]


class Options:
    """The base class of a dataclass of options."""


def takes_options(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Adds to a command the fields of its parameters that are annotated with :class:`Options`."""
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, Any] = {
        each.name: each.annotation
        for each in signature.parameters.values()
        if inspect.isclass(each.annotation) and issubclass(each.annotation, Options)
    }
    parameters = [
        flag
        for each in signature.parameters.values()
        for flag in (_flags(groups[each.name]) if each.name in groups else (each,))
    ]

    def command(**values: Any) -> int | None:
        read = {
            name: group(**{each.name: values.pop(each.name) for each in fields(group)})
            for name, group in groups.items()
        }
        return function(**read, **values)

    keyword = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]
    command.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
    command.__annotations__ = {}
    command.__doc__ = inspect.getdoc(function)
    return command


def _flags(group: Any) -> list[Parameter]:
    """The fields of a dataclass of options as parameters."""
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]
