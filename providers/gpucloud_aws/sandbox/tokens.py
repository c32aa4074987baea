"""Client tokens of the calls that make something: a repeated call gets the answer of the first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from gpucloud.sandbox.database import Document
from gpucloud_aws.sandbox.region import Region
from gpucloud_aws.sandbox.wire import AwsError

Action = Callable[[Region, Mapping[str, Any]], Document]


def idempotent(action: Action) -> Action:
    """Makes a call heed ``ClientToken`` (EC2 Developer Guide, "Ensuring idempotency").

    Raises:
        AwsError: the token came with other parameters before.
    """

    @wraps(action)
    def answered(region: Region, parameters: Mapping[str, Any]) -> Document:
        token = parameters.get("ClientToken")
        if token is None:
            return action(region, parameters)
        key, digest = f"{action.__name__} {token}", digest_of(parameters)
        known = region.all("answer").get(key)
        if known is not None and known["_digest"] != digest:
            raise mismatch()
        if known is None:
            answer = {**action(region, parameters), "ClientToken": token}
            known = region.put("answer", {"_token": key, "_digest": digest, "_answer": answer})
        told: Document = known["_answer"]
        return told

    return answered


def digest_of(parameters: Mapping[str, Any]) -> str:
    """A hash of what must not change under one token."""
    relevant = {key: value for key, value in parameters.items() if key not in {"ClientToken", "DryRun"}}
    return hashlib.sha256(json.dumps(relevant, sort_keys=True, default=str).encode()).hexdigest()


def mismatch() -> AwsError:
    """The refusal of a token that came with other parameters before."""
    return AwsError(
        "IdempotentParameterMismatch",
        "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
    )
