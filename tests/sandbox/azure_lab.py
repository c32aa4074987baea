"""Azure in the sandbox for tests: the vendor's SDK, and bodies that a careful reviewer lets pass."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from http.client import HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.identity import ClientSecretCredential
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.computeschedule import ComputeScheduleMgmtClient
from azure.mgmt.network import NetworkManagementClient
from azure.mgmt.resource.resources import ResourceManagementClient
from azure.mgmt.storage import StorageManagementClient

from gpucloud_azure.create import throw_away_key
from gpucloud_sandbox.client import Endpoint, SandboxClient
from tests.sandbox.running import TAGS, HollowBoxes
from tests.waiting import PATIENCE_S

REGION = "eastus"
GROUP = "Box-Group"
SIZE = "Standard_NC4as_T4_v3"
FAMILY = "standardNCasT4v3Family"
HERE = "198.51.100.7/32"
UBUNTU = {
    "publisher": "Canonical",
    "offer": "0001-com-ubuntu-server-jammy",
    "sku": "22_04-lts-gen2",
    "version": "latest",
}
GENERATION_1 = {**UBUNTU, "sku": "22_04-lts"}
SPOT: dict[str, Any] = {"priority": "Spot", "evictionPolicy": "Delete", "billingProfile": {"maxPrice": -1}}
API = "2024-07-01"

rsa_key = cache(throw_away_key)


@dataclass
class Azure:
    """A subscription in the sandbox, as the vendor's SDK reaches it."""

    endpoint: Endpoint
    boxes: HollowBoxes

    @property
    def sandbox(self) -> SandboxClient:
        """Steers the sandbox."""
        return self.endpoint.client

    @property
    def origin(self) -> str:
        """Resource Manager's URL."""
        return self.endpoint.endpoints["azure"]

    @property
    def subscription(self) -> str:
        """The subscription's id."""
        return self.endpoint.environ["AZURE_SUBSCRIPTION_ID"]

    @property
    def authority(self) -> str:
        """The file of the sandbox's certificate authority."""
        return self.endpoint.environ["REQUESTS_CA_BUNDLE"]

    def sign_in(self, **changes: str) -> ClientSecretCredential:
        """The credential of the sandbox's application, with some parts changed."""
        parts = {name: self.endpoint.environ[f"AZURE_{name.upper()}"] for name in _CREDENTIAL} | changes
        return ClientSecretCredential(
            parts["tenant_id"],
            parts["client_id"],
            parts["client_secret"],
            authority=self.origin,
            disable_instance_discovery=True,
            connection_verify=self.authority,
            retry_total=0,
        )

    @cached_property
    def credential(self) -> ClientSecretCredential:
        """A good credential."""
        return self.sign_in()

    def _client(self, kind: Any) -> Any:
        return kind(
            self.credential,
            self.subscription,
            base_url=self.origin,
            connection_verify=self.authority,
            polling_interval=0.02,
            retry_total=0,
        )

    @cached_property
    def compute(self) -> Any:
        """Machines, disks, sizes, images."""
        return self._client(ComputeManagementClient)

    @cached_property
    def network(self) -> Any:
        """Networks, firewalls, addresses, interfaces."""
        return self._client(NetworkManagementClient)

    @cached_property
    def storage(self) -> Any:
        """Storage accounts."""
        return self._client(StorageManagementClient)

    @cached_property
    def resources(self) -> Any:
        """Resource groups, and everything by id."""
        return self._client(ResourceManagementClient)

    @cached_property
    def schedules(self) -> Any:
        """Scheduled actions."""
        return self._client(ComputeScheduleMgmtClient).scheduled_actions

    def close(self) -> None:
        """Closes the connections of what was used."""
        for name in ("compute", "network", "storage", "resources", "credential"):
            used = self.__dict__.get(name)
            if used is not None:
                used.close()
        if "schedules" in self.__dict__:
            self.schedules._client.close()

    def token(self, scope: str = "https://management.azure.com/.default") -> str:
        """An access token."""
        return self.credential.get_token(scope).token

    def ask(self, method: str, path: str, *, token: str | None = "", body: Any = None, **more: str) -> Wire:
        """One request without the SDK; with a good token unless another or none is given.

        Args:
            method: HTTP method.
            path: with its query.
            token: empty for a good one.
            body: to be sent as JSON; text as a form.
            more: headers, with ``_`` for ``-``.
        """
        kind = "application/x-www-form-urlencoded" if isinstance(body, str) else "application/json"
        headers = {"Content-Type": kind, **{name.replace("_", "-"): value for name, value in more.items()}}
        data = None if body is None else body if isinstance(body, str) else json.dumps(body)
        if token is not None:
            headers["Authorization"] = f"Bearer {token or self.token()}"
        url = urlsplit(self.origin)
        trust = ssl.create_default_context(cafile=self.authority)
        connection = HTTPSConnection(str(url.hostname), url.port, timeout=PATIENCE_S, context=trust)
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        kind = answer.getheader("Content-Type", "")
        return Wire(
            answer.status,
            {name.lower(): value for name, value in answer.getheaders()},
            json.loads(text) if text and "json" in kind else text,
        )

    def billed(self) -> list[str]:
        """The kinds of what is billed now."""
        return sorted(entry["kind"] for entry in self.sandbox.status()["billing"])

    # --- making

    def id_of(self, kind: str, name: str) -> str:
        """The id of something in the box's group."""
        return f"/subscriptions/{self.subscription}/resourceGroups/{GROUP}/providers/{kind}/{name}"

    def make_group(self, name: str = GROUP) -> Any:
        """A resource group."""
        return self.resources.resource_groups.create_or_update(name, {"location": REGION, "tags": TAGS})

    def make_ground(self) -> None:
        """The group, the firewall and the network of machines."""
        self.make_group()
        self.network.network_security_groups.begin_create_or_update(GROUP, "fw", firewall()).result()
        self.network.virtual_networks.begin_create_or_update(GROUP, "net", network()).result()

    def make_parts(self, name: str = "vm") -> str:
        """What a machine stands on; gives its interface's id."""
        self.make_ground()
        address = self.network.public_ip_addresses.begin_create_or_update(GROUP, f"{name}-ip", ADDRESS)
        nic = self.interface(address.result().id)
        made = self.network.network_interfaces.begin_create_or_update(GROUP, f"{name}-nic", nic).result()
        return str(made.id)

    def interface(self, address_id: str, **changes: Any) -> dict[str, Any]:
        """The body of an interface with an address."""
        configuration = {
            "subnet": {"id": self.id_of("Microsoft.Network/virtualNetworks", "net/subnets/default")},
            "publicIPAddress": {"id": address_id, "properties": {"deleteOption": "Delete"}},
        }
        properties = {
            "networkSecurityGroup": {"id": self.id_of("Microsoft.Network/networkSecurityGroups", "fw")},
            "ipConfigurations": [{"name": "ip", "properties": configuration}],
        }
        return {"location": REGION, "tags": TAGS, "properties": properties | changes}

    def put(self, body: Mapping[str, Any], name: str = "vm", **options: Any) -> Any:
        """PUT of a machine; gives the poller."""
        return self.compute.virtual_machines.begin_create_or_update(GROUP, name, body, **options)

    def launch(self, name: str = "vm", **changes: Any) -> Any:
        """A machine and all that it stands on."""
        return self.put(machine(self.make_parts(name), **changes), name).result()

    def power(self, name: str = "vm") -> str:
        """The last of a machine's statuses."""
        view = self.compute.virtual_machines.instance_view(GROUP, name)
        return str(view.statuses[-1].code)


_CREDENTIAL = ("tenant_id", "client_id", "client_secret")


@dataclass(frozen=True)
class Wire:
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def code(self) -> str:
        """The error's code."""
        code: str = self.body["error"]["code"]
        return code


def refused(call: Any, *arguments: Any, **options: Any) -> tuple[str, int]:
    """The code and HTTP status with which the SDK's call is refused, at once or at its end."""

    def whole() -> None:
        answer = call(*arguments, **options)
        answer.result() if hasattr(answer, "result") else list(answer)

    with pytest.raises(HttpResponseError) as caught:
        whole()
    error: Any = caught.value
    assert error.response.headers["x-ms-request-id"]
    assert error.error is not None
    return str(error.error.code), int(error.status_code or 0)


# --- bodies


def rule(**changes: Any) -> dict[str, Any]:
    """A firewall rule that lets the caller in on ssh."""
    properties = {
        "protocol": "Tcp",
        "sourceAddressPrefix": HERE,
        "sourcePortRange": "*",
        "destinationAddressPrefix": "*",
        "destinationPortRange": "22",
        "access": "Allow",
        "direction": "Inbound",
        "priority": 100,
    }
    return {"name": "ssh", "properties": properties | changes}


def firewall(*rules: Any) -> dict[str, Any]:
    """The body of a network security group."""
    return {"location": REGION, "tags": TAGS, "properties": {"securityRules": list(rules or (rule(),))}}


def network(**changes: Any) -> dict[str, Any]:
    """The body of a virtual network."""
    properties = {
        "addressSpace": {"addressPrefixes": ["10.42.0.0/16"]},
        "subnets": [{"name": "default", "properties": {"addressPrefix": "10.42.0.0/20"}}],
    }
    return {"location": REGION, "tags": TAGS, "properties": properties | changes}


ADDRESS: dict[str, Any] = {
    "location": REGION,
    "tags": TAGS,
    "sku": {"name": "Standard"},
    "properties": {"publicIPAllocationMethod": "Static"},
}


def machine(nic: str, **changes: Any) -> dict[str, Any]:
    """A machine that a careful reviewer lets pass.

    Args:
        nic: its interface's id.
        changes: other top-level members, or ``a__b=value`` for one deeper in ``properties`` (``None`` leaves
            it out).
    """
    ssh = {"publicKeys": [{"path": "/home/box/.ssh/authorized_keys", "keyData": rsa_key()}]}
    properties: dict[str, Any] = {
        "hardwareProfile": {"vmSize": SIZE},
        "storageProfile": {
            "imageReference": UBUNTU,
            "osDisk": {
                "createOption": "FromImage",
                "deleteOption": "Delete",
                "diskSizeGB": 100,
                "managedDisk": {"storageAccountType": "Premium_LRS"},
            },
        },
        "osProfile": {
            "computerName": "n0",
            "adminUsername": "box",
            "customData": base64.b64encode(b"#cloud-config\n").decode(),
            "linuxConfiguration": {"disablePasswordAuthentication": True, "ssh": ssh},
        },
        "networkProfile": {
            "networkInterfaces": [{"id": nic, "properties": {"primary": True, "deleteOption": "Delete"}}]
        },
        "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
    }
    body: dict[str, Any] = {"location": REGION, "zones": ["1"], "tags": TAGS, "properties": properties}
    for path, value in changes.items():
        *above, last = path.split("__")
        inside = body if path in {"location", "zones", "tags"} else properties
        for step in above:
            inside = inside.setdefault(step, {})
        if value is None:
            inside.pop(last, None)
        else:
            inside[last] = value
    return body


def scale_set(azure: Azure, capacity: int = 2, **changes: Any) -> dict[str, Any]:
    """A scale set that a careful reviewer lets pass.

    Args:
        azure: where.
        capacity: the number of its instances.
        changes: other top-level members, or ``a__b=value`` for one deeper in ``virtualMachineProfile``
            (``None`` leaves it out).
    """
    profile = machine("nic", **changes)
    body: dict[str, Any] = {name: profile[name] for name in ("location", "tags") if name in profile}
    properties: dict[str, Any] = profile["properties"]
    guest = properties.pop("osProfile")
    guest["computerNamePrefix"] = guest.pop("computerName")
    del properties["storageProfile"]["osDisk"]["deleteOption"]
    size = properties.pop("hardwareProfile")["vmSize"]
    address = {"name": "pub", "sku": {"name": "Standard"}, "properties": {"publicIPAddressVersion": "IPv4"}}
    subnet = {"id": azure.id_of("Microsoft.Network/virtualNetworks", "net/subnets/default")}
    configuration = {
        "name": "ip",
        "properties": {"subnet": subnet, "primary": True, "publicIPAddressConfiguration": address},
    }
    interface = {
        "primary": True,
        "networkSecurityGroup": {"id": azure.id_of("Microsoft.Network/networkSecurityGroups", "fw")},
        "ipConfigurations": [configuration],
    }
    described = [{"name": "nic", "properties": interface}]
    properties["networkProfile"] = {"networkInterfaceConfigurations": described}
    return {
        **body,
        "sku": {"name": size, "capacity": capacity},
        "properties": {
            "orchestrationMode": "Uniform",
            "singlePlacementGroup": True,
            "overprovision": False,
            "upgradePolicy": {"mode": "Manual"},
            "virtualMachineProfile": {**properties, "osProfile": guest},
        },
    }


IF_NEW = {"match_condition": MatchConditions.IfMissing}
