"""ClientTokens of the calls that make something: the same token and parameters give that thing again.

Source: EC2 Developer Guide, "Ensuring idempotency in Amazon EC2 API requests". RunInstances, which makes
several, has rules of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from gpucloud_sandbox.aws.region import ID_KEYS, Region
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document

Action = Callable[[Region, Mapping[str, Any]], Document]


def idempotent(action: Action) -> Action:
    """Makes a call repeat its first answer to the same ``ClientToken``.

    Raises:
        AwsError: the token is too long, or came with other parameters before.
    """

    @wraps(action)
    def answered(region: Region, parameters: Mapping[str, Any]) -> Document:
        token = parameters.get("ClientToken")
        if not token:
            return action(region, parameters)
        known = _known(region, f"{action.__name__} {token}", parameters)
        if known is None:
            answer = {**action(region, parameters), "ClientToken": token}
            known = _keep(region, f"{action.__name__} {token}", parameters, answer)
        told: Document = known["_answer"]
        return told

    return answered


def once(
    region: Region, call: str, parameters: Mapping[str, Any], kind: str, make: Callable[[], Document]
) -> Document:
    """What ``make`` makes, or what it made when the token was first used, as it is now.

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
    known = _known(region, f"{call} {token}", parameters)
    if known is None:
        made = make()
        _keep(region, f"{call} {token}", parameters, made[ID_KEYS[kind]])
        return made
    standing = region.all(kind).get(known["_answer"])
    if standing is None:
        text = (
            f"The client token '{token}' is associated with resource '{known['_answer']}' which has already "
            "been deleted. Please use a different client token."
        )
        raise AwsError("IdempotentParameterMismatch", text)
    return standing


def _known(region: Region, key: str, parameters: Mapping[str, Any]) -> Document | None:
    if len(parameters["ClientToken"]) > 64:
        raise AwsError("InvalidParameterValue", "Client token must be less than or equal to 64 characters.")
    known = region.all("answer").get(key)
    if known is not None and known["_digest"] != digest_of(parameters):
        raise mismatch()
    return known


def _keep(region: Region, key: str, parameters: Mapping[str, Any], answer: Any) -> Document:
    return region.put("answer", {"_token": key, "_digest": digest_of(parameters), "_answer": answer})


def digest_of(parameters: Mapping[str, Any]) -> str:
    """A hash of a call's parameters without those of the call itself."""
    relevant = {key: value for key, value in parameters.items() if key not in {"ClientToken", "DryRun"}}
    return hashlib.sha256(json.dumps(relevant, sort_keys=True, default=str).encode()).hexdigest()


def mismatch() -> AwsError:
    """The refusal of a token that came with other parameters before."""
    return AwsError(
        "IdempotentParameterMismatch",
        "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
    )
