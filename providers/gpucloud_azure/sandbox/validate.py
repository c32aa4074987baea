"""Holds request bodies against the SDK's own models: what they do not know, Resource Manager does not take.

Found are unknown members at any depth, members that only Azure sets, wrong types, and values of closed
enumerations. Sizes, regions and other open sets are checked where their meaning is.
"""

from __future__ import annotations

import datetime
import enum
import inspect
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, cast

from gpucloud_azure.sandbox.subscription import ADDRESS, FIREWALL, GROUP, MACHINE, NETWORK, NIC
from gpucloud_azure.sandbox.wire import AzureError, Json

MODELS = {
    GROUP: ("azure.mgmt.resource.resources", "ResourceGroup"),
    MACHINE: ("azure.mgmt.compute", "VirtualMachine"),
    NETWORK: ("azure.mgmt.network", "VirtualNetwork"),
    FIREWALL: ("azure.mgmt.network", "NetworkSecurityGroup"),
    ADDRESS: ("azure.mgmt.network", "PublicIPAddress"),
    NIC: ("azure.mgmt.network", "NetworkInterface"),
}
IGNORED = {"id", "name", "type", "etag"}
"""Members that every resource shows and takes back without looking (a PUT of what a GET gave)."""

OPEN_SET = 50
"""Enumerations of more values (sizes of machines) are open: the cloud knows newer ones than the SDK."""


def check(kind: str, body: Json) -> None:
    """Refuses a body that is not of its type's shape.

    Raises:
        AzureError: the first thing that is wrong.
    """
    if kind not in MODELS:
        return
    package, name = MODELS[kind]
    for path, what in _wrong(package, getattr(import_module(f"{package}.models"), name), body, ""):
        raise AzureError(
            "InvalidRequestContent",
            f"The request content was invalid and could not be deserialized: {path} {what}",
        )


def warm_up() -> None:
    """Reads the models ahead of the first request."""
    for package, name in MODELS.values():
        _members(package, getattr(import_module(f"{package}.models"), name))


Flaw = tuple[str, str]
"""Where, and what is wrong there."""


@cache
def _members(package: str, model: Any) -> Mapping[str, tuple[Any, bool]]:
    """By name on the wire: the type of a member, and whether only Azure sets it."""
    module = import_module(f"{package}.models")
    model({})  # fills the table of members
    names = {**vars(typing), **vars(import_module(f"{package}.models._models")), "datetime": datetime}
    names |= {"_models": module, "_types": module}
    hints = typing.get_type_hints(model, globalns=names)
    return {
        field._rest_name: (hints.get(attribute), getattr(field, "_visibility", None) == ["read"])
        for attribute, field in model._attr_to_rest_field.items()
    }


def _wrong(package: str, wanted: Any, value: Any, path: str) -> Iterator[Flaw]:
    origin = typing.get_origin(wanted)
    if origin is typing.Union:
        return _wrong_choice(package, wanted, value, path)
    if origin is list:
        return _wrong_list(package, typing.get_args(wanted)[0], value, path)
    if inspect.isclass(wanted) and hasattr(wanted, "_attr_to_rest_field"):
        return _wrong_object(package, wanted, value, path)
    return _wrong_scalar(wanted, value, path)


def _wrong_list(package: str, wanted: Any, value: Any, path: str) -> Iterator[Flaw]:
    if type(value) is not list:
        yield path, "is not a list."
        return
    for at, item in enumerate(value):  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        yield from _wrong(package, wanted, item, f"{path}[{at}]")


def _wrong_object(package: str, wanted: Any, value: Any, path: str) -> Iterator[Flaw]:
    if not isinstance(value, dict):
        yield path, "is not an object."
        return
    known = _members(package, wanted)
    for name, item in cast("Json", value).items():
        full = f"{path}.{name}" if path else name
        if name in IGNORED:
            continue
        if name not in known:
            yield full, f"is not a member of {wanted.__name__}."
        elif known[name][1]:
            yield full, "is read-only."
        else:
            yield from _wrong(package, known[name][0], item, full)


def _wrong_scalar(wanted: Any, value: Any, path: str) -> Iterator[Flaw]:
    if wanted not in (str, int, bool, float) or value is None:
        return
    fits = isinstance(value, wanted) or (wanted is float and isinstance(value, int))
    if not fits or (wanted is int and isinstance(value, bool)):
        yield path, f"is not of type {wanted.__name__}."


def _wrong_choice(package: str, wanted: Any, value: Any, path: str) -> Iterator[Flaw]:
    if value is None:
        return
    choices = [each for each in typing.get_args(wanted) if each is not type(None)]
    enumerations: list[Any] = [e for e in choices if inspect.isclass(e) and issubclass(e, enum.Enum)]
    if not enumerations:
        yield from _wrong(package, choices[0], value, path)
    elif not isinstance(value, str):
        yield path, "is not text."
    elif len(enumerations[0]) < OPEN_SET:
        known = {str(each.value).lower() for each in enumerations[0]}
        if value.lower() not in known:
            yield path, f"{value!r} is not one of {enumerations[0].__name__}."
