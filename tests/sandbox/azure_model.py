"""The members of requests that Azure's own models have, read from the vendor's SDK."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpucloud_sandbox.azure import validation

PACKAGES = (
    "azure.mgmt.compute",
    "azure.mgmt.network",
    "azure.mgmt.resource.resources",
    "azure.mgmt.computeschedule",
    "azure.mgmt.storage",
)
_NAMES = {"default", "vmimage"}
"""Names, not types, that an address has fixed."""
_PLAIN = {"api-version", "Content-Type", "Accept"}


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a request: where it is, the type of its value, and whether a list is on the way to it."""

    path: str
    wanted: Any
    read_only: bool


@cache
def options() -> Mapping[str, frozenset[str]]:
    """The query members and headers of the SDK's calls, by method and type in lower case."""
    found: dict[str, frozenset[str]] = {}
    for call, text in _calls():
        names = frozenset(re.findall(r'_(?:params|headers)\["([^"]+)"\] =', text)) - _PLAIN
        found[call] = found.get(call, frozenset()) | names
    return found


@cache
def versions() -> Mapping[str, str]:
    """The API versions with which the SDK sends its calls, by method and type in lower case."""
    found = ((call, re.search(r'"api-version", "([^"]+)"', text)) for call, text in _calls())
    return {call: version[1] for call, version in found if version}


def _calls() -> Iterator[tuple[str, str]]:
    """The SDK's calls, by method and type in lower case, and the source of what builds their requests."""
    for package in PACKAGES:
        source = inspect.getsource(importlib.import_module(f"{package}.operations._operations"))
        for text in re.split(r"(?m)^(?=def build_)", source):
            method = re.search(r'HttpRequest\(method="(\w+)"', text)
            url = re.search(r'_url = "([^"]+)"', text)
            if text.startswith("def build_") and method and url:
                yield f"{method[1]} {_type_of(url[1])}".lower(), text


def _type_of(url: str) -> str:
    """The type in an address with placeholders, as a call names it."""
    words = [word for word in url.split("/") if word]
    namespace, rest = "Microsoft.Resources", words[2:] or ["subscriptions"]
    if "providers" in words:
        at = len(words) - 1 - words[::-1].index("providers")
        if len(words) > at + 2:
            namespace, rest = words[at + 1], words[at + 2 :]
    named = [word for word in rest if not word.startswith("{") and word not in _NAMES]
    return f"{namespace}/{'/'.join(named)}"


def members(call: str, opened: frozenset[str]) -> Iterator[Member]:
    """The members of a call's body.

    Args:
        call: the method and the type.
        opened: the paths below which members are named one by one; another object is one member.
    """
    if call in validation.MODELS:
        package, name = validation.MODELS[call]
        model = getattr(importlib.import_module(f"{package}.models"), name)
        yield from _members(package, model, "", opened)


def _members(package: str, model: Any, before: str, opened: frozenset[str]) -> Iterator[Member]:
    for name, (wanted, read_only) in validation.members(package, model).items():
        if name in validation.IGNORED and (not before or read_only):
            continue
        path = f"{before}{name}"
        inner = _model_in(wanted)
        if inner is not None and path in opened and not read_only:
            yield from _members(package, inner, f"{path}.", opened)
        else:
            yield Member(path, wanted, read_only)


def _model_in(wanted: Any) -> Any:
    """The model of the object, or of the objects of a list, that a type is of."""
    if typing.get_origin(wanted) in (typing.Union, list):
        found: list[Any] = [_model_in(each) for each in typing.get_args(wanted)]
        return next((each for each in found if each is not None), None)
    model: Any = wanted
    return model if validation.is_model(wanted) else None


def samples(wanted: Any) -> list[Any]:
    """Values of a type: every value of an enumeration, both booleans, one of what else there is."""
    origin, inside = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is typing.Union:
        choices = [each for each in inside if each is not type(None)]
        named = [each for each in choices if inspect.isclass(each) and issubclass(each, enum.Enum)]
        return [str(each.value) for each in named[0]] if named else samples(choices[0])
    if origin is list:
        return [[each] for each in samples(inside[0])]
    if origin is dict:
        return [{"k": samples(inside[1])[0]}]
    if validation.is_model(wanted):
        return [{}]
    plain: Mapping[Any, list[Any]] = {bool: [True, False], int: [7], float: [7.5]}
    return plain.get(wanted, ["x"])
