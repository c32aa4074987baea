"""ClientTokens of calls that make one thing: the same token and parameters give that thing again.

Source: EC2 Developer Guide, "Ensuring idempotency in Amazon EC2 API requests". RunInstances, which makes
several, has rules of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from gpucloud.sandbox.database import Document
from gpucloud_aws.sandbox.region import ID_KEYS, Region
from gpucloud_aws.sandbox.wire import AwsError


def once(
    region: Region, call: str, parameters: Mapping[str, Any], kind: str, make: Callable[[], Document]
) -> Document:
    """What ``make`` makes, or what it made when the token was first used.

    Args:
        region: where.
        call: whose token it is.
        parameters: the call's.
        kind: of the thing that is made.
        make: makes it.

    Raises:
        AwsError: the token is too long, was used with other parameters, or its thing is gone.
    """
    token = parameters.get("ClientToken")
    if not token:
        return make()
    if len(token) > 64:
        raise AwsError("InvalidParameterValue", "Client token must be less than or equal to 64 characters.")
    key, digest = f"{call} {token}", digest_of(parameters)
    known = region.all("token").get(key)
    if known is None:
        made = make()
        region.put("token", {"_token": key, "_digest": digest, "_id": made[ID_KEYS[kind]]})
        return made
    if known["_digest"] != digest:
        text = (
            "Parameters on this idempotent request are inconsistent with parameters used in previous "
            "request(s)."
        )
        raise AwsError("IdempotentParameterMismatch", text)
    standing = region.all(kind).get(known["_id"])
    if standing is None:
        text = (
            f"The client token '{token}' is associated with resource '{known['_id']}' which has already been "
            "deleted. Please use a different client token."
        )
        raise AwsError("IdempotentParameterMismatch", text)
    return standing


def digest_of(parameters: Mapping[str, Any]) -> str:
    """A hash of a call's parameters without those of the call itself."""
    relevant = {key: value for key, value in parameters.items() if key not in {"ClientToken", "DryRun"}}
    return hashlib.sha256(json.dumps(relevant, sort_keys=True, default=str).encode()).hexdigest()
