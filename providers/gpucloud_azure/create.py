"""Creates machines: an order becomes one PUT for each machine, and the answers become machines."""

from __future__ import annotations

import base64
import copy
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NoReturn, assert_never

from gpucloud.clouds.kit import bid, in_threads
from gpucloud.clouds.provider import LateFailureError, PartialCreateError, Record
from gpucloud.errors import RULES, ErrorClass
from gpucloud.resources import Machine, Order, Request, ResourceKind, State, request_hash
from gpucloud_azure import deadlines, schedule
from gpucloud_azure.checkup import DAILY, is_registered
from gpucloud_azure.clients import Clients
from gpucloud_azure.errors import ChangedRequestError, MalformedAnswerError, classify
from gpucloud_azure.find import REQUEST_TAG, TOKEN_TAG, failure_of, machine_of, show
from gpucloud_azure.ids import id_in, name_of
from gpucloud_azure.images import Image
from gpucloud_azure.json_paths import at, plain
from gpucloud_azure.network import group_name, machine_names, set_name, tags_of
from gpucloud_azure.volumes import data_disks
from gpucloud_pricing.purchases import Purchase

ADMIN = "azureuser"
"""Azure requires a first user with a key. Its private key is discarded; cloud-init creates the box's user."""
DISK_TYPE = "Premium_LRS"
BID_STEP = Decimal("0.00001")
TOGETHER_S = 90.0
"""How long several machines are watched, so that all are deleted if one gets no capacity."""

Outcome = Machine | Exception


# --- the request


def request_of(order: Order, *, nics: Sequence[str], image: Image, host_encryption: bool) -> Request:
    """The PUTs as plain JSON. Pure: the same order yields the same request.

    Args:
        order: the order.
        nics: the ids of the machines' interfaces.
        image: the image.
        host_encryption: whether the subscription has encryption at host.
    """
    tags = {**tags_of(order), TOKEN_TAG: order.key}
    machines: list[dict[str, Any]] = []
    for node, name, nic in zip(order.ranks, machine_names(order), nics, strict=True):
        body = _body(order, f"node-{node}", name, nic, image, host_encryption=host_encryption)
        body["tags"] = {**tags, REQUEST_TAG: request_hash({"name": name, "body": body})[:32]}
        machines.append({"name": name, "body": body})
    return {
        "account": order.account,
        "region": order.region,
        "group": group_name(order),
        "machines": machines,
    }


def _body(
    order: Order, hostname: str, name: str, nic: str, image: Image, *, host_encryption: bool
) -> dict[str, Any]:
    security = {**_security_type(image), **({"encryptionAtHost": True} if host_encryption else {})}
    properties: dict[str, Any] = {
        "hardwareProfile": {"vmSize": order.instance_type},
        "storageProfile": {
            "imageReference": dict(image.reference),
            "osDisk": {
                "name": f"{name}-disk",
                "createOption": "FromImage",
                "deleteOption": "Delete",
                "diskSizeGB": order.disk_gib,
                "managedDisk": {"storageAccountType": DISK_TYPE},
            },
            **({"dataDisks": data_disks(order.volumes)} if order.volumes else {}),
        },
        "osProfile": {
            "computerName": hostname,
            "adminUsername": ADMIN,
            "customData": base64.b64encode(order.user_data).decode(),
            "linuxConfiguration": {"disablePasswordAuthentication": True},
        },
        "networkProfile": {
            "networkInterfaces": [{"id": nic, "properties": {"primary": True, "deleteOption": "Delete"}}]
        },
        "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
        "securityProfile": security,
        **_market(order),
    }
    placement = set_name(order)
    if placement:
        set_id = id_in(order.account, group_name(order), ResourceKind.PLACEMENT_GROUP, placement)
        properties["availabilitySet"] = {"id": set_id}
    zones = {"zones": [order.zone]} if order.zone else {}
    own = {"identity": {"type": "SystemAssigned"}} if order.box_identity else {}
    return {"location": order.region, **zones, **own, "properties": properties}


def _security_type(image: Image) -> dict[str, Any]:
    """The part of the body with Trusted Launch, or without it.

    Explicit in both cases: since API version 2025-11-01 Azure chooses Trusted Launch with Secure Boot where
    nothing is said, and takes ``Standard`` without a feature of the subscription (azure-compute-docs,
    trusted-launch.md; azure-cli#33280). azure-mgmt-compute sends that version since 38.0.
    """
    if not image.trusted_launch:
        return {"securityType": "Standard"}
    # Drivers that the box compiles itself have no signature that the firmware accepts.
    uefi = {"secureBootEnabled": image.signed_driver, "vTpmEnabled": True}
    return {"securityType": "TrustedLaunch", "uefiSettings": uefi}


def _market(order: Order) -> dict[str, Any]:
    """The part of the body with the way of paying."""
    match order.purchase:
        case Purchase.ON_DEMAND:
            return {}
        case Purchase.SPOT:
            limit = float(bid(order, "USD", BID_STEP))
            return {"priority": "Spot", "evictionPolicy": "Delete", "billingProfile": {"maxPrice": limit}}
        case Purchase.RESERVED:
            return {"capacityReservation": {"capacityReservationGroup": {"id": order.reservation}}}
        case _:
            assert_never(order.purchase)


# --- the calls


def schedule_end(order: Order, record: Record, clients: Clients) -> None:
    """Tries to schedule the deallocation of machines before they exist; the record receives the timers."""
    ends_at = deadlines.cloud_end(order.deadline, identified=order.box_identity is not None)
    if ends_at is None:
        return
    group = group_name(order)
    ids = [id_in(order.account, group, ResourceKind.INSTANCE, name) for name in machine_names(order)]
    daily = schedule.daily_time(ends_at, datetime.now(UTC))
    schedule.submit(
        clients,
        order.region,
        ids,
        ends_at,
        record.armed,
        only=lambda: daily is None or not is_registered(clients, DAILY),
    )


def create(
    request: Request,
    clients: Clients,
    public_key: Callable[[], str],
    *,
    pause: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Sequence[Machine]:
    """Puts all machines: all or none.

    An existing machine of the same name is the same machine if its request was the same. If one is definitely
    refused, all are removed at once; if the outcome of one is unknown, nothing is removed, and the repeated
    request resolves it.

    Args:
        request: from :func:`request_of`.
        clients: the clients.
        public_key: returns the RSA key of the first user.
        pause: waits.
        monotonic: the clock for the time that several machines are watched.

    Raises:
        ChangedRequestError: a machine of the name exists with another request.
        LateFailureError: one of several machines got no capacity; all were removed.
    """
    ids = [
        id_in(request["account"], request["group"], ResourceKind.INSTANCE, each["name"])
        for each in request["machines"]
    ]

    machines = _put_all(request, ids, clients, public_key())
    if len(machines) == 1:
        return machines
    try:
        _watch(machines, clients, pause, monotonic)
    except Exception as error:
        if not _is_definite(error):
            raise PartialCreateError(str(error)) from error
        for refused in remove(ids, clients).values():
            raise PartialCreateError from refused
        raise
    return machines


def _put_all(request: Request, ids: Sequence[str], clients: Clients, public_key: str) -> list[Machine]:
    def attempt(each: Mapping[str, Any]) -> Outcome:
        try:
            return _put(request, each, clients, public_key)
        except Exception as error:
            return error

    outcomes = in_threads(attempt, request["machines"])
    errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    for error in errors:
        if not _is_definite(error):
            if len(errors) == len(outcomes) and not any(map(_was_sent, errors)):
                raise error
            _fail_begun(error)
    if errors:
        there = remove(ids, clients)
        for id_, outcome in zip(ids, outcomes, strict=True):
            if isinstance(outcome, Machine) and id_ in there:
                raise PartialCreateError from there[id_]
        raise errors[0]
    return [outcome for outcome in outcomes if isinstance(outcome, Machine)]


def _was_sent(error: Exception) -> bool:
    verdict = classify(error)
    return verdict is None or verdict.sent


def _fail_begun(error: Exception) -> NoReturn:
    """Raises for a machine that may exist: that the last call was not sent proves nothing about it."""
    if _was_sent(error):
        raise error
    raise PartialCreateError(str(error)) from error


def _is_definite(error: Exception) -> bool:
    verdict = classify(error)
    return verdict is not None and RULES[verdict.error_class].definite


def _put(request: Request, each: Mapping[str, Any], clients: Clients, public_key: str) -> Machine:
    """One machine, created now or found."""
    from azure.core import MatchConditions

    body = copy.deepcopy(dict(each["body"]))
    path = f"/home/{ADMIN}/.ssh/authorized_keys"
    linux = body["properties"]["osProfile"]["linuxConfiguration"]
    linux["ssh"] = {"publicKeys": [{"path": path, "keyData": public_key}]}
    group, name = request["group"], each["name"]
    try:
        machines: Any = clients.compute().virtual_machines  # its stubs know models only
        poller = machines.begin_create_or_update(
            group, name, body, match_condition=MatchConditions.IfMissing, polling=False
        )
        return _asked_for(machine_of(plain(poller.result()), request["account"], failed=State.GONE), name)
    except Exception as error:
        verdict = classify(error)
        if verdict is None or verdict.error_class is not ErrorClass.CONFLICT:
            raise
        try:
            vm = show(clients, id_in(request["account"], group, ResourceKind.INSTANCE, name))
        except Exception as unseen:
            _fail_begun(unseen)
        if at(vm, "tags", REQUEST_TAG) != body["tags"][REQUEST_TAG]:
            raise ChangedRequestError(f"{name} exists, and was asked for with another request") from error
        return machine_of(vm, request["account"], failed=State.GONE)


def _asked_for(machine: Machine, name: str) -> Machine:
    """A machine of an answer, if it is the one that was asked for.

    Raises:
        MalformedAnswerError: it is another one: whether the right one was made is not known.
    """
    if name_of(machine.ref.id)[1] != name:
        raise MalformedAnswerError(f"the answer to the creation of {name} is about {machine.ref.id}")
    return machine


def _watch(
    machines: Sequence[Machine],
    clients: Clients,
    pause: Callable[[float], None],
    monotonic: Callable[[], float],
) -> None:
    """Waits for a while until every machine has capacity.

    Raises:
        LateFailureError: one has none.
    """
    end, pause_s = monotonic() + TOGETHER_S, 0.05
    while True:
        shown = in_threads(lambda machine: show(clients, machine.ref.id), machines)
        for vm in shown:
            failure = failure_of(vm)
            if failure is not None:
                raise LateFailureError(*failure)
        states = {machine_of(vm, machines[0].ref.account, failed=State.GONE).state for vm in shown}
        if State.PENDING not in states or monotonic() > end:
            return
        pause(pause_s)
        pause_s = min(pause_s * 1.6, 5.0)


def remove(ids: Sequence[str], clients: Clients) -> dict[str, Exception]:
    """Deletes machines at once, in any state: a refused machine may exist as well, in a failed state.

    Returns:
        The errors of deletions that were not accepted; none for machines that were never created.
    """

    def end(machine: str) -> Exception | None:
        group, name = name_of(machine)
        try:
            clients.compute().virtual_machines.begin_delete(group, name, force_deletion=True, polling=False)
        except Exception as error:
            verdict = classify(error)
            if verdict is None or verdict.error_class is not ErrorClass.NOT_FOUND:
                return error
        return None

    refused = zip(ids, in_threads(end, ids), strict=True)
    return {id_: error for id_, error in refused if error is not None}


def throw_away_key() -> str:
    """The public key of a new RSA key pair whose private key is discarded, in OpenSSH's format."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    text = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return text.decode("ascii")
