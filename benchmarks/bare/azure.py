"""A launch on Azure with its SDK alone."""

from __future__ import annotations

import base64
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import requests
from azure.core.rest import HttpRequest
from azure.identity import DefaultAzureCredential
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.computeschedule import ComputeScheduleMgmtClient
from azure.mgmt.resource.resources import ResourceManagementClient
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from benchmarks.bare.box import BareBox

NETWORK_API = "2024-05-01"
IMAGE = {"publisher": "microsoft-dsvm", "offer": "ubuntu-hpc", "sku": "2204", "version": "latest"}


def throw_away_key() -> str:
    """Azure asks for an RSA key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return key.public_bytes(*form).decode()


class Azure:
    """The clients, of one subscription."""

    def __init__(self) -> None:
        self.endpoint = os.environ["GPUCLOUD_AZURE_ENDPOINT"]
        subscription = os.environ["AZURE_SUBSCRIPTION_ID"]
        credential = DefaultAzureCredential(disable_instance_discovery=True)
        options: Any = {
            "base_url": self.endpoint,
            "credential_scopes": [f"{self.endpoint}/.default"],
            "polling_interval": 0.05,
        }
        self.resources = ResourceManagementClient(credential, subscription, **options)
        self.compute = ComputeManagementClient(credential, subscription, **options)
        self.schedules = ComputeScheduleMgmtClient(credential, subscription, **options)
        self.account = f"/subscriptions/{subscription}"

    def put(self, box: BareBox, kind: str, body: dict[str, Any]) -> Any:
        """Makes one part of the network and waits for it."""
        made = self.resources.resources.begin_create_or_update_by_id(
            f"{self.within(box)}/Microsoft.Network/{kind}/{box.id}",
            {"location": box.offer["region"], "tags": box.tags, **body},
            api_version=NETWORK_API,
        )
        return made.result().as_dict()

    def within(self, box: BareBox) -> str:
        """How the ids of a box's resources begin."""
        return f"{self.account}/resourceGroups/{group_of(box)}/providers"


def group_of(box: BareBox) -> str:
    """The resource group of a box."""
    return f"gpucloud-{box.id}"


def launch(box: BareBox) -> None:
    """Prices, group, network, machine, schedules, address, ssh, ``nvidia-smi``."""
    azure, region, group = Azure(), box.offer["region"], group_of(box)
    asked = HttpRequest("GET", f"{azure.endpoint}{azure.account}", params={"api-version": "2022-12-01"})
    azure.resources.send_request(asked).raise_for_status()
    ask_prices(box)
    caller = box.caller()
    azure.resources.resource_groups.create_or_update(group, {"location": region, "tags": box.tags})
    nic, address = make_network(azure, box, caller)
    machines = azure.compute.virtual_machines
    machines.begin_create_or_update(group, box.id, machine_of(box, nic), polling=False).result()
    azure.schedules.scheduled_actions.virtual_machines_submit_deallocate(region, end_of(azure, box))
    while machines.get(group, box.id).provisioning_state != "Succeeded":
        pass
    box.wait_for_gpus(address)


def ask_prices(box: BareBox) -> None:
    """The price in each region of the offer."""
    for where in box.offer["regions"]:
        condition = (
            f"serviceName eq 'Virtual Machines' and priceType eq 'Consumption' "
            f"and armRegionName eq '{where}' and armSkuName eq '{box.offer['instance_type']}'"
        )
        prices = os.environ["GPUCLOUD_AZURE_PRICES_URL"]
        requests.get(prices, params={"$filter": condition}, timeout=60).raise_for_status()


def make_network(azure: Azure, box: BareBox, caller: str) -> tuple[str, str]:
    """A network, a group that lets the caller in, an address and an interface; its id, and the address."""
    rule = {
        "protocol": "Tcp",
        "sourceAddressPrefix": caller,
        "sourcePortRange": "*",
        "destinationAddressPrefix": "*",
        "destinationPortRange": "22",
        "access": "Allow",
        "direction": "Inbound",
        "priority": 100,
    }
    subnet = {"name": "default", "properties": {"addressPrefix": "10.42.0.0/20"}}
    space = {"addressPrefixes": ["10.42.0.0/16"]}
    parts: dict[str, dict[str, Any]] = {
        "virtualNetworks": {"properties": {"addressSpace": space, "subnets": [subnet]}},
        "networkSecurityGroups": {"properties": {"securityRules": [{"name": "ssh", "properties": rule}]}},
        "publicIPAddresses": {
            "sku": {"name": "Standard"},
            "properties": {"publicIPAllocationMethod": "Static"},
        },
    }
    with ThreadPoolExecutor() as threads:
        network, firewall, address = threads.map(partial(azure.put, box), parts, parts.values())
    where = {"subnet": {"id": f"{network['id']}/subnets/default"}}
    public = {"publicIPAddress": {"id": address["id"], "properties": {"deleteOption": "Delete"}}}
    configuration = {"name": "ip", "properties": {**where, **public}}
    properties = {"networkSecurityGroup": {"id": firewall["id"]}, "ipConfigurations": [configuration]}
    nic = azure.put(box, "networkInterfaces", {"properties": properties})
    return nic["id"], address["properties"]["ipAddress"]


def machine_of(box: BareBox, nic: str) -> Any:
    """The body of the put that is billed."""
    key = {"path": "/home/azureuser/.ssh/authorized_keys", "keyData": throw_away_key()}
    return {
        "location": box.offer["region"],
        "tags": box.tags,
        "properties": {
            "hardwareProfile": {"vmSize": box.offer["instance_type"]},
            "storageProfile": {
                "imageReference": IMAGE,
                "osDisk": {"createOption": "FromImage", "deleteOption": "Delete", "diskSizeGB": 100},
            },
            "osProfile": {
                "computerName": "bare",
                "adminUsername": "azureuser",
                "customData": base64.b64encode(box.user_data().encode()).decode(),
                "linuxConfiguration": {"disablePasswordAuthentication": True, "ssh": {"publicKeys": [key]}},
            },
            "networkProfile": {
                "networkInterfaces": [{"id": nic, "properties": {"primary": True, "deleteOption": "Delete"}}]
            },
            "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
        },
    }


def end_of(azure: Azure, box: BareBox) -> Any:
    """The schedule that ends the machine after a day."""
    end = datetime.now(UTC) + timedelta(hours=24)
    return {
        "schedule": {
            "deadline": f"{end:%Y-%m-%dT%H:%M:%SZ}",
            "timezone": "UTC",
            "deadlineType": "InitiateAt",
        },
        "executionParameters": {"retryPolicy": {"retryCount": 5, "retryWindowInMinutes": 60}},
        "resources": {"ids": [f"{azure.within(box)}/Microsoft.Compute/virtualMachines/{box.id}"]},
        "correlationid": box.id,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        launch(BareBox(Path(folder)))
