"""Template deployments in the emulated Azure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpucloud_sandbox.review import Review
from tests.sandbox.azure_lab import ADDRESS, API, GROUP, REGION, Azure, Wire, machine, network
from tests.sandbox.running import TAGS

NIC = "Microsoft.Network/networkInterfaces"
NET = "Microsoft.Network/virtualNetworks"
VM = "Microsoft.Compute/virtualMachines"


def deploy(azure: Azure, *resources: Any, **parts: Any) -> Wire:
    """A deployment's PUT."""
    azure.make_group()
    template = {"contentVersion": "1.0.0.0", "resources": list(resources), **parts.pop("template", {})}
    body = {"properties": {"mode": "incremental", "template": template, **parts}}
    return azure.ask("PUT", path(azure), body=body)


def path(azure: Azure, below: str = "") -> str:
    return azure.id_of("Microsoft.Resources/deployments", f"d{below}?api-version={API}")


def of_template(kind: str, name: str, body: dict[str, Any], *needs: str) -> dict[str, Any]:
    return {"type": kind, "name": name, "apiVersion": API, "dependsOn": list(needs), **body}


def box(azure: Azure) -> list[dict[str, Any]]:
    """A machine and what it stands on, in the wrong order."""
    interface = azure.interface("", networkSecurityGroup=None)
    del interface["properties"]["ipConfigurations"][0]["properties"]["publicIPAddress"]
    nic = azure.id_of(NIC, "nic")
    return [
        of_template(VM, "[parameters('name')]", machine(nic), f"{NIC}/nic"),
        of_template(NIC, "nic", interface, "[resourceId('Microsoft.Network/virtualNetworks', 'net')]"),
        of_template(NET, "[concat(variables('word'), 't')]", network()),
    ]


WORDS: dict[str, Any] = {
    "parameters": {"name": {"type": "string"}, "other": {"type": "string", "defaultValue": "o"}},
    "variables": {"word": "ne"},
    "outputs": {
        "size": {
            "type": "string",
            "value": f"[reference(resourceId('{VM}', parameters('name')), '{API}').hardwareProfile.vmSize]",
        }
    },
}


@pytest.fixture
def unreviewed(azure: Azure) -> Iterator[Azure]:
    """A subscription of somebody else."""
    azure.sandbox.review(Review.OFF)
    yield azure
    azure.sandbox.review(Review.ALL)


def test_a_template_makes_its_resources_in_the_order_of_their_needs(unreviewed: Azure) -> None:
    azure = unreviewed
    answer = deploy(azure, *box(azure), template=WORDS, parameters={"name": {"value": "v"}})
    assert answer.status == 201, answer.body
    assert azure.power("v") == "PowerState/running"
    shown = azure.ask("GET", path(azure)).body["properties"]
    assert shown["provisioningState"] == "Succeeded"
    assert shown["outputs"]["size"]["value"] == "Standard_NC4as_T4_v3"
    assert len(shown["outputResources"]) == 3
    outcome = azure.ask("GET", answer.headers["azure-asyncoperation"].removeprefix(azure.origin))
    assert outcome.body == {"status": "Succeeded"}


def test_a_deployment_runs_until_its_machine_is_there_and_fails_with_it(unreviewed: Azure) -> None:
    azure = unreviewed
    azure.sandbox.stock(count=0, cloud="azure")
    azure.sandbox.pace(transition_s=60)
    deploy(azure, *box(azure), template=WORDS, parameters={"name": {"value": "v"}})
    assert azure.ask("GET", path(azure)).body["properties"]["provisioningState"] == "Running"
    azure.sandbox.clock(advance_s=61)
    failed = azure.ask("GET", path(azure)).body["properties"]
    assert failed["provisioningState"] == "Failed"
    assert failed["error"]["code"] == "DeploymentFailed"
    assert [each["code"] for each in failed["error"]["details"]] == ["ZonalAllocationFailed"]


def test_what_a_resource_is_refused_for_is_in_the_deployments_error(azure: Azure) -> None:
    basic = {**ADDRESS, "sku": {"name": "Basic"}}
    deploy(azure, of_template("Microsoft.Network/publicIPAddresses", "ip", basic))
    error = azure.ask("GET", path(azure)).body["properties"]["error"]
    assert [each["code"] for each in error["details"]] == ["IPv4BasicSkuPublicIpCountLimitReached"]


def test_a_deployment_that_fails_keeps_what_it_made_before(unreviewed: Azure) -> None:
    azure = unreviewed
    basic = of_template(
        "Microsoft.Network/publicIPAddresses", "ip", {**ADDRESS, "sku": {"name": "Basic"}}, f"{NET}/net"
    )
    answer = deploy(azure, basic, of_template(NET, "net", network()))
    assert answer.body["properties"]["provisioningState"] == "Failed"
    assert [each.name for each in azure.network.virtual_networks.list(GROUP)] == ["net"]


GROUP_OF_RULES = {"location": REGION, "tags": TAGS}


@pytest.mark.parametrize(
    ("resource", "code", "words"),
    [
        (of_template(NET, "n", network(), "a/b/c"), "InvalidTemplate", "not defined in the template"),
        (of_template(NET, "[missing()]", network()), "UnsupportedOperation", "missing()"),
        (of_template(NET, "[concat('a']", network()), "InvalidTemplate", "concat"),
        (of_template(NET, "[parameters('a')]", network()), "InvalidTemplate", "'a'"),
        (
            of_template("Microsoft.Web/sites", "s", GROUP_OF_RULES),
            "UnsupportedOperation",
            "Microsoft.Web/sites",
        ),
        (
            of_template(NET, "n", network(flowTimeoutInMinutes=4)),
            "UnsupportedOperation",
            f"PUT {NET}: properties.flowTimeoutInMinutes",
        ),
    ],
)
def test_a_template_that_cannot_be_done_is_refused_whole(
    azure: Azure, resource: Any, code: str, words: str
) -> None:
    answer = deploy(azure, resource)
    assert answer.code == code
    assert words in answer.body["error"]["message"]
    assert azure.ask("GET", path(azure)).code == "DeploymentNotFound"
    assert list(azure.network.virtual_networks.list(GROUP)) == []
