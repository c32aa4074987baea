"""Holds request bodies against the SDK's own models: what they do not know, Resource Manager does not take.

Found are unknown members at any depth, members that only Azure sets, wrong types, and values of closed
enumerations. Sizes, regions and other open sets are checked where their meaning is.
"""

from __future__ import annotations

import copy
import datetime
import enum
import inspect
import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, cast

from gpucloud_sandbox.azure.subscription import (
    ACCOUNT,
    ADDRESS,
    AVAILABILITY,
    DEFINITION,
    DISK,
    FIREWALL,
    GALLERY,
    GROUP,
    MACHINE,
    NETWORK,
    NIC,
    SCALE_SET,
    SNAPSHOT,
    VERSION,
)
from gpucloud_sandbox.azure.wire import AzureError, Json

_STORAGE = "azure.mgmt.storage"
_COMPUTE, _NETWORK, _RESOURCES = "azure.mgmt.compute", "azure.mgmt.network", "azure.mgmt.resource.resources"
MODELS = {
    f"PUT {GROUP}": (_RESOURCES, "ResourceGroup"),
    f"PATCH {GROUP}": (_RESOURCES, "ResourceGroupPatchable"),
    "PUT Microsoft.Resources/tags": (_RESOURCES, "TagsResource"),
    "PATCH Microsoft.Resources/tags": (_RESOURCES, "TagsPatchResource"),
    f"PUT {MACHINE}": (_COMPUTE, "VirtualMachine"),
    f"PATCH {MACHINE}": (_COMPUTE, "VirtualMachineUpdate"),
    f"PUT {SCALE_SET}": (_COMPUTE, "VirtualMachineScaleSet"),
    f"PATCH {SCALE_SET}": (_COMPUTE, "VirtualMachineScaleSetUpdate"),
    **{
        f"POST {SCALE_SET}/{action}": (_COMPUTE, "VirtualMachineScaleSetVMInstanceIDs")
        for action in ("deallocate", "poweroff", "restart", "start")
    },
    **{
        f"POST {SCALE_SET}/{action}": (_COMPUTE, "VirtualMachineScaleSetVMInstanceRequiredIDs")
        for action in ("delete", "manualupgrade")
    },
    f"PUT {DISK}": (_COMPUTE, "Disk"),
    f"PATCH {DISK}": (_COMPUTE, "DiskUpdate"),
    f"PUT {SNAPSHOT}": (_COMPUTE, "Snapshot"),
    f"PATCH {SNAPSHOT}": (_COMPUTE, "SnapshotUpdate"),
    f"PUT {GALLERY}": (_COMPUTE, "Gallery"),
    f"PUT {DEFINITION}": (_COMPUTE, "GalleryImage"),
    f"PUT {VERSION}": (_COMPUTE, "GalleryImageVersion"),
    f"PUT {AVAILABILITY}": (_COMPUTE, "AvailabilitySet"),
    f"PATCH {AVAILABILITY}": (_COMPUTE, "AvailabilitySetUpdate"),
    f"PUT {ACCOUNT}": (_STORAGE, "StorageAccountCreateParameters"),
    f"PATCH {ACCOUNT}": (_STORAGE, "StorageAccountUpdateParameters"),
    f"POST {ACCOUNT}/regenerateKey": (_STORAGE, "StorageAccountRegenerateKeyParameters"),
    f"PUT {NETWORK}": (_NETWORK, "VirtualNetwork"),
    f"PUT {NETWORK}/subnets": (_NETWORK, "Subnet"),
    f"PUT {FIREWALL}": (_NETWORK, "NetworkSecurityGroup"),
    f"PUT {FIREWALL}/securityRules": (_NETWORK, "SecurityRule"),
    f"PUT {ADDRESS}": (_NETWORK, "PublicIPAddress"),
    f"PUT {NIC}": (_NETWORK, "NetworkInterface"),
    **{f"PATCH {kind}": (_NETWORK, "TagsObject") for kind in (NETWORK, FIREWALL, ADDRESS, NIC)},
    **{
        f"POST Microsoft.ComputeSchedule/locations/{action}": ("azure.mgmt.computeschedule", model)
        for action, model in (
            ("virtualMachinesSubmitDeallocate", "SubmitDeallocateRequest"),
            ("virtualMachinesGetOperationStatus", "GetOperationStatusRequest"),
            ("virtualMachinesCancelOperations", "CancelOperationsRequest"),
        )
    },
}
"""By call: the package and the name of the model of its body."""
IGNORED = {"id", "name", "type", "etag"}
"""Members that every resource shows and takes back without looking (a PUT of what a GET gave)."""

_BOOLEANS: Mapping[Any, bool] = {"true": True, "True": True, "false": False, "False": False}
"""Booleans that are sent as text; ``az vmss create`` says so which interface is the primary."""
OPEN_SET = 50
"""Enumerations of more values (sizes of machines) are open: the cloud knows newer ones than the SDK."""


def read(call: str, body: Json, *, again: bool = False) -> Json:
    """A body as Azure reads it: in Azure's spelling, and without nulls and members that only Azure sets.

    Args:
        call: the method and the resource's type.
        body: what was sent.
        again: whether the resource exists: members that only Azure sets are then ignored, so that a client
            can PUT what a GET answered.

    Raises:
        AzureError: the body does not have the shape of the type; the first flaw.
    """
    if call not in MODELS:
        return copy.deepcopy(body)
    package, model = _model(call)
    for flaw in _wrong(package, model, body, ""):
        if not (again and flaw.read_only):
            raise AzureError(flaw.code, flaw.text)
    answer: Json = _spelled(
        package, model, {name: each for name, each in body.items() if name not in IGNORED}
    )
    return answer


def _model(call: str) -> tuple[str, Any]:
    package, name = MODELS[call]
    return package, getattr(import_module(f"{package}.models"), name)


def warm_up() -> None:
    """Reads the models ahead of the first request."""
    for call in MODELS:
        members(*_model(call))


def is_model(wanted: Any) -> bool:
    """Whether a type is that of an object with members."""
    return inspect.isclass(wanted) and issubclass(wanted, Mapping)


class Flaw(NamedTuple):
    """Azure's code and words; whether it is a member that only Azure sets."""

    code: str
    text: str
    read_only: bool = False


def _not_read(text: str, path: str) -> Flaw:
    words = f"The request content was invalid and could not be deserialized: '{text} Path '{path}'.'"
    return Flaw("InvalidRequestContent", words)


@cache
def members(package: str, model: Any) -> Mapping[str, tuple[Any, bool]]:
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
    if is_model(wanted):
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
    known = members(package, wanted)
    for written, item in cast("Json", value).items():
        name = _name(written, known)
        full = f"{path}.{name}" if path else name
        if name in IGNORED and (not path or name in known):
            continue
        if name not in known:
            text = f"Could not find member '{name}' on object of type '{wanted.__name__}'."
            yield _not_read(text, full)
        elif known[name][1]:
            text = f"Property '{full}' is read-only and cannot be set."
            yield Flaw("InvalidParameter", text, read_only=True)
        else:
            yield from _wrong(package, known[name][0], item, full)


def _name(written: str, known: Iterable[str]) -> str:
    """A member's name as Azure spells it: Azure reads names without regard to case."""
    if written in known:
        return written
    return next((each for each in known if each.lower() == written.lower()), written)


def _wrong_scalar(wanted: Any, value: Any, path: str) -> Iterator[Flaw]:
    if value is None:
        return
    if wanted is datetime.datetime:
        wanted = str
    if wanted not in (str, int, bool, float):
        return
    if wanted is bool and isinstance(value, str) and value in _BOOLEANS:
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
            yield Flaw("InvalidParameter", text + ", ".join(known))


def _spelled(package: str, wanted: Any, value: Any) -> Any:
    """A valid value as Azure spells its members and enumerations, without nulls and what only Azure sets."""
    choices = [each for each in typing.get_args(wanted) if each is not type(None)]
    origin = typing.get_origin(wanted)
    if value is None or origin is dict:
        return copy.deepcopy(value)
    if origin is list:
        return [_spelled(package, choices[0], each) for each in value]
    if origin is typing.Union:
        enumerations = [each for each in choices if inspect.isclass(each) and issubclass(each, enum.Enum)]
        if not enumerations:
            return _spelled(package, choices[0], value)
        return next((str(e.value) for e in enumerations[0] if str(e.value).lower() == value.lower()), value)
    if is_model(wanted):
        known = members(package, wanted)
        named = {_name(written, known): item for written, item in cast("Json", value).items()}
        return {
            name: _spelled(package, known[name][0], item)
            for name, item in named.items()
            if item is not None and not known[name][1]
        }
    return _BOOLEANS.get(value, value) if wanted is bool else copy.deepcopy(value)
