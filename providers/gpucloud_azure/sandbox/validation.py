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

from gpucloud_azure.sandbox.subscription import ADDRESS, DISK, FIREWALL, GROUP, MACHINE, NETWORK, NIC
from gpucloud_azure.sandbox.wire import AzureError, Json

MODELS = {
    GROUP: ("azure.mgmt.resource.resources", "ResourceGroup"),
    MACHINE: ("azure.mgmt.compute", "VirtualMachine"),
    NETWORK: ("azure.mgmt.network", "VirtualNetwork"),
    FIREWALL: ("azure.mgmt.network", "NetworkSecurityGroup"),
    ADDRESS: ("azure.mgmt.network", "PublicIPAddress"),
    NIC: ("azure.mgmt.network", "NetworkInterface"),
    f"{NETWORK}/subnets": ("azure.mgmt.network", "Subnet"),
    f"{FIREWALL}/securityrules": ("azure.mgmt.network", "SecurityRule"),
    "PUT Microsoft.Resources/tags": ("azure.mgmt.resource.resources", "TagsResource"),
    "PATCH Microsoft.Resources/tags": ("azure.mgmt.resource.resources", "TagsPatchResource"),
    f"PATCH {GROUP}": ("azure.mgmt.resource.resources", "ResourceGroupPatchable"),
    f"PATCH {MACHINE}": ("azure.mgmt.compute", "VirtualMachineUpdate"),
    f"PATCH {DISK}": ("azure.mgmt.compute", "DiskUpdate"),
    **{f"PATCH {kind}": ("azure.mgmt.network", "TagsObject") for kind in (NETWORK, FIREWALL, ADDRESS, NIC)},
    **{
        f"POST Microsoft.ComputeSchedule/locations/{action}": ("azure.mgmt.computeschedule", model)
        for action, model in (
            ("virtualMachinesSubmitDeallocate", "SubmitDeallocateRequest"),
            ("virtualMachinesGetOperationStatus", "GetOperationStatusRequest"),
            ("virtualMachinesCancelOperations", "CancelOperationsRequest"),
        )
    },
}
IGNORED = {"id", "name", "type", "etag"}
"""Members that every resource shows and takes back without looking (a PUT of what a GET gave)."""

OPEN_SET = 50
"""Enumerations of more values (sizes of machines) are open: the cloud knows newer ones than the SDK."""


def check(kind: str, body: Json) -> None:
    """Refuses a body that is not of its type's shape.

    Args:
        kind: the resource's type, for a PUT; the method and the type or action otherwise.
        body: what was sent.

    Raises:
        AzureError: the first thing that is wrong.
    """
    if kind not in MODELS:
        return
    package, name = MODELS[kind]
    for code, text in _wrong(package, getattr(import_module(f"{package}.models"), name), body, ""):
        raise AzureError(code, text)


def warm_up() -> None:
    """Reads the models ahead of the first request."""
    for package, name in MODELS.values():
        _members(package, getattr(import_module(f"{package}.models"), name))


Flaw = tuple[str, str]
"""Azure's code and words."""


def _not_read(text: str, path: str) -> Flaw:
    words = f"The request content was invalid and could not be deserialized: '{text} Path '{path}'.'"
    return "InvalidRequestContent", words


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
    if origin is dict:
        return _wrong_map(package, typing.get_args(wanted)[1], value, path)
    if inspect.isclass(wanted) and issubclass(wanted, Mapping):
        return _wrong_object(package, wanted, value, path)
    return _wrong_scalar(wanted, value, path)


def _wrong_list(package: str, wanted: Any, value: Any, path: str) -> Iterator[Flaw]:
    if type(value) is not list:
        yield _not_read("Cannot deserialize the current JSON value into a list.", path)
        return
    for at, item in enumerate(value):  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        yield from _wrong(package, wanted, item, f"{path}[{at}]")


def _wrong_map(package: str, wanted: Any, value: Any, path: str) -> Iterator[Flaw]:
    if not isinstance(value, dict):
        yield _not_read("Cannot deserialize the current JSON value into an object.", path)
        return
    for name, item in cast("Json", value).items():
        yield from _wrong(package, wanted, item, f"{path}.{name}")


def _wrong_object(package: str, wanted: Any, value: Any, path: str) -> Iterator[Flaw]:
    if not isinstance(value, dict):
        yield _not_read("Cannot deserialize the current JSON value into an object.", path)
        return
    known = _members(package, wanted)
    for name, item in cast("Json", value).items():
        full = f"{path}.{name}" if path else name
        if name in IGNORED and (not path or name in known):
            continue
        if name not in known:
            text = f"Could not find member '{name}' on object of type '{wanted.__name__}'."
            yield _not_read(text, full)
        elif known[name][1]:
            yield "InvalidParameter", f"Property '{full}' is read-only and cannot be set."
        else:
            yield from _wrong(package, known[name][0], item, full)


def _wrong_scalar(wanted: Any, value: Any, path: str) -> Iterator[Flaw]:
    if value is None:
        return
    if wanted is datetime.datetime:
        wanted = str
    if wanted not in (str, int, bool, float):
        return
    fits = isinstance(value, wanted) or (wanted is float and isinstance(value, int))
    if not fits or (wanted is not bool and isinstance(value, bool)):
        yield _not_read(f"Could not convert to {wanted.__name__}: {value!r}.", path)


def _wrong_choice(package: str, wanted: Any, value: Any, path: str) -> Iterator[Flaw]:
    if value is None:
        return
    choices = [each for each in typing.get_args(wanted) if each is not type(None)]
    enumerations: list[Any] = [e for e in choices if inspect.isclass(e) and issubclass(e, enum.Enum)]
    if not enumerations:
        yield from _wrong(package, choices[0], value, path)
    elif not isinstance(value, str):
        yield _not_read(f"Could not convert to str: {value!r}.", path)
    elif len(enumerations[0]) < OPEN_SET:
        known = [str(each.value) for each in enumerations[0]]
        if value.lower() not in {each.lower() for each in known}:
            name = path.rpartition(".")[2]
            text = f"The value '{value}' of parameter '{name}' is not allowed. Allowed values are: "
            yield "InvalidParameter", text + ", ".join(known)
