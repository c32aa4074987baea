"""Networks, firewalls, addresses and interfaces."""

from __future__ import annotations

from ipaddress import IPv4Network, ip_address, ip_network
from typing import Any

from gpucloud_sandbox.addresses import NoAddressError
from gpucloud_sandbox.azure.members import not_emulated
from gpucloud_sandbox.azure.nic_limits import check_acceleration
from gpucloud_sandbox.azure.review import (
    WORLD,
    is_block,
    review_ingress,
    review_nic,
    review_tags,
    sources_of,
)
from gpucloud_sandbox.azure.subscription import (
    ADDRESS,
    CLOUD,
    FIREWALL,
    MACHINE,
    NETWORK,
    NIC,
    Subscription,
    canonical,
    part,
)
from gpucloud_sandbox.azure.wire import AzureError, Json
from gpucloud_sandbox.database import Document

_NOT_OUTSIDE = {"virtualnetwork", "azureloadbalancer"}
"""Service tags of what is no caller from outside."""
RESERVED_S = 180.0
"""An interface is kept so long for a machine that failed (azure-sdk-for-go-extensions)."""


# --- making


def make_network(subscription: Subscription, document: Document, body: Json) -> None:
    """The rules of a virtual network."""
    blocks: list[str] = part(body, "properties", "addressSpace").get("addressPrefixes") or []
    spaces = [_network(block, "addressSpace") for block in blocks]
    if not spaces:
        raise AzureError("InvalidRequestFormat", "A virtual network needs an address space.")
    subnets: list[Json] = part(body, "properties").get("subnets") or []
    kept = {f"{document['id']}/subnets/{subnet['name']}".lower() for subnet in subnets}
    _check_left(subscription, document, kept)
    for subnet in subnets:
        firewall = part(subnet, "properties", "networkSecurityGroup").get("id")
        if firewall and subscription.find(FIREWALL, firewall) is None:
            raise _missing(firewall)
        block = _network(part(subnet, "properties").get("addressPrefix", ""), "subnet")
        if not any(block.subnet_of(space) for space in spaces):
            raise AzureError(
                "NetcfgSubnetRangeOutsideVnet", f"Subnet '{subnet.get('name')}' is not in the address space."
            )
        _name_child(document, "subnets", subnet)
        subnet["properties"]["provisioningState"] = "Succeeded"


def make_firewall(subscription: Subscription, document: Document, body: Json) -> None:
    """The rules of a network security group."""
    priorities: set[tuple[str, int]] = set()
    for rule in part(body, "properties").get("securityRules") or ():
        properties = part(rule, "properties")
        needed = {"protocol", "access", "direction", "priority", "destinationAddressPrefix"}
        if missing := sorted(needed - properties.keys()):
            text = f"Security rule '{rule.get('name')}' lacks {', '.join(missing)}."
            raise AzureError("SecurityRuleInvalidParameter", text)
        _check_reach(str(rule.get("name")), properties)
        key = (str(properties["direction"]).lower(), properties["priority"])
        if not 100 <= properties["priority"] <= 4096 or key in priorities:
            text = f"Security rule '{rule.get('name')}' has an invalid or doubled priority."
            raise AzureError("SecurityRuleConflict", text)
        priorities.add(key)
        _name_child(document, "securityRules", rule)
        rule["properties"]["provisioningState"] = "Succeeded"
    review_ingress(part(rule, "properties") for rule in part(body, "properties").get("securityRules") or ())


def _check_reach(name: str, rule: Json) -> None:
    """Passes ports and sources that a rule can have, and that the sandbox's firewall understands."""
    ports = [rule.get("destinationPortRange"), *(rule.get("destinationPortRanges") or ())]
    if not any(ports) or not all(_is_range(each) for each in ports if each):
        text = f"Security rule has invalid Port range. Value provided: {ports}. Rule: {name}."
        raise AzureError("SecurityRuleInvalidPortRange", text)
    if not sources_of(rule):
        raise AzureError("SecurityRuleInvalidParameter", f"Security rule '{name}' lacks sourceAddressPrefix.")
    for source in sources_of(rule):
        if is_block(source) or source.lower() in {*WORLD, *_NOT_OUTSIDE}:
            continue
        if source.replace(".", "").isalnum() and source[0].isalpha():
            raise not_emulated(f"the service tag {source} in sourceAddressPrefix")
        text = f"Security rule has invalid Address prefix. Value provided: {source}. Rule: {name}."
        raise AzureError("SecurityRuleInvalidAddressPrefix", text)


def _is_range(text: str) -> bool:
    if text == "*":
        return True
    words = text.split("-")
    numbers = [int(each) for each in words if each.isdecimal()]
    return len(numbers) == len(words) <= 2 and numbers == sorted(numbers) and numbers[-1] <= 65535


def _name_child(document: Document, word: str, child: Json) -> None:
    """Gives what is part of a resource its id.

    Raises:
        AzureError: it has no name, or came with another id.
    """
    if not child.get("name"):
        raise AzureError("InvalidRequestFormat", f"A resource in {word} of {document['id']} has no name.")
    id_ = f"{document['id']}/{word}/{child['name']}"
    if str(child.get("id") or id_).lower() != id_.lower():
        text = f"Resource id {child['id']} is not that of {child['name']} in {document['id']}."
        raise AzureError("InvalidResourceName", text)
    child["id"], child["etag"] = id_, document["etag"]


def make_address(subscription: Subscription, document: Document, body: Json) -> None:
    """The rules of a public address; it is billed at once."""
    sku = part(body, "sku").get("name", "Basic")
    if sku != "Standard":
        raise AzureError(
            "IPv4BasicSkuPublicIpCountLimitReached",
            "Cannot create more than 0 IPv4 Basic SKU public IP addresses for this subscription in this "
            "region.",
        )
    if part(body, "properties").get("publicIPAllocationMethod", "Dynamic") != "Static":
        text = "Standard SKU public IPs must have AllocationMethod set to Static."
        raise AzureError("StandardSkuPublicIPAddressesMustBeStatic", text)
    review_tags(body, "the public address")
    old = subscription.find(ADDRESS, document["id"])
    wanted = part(body, "properties").get("ipAddress")
    if wanted is not None and (old is None or wanted != old["_address"]):
        raise not_emulated(f"PUT {ADDRESS}: properties.ipAddress={wanted}")
    if old is not None:
        document["_address"], document["_holder"] = old["_address"], old["_holder"]
    else:
        document["_holder"] = subscription.new_uuid()
        try:
            document["_address"] = subscription.world.addresses.take(
                document["_holder"], but=subscription.world.dials.caller_address
            )
        except NoAddressError:
            text = "There are no public addresses left."
            raise AzureError("PublicIPCountLimitReached", text) from None
        price = subscription.world.market.address_price(CLOUD, document["location"])
        subscription.begin_billing("address", document, price.amount, price.currency)
    document["properties"]["ipAddress"] = document["_address"]


def make_nic(subscription: Subscription, document: Document, body: Json) -> None:
    """The rules of an interface: its subnet, its address and its firewall exist, and are free."""
    review_nic(body)
    old = subscription.find(NIC, document["id"])
    firewall = part(body, "properties", "networkSecurityGroup").get("id")
    if firewall and subscription.find(FIREWALL, firewall) is None:
        raise _missing(firewall)
    configurations: list[Json] = part(body, "properties").get("ipConfigurations") or []
    if len(configurations) != 1:
        if configurations:
            raise not_emulated(f"PUT {NIC}: {len(configurations)} properties.ipConfigurations")
        raise AzureError("NetworkInterfaceMustHaveOneIpConfiguration", f"{document['id']} has none.")
    for each in configurations:
        _name_child(document, "ipConfigurations", each)
        properties = part(each, "properties")
        subnet_id = part(properties, "subnet").get("id", "")
        subnet = _subnet(subscription, subnet_id, document["location"])
        if (address := part(properties, "publicIPAddress").get("id")) is not None:
            _take_address(subscription, document, address)
        each["properties"] = {
            **properties,
            "primary": True,
            "privateIPAddress": _address_in(subscription, document, old, properties, subnet),
            "privateIPAddressVersion": "IPv4",
            "privateIPAllocationMethod": properties.get("privateIPAllocationMethod", "Dynamic"),
            "provisioningState": "Succeeded",
        }
    _keep_machine(subscription, document, old)


def _keep_machine(subscription: Subscription, document: Document, old: Document | None) -> None:
    """A changed interface stays what it is to its machine, whose size must still fit."""
    document["_machine"] = old["_machine"] if old else None
    document["_reserved_until"] = old["_reserved_until"] if old else None
    if document["_machine"]:
        machine = subscription.find(MACHINE, document["_machine"])
        if machine is not None:
            check_acceleration([document["properties"]], machine["_size"])
        document["properties"]["virtualMachine"] = {"id": document["_machine"]}
        document["properties"]["primary"] = bool(old and old["properties"].get("primary"))


def _take_address(subscription: Subscription, nic: Document, address_id: str) -> None:
    address = subscription.find(ADDRESS, address_id)
    if address is None:
        raise _missing(address_id)
    if address["location"] != nic["location"]:
        text = f"Resource {address_id} is in region {address['location']}, not in {nic['location']}."
        raise AzureError("ReferencedResourceNotInSameRegion", text)
    holder = nic_of(subscription, address)
    if holder is not None and canonical(holder["id"]) != canonical(nic["id"]):
        text = f"Resource {address['id']} is already associated with {holder['id']}."
        raise AzureError("PublicIPAddressInUse", text)


def _missing(id_: str) -> AzureError:
    return AzureError("InvalidResourceReference", f"Resource {id_} referenced by the request was not found.")


def _subnet(subscription: Subscription, id_: str, location: str | None = None) -> Document:
    network_id, _, name = id_.rpartition("/subnets/")
    network = subscription.find(NETWORK, network_id) if network_id else None
    if network is not None and location not in {None, network["location"]}:
        text = f"Resource {network['id']} is in region {network['location']}, not in {location}."
        raise AzureError("InvalidResourceReference", text)
    for subnet in part(network or {}, "properties").get("subnets") or ():
        if subnet["name"].lower() == name.lower():
            found: Document = subnet
            return found
    raise _missing(id_)


def _address_in(
    subscription: Subscription, nic: Document, old: Document | None, wanted: Json, subnet: Document
) -> str:
    """The private address of an interface in a subnet: its own, the wanted one, or the first that is free."""
    block = ip_network(subnet["properties"]["addressPrefix"])
    used = {
        _private_address(each)
        for each in subscription.all(NIC).values()
        if canonical(each["id"]) != canonical(nic["id"]) and _is_in(each, subnet)
    }
    own = _private_address(old) if old is not None and _is_in(old, subnet) else None
    asked = wanted.get("privateIPAddress")
    if asked is None or wanted.get("privateIPAllocationMethod", "Dynamic") != "Static":
        if own is not None:
            return own
        for number, host in enumerate(map(str, block.hosts())):
            if number >= 3 and host not in used:  # Azure keeps the first four for itself
                return host
        raise AzureError("SubnetIsFull", f"Subnet {subnet['id']} does not have enough capacity.")
    try:
        address = ip_address(asked)
    except ValueError:
        raise AzureError("InvalidRequestFormat", f"The private address {asked} is not valid.") from None
    if address not in block:
        text = f"Private static IP address {asked} does not belong to the range of subnet prefix {block}."
        raise AzureError("PrivateIPAddressNotInSubnet", text)
    if address in {*list(block)[:4], block.broadcast_address}:
        text = f"Private static IP address {asked} falls within reserved IP range of subnet prefix {block}."
        raise AzureError("PrivateIPAddressInReservedRange", text)
    if str(address) in used:
        text = f"IP configuration of {nic['id']} is using the private IP address {asked}, which is allocated."
        raise AzureError("PrivateIPAddressIsAllocated", text)
    return str(address)


def _is_in(nic: Document, subnet: Document) -> bool:
    return any(
        str(part(each, "properties", "subnet").get("id", "")).lower() == subnet["id"].lower()
        for each in part(nic, "properties").get("ipConfigurations") or ()
    )


def _network(text: str, what: str) -> IPv4Network:
    try:
        return IPv4Network(text)
    except ValueError:
        raise AzureError("InvalidCIDRNotation", f"The {what} prefix '{text}' is not valid CIDR.") from None


# --- looking


def nic_of(subscription: Subscription, address: Document) -> Document | None:
    """The interface that has a public address."""
    for nic in subscription.all(NIC).values():
        for each in part(nic, "properties").get("ipConfigurations") or ():
            used = part(each, "properties", "publicIPAddress").get("id")
            if used and canonical(used) == canonical(address["id"]):
                return nic
    return None


def addresses_of(subscription: Subscription, nic: Document) -> list[tuple[Document, bool]]:
    """An interface's public addresses, and whether each goes with it."""
    found: list[tuple[Document, bool]] = []
    for each in part(nic, "properties").get("ipConfigurations") or ():
        used = part(each, "properties", "publicIPAddress")
        address = subscription.find(ADDRESS, used["id"]) if used.get("id") else None
        if address is not None:
            found.append((address, part(used, "properties").get("deleteOption") == "Delete"))
    return found


def _private_address(nic: Document | None) -> str | None:
    for each in part(nic or {}, "properties").get("ipConfigurations") or ():
        address = part(each, "properties").get("privateIPAddress")
        if address:
            return str(address)
    return None


def private_address(nic: Document) -> str:
    """An interface's private address."""
    return _private_address(nic) or ""


def admits(subscription: Subscription, nic: Document, port: int, source: str) -> bool:
    """Whether ``source`` gets in on a TCP port: past the subnet's firewall and the interface's.

    A standard address lets nobody in where there is neither (azure-docs, public-ip-addresses.md).
    """
    subnets = [
        _subnet(subscription, part(each, "properties", "subnet")["id"])
        for each in part(nic, "properties").get("ipConfigurations") or ()
    ]
    guards = [part(each, "properties", "networkSecurityGroup").get("id") for each in (*subnets, nic)]
    set_ = [guard for guard in guards if guard]
    return bool(set_) and all(_lets_in(subscription, guard, port, source) for guard in set_)


def _lets_in(subscription: Subscription, firewall_id: str, port: int, source: str) -> bool:
    """The first rule that fits decides; Azure's own rules at the end deny the rest."""
    firewall = subscription.find(FIREWALL, firewall_id)
    rules = [
        part(rule, "properties") for rule in part(firewall or {}, "properties").get("securityRules") or ()
    ]
    for rule in sorted(rules, key=lambda rule: rule["priority"]):
        if rule["direction"] == "Inbound" and _covers(rule, port, source):
            return bool(rule["access"] == "Allow")
    return False


def _covers(rule: dict[str, Any], port: int, source: str) -> bool:
    if rule["protocol"].lower() not in {"tcp", "*"}:
        return False
    ranges = [rule.get("destinationPortRange"), *(rule.get("destinationPortRanges") or ())]
    ports = any(_in_range(port, each) for each in filter(None, ranges))
    return ports and any(_in_block(source, each) for each in sources_of(rule))


def _in_range(port: int, text: str) -> bool:
    first, _, last = text.partition("-")
    return text == "*" or int(first) <= port <= int(last or first)


def _in_block(source: str, block: str) -> bool:
    try:
        return ip_address(source) in ip_network(block, strict=False)
    except ValueError:
        return block.lower() in WORLD


# --- ending


def end_address(subscription: Subscription, address: Document, reason: str) -> None:
    """An address is given back."""
    subscription.world.addresses.free(address["_address"])
    subscription.end_billing(address, reason)
    subscription.drop(ADDRESS, address["id"])


def end_nic(subscription: Subscription, nic: Document) -> None:
    """An interface goes, with the addresses that go with it."""
    addresses = addresses_of(subscription, nic)
    subscription.drop(NIC, nic["id"])
    for address, goes in addresses:
        if goes:
            end_address(subscription, address, "deleted with its interface")


def delete_network(subscription: Subscription, network: Document) -> None:
    """DELETE of a virtual network."""
    _check_left(subscription, network, set())
    subscription.drop(NETWORK, network["id"])


def _check_left(subscription: Subscription, network: Document, kept: set[str]) -> None:
    """Refuses to end a subnet, one not of ``kept``, that an interface is in."""
    head = f"{network['id']}/subnets/".lower()
    for nic in subscription.all(NIC).values():
        for each in part(nic, "properties").get("ipConfigurations") or ():
            subnet = str(part(each, "properties", "subnet").get("id", "")).lower()
            if subnet.startswith(head) and subnet not in kept:
                name = subnet.rpartition("/")[2]
                text = f"Subnet {name} is in use by {each['id']} and cannot be deleted."
                raise AzureError("InUseSubnetCannotBeDeleted", text)


def delete_firewall(subscription: Subscription, firewall: Document) -> None:
    """DELETE of a network security group."""
    guarded = list(subscription.all(NIC).values())
    for network in subscription.all(NETWORK).values():
        guarded += part(network, "properties").get("subnets") or []
    for each in guarded:
        used = part(each, "properties", "networkSecurityGroup").get("id", "")
        if used and canonical(used) == canonical(firewall["id"]):
            text = (
                f"Network security group {firewall['id']} cannot be deleted because it is in use by the "
                f"following resources: {each['id']}."
            )
            raise AzureError("InUseNetworkSecurityGroupCannotBeDeleted", text)
    subscription.drop(FIREWALL, firewall["id"])


def delete_address(subscription: Subscription, address: Document) -> None:
    """DELETE of a public address."""
    nic = nic_of(subscription, address)
    if nic is not None:
        text = f"Public IP address {address['id']} can not be deleted: it is allocated to {nic['id']}."
        raise AzureError("PublicIPAddressCannotBeDeleted", text)
    end_address(subscription, address, "deleted")


def delete_nic(subscription: Subscription, nic: Document) -> None:
    """DELETE of an interface."""
    if nic["_machine"] and subscription.find(MACHINE, nic["_machine"]) is not None:
        text = f"Network Interface {nic['id']} is used by existing resource {nic['_machine']}."
        raise AzureError("NicInUse", text)
    end_nic(subscription, nic)
