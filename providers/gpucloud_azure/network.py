"""The network of machines: a resource group for each box and region, with network, firewall and addresses."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpucloud.clouds.abilities import Firewall
from gpucloud.clouds.kit import in_threads
from gpucloud.clouds.provider import Record
from gpucloud.errors import UsageError
from gpucloud.resources import Order, Ref, ResourceKind, SnapshotOrder, Tags, VolumeOrder
from gpucloud_azure.account import AzureAccount
from gpucloud_azure.clients import Clients
from gpucloud_azure.errors import reading
from gpucloud_azure.find import CLOUD, InterfaceAddresses, private_in, public_in
from gpucloud_azure.ids import api, group_id, id_in
from gpucloud_azure.json_paths import plain
from gpucloud_azure.sizes import accelerates_networking
from gpucloud_pricing.purchases import Purchase

SSH_PORT = 22
GROUP_NAME_LENGTH = 90  # Resource Manager's limit
VNET_RANGE = "10.42.0.0/16"
SUBNET_RANGE = "10.42.0.0/20"
SUBNET = "default"
POLLING_S = 0.5
"""The pause between two polls of a creation, unless Azure sends Retry-After."""
TOGETHER = {"platformFaultDomainCount": 1, "platformUpdateDomainCount": 1}
"""Of an availability set: its machines are one job, which nothing is gained by spreading."""


# --- names


def group_name(order: Order | VolumeOrder | SnapshotOrder) -> str:
    """The resource group's name: that of the box, volume or snapshot, and the region's."""
    return f"{order.name}-{order.region}"[:GROUP_NAME_LENGTH]


def machine_names(order: Order) -> list[str]:
    """The machines' names: each attempt has its own key, so its names never clash with remains of another."""
    return [f"{_attempt(order.name, order.key)}-{node}" for node in order.ranks]


def set_name(order: Order) -> str | None:
    """The name of the availability set of several machines; ``None`` where they can have none.

    Each attempt has its own: the first machine of a set pins the hardware of all; a single machine joins that
    of the others. A set takes no machine on Spot, of a zone, or in held capacity (azure-compute-docs:
    error-codes-spot.md, availability-set-overview.md, capacity-reservation-overview.md).
    """
    alone = order.nodes == 1 or order.purchase is not Purchase.ON_DEMAND or bool(order.zone)
    key = order.vacancy.key if order.vacancy else order.key
    return None if alone else f"{_attempt(order.name, key)}-set"


def _attempt(name: str, key: str) -> str:
    return f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def tags_of(order: Order) -> dict[str, str]:
    """The tags of all resources of a box: a name, the user's own, and the five of gpucloud, which win."""
    return all_tags(order.name, order.extra_tags, order.tags)


def all_tags(name: str, extra: Mapping[str, str], tags: Tags | None) -> dict[str, str]:
    """A name, the user's own tags, and the five of gpucloud, which win."""
    own = {key: value for key, value in extra.items() if not key.lower().startswith("gpucloud:")}
    return {"Name": name, **own, **(tags.as_dict() if tags else {})}


# --- the firewall


def wanted_rules(cidrs: Sequence[str], ports: Sequence[int]) -> list[dict[str, Any]]:
    """The inbound rules of a box: ssh and its ports from these sources.

    Azure's own rules let the network's machines reach each other and deny the rest.

    Args:
        cidrs: the sources, IPv4 or IPv6; a rule takes only one family.
        ports: TCP ports besides ssh.

    Raises:
        UsageError: a source is not a network, or is the whole internet.
    """
    networks = [_network(cidr) for cidr in cidrs]
    rules: list[dict[str, Any]] = []
    for version in (4, 6):
        sources = sorted(str(network) for network in networks if network.version == version)
        for port in sorted({SSH_PORT, *ports}):
            for source in sources:
                rules.append(
                    {
                        "name": f"in-{version}-{port}-{sources.index(source)}",
                        "properties": {
                            "protocol": "Tcp",
                            "sourceAddressPrefix": source,
                            "sourcePortRange": "*",
                            "destinationAddressPrefix": "*",
                            "destinationPortRange": str(port),
                            "access": "Allow",
                            "direction": "Inbound",
                            "priority": 100 + len(rules),
                        },
                    }
                )
    return rules


def _network(cidr: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        network = ipaddress.ip_network(cidr, strict=False)
    except ValueError as error:
        raise UsageError(f"{cidr!r} is not a network such as 198.51.100.7/32") from error
    if network.prefixlen == 0:
        raise UsageError(f"{cidr} is the whole world: a box is open to named addresses only")
    return network


# --- creating


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPart:
    """A resource to create: its kind, name, and body."""

    kind: ResourceKind
    name: str
    body: Mapping[str, Any]


@reading("a PUT")
def put(clients: Clients, resource_id: str, kind: ResourceKind, body: Mapping[str, Any]) -> dict[str, Any]:
    """Creates a resource, or finds it, and waits until it is provisioned."""
    from azure.mgmt.core.polling.arm_polling import ARMPolling, BodyContentPolling

    # The resource itself has its provisioning state: no other resource has to be polled.
    algorithms: list[Any] = [BodyContentPolling[Any, Any]()]
    polling = ARMPolling(POLLING_S, lro_algorithms=algorithms)
    poller = clients.resources().resources.begin_create_or_update_by_id(
        resource_id, dict(body), api_version=api(kind), polling=polling
    )
    return plain(poller.result())


class Announced:
    """Reports each resource to a record once in an attempt, for any number of PUTs.

    A repeated PUT by name creates nothing more, and a second report would look as if it did. The next attempt
    reports again: what it has in common with this one may have been deleted between them.
    """

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()

    def making(self, order: Order, ref: Ref, name: str, record: Record) -> None:
        """Reports a resource that is about to be created for an order."""
        if (order.key, ref.id) not in self._known:
            record.making(ref.kind, name)
            self._known.add((order.key, ref.id))


def make(
    order: Order, record: Record, clients: Clients, addresses: InterfaceAddresses, announced: Announced
) -> list[str]:
    """Creates what an order's machines need, or finds it; returns the ids of their interfaces.

    Network, firewall, addresses and availability set are created at the same time. The record is called
    before any of them is, and in the reverse order once they exist.
    """
    group = group_name(order)
    tags = tags_of(order)
    rules = wanted_rules(order.allow_from, order.ports)
    names = machine_names(order)
    _make_group(order, group, record, clients, announced)

    def made(parts: Sequence[NetworkPart]) -> list[dict[str, Any]]:
        return _make_all(order, group, parts, record, clients, announced=announced)

    def body(properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        return {"location": order.region, "tags": tags, **more, "properties": properties}

    zones = {"zones": [order.zone]} if order.zone else {}
    standard = {"sku": {"name": "Standard"}, **zones}
    subnets = [{"name": SUBNET, "properties": {"addressPrefix": SUBNET_RANGE}}]
    address = {"publicIPAllocationMethod": "Static", "publicIPAddressVersion": "IPv4"}
    answers = made(
        [
            *_sets(order, body),
            NetworkPart(
                kind=ResourceKind.NETWORK,
                name=order.name,
                body=body({"addressSpace": {"addressPrefixes": [VNET_RANGE]}, "subnets": subnets}),
            ),
            NetworkPart(kind=ResourceKind.GROUP, name=order.name, body=body({"securityRules": rules})),
            *(
                NetworkPart(kind=ResourceKind.ADDRESS, name=f"{name}-ip", body=body(address, **standard))
                for name in names
            ),
        ]
    )
    nics = made([_interface(order, group, name, body) for name in names])
    ids = [id_in(order.account, group, ResourceKind.NIC, f"{name}-nic") for name in names]
    for nic_id, nic, public in zip(ids, nics, answers[-len(names) :], strict=True):
        addresses.learn(nic_id, private=private_in(nic), public=public_in(public))
    return ids


def _sets(order: Order, body: Callable[..., dict[str, Any]]) -> list[NetworkPart]:
    """The availability set, if the machines have one; "Aligned" is one for managed disks."""
    name = set_name(order)
    kind = ResourceKind.PLACEMENT_GROUP
    return [NetworkPart(kind=kind, name=name, body=body(TOGETHER, sku={"name": "Aligned"}))] if name else []


def _interface(order: Order, group: str, name: str, body: Callable[..., dict[str, Any]]) -> NetworkPart:
    subnet = f"{id_in(order.account, group, ResourceKind.NETWORK, order.name)}/subnets/{SUBNET}"
    address = id_in(order.account, group, ResourceKind.ADDRESS, f"{name}-ip")
    firewall = id_in(order.account, group, ResourceKind.GROUP, order.name)
    configuration = {
        "name": "ip",
        "properties": {
            "primary": True,
            "privateIPAllocationMethod": "Dynamic",
            "subnet": {"id": subnet},
            "publicIPAddress": {"id": address, "properties": {"deleteOption": "Delete"}},
        },
    }
    properties = {
        "networkSecurityGroup": {"id": firewall},
        "ipConfigurations": [configuration],
        "enableAcceleratedNetworking": accelerates_networking(order.instance_type),
    }
    return NetworkPart(kind=ResourceKind.NIC, name=f"{name}-nic", body=body(properties))


def _ref(order: Order, kind: ResourceKind, resource_id: str) -> Ref:
    return Ref(cloud=CLOUD, account=order.account, region=order.region, kind=kind, id=resource_id)


def _make_group(order: Order, group: str, record: Record, clients: Clients, announced: Announced) -> None:
    ref = _ref(order, ResourceKind.RESOURCE_GROUP, group_id(order.account, group))
    announced.making(order, ref, group, record)
    clients.resources().resource_groups.create_or_update(
        group, {"location": order.region, "tags": tags_of(order)}
    )
    record.made(ref)


def _make_all(
    order: Order,
    group: str,
    parts: Sequence[NetworkPart],
    record: Record,
    clients: Clients,
    *,
    announced: Announced,
) -> list[dict[str, Any]]:
    """Creates parts at the same time."""
    refs = [_ref(order, part.kind, id_in(order.account, group, part.kind, part.name)) for part in parts]
    for part, ref in zip(parts, refs, strict=True):
        announced.making(order, ref, part.name, record)

    def attempt(each: tuple[NetworkPart, Ref]) -> dict[str, Any] | Exception:
        part, ref = each
        try:
            return put(clients, ref.id, part.kind, part.body)
        except Exception as error:
            return error

    answers = in_threads(attempt, zip(parts, refs, strict=True))
    for ref in reversed(refs):
        # Also for refused or unanswered calls: the id is known, and proves later that the resource is gone.
        record.made(ref)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return [answer for answer in answers if not isinstance(answer, Exception)]


class AzureFirewall(Firewall):
    """The rules of a network security group, changed while the box runs."""

    def __init__(self, account: AzureAccount) -> None:
        self._account = account

    @reading("a network security group")
    def admit(self, group: Ref, cidrs: Sequence[str], ports: Sequence[int], /) -> None:
        """Allows only these sources; the rules among the machines of one box stay."""
        self._account.refuse_foreign(group)
        clients, rules = self._account.clients, wanted_rules(cidrs, ports)
        shown = plain(clients.resources().resources.get_by_id(group.id, api_version=api(ResourceKind.GROUP)))
        body = {
            "location": shown["location"],
            "tags": shown.get("tags") or {},
            "properties": {"securityRules": rules},
        }
        put(clients, group.id, ResourceKind.GROUP, body)
