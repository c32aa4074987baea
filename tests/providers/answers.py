"""Answers made from the vendors' own models, with damage: what an answer of a cloud could look like at worst.

A member may be missing, null, of another type or an unknown word. A seed makes the same answers again.
"""

from __future__ import annotations

import inspect
import json
import random
import re
import typing
import zlib
from enum import Enum
from functools import cache
from importlib import import_module
from importlib.resources import files
from types import UnionType
from typing import Any
from xml.sax.saxutils import escape

from gpucloud_aws import tariffs as aws_tariffs
from gpucloud_azure import tariffs as azure_tariffs
from tests.providers.azure_wire import SUBSCRIPTION


class OneOf(tuple[str, ...]):
    """The words of an enumeration: an answer has one of them."""

    __slots__ = ()


OWN_TAGS = {
    "gpucloud:owner": "own-1",
    "gpucloud:box": "box-1",
    "gpucloud:op": "op-1",
    "gpucloud:run": "run-1",
    "gpucloud:expires": "none",
}
IDS: dict[str, str | OneOf] = {
    "allocationid": "eip-1",
    "diskid": "d-1",
    "groupid": "sg-1",
    "instanceid": "i-1",
    "networkinterfaceid": "eni-1",
    "securitygroupid": "sg-1",
    "volumeid": "vol-1",
    "vpcid": "vpc-1",
    "vswitchid": "vsw-1",
    "regionid": "cn-hangzhou",
    "regionname": "us-east-1",
    "tagkey": "gpucloud:box",
    "tagvalue": OWN_TAGS["gpucloud:box"],
    "availabilityzoneid": "use1-az2",
    "zoneid": "cn-hangzhou-i",
    "currency": "USD",
    "imageid": "m-1",
    "statuscategory": "WithStock",
    "location": "use1-az2",
    "instancetype": OneOf(("g4dn.xlarge", "ecs.gn6i-c4g1.xlarge")),
}
"""What the tests ask for, by the members that hold it."""
PLAUSIBLE: dict[str, str | OneOf] = {
    "date": "2026-11-22T10:00:00Z",
    "time": "2026-11-22T10:00:00Z",
    "count": "1",
    "timestamp": "2026-11-22T10:00:00Z",
    "cidr": "203.0.113.0/24",
    "ip": "203.0.113.7",
    "commitment": "0.5",
    "price": "0.5",
    "url": "/console",
    "uri": "/console",
    "status": OneOf(("Available", "Available", "Running")),
}
"""Plausible values of members whose names hold these words, for a text."""

NONSENSE: tuple[Any, ...] = ("NeverHeardOf", "", -1, 1.5, True, [], {}, [None], {"x": None})

LEFT_OUT = frozenset({"nexttoken", "nextlink", "nextpagelink"})
"""Members that ask for another page: these answers are the same each time, so they would ask for ever."""
STEADY = {"provisioningState": "Succeeded"}
"""Members that are never damaged: any other word here means that a caller asks again until it changes."""


class Damage:
    """Decides about each member in turn.

    Args:
        seed: makes the same decisions again.
        share: the share of members that are damaged.
    """

    def __init__(self, seed: int, share: float) -> None:
        self._random = random.Random(seed)  # noqa: S311  (no secret)
        self._seed = seed
        self._share = share

    def of(self, call: str) -> Damage:
        """The damage of a call's answer: the same whatever else is asked at the same time."""
        return Damage(self._seed ^ zlib.crc32(call.encode()), self._share)

    def to(self, whole: Any) -> Any:
        """An answer of a whole one: lists of any length, one word of each enumeration, and the damage."""
        match whole:
            case OneOf():
                return self._random.choice(whole)
            case dict():
                members: dict[str, Any] = whole
                return {
                    name: member if name in STEADY else self._member(member)
                    for name, member in members.items()
                    if self._random.random() >= self._share / 2
                }
            case list():
                listed: list[Any] = whole
                return [
                    self._member(each) for each in listed for _ in range(self._random.choice((0, 1, 1, 2)))
                ]
            case _:
                return whole

    def _member(self, whole: Any) -> Any:
        if self._random.random() < self._share / 2:
            return self._random.choice((None, *NONSENSE))
        return self.to(whole)


def text_for(name: str) -> str | OneOf:
    """A plausible text for a member of this name, or several."""
    lowered = name.lower()
    plausible = (value for word, value in PLAUSIBLE.items() if word in lowered)
    return IDS.get(lowered) or STEADY.get(name) or next(plausible, f"{name}-1")


@cache
def words_of(package: str) -> frozenset[str]:
    """All words of a package's code: a member of an answer that is not among them is never read."""
    sources = (each for each in files(package).iterdir() if each.name.endswith(".py"))
    return frozenset(re.findall(r"\w+", " ".join(each.read_text(encoding="utf-8") for each in sources)))


def is_read(package: str, *names: str) -> bool:
    """Whether code of a package may read a member that has one of these names, and may read it on."""
    return not words_of(package).isdisjoint(names) and not LEFT_OUT & {name.lower() for name in names}


# --- botocore


def aws_value(shape: Any, name: str, depth: int = 0) -> Any:
    """A whole value of a shape as plain JSON, by the names of the wire."""
    match shape.type_name:
        case "structure":
            members = shape.members.items() if depth < 8 else ()
            return {
                member.serialization.get("name", key): aws_value(member, key, depth + 1)
                for key, member in members
                if is_read("gpucloud_aws", key)
            }
        case "list" if name in {"Tags", "TagSet"}:
            return [{"key": key, "value": value} for key, value in OWN_TAGS.items()]
        case "list":
            return [aws_value(shape.member, name, depth + 1)]
        case "map":
            return {}
        case kind:
            known: dict[str, Any] = {
                "boolean": False,
                "double": 1.0,
                "float": 1.0,
                "integer": 1,
                "long": 1,
                "timestamp": PLAUSIBLE["timestamp"],
            }
            words = [] if name.lower() in IDS else getattr(shape, "enum", [])
            return known.get(kind, OneOf(words) if words else text_for(name))


def xml(value: Any, name: str) -> str:
    """A JSON value in the form of EC2's protocol."""
    match value:
        case dict():
            members: dict[str, Any] = value
            return f"<{name}>{''.join(xml(each, key) for key, each in members.items())}</{name}>"
        case list():
            listed: list[Any] = value
            return f"<{name}>{''.join(xml(each, 'item') for each in listed)}</{name}>"
        case None:
            return f"<{name}/>"
        case bool():
            return f"<{name}>{str(value).lower()}</{name}>"
        case _:
            return f"<{name}>{escape(str(value))}</{name}>"


LIST_PRICE = {
    "product": {"attributes": {"regionCode": "us-east-1", "instanceType": "g4dn.xlarge"}},
    "terms": {"OnDemand": {"t": {"priceDimensions": {"d": {"unit": "Hrs", "pricePerUnit": {"USD": "0.5"}}}}}},
}
"""A row of AWS's price list: JSON in a text of the answer, which no model describes."""


def list_tariff(sold: aws_tariffs.Sold) -> Any:
    """A row of AWS's price list for something other than a machine."""
    attributes = {
        "usagetype": sold.usage,
        "regionCode": "us-east-1",
        "locationType": "AWS Region",
        "fromRegionCode": "us-east-1",
        "fromLocationType": "AWS Region",
        "toRegionCode": "us-west-2",
        "toLocationType": "AWS Region",
        "toLocation": "External",
    }
    step = {"unit": sold.unit, "beginRange": "0", "endRange": "Inf", "pricePerUnit": {"USD": "0.09"}}
    terms = {"OnDemand": {"t": {"priceDimensions": {"d": step}}}}
    return {"product": {"attributes": attributes}, "terms": terms}


LISTED = (LIST_PRICE, *map(list_tariff, aws_tariffs.SOLD))


@cache
def _model_of_aws(service: str) -> Any:
    from botocore.session import get_session

    return get_session().get_service_model(service)


@cache
def _whole_of_aws(service: str, operation: str) -> tuple[str, Any]:
    model = _model_of_aws(service)
    output = model.operation_model(operation).output_shape
    return str(model.protocol), aws_value(output, operation) if output else {}


def aws_answer(service: str, operation: str, damage: Damage) -> str:
    """A whole answer in the service's protocol."""
    protocol, whole = _whole_of_aws(service, operation)
    harm = damage.of(operation)
    value = harm.to(whole)
    if operation == "GetProducts" and value.get("PriceList"):
        value["PriceList"] = [json.dumps(harm.to(row)) for row in LISTED]
    match protocol:
        case "ec2":
            return xml({**value, "requestId": "req-1"}, f"{operation}Response")
        case "query":
            return xml({f"{operation}Result": value}, f"{operation}Response")
        case _:
            return json.dumps(value)


# --- Alibaba Cloud's SDK


@cache
def _wire_names(kind: Any) -> dict[str, str]:
    found = re.findall(r"self\.(\w+) is not None:[^']*result\['([^']+)'\]", inspect.getsource(kind.to_map))
    return dict(found)


def alibaba_value(kind: Any, name: str, depth: int = 0) -> Any:
    """A whole value of a type of the SDK's models as plain JSON."""
    if typing.get_origin(kind) is list:
        [inner] = typing.get_args(kind)
        return [alibaba_value(inner, name, depth + 1)]
    if hasattr(kind, "to_map"):
        names = _wire_names(kind)
        return {
            names[key]: alibaba_value(hint, names[key], depth + 1)
            for key, hint in typing.get_type_hints(kind.__init__).items()
            if key in names and is_read("gpucloud_alibaba", key, names[key])
        }
    return {int: 1, float: 1.0, bool: False}.get(kind, text_for(name))


@cache
def _whole_of_alibaba(product: str, action: str) -> Any:
    package = {"ecs": "alibabacloud_ecs20140526", "vpc": "alibabacloud_vpc20160428"}[product]
    return alibaba_value(getattr(import_module(f"{package}.models"), f"{action}ResponseBody"), action)


def alibaba_answer(product: str, action: str, damage: Damage) -> dict[str, Any]:
    """A whole answer."""
    value: dict[str, Any] = damage.of(action).to(_whole_of_alibaba(product, action))
    return value


# --- Azure's SDK


COMPUTE, NETWORK = "azure.mgmt.compute.models", "azure.mgmt.network.models"
RESOURCE, SCHEDULE = "azure.mgmt.resource.resources.models", "azure.mgmt.computeschedule.models"

RETAIL_PRICE = {
    "armRegionName": "eastus",
    "armSkuName": "Standard_NC4as_T4_v3",
    "currencyCode": "USD",
    "meterName": "NC4as T4 v3",
    "productName": "Virtual Machines NCasT4_v3 Series",
    "reservationTerm": "1 Year",
    "retailPrice": 0.526,
    "savingsPlan": [{"retailPrice": 0.4, "term": "1 Year"}],
    "skuName": "NC4as T4 v3",
    "tierMinimumUnits": 0.0,
    "type": OneOf(("Consumption", "Reservation")),
    "unitOfMeasure": "1 Hour",
}
RETAIL_TARIFFS = [
    {
        **RETAIL_PRICE,
        "meterName": sold.meter.replace(r"(P\d+)", "P10"),
        "unitOfMeasure": sold.unit,
        "type": "Consumption",
    }
    for sold in azure_tariffs.SOLD
]
RESERVATION = {
    "location": "eastus",
    "name": "order-1/reservation-1",
    "properties": {
        "appliedScopeType": OneOf(("Shared", "Single")),
        "appliedScopes": [f"/subscriptions/{SUBSCRIPTION}"],
        "displayProvisioningState": "Succeeded",
        "expiryDate": "2027-11-22",
        "expiryDateTime": "2027-11-22T00:00:00Z",
        "provisioningState": "Succeeded",
        "quantity": 1,
        "reservedResourceType": "VirtualMachines",
    },
    "sku": {"name": "Standard_NC4as_T4_v3"},
}
AZURE: tuple[tuple[str, Any], ...] = (
    (r"PUT .*/providers/Microsoft.DevTestLab/.*", {}),
    (r"POST .*/virtualMachinesSubmitDeallocate", (SCHEDULE, "DeallocateResourceOperationResponse")),
    (r"POST .*/virtualMachinesCancelOperations", (SCHEDULE, "CancelOperationsResponse")),
    (r"POST .*/retrieveBootDiagnosticsData", (COMPUTE, "RetrieveBootDiagnosticsDataResult")),
    (r"PATCH .*/tags/default", (RESOURCE, "TagsResource")),
    (r"GET .*/usages", [(COMPUTE, "Usage")]),
    (r"GET .*/Microsoft.Compute/skus", [(COMPUTE, "ResourceSku")]),
    (r"GET .*/capacityReservationGroups", [(COMPUTE, "CapacityReservationGroup")]),
    (r"GET .*/capacityReservations", [(COMPUTE, "CapacityReservation")]),
    (r"GET .*/capacityReservations/[^/]+", (COMPUTE, "CapacityReservation")),
    (r"GET .*/EncryptionAtHost", {"properties": {"state": OneOf(("Registered", "NotRegistered"))}}),
    (r"GET .*/Microsoft.Authorization/permissions", [{"actions": ["*"], "notActions": ["x/delete"]}]),
    (r"GET .*/Microsoft.Capacity/reservations", [RESERVATION]),
    (r"GET /subscriptions/[^/]+/providers/[^/]+", (RESOURCE, "Provider")),
    (r"GET /subscriptions/[^/]+/resources", [(RESOURCE, "GenericResourceExpanded")]),
    (r"GET /subscriptions/[^/]+/resourcegroups", [(RESOURCE, "ResourceGroup")]),
    (r"(GET|PUT) /subscriptions/[^/]+/resourcegroups/[^/]+", (RESOURCE, "ResourceGroup")),
    (r"(GET|PUT) .*/virtualMachines/[^/]+", (COMPUTE, "VirtualMachine")),
    (r"GET .*/disks/[^/]+", (COMPUTE, "Disk")),
    (r"(GET|PUT) .*/networkInterfaces/[^/]+", (NETWORK, "NetworkInterface")),
    (r"(GET|PUT) .*/publicIPAddresses/[^/]+", (NETWORK, "PublicIPAddress")),
    (r"(GET|PUT) .*/networkSecurityGroups/[^/]+", (NETWORK, "NetworkSecurityGroup")),
    (r"(GET|PUT) .*/virtualNetworks/[^/]+", (NETWORK, "VirtualNetwork")),
    (r"GET /subscriptions", [{"subscriptionId": SUBSCRIPTION}]),
    (r"GET /subscriptions/[^/]+", {"subscriptionId": SUBSCRIPTION}),
    (r"GET /api/retail/prices", {"Items": [RETAIL_PRICE, *RETAIL_TARIFFS]}),
)
"""What answers a request: a model of the SDK, or where it has none an example; a list is one of ``value``."""


def azure_value(kind: Any, name: str, package: str, depth: int = 0) -> Any:
    """A whole value of a type of the SDK's models as plain JSON."""
    if typing.get_origin(kind) in {typing.Union, UnionType}:
        inner = [each for each in typing.get_args(kind) if each is not type(None)]
        return azure_value(next((each for each in inner if _is_enum(each)), inner[0]), name, package, depth)
    if typing.get_origin(kind) is list:
        return [azure_value(typing.get_args(kind)[0], name, package, depth + 1)]
    if typing.get_origin(kind) is dict:
        return dict(OWN_TAGS) if name == "tags" else {}
    if _is_enum(kind):
        return STEADY.get(name) or OneOf(each.value for each in kind)
    if hasattr(kind, "as_dict"):
        return {
            member: azure_value(hint, member, package, depth + 1)
            for member, hint in (_members(kind, package) if depth < 8 else {}).items()
            if is_read("gpucloud_azure", member)
        }
    return {int: 1, float: 1.0, bool: False}.get(kind) or _text_of_azure(name)


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _text_of_azure(name: str) -> str | OneOf:
    machine = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/m"
    known: dict[str, str | OneOf] = {
        "code": "PowerState/running",
        "id": machine,
        "location": "eastus",
        "resourceId": machine,
        "type": "Microsoft.Compute/virtualMachines",
        "value": OneOf(("cores", "lowPriorityCores")),
    }
    return known.get(name) or text_for(name)


@cache
def _members(kind: Any, package: str) -> dict[str, Any]:
    """The types of a model's members by their names on the wire."""
    kind({})  # a model learns them at its first use
    hints = typing.get_type_hints(kind, localns={"_models": import_module(package)})
    return {field._rest_name: hints[name] for name, field in kind._attr_to_rest_field.items()}


@cache
def _whole_of_azure(call: str) -> Any:
    found = (what for pattern, what in AZURE if re.fullmatch(pattern, call, re.IGNORECASE))
    what: Any = next(found, None)
    if isinstance(what, list):
        listed: list[Any] = what
        return {"value": [_whole(each) for each in listed]}
    return _whole(what)


def _whole(what: Any) -> Any:
    if not isinstance(what, tuple):  # an example
        return what
    package, name = what
    return azure_value(getattr(import_module(package), name), name, package)


def azure_answer(method: str, path: str, damage: Damage) -> Any:
    """A whole answer; ``None`` for a call that is not among :data:`AZURE`."""
    call = f"{method} {path}"
    return damage.of(call).to(_whole_of_azure(call))
