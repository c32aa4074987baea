"""The API versions that the emulated Azure takes."""

from __future__ import annotations

import pytest

from gpucloud_sandbox.azure.api_versions import namespaces, versions_of
from gpucloud_sandbox.azure.members import TABLE
from gpucloud_sandbox.azure.permissions import NAMESPACES
from tests.sandbox import azure_model
from tests.sandbox.azure_lab import GROUP, Azure

CALLS = sorted(call.replace("LIST", "GET") for call, _ in TABLE.values())


def test_every_provider_has_versions() -> None:
    assert {each.lower() for each in NAMESPACES} <= namespaces()


def test_what_the_vendors_packages_send_is_taken() -> None:
    sent = {call: version for call in CALLS if (version := azure_model.versions().get(call.lower()))}
    assert len(sent) > 50
    refused: dict[str, str] = {}
    for call, version in sent.items():
        namespace, _, words = call.partition(" ")[2].partition("/")
        if version not in versions_of(namespace, words.partition("/")[0]):
            refused[call] = version
    assert refused == {}


@pytest.mark.parametrize(
    ("type_", "version"),
    [
        ("Microsoft.Compute/disks", "2024-07-01"),
        ("Microsoft.Compute/virtualMachines", "2024-03-02"),
        ("Microsoft.Compute/virtualMachineScaleSets", "2014-04-01"),
        ("Microsoft.Network/networkInterfaces", "2021-07-01"),
        ("Microsoft.DevTestLab/schedules", "2024-07-01"),
    ],
)
def test_a_version_that_only_other_types_have_is_refused(azure: Azure, type_: str, version: str) -> None:
    azure.make_group()
    refused = azure.ask("GET", f"{azure.id_of(type_, 'x')}?api-version={version}")
    assert (refused.status, refused.code) == (400, "NoRegisteredProviderFound")
    words = refused.body["error"]["message"]
    assert f"API version '{version}' for type '{type_.partition('/')[2]}'" in words
    newest = words.partition("api-versions are '")[2].partition(",")[0]
    assert azure.ask("GET", f"{azure.id_of(type_, 'x')}?api-version={newest}").code == "ResourceNotFound"


def test_the_tags_of_a_resource_have_versions_of_their_own(azure: Azure) -> None:
    azure.make_ground()
    network = azure.id_of("Microsoft.Network/virtualNetworks", "net")
    path = f"{network}/providers/Microsoft.Resources/tags/default?api-version="
    assert azure.ask("GET", f"{path}2021-04-01").status == 200
    assert azure.ask("GET", f"{path}2023-11-01").code == "InvalidApiVersionParameter"


def test_a_provider_tells_the_versions_of_its_types(azure: Azure) -> None:
    told = azure.resources.providers.get("Microsoft.Compute").resource_types
    known = {each.resource_type: each.api_versions for each in told}
    assert known["disks"][0] == "2026-03-02"
    assert "2024-07-01" in known["virtualMachineScaleSets"]


def test_a_template_names_versions_that_its_resources_have(azure: Azure) -> None:
    azure.make_group()
    disk = {"type": "Microsoft.Compute/disks", "name": "d", "apiVersion": "2024-07-01", "location": "eastus"}
    template = {"contentVersion": "1.0.0.0", "resources": [disk]}
    path = f"/subscriptions/{azure.subscription}/resourceGroups/{GROUP}/providers"
    path += "/Microsoft.Resources/deployments/d?api-version=2024-07-01"
    answer = azure.ask("PUT", path, body={"properties": {"mode": "incremental", "template": template}})
    assert (answer.status, answer.code) == (400, "NoRegisteredProviderFound")
