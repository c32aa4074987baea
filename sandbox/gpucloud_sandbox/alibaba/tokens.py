"""ClientTokens: the same token and the same parameters give the first answer again.

Source: ECS developer reference, "How to ensure idempotence".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from gpucloud_sandbox.alibaba.region import Region
from gpucloud_sandbox.alibaba.wire import AlibabaError
from gpucloud_sandbox.database import Document


def once(
    region: Region, action: str, parameters: Mapping[str, Any], make: Callable[[], Document]
) -> Document:
    """What ``make`` gives, or what it gave when the token was first used.

    Raises:
        AlibabaError: the token is no token, or was used with other parameters or for a call without stock.
    """
    token = parameters.get("ClientToken")
    if not token:
        return make()
    if len(token) > 64 or not token.isascii():
        raise AlibabaError("InvalidClientToken.ValueNotSupported", "The ClientToken is not valid.")
    key, digest = f"{action} {token}", _digest(parameters)
    known = region.all("token").get(key)
    if known is not None and known["_digest"] != digest:
        raise AlibabaError(
            "IdempotentParameterMismatch",
            "The specified parameter has changed while using an already used clientToken.",
        )
    if known is not None and known["_answer"] is None:
        raise AlibabaError(known["_code"], known["_message"], known["_status"])
    if known is not None:
        answer: Document = known["_answer"]
        return answer
    answer = make()
    region.put("token", {"_token": key, "_digest": digest, "_answer": answer})
    return answer


def spend(region: Region, action: str, parameters: Mapping[str, Any], failure: AlibabaError) -> None:
    """Remembers that a token met a shortage: used again it meets the same one."""
    token = parameters.get("ClientToken")
    if not token:
        return
    region.put(
        "token",
        {
            "_token": f"{action} {token}",
            "_digest": _digest(parameters),
            "_answer": None,
            "_code": failure.code,
            "_message": failure.message,
            "_status": failure.status,
        },
    )


def _digest(parameters: Mapping[str, Any]) -> str:
    relevant = {name: value for name, value in parameters.items() if name not in {"ClientToken", "DryRun"}}
    return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()
