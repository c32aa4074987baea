"""A launch on Azure with its SDK alone."""

from __future__ import annotations

import base64
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
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


def launch(box: BareBox) -> None:
    """Prices, group, network, machine, schedules, address, ssh, ``nvidia-smi``."""
    offer = box.offer
    region, size = offer["region"], offer["instance_type"]
    endpoint, subscription = os.environ["GPUCLOUD_AZURE_ENDPOINT"], os.environ["AZURE_SUBSCRIPTION_ID"]
    credential = DefaultAzureCredential(disable_instance_discovery=True)
    options: Any = {
        "base_url": endpoint,
        "credential_scopes": [f"{endpoint}/.default"],
        "polling_interval": 0.05,
    }
    resources = ResourceManagementClient(credential, subscription, **options)
    compute = ComputeManagementClient(credential, subscription, **options)
    schedules = ComputeScheduleMgmtClient(credential, subscription, **options)
    account = f"/subscriptions/{subscription}"
    asked = HttpRequest("GET", f"{endpoint}{account}", params={"api-version": "2022-12-01"})
    resources.send_request(asked).raise_for_status()
    for where in offer["regions"]:
        condition = (
            f"serviceName eq 'Virtual Machines' and priceType eq 'Consumption' "
            f"and armRegionName eq '{where}' and armSkuName eq '{size}'"
        )
        prices = os.environ["GPUCLOUD_AZURE_PRICES_URL"]
        requests.get(prices, params={"$filter": condition}, timeout=60).raise_for_status()
    caller = box.caller()
    group = f"gpucloud-{box.id}"
    resources.resource_groups.create_or_update(group, {"location": region, "tags": box.tags})
    within = f"{account}/resourceGroups/{group}/providers"

    def put(part: tuple[str, dict[str, Any]]) -> Any:
        kind, body = part
        made = resources.resources.begin_create_or_update_by_id(
            f"{within}/Microsoft.Network/{kind}/{box.id}",
            {"location": region, "tags": box.tags, **body},
            api_version=NETWORK_API,
        )
        return made.result().as_dict()

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
    parts: list[tuple[str, dict[str, Any]]] = [
        ("virtualNetworks", {"properties": {"addressSpace": space, "subnets": [subnet]}}),
        ("networkSecurityGroups", {"properties": {"securityRules": [{"name": "ssh", "properties": rule}]}}),
        (
            "publicIPAddresses",
            {"sku": {"name": "Standard"}, "properties": {"publicIPAllocationMethod": "Static"}},
        ),
    ]
    with ThreadPoolExecutor() as threads:
        network, firewall, address = threads.map(put, parts)
    where = {"subnet": {"id": f"{network['id']}/subnets/default"}}
    public = {"publicIPAddress": {"id": address["id"], "properties": {"deleteOption": "Delete"}}}
    configuration = {"name": "ip", "properties": {**where, **public}}
    properties = {"networkSecurityGroup": {"id": firewall["id"]}, "ipConfigurations": [configuration]}
    nic = put(("networkInterfaces", {"properties": properties}))
    machine = f"{within}/Microsoft.Compute/virtualMachines/{box.id}"
    key = {"path": "/home/azureuser/.ssh/authorized_keys", "keyData": throw_away_key()}
    body: Any = {
        "location": region,
        "tags": box.tags,
        "properties": {
            "hardwareProfile": {"vmSize": size},
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
                "networkInterfaces": [
                    {"id": nic["id"], "properties": {"primary": True, "deleteOption": "Delete"}}
                ]
            },
            "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
        },
    }
    machines = compute.virtual_machines
    machines.begin_create_or_update(group, box.id, body, polling=False).result()
    end = datetime.now(UTC) + timedelta(hours=24)
    deallocation: Any = {
        "schedule": {
            "deadline": f"{end:%Y-%m-%dT%H:%M:%SZ}",
            "timezone": "UTC",
            "deadlineType": "InitiateAt",
        },
        "executionParameters": {"retryPolicy": {"retryCount": 5, "retryWindowInMinutes": 60}},
        "resources": {"ids": [machine]},
        "correlationid": box.id,
    }
    schedules.scheduled_actions.virtual_machines_submit_deallocate(region, deallocation)
    while machines.get(group, box.id).provisioning_state != "Succeeded":
        pass
    box.wait_for_gpus(address["properties"]["ipAddress"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        launch(BareBox(Path(folder)))
