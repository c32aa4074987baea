"""The user's defaults file, as commands apply it and say what it decided."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, cast

from gpucloud.cli.context import App
from gpucloud.config import DEFAULTS
from gpucloud.spec.defaults import ALLOWED, Defaults, read_defaults, with_defaults
from gpucloud.spec.model import Spec

if TYPE_CHECKING:
    from gpucloud.planning.documents import DefaultsDocument


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
