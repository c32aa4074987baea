"""Checks a PUT of a virtual machine in Azure's order."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpucloud_sandbox.azure import (
    availability,
    disks,
    image_versions,
    interfaces,
    nic_limits,
    quotas,
    reservations,
)
from gpucloud_sandbox.azure.images import Image, find_image
from gpucloud_sandbox.azure.places import offered
from gpucloud_sandbox.azure.restrictions import restricted
from gpucloud_sandbox.azure.review import review_machine
from gpucloud_sandbox.azure.subscription import (
    CLOUD,
    DISK,
    NIC,
    RESERVATIONS,
    Subscription,
    canonical,
    part,
    tail,
)
from gpucloud_sandbox.azure.wire import AzureError, Json
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.market import InstanceType, Price

CUSTOM_DATA_LIMIT = 65535
"""Bytes before base64. Source: azure-compute-docs, custom-data.md."""

FORBIDDEN_NAMES = {
    *(
        "administrator",
        "admin",
        "user",
        "user1",
        "test",
        "user2",
        "test1",
        "user3",
        "admin1",
        "1",
        "123",
        "a",
    ),
    *("actuser", "adm", "admin2", "aspnet", "backup", "console", "david", "guest", "john", "owner", "root"),
    *("server", "sql", "support", "support_388945a0", "sys", "test2", "test3", "user4", "user5"),
}
"""Source: azure-mgmt-compute 39.0.0, OSProfile.admin_username."""

_GENERATION_2_ONLY = re.compile(
    r".*(_A100_v4|_H100_v5|_H200_v5|_MI300X_v5|asr_v4|_A10_v5|_GB200_v6|RTXPRO.*)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a machine is to be, all checked: of one machine, or of all of a scale set."""

    location: str
    zone: str
    type: InstanceType
    image: Image
    purchase: str
    eviction: str
    price: Price
    reservation: Document | None
    disk_gib: int
    user_data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One machine that is to be made, with what is its own."""

    model: Model
    nics: list[Document]
    disk_id: str
    domains: Json


def read_order(subscription: Subscription, id_: str, body: Json) -> Order:
    """Checks the body of a PUT.

    Raises:
        AzureError: Azure, or the sandbox's reviewer, would refuse.
    """
    properties = part(body, "properties")
    size = part(properties, "hardwareProfile").get("vmSize", "")
    review_machine(body)
    model = read_model(subscription, body, size, properties)
    owner = f"virtual machine {tail(id_)}"
    chosen = described_nics(part(properties, "networkProfile"))
    nic_limits.check_count(owner, size, len(chosen))
    nic_limits.check_primary(owner, chosen)
    nics = _nics(subscription, id_, properties, model.location, body.get("zones") or [])
    nic_limits.check_acceleration([part(nic, "properties") for nic in nics], size)
    check_one_network(nics)
    order = Order(
        model=model,
        nics=nics,
        disk_id=_disk_id(subscription, id_, properties),
        domains=availability.place(subscription, id_, body),
    )
    wanted: list[Json] = part(properties, "storageProfile").get("dataDisks") or []
    disks.check_data_disks(subscription, {**body, "id": id_}, wanted)
    quotas.check(subscription, model.location, size, model.purchase)
    return order


def read_model(subscription: Subscription, place: Json, size: str, properties: Json) -> Model:
    """Checks what a machine is to be.

    Args:
        subscription: the subscription.
        place: its ``location`` and ``zones``.
        size: of the machine.
        properties: its profiles: guest, storage, security, and how it is paid for.

    Raises:
        AzureError: Azure would refuse.
    """
    location: str = place["location"]
    zones: list[str] = place.get("zones") or []
    if len(zones) > 1:
        raise AzureError("InvalidParameter", "A virtual machine is in one zone at most.")
    _check_guest(part(properties, "osProfile"))
    image = _image(subscription, location, part(properties, "storageProfile", "imageReference"))
    type_ = check_size(subscription, location, zones, size)
    _check_image(image, type_)
    _check_security(subscription, properties, size, image)
    purchase = _purchase(properties)
    reservation = _reservation(subscription, properties, location, zones, size)
    price = _price(subscription, properties, location, size, purchase)
    return Model(
        location=location,
        zone=zones[0] if zones else "",
        type=type_,
        image=image,
        purchase="reserved" if reservation else purchase,
        eviction=properties.get("evictionPolicy", "Deallocate"),
        price=replace(price, amount=Decimal(0)) if reservation else price,  # paid for, used or not
        reservation=reservation,
        disk_gib=_disk(properties, image),
        user_data=_custom_data(part(properties, "osProfile").get("customData")),
    )


def _image(subscription: Subscription, location: str, reference: Json) -> Image:
    """The image that a machine names: one of a gallery by its id, or one of the marketplace."""
    if reference.get("id"):
        return image_versions.find_own(subscription, location, reference["id"])
    return find_image(reference)


def _check_image(image: Image, type_: InstanceType) -> None:
    """Passes an image that a size can boot."""
    size = type_.name
    if image.generation == 1 and _GENERATION_2_ONLY.match(size):
        text = f"The selected VM size '{size}' cannot boot Hypervisor Generation '1'."
        raise AzureError("BadRequest", text)
    if image.arch != type_.arch:
        text = f"Cannot create a VM of size '{size}' because this VM size only supports {type_.arch} images."
        raise AzureError("InvalidParameter", text)


def check_size(subscription: Subscription, location: str, zones: list[str], size: str) -> InstanceType:
    """The size of a machine.

    Raises:
        AzureError: there is none of the name, or not there.
    """
    type_ = subscription.world.market.catalog(CLOUD).types.get(size)
    if type_ is None:
        raise AzureError("InvalidParameter", f"The value {size} provided for the VM size is not valid.")
    in_zones = offered(subscription, location, size)
    zone = zones[0] if zones else ""
    if in_zones is None or (zone and zone not in in_zones) or restricted(subscription, location, size, zone):
        where = f"in location '{location}'" + (f" zones '{zone}'" if zone else "")
        raise AzureError(
            "SkuNotAvailable",
            f"The requested VM size for resource '{size}' is currently not available {where}. Please try "
            "another size or deploy to a different location or different zone.",
            409,
        )
    return type_


def _check_guest(guest: dict[str, Any]) -> None:
    name, computer = str(guest.get("adminUsername", "")), str(guest.get("computerName", ""))
    if not 0 < len(name) <= 64 or name.lower() in FORBIDDEN_NAMES:
        raise AzureError("InvalidParameter", "The Admin Username specified is not allowed.")
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9-]{0,62}[A-Za-z0-9])?", computer):
        raise AzureError("InvalidParameter", f"The computer name '{computer}' is not valid.")
    keys: list[Json] = part(guest, "linuxConfiguration", "ssh").get("publicKeys") or []
    if not keys:
        text = (
            "Authentication using either SSH or by user name and password must be enabled in Linux profile."
        )
        raise AzureError("InvalidParameter", text)
    for key in keys:
        if key.get("path") != f"/home/{name}/.ssh/authorized_keys":
            text = f"Destination path for SSH public keys is limited to /home/{name}/.ssh/authorized_keys."
            raise AzureError("InvalidParameter", text)
        if not _is_key(str(key.get("keyData", ""))):
            text = "The value of parameter linuxConfiguration.ssh.publicKeys.keyData is invalid."
            raise AzureError("InvalidParameter", text)


def _is_key(text: str) -> bool:
    """Whether a text is a public key that Azure takes: RSA of 2048 bits or more, or Ed25519.

    Source: learn.microsoft.com, "Quick steps: Create and use an SSH public-private key pair for Linux VMs".
    """
    kind, _, rest = text.strip().partition(" ")
    try:
        body = base64.b64decode(rest.split(" ")[0], validate=True)
    except binascii.Error:
        return False
    if not body.startswith(len(kind).to_bytes(4, "big") + kind.encode()):
        return False
    return (kind == "ssh-rsa" and len(body) >= 256) or (kind == "ssh-ed25519" and len(body) == 51)


def _check_security(subscription: Subscription, properties: dict[str, Any], size: str, image: Image) -> None:
    security = part(properties, "securityProfile")
    if security.get("encryptionAtHost") and not subscription.all("feature").get("encryptionathost"):
        text = (
            "The property 'securityProfile.encryptionAtHost' is not valid because the "
            "'Microsoft.Compute/EncryptionAtHost' feature is not enabled for this subscription."
        )
        raise AzureError("InvalidParameter", text)
    if security.get("securityType") == "Standard" and security.get("uefiSettings"):
        text = "Use of UEFI settings is not supported when security type is 'Standard'."
        raise AzureError("InvalidParameter", text)
    if image.security and image.security != security.get("securityType", "Standard"):
        # Code and words: terraform-provider-azurerm#23148. UNVERIFIED for Standard.
        text = (
            "The provided gallery image only supports creation of VMs and VM Scale Sets with "
            f"'{image.security}' security type."
        )
        raise AzureError("BadRequest", text)
    if security.get("securityType") != "TrustedLaunch":
        return
    if image.generation == 1:
        text = "Security type 'TrustedLaunch' is supported only with images of generation 2."
        raise AzureError("BadRequest", text)
    if re.match(r"Standard_ND96a(sr|m.*)(_A100)?_v4$", size):
        raise AzureError(
            "BadRequest", f"The VM size '{size}' is not supported for security type TrustedLaunch."
        )


def _purchase(properties: dict[str, Any]) -> str:
    priority = properties.get("priority", "Regular")
    if priority != "Spot":
        if properties.get("evictionPolicy") or properties.get("billingProfile"):
            raise AzureError(
                "InvalidParameter", "evictionPolicy and billingProfile are of Spot machines only."
            )
        return "on_demand"
    if properties.get("capacityReservation"):
        raise AzureError("InvalidParameter", "A Spot machine cannot use a capacity reservation.")
    return "spot"


def _price(
    subscription: Subscription, properties: dict[str, Any], location: str, size: str, purchase: str
) -> Price:
    price = subscription.world.market.price(CLOUD, location, "", size, purchase)
    if price is None:
        text = f"The requested size '{size}' is not available as {purchase} in location '{location}'."
        raise AzureError("SkuNotAvailable", text, 409)
    ceiling = Decimal(str(part(properties, "billingProfile").get("maxPrice", -1)))
    if purchase == "spot" and ceiling != -1:
        if ceiling <= 0 or ceiling != ceiling.quantize(Decimal("0.00001")):
            raise AzureError("InvalidParameter", f"The maxPrice {ceiling} is not valid.")
        if ceiling < price.amount:
            text = (
                f"Unable to deploy since the provided max price '{ceiling} USD' is lower than the current "
                f"spot price '{price.amount} USD' for Azure Spot VM size '{size}'."
            )
            raise AzureError("SpotPriceGreaterThanProvidedMaxPrice", text, 409)
    return price


def _reservation(
    subscription: Subscription, properties: dict[str, Any], location: str, zones: list[str], size: str
) -> Document | None:
    id_ = part(properties, "capacityReservation", "capacityReservationGroup").get("id")
    if id_ is None:
        return None
    group = subscription.find(RESERVATIONS, id_)
    if group is None:
        raise AzureError("NotFound", f"The capacity reservation group {id_} was not found.", 404)
    if (group["location"], group["_size"]) != (location, size) or zones != (group.get("zones") or []):
        text = "The capacity reservation group does not have a reservation of this size, location and zone."
        raise AzureError("OperationNotAllowed", text, 409)
    if reservations.left(subscription, group) < 1:
        text = "The capacity reservation is used up: overallocation is not guaranteed."
        raise AzureError("OverconstrainedCapacityReservation", text, 409)
    return group


def _nics(
    subscription: Subscription, id_: str, properties: dict[str, Any], location: str, zones: list[str]
) -> list[Document]:
    profile = part(properties, "networkProfile")
    if profile.get("networkInterfaceConfigurations"):
        if profile.get("networkInterfaces"):
            text = "networkInterfaces and networkInterfaceConfigurations cannot be used together."
            raise AzureError("InvalidParameter", text)
        return interfaces.make_all(subscription, id_, location, zones, profile)
    found: list[Document] = []
    for each in profile.get("networkInterfaces") or ():
        nic = subscription.find(NIC, each.get("id", ""))
        if nic is None:
            text = f"Resource {each.get('id')} referenced by {id_} was not found."
            raise AzureError("InvalidResourceReference", text)
        if nic["location"] != location:
            raise AzureError("InvalidResourceReference", f"{nic['id']} is in another location.")
        _check_free(subscription, nic, id_)
        found.append(nic)
    if not found:
        raise AzureError("InvalidParameter", "Virtual Machine must have at least one network interface.")
    return found


def described_nics(profile: Json) -> list[tuple[str, bool | None]]:
    """The interfaces of a ``networkProfile``: names, and whether each is the primary, where that is said."""
    named: list[Json] = profile.get("networkInterfaces") or []
    described: list[Json] = profile.get("networkInterfaceConfigurations") or []
    return [
        (each.get("name") or tail(each.get("id", "")), part(each, "properties").get("primary"))
        for each in (*named, *described)
    ]


def primary_of(profile: Json) -> list[bool]:
    """Which of the interfaces of a ``networkProfile`` is the primary; a single one is."""
    chosen = described_nics(profile)
    return [primary is True or len(chosen) == 1 for _, primary in chosen]


def check_one_network(nics: Sequence[Document]) -> None:
    """Passes interfaces that are in one virtual network; the code is UNVERIFIED.

    Raises:
        AzureError: they are in several.
    """
    subnets = [
        str(part(each, "properties", "subnet")["id"]).lower()
        for nic in nics
        for each in nic["properties"]["ipConfigurations"]
    ]
    if len({each.rpartition("/subnets/")[0] for each in subnets}) > 1:
        text = "The network interfaces of a virtual machine must be in subnets of one virtual network."
        raise AzureError("SubnetsNotInSameVnet", text)


def _check_free(subscription: Subscription, nic: Document, machine_id: str) -> None:
    """Passes an interface that no other machine has, or failed with a moment ago."""
    if not nic["_machine"] or canonical(nic["_machine"]) == canonical(machine_id):
        return
    if nic["_reserved_until"] and nic["_reserved_until"] > subscription.stamp:
        text = (
            "Nic(s) in request is reserved for another Virtual Machine for 180 seconds. Please provide "
            f"another nic(s) or retry after 180 seconds. Reserved VM: {nic['_machine']}"
        )
        raise AzureError("NicReservedForAnotherVm", text)
    text = f"Network Interface {nic['id']} is used by existing resource {nic['_machine']}."
    raise AzureError("NicInUse", text)


def _disk_id(subscription: Subscription, machine_id: str, properties: dict[str, Any]) -> str:
    disk = part(properties, "storageProfile", "osDisk")
    if part(disk, "managedDisk").get("id"):
        text = "A disk that is made FromImage cannot have the id of another: managedDisk.id."
        raise AzureError("InvalidParameter", text)
    name = disk.get("name") or f"{tail(machine_id)}_disk1_{subscription.world.token(32)}"
    id_ = f"{machine_id.rpartition('/providers/')[0]}/providers/{DISK}/{name}"
    if subscription.find(DISK, id_) is not None:
        text = f"Disk {name} already exists. Only CreateOption.Attach is supported."
        raise AzureError("ConflictingUserInput", text, 409)
    return id_


def _disk(properties: dict[str, Any], image: Image) -> int:
    disk = part(properties, "storageProfile", "osDisk")
    if disk.get("createOption") != "FromImage":
        raise AzureError("InvalidParameter", "The createOption of the OS disk must be FromImage.")
    size = int(disk.get("diskSizeGB", image.disk_gib))
    if size < image.disk_gib:
        text = f"The disk size {size} GB is smaller than the size of the VM image: {image.disk_gib} GB."
        raise AzureError("ResizeDiskError", text)
    if size > 4095:
        raise AzureError("InvalidParameter", f"The OS disk's size {size} GB is over 4095.")
    return size


def _custom_data(encoded: str | None) -> str:
    if encoded is None:
        return ""
    try:
        raw = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise AzureError("InvalidParameter", "Custom data in OSProfile must be in Base64 encoding.") from None
    if len(raw) > CUSTOM_DATA_LIMIT:
        raise AzureError("InvalidParameter", "Custom data in OSProfile is over 65535 bytes.")
    return encoded
