"""If-Match and If-None-Match in the emulated Azure: nobody overwrites what they have not seen."""

from __future__ import annotations

from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError

from tests.sandbox.azure_lab import GROUP, IF_NEW, Azure, firewall, machine, refused, rule

VM = "Microsoft.Compute/virtualMachines"
FIREWALL = "Microsoft.Network/networkSecurityGroups"
API = "?api-version=2024-07-01"


def unmodified(seen: Any) -> dict[str, Any]:
    """The options of a change to what was seen."""
    return {"etag": seen.etag, "match_condition": MatchConditions.IfNotModified}


def test_a_machine_that_somebody_changed_meanwhile_is_not_overwritten(azure: Azure) -> None:
    seen = azure.launch()
    update = azure.compute.virtual_machines.begin_update
    tags = {"tags": {**seen.tags, "colour": "blue"}}
    changed = update(GROUP, "vm", tags, **unmodified(seen)).result()
    assert changed.etag != seen.etag
    with pytest.raises(ResourceModifiedError) as caught:
        update(GROUP, "vm", {"tags": {**seen.tags, "colour": "red"}}, **unmodified(seen))
    assert caught.value.error is not None
    assert caught.value.error.code == "PreconditionFailed"
    with pytest.raises(ResourceModifiedError):
        azure.put(machine(azure.id_of("Microsoft.Network/networkInterfaces", "vm-nic")), **unmodified(seen))
    assert azure.compute.virtual_machines.get(GROUP, "vm").tags["colour"] == "blue"


def test_the_rules_of_a_firewall_that_somebody_changed_meanwhile_stay(azure: Azure) -> None:
    azure.make_parts()
    path = azure.id_of(FIREWALL, "fw") + API
    seen = azure.ask("GET", path).body["etag"]
    wider = firewall(rule(destinationPortRange="22-23"))
    assert azure.ask("PUT", path, body=wider, If_Match=seen).status == 200
    late = azure.ask("PUT", path, body=firewall(), If_Match=seen)
    assert (late.status, late.code) == (412, "PreconditionFailed")
    (detail,) = late.body["error"]["details"]
    assert detail["code"] == "PreconditionFailedEtagMismatch"
    shown = azure.ask("GET", path).body["properties"]["securityRules"][0]["properties"]
    assert shown["destinationPortRange"] == "22-23"
    assert azure.ask("PUT", path, body=firewall(), If_Match="*").status == 200


def test_what_is_not_there_matches_nothing(azure: Azure) -> None:
    azure.make_group()
    path = azure.id_of(FIREWALL, "none") + API
    for wanted in ("*", 'W/"5ab5c21b"'):
        assert azure.ask("PUT", path, body=firewall(), If_Match=wanted).status == 412
    assert azure.ask("GET", path).code == "ResourceNotFound"


def test_what_exists_is_not_made_again_where_only_new_is_wanted(azure: Azure) -> None:
    azure.launch()
    body = machine(azure.id_of("Microsoft.Network/networkInterfaces", "vm-nic"))
    assert refused(azure.put, body, **IF_NEW) == ("PreconditionFailed", 412)
    path = azure.id_of(FIREWALL, "fw") + API
    assert azure.ask("PUT", path, body=firewall(), If_None_Match="*").status == 412
    assert azure.ask("PUT", path, body=firewall(), If_None_Match='W/"a"').code == "UnsupportedOperation"
