"""Every member of Azure's own models is supported by the emulator, or refused by name."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from azure.core.rest import HttpRequest

from gpucloud_sandbox.azure import validation
from gpucloud_sandbox.azure.api_versions import versions_of
from gpucloud_sandbox.azure.members import TABLE
from tests.sandbox import azure_model
from tests.sandbox.azure_lab import (
    ADDRESS,
    GROUP,
    REGION,
    Azure,
    firewall,
    machine,
    network,
    rule,
)
from tests.sandbox.running import TAGS

CALLS = dict(TABLE.values())
MODELLED = sorted(call for call in CALLS if call in validation.MODELS)
OPTIONAL = sorted(
    call for call in CALLS if azure_model.options().get(call.replace("LIST", "GET").lower()) is not None
)


def supported_paths(call: str) -> set[str]:
    """The paths of the members that a call supports."""
    row = CALLS[call]
    return {*row.paths, *row.valued, *(each.removesuffix(".") for each in row.opened)}


def opened_paths(call: str) -> frozenset[str]:
    """The paths above those."""
    paths = [path.split(".") for path in supported_paths(call)]
    return frozenset(".".join(path[:length]) for path in paths for length in range(1, len(path)))


def unsupported(call: str) -> list[tuple[str, Any]]:
    """The members that a call does not support, each with values that it does not support."""
    row = CALLS[call]
    return [
        (member.path, value)
        for member in azure_model.members(call, opened_paths(call))
        for value in azure_model.samples(member.wanted)
        if member.read_only or not row.supports(member.path, value[0] if isinstance(value, list) else value)
    ]


DISK = {"lun": 0, "createOption": "Empty", "diskSizeGB": 8}
INTERFACE: dict[str, Any] = {
    "name": "nic",
    "properties": {"ipConfigurations": [{"name": "ip", "properties": {}}]},
}
BODIES: dict[str, Any] = {
    "PUT Microsoft.Resources/resourceGroups": {"location": REGION, "tags": TAGS},
    "PUT Microsoft.Resources/tags": {"properties": {"tags": TAGS}},
    "PATCH Microsoft.Resources/tags": {"operation": "Merge", "properties": {"tags": TAGS}},
    "PUT Microsoft.Compute/virtualMachines": machine(
        "nic", storageProfile__dataDisks=[DISK], networkProfile__networkInterfaceConfigurations=[INTERFACE]
    ),
    "PATCH Microsoft.Compute/virtualMachines": {"properties": {"storageProfile": {"dataDisks": [DISK]}}},
    "PUT Microsoft.Compute/virtualMachineScaleSets": {
        "location": REGION,
        "tags": TAGS,
        "properties": {
            "virtualMachineProfile": {
                "networkProfile": {"networkInterfaceConfigurations": [INTERFACE]},
            }
        },
    },
    **{
        f"POST Microsoft.Compute/virtualMachineScaleSets/{action}": {"instanceIds": ["0"]}
        for action in ("delete", "manualupgrade")
    },
    "PUT Microsoft.Compute/disks": {
        "location": REGION,
        "tags": TAGS,
        "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 8},
    },
    "PUT Microsoft.Compute/galleries/images": {"location": REGION, "properties": {"features": [{}]}},
    "PUT Microsoft.Compute/galleries/images/versions": {
        "location": REGION,
        "tags": TAGS,
        "properties": {"publishingProfile": {"targetRegions": [{}]}},
    },
    "PUT Microsoft.Network/virtualNetworks": network(),
    "PUT Microsoft.Network/virtualNetworks/subnets": {"properties": {"addressPrefix": "10.42.32.0/24"}},
    "PUT Microsoft.Network/networkSecurityGroups": firewall(),
    "PUT Microsoft.Network/networkSecurityGroups/securityRules": {"properties": rule()["properties"]},
    "PUT Microsoft.Network/publicIPAddresses": ADDRESS,
    "PUT Microsoft.Network/networkInterfaces": {
        "location": REGION,
        "tags": TAGS,
        "properties": {"ipConfigurations": [{"name": "ip", "properties": {"subnet": {"id": "s"}}}]},
    },
}
"""Bodies of which one member at a time is changed; a tag's change is enough elsewhere."""


LISTS = {
    "dataDisks",
    "networkInterfaces",
    "networkInterfaceConfigurations",
    "ipConfigurations",
    "subnets",
    "securityRules",
    "publicKeys",
    "features",
    "targetRegions",
}
"""Members above others that are lists."""


def with_member(body: Any, path: str, value: Any) -> Any:
    """A body with one member more, within the first element of lists."""
    changed = copy.deepcopy(body)
    inside: Any = changed
    *above, last = path.split(".")
    for step in above:
        inside.setdefault(step, {})
        inside = inside[step]
        if step in LISTS:
            inside = inside[0]
    inside[last] = value
    return changed


PARENTS = {
    "virtualNetworks": "net",
    "networkSecurityGroups": "fw",
    "providers": "Microsoft.Compute",
    "virtualMachines": "x",
}
"""The names of what other resources are part of."""


def address_of(azure: Azure, call: str) -> tuple[str, str]:
    """The method and the address of a call to something in the box's group."""
    verb, _, type_ = call.partition(" ")
    namespace, _, words = type_.partition("/")
    head = f"/subscriptions/{azure.subscription}"
    first, *below = words.split("/")
    named = below or first == "providers"
    names = [f"{first}/{PARENTS.get(first, 'x') if named else 'x'}", *(f"{word}/x" for word in below)]
    match namespace, first:
        case "Microsoft.Capacity", _:
            path = f"/providers/{type_}/x"
        case "Microsoft.Resources", "tenants":
            path = "/tenants/x"
        case "Microsoft.Resources", "subscriptions":
            path = head if verb == "GET" else "/subscriptions/x"
        case "Microsoft.Resources", "tags":
            path = f"{head}/resourceGroups/{GROUP}/providers/Microsoft.Resources/tags/default"
        case "Microsoft.Resources", other if other != "deployments":
            path = f"{head}/{'/'.join(names)}"
        case _, "checkNameAvailability":
            return verb, f"{head}/providers/{type_}"
        case _, "locations":
            path = f"{head}/providers/{namespace}/locations/{REGION}/{'/'.join(names[1:])}"
        case _:
            path = f"{head}/resourceGroups/{GROUP}/providers/{namespace}/{'/'.join(names)}"
    if verb in {"LIST", "POST"} or words.endswith("instanceView"):
        path = path.rpartition("/")[0]
    return verb.replace("LIST", "GET"), path.replace("artifacttypes/x", "artifacttypes/vmimage")


def sent(azure: Azure, call: str, body: Any = None, **more: Any) -> Any:
    """The answer to a call through the vendor's own pipeline."""
    method, path = address_of(azure, call)
    namespace, _, words = call.partition(" ")[2].partition("/")
    version = versions_of(namespace, words.partition("/")[0])[0]
    params = {"api-version": version, **more.pop("params", {})}
    request = HttpRequest(method, azure.origin + path, params=params, json=body, **more)
    return azure.compute._client.send_request(request)


def words_of(answer: Any) -> str:
    """The refusal's words."""
    assert answer.status_code in {400, 405}, (answer.status_code, answer.text())
    return str(answer.json()["error"]["message"])


@pytest.mark.parametrize("call", MODELLED)
def test_every_member_of_a_body_is_supported_or_refused_by_name(azure: Azure, call: str) -> None:
    if call.startswith("PATCH"):
        azure.launch("x", storageProfile__osDisk__name="x")
    else:
        azure.make_parts()
    for path, value in unsupported(call):
        body = with_member(BODIES.get(call, {}), path, value)
        words = words_of(sent(azure, call, body))
        read_only = (
            words.startswith(f"Property '{path}") or f".{path.rpartition('.')[2]}' is read-only" in words
        )
        named = re.search(rf"not emulate {re.escape(call)}: {re.escape(path)}([.=]|$)", words)
        assert named or read_only, (path, value, words)


@pytest.mark.parametrize("call", OPTIONAL)
def test_every_option_of_a_call_is_supported_or_refused_by_name(azure: Azure, call: str) -> None:
    azure.make_group()
    for name in sorted(azure_model.options()[call.replace("LIST", "GET").lower()]):
        if CALLS[call].supports(name, "x"):
            continue
        where = {"headers": {name: "x"}} if name.startswith("If-") else {"params": {name: "x"}}
        words = words_of(sent(azure, call, BODIES.get(call), **where))
        assert f"not emulate {call}: {name}" in words


HEADERS = {"If-None-Match", "If-Match"}
"""The headers among the supported members."""


@pytest.mark.parametrize("call", MODELLED)
def test_every_row_of_a_body_is_in_azures_model(call: str) -> None:
    opened = opened_paths(call)
    known = {member.path for member in azure_model.members(call, opened) if not member.read_only}
    options = azure_model.options().get(call.lower(), frozenset())
    assert supported_paths(call) - options - HEADERS <= known | opened


def test_a_call_without_a_row_is_refused(azure: Azure) -> None:
    answer = sent(azure, "PUT Microsoft.Compute/sshPublicKeys", {})
    assert words_of(answer) == "The gpucloud sandbox does not emulate PUT Microsoft.Compute/sshPublicKeys"


@pytest.mark.parametrize("call", sorted(CALLS))
def test_every_row_is_a_call_that_is_answered(azure: Azure, call: str) -> None:
    azure.make_group()
    answer = sent(azure, call, BODIES.get(call) or ({} if call.startswith("P") else None))
    assert "does not emulate" not in answer.text()
