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

from gpucloud.sandbox.emulator import World
from gpucloud.sandbox.faults import Call
from gpucloud_aws.sandbox import billing, moto_backend
from gpucloud_aws.sandbox.region import ACCOUNT, CLOUD, Region
from gpucloud_aws.sandbox.wire import AwsError

PRICE = (Decimal(1) / 730).quantize(Decimal("0.000001"))
"""Of a customer managed key per hour, in USD, until its deletion is scheduled. Source: AWS KMS pricing."""

_DEFAULT = "alias/aws/ebs"


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


def account(region: Region, call: Call, request: Request, response: Response) -> None:
    """Enters what a call of KMS has changed into the ledger."""
    if call.service != "kms" or response.status_code != 200:
        return
    answer: dict[str, Any] = json.loads(response.get_data())
    match call.action:
        case "CreateKey":
            asked: dict[str, Any] = json.loads(request.get_data(cache=True))
            tags = [{"Key": tag["TagKey"], "Value": tag["TagValue"]} for tag in asked.get("Tags") or ()]
            billed = {"Tags": tags}
            billing.begin(region, "key", answer["KeyMetadata"]["KeyId"], PRICE, billed=billed)
        case "ScheduleKeyDeletion":
            billing.end(region, answer["KeyId"].rpartition("/")[2], "deletion scheduled")
        case "CancelKeyDeletion":
            billing.begin(region, "key", answer["KeyId"].rpartition("/")[2], PRICE, billed={})
        case _:
            pass


def forget(world: World) -> None:
    """Ends the bills of all keys: they are moto's, which forgets them when the sandbox stops."""
    for entry in world.ledger.billing():
        if entry.cloud == CLOUD and entry.kind == "key":
            world.ledger.died(CLOUD, entry.id, world.clock.now(), "forgotten when the sandbox stopped")
