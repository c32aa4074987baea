"""The keys of KMS that encrypt disks. moto answers KMS; here is what EBS makes of them, and what they cost.

EBS looks at a key only after it has answered: what names a key that it cannot use is made, and fails later.
Source: EC2 API Reference, CreateVolume, ``KmsKeyId``; EC2 User Guide, "Instance terminates immediately".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from werkzeug.wrappers import Request, Response

from gpucloud_sandbox.aws import billing, moto_backend
from gpucloud_sandbox.aws.region import ACCOUNT, CLOUD, Region
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.emulator import World
from gpucloud_sandbox.faults import Call

PRICE = (Decimal(1) / 730).quantize(Decimal("0.000001"))
"""Of a customer managed key per hour, in USD, until its deletion is scheduled. Source: AWS KMS pricing."""

_DEFAULT = "alias/aws/ebs"

_BY_ID = frozenset({"CancelKeyDeletion", "DisableKey", "EnableKey", "ReplicateKey", "ScheduleKeyDeletion"})
"""Calls that take the id or the ARN of a key, of which moto only finds the id.

Source: KMS API Reference, their ``KeyId``; moto.kms.models.
"""

_UNCHECKED = frozenset({"CreateGrant", "ListGrants"})
"""Calls in which moto does not check that the key exists. KMS answers NotFoundException. Source: as above."""

_NAMING = frozenset({"CancelKeyDeletion", "ScheduleKeyDeletion"})
"""Calls whose answers name the key by its ARN. Source: as above, response elements."""


def default_key(region: Region) -> str:
    """The ARN of the key that AWS manages for EBS in a region."""
    return f"arn:aws:kms:{region.name}:{ACCOUNT}:key/aws/ebs"


def usable_key(region: Region, named: str | None) -> str | None:
    """The ARN of the key that encrypts a disk, EBS's own unless another is named; ``None`` if it cannot."""
    if named is None or named in {_DEFAULT, default_key(region)} or named.endswith(f":{_DEFAULT}"):
        return default_key(region)
    return moto_backend.encryption_key(region.name, named)


def check_key(wanted: Mapping[str, Any]) -> None:
    """A key is only named for what is to be encrypted.

    Raises:
        AwsError: it is named for something else.
    """
    if wanted.get("KmsKeyId") and not wanted.get("Encrypted"):
        text = "The parameter [KmsKeyId] requires the parameter Encrypted to be set."
        raise AwsError("InvalidParameterDependency", text)


def answer(region: Region, call: Call, request: Request) -> Response:
    """moto's answer to a call, of KMS in KMS's own form, and what the call changes in the ledger.

    Raises:
        AwsError: the call names a key that does not exist, and moto would not notice.
    """
    body = request.get_data(cache=True)
    if call.service != "kms":
        return moto_backend.respond(request, body)
    asked: dict[str, Any] = json.loads(body or b"{}")
    arn = _key_of(region, call, asked) if call.action in _BY_ID | _UNCHECKED else None
    if call.action in _BY_ID and arn is not None:
        asked = {**asked, "KeyId": _id(arn)}
    response = moto_backend.respond(request, json.dumps(asked).encode())
    if response.status_code == 200:
        if call.action in _NAMING:
            response.set_data(json.dumps({**json.loads(response.get_data()), "KeyId": arn}))
        _account(region, call, asked, json.loads(response.get_data()))
    return response


def _key_of(region: Region, call: Call, asked: Mapping[str, Any]) -> str | None:
    """The ARN of the key that a call names; ``None`` where moto itself refuses the name."""
    named = asked.get("KeyId")
    if not isinstance(named, str) or "alias/" in named:
        return None
    arn = moto_backend.encryption_key(region.name, named, enabled=False)
    if arn is None:
        own = named if named.startswith("arn:") else f"arn:aws:kms:{region.name}:{ACCOUNT}:key/{named}"
        raise AwsError("NotFoundException", f"Key '{own}' does not exist")
    return arn


def _id(arn: str) -> str:
    return arn.rpartition("/")[2]


def _account(region: Region, call: Call, asked: Mapping[str, Any], said: Any) -> None:
    """Enters what a call of KMS has changed into the ledger."""
    match call.action:
        case "CreateKey":
            tags = [{"Key": tag["TagKey"], "Value": tag["TagValue"]} for tag in asked.get("Tags") or ()]
            billing.begin(region, "key", said["KeyMetadata"]["KeyId"], PRICE, billed={"Tags": tags})
        case "ScheduleKeyDeletion":
            billing.end(region, _id(said["KeyId"]), "deletion scheduled")
        case "CancelKeyDeletion":
            billing.begin(region, "key", _id(said["KeyId"]), PRICE, billed={})
        case _:
            pass


def forget(world: World) -> None:
    """Ends the bills of all keys: they are moto's, which forgets them when the sandbox stops."""
    for entry in world.ledger.billing():
        if entry.cloud == CLOUD and entry.kind == "key":
            world.ledger.end_billing(CLOUD, entry.id, world.clock.now(), "forgotten when the sandbox stopped")
