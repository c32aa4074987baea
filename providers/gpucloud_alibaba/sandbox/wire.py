"""The RPC wire format: parameters in, JSON out, refusals in the cloud's own form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from werkzeug.wrappers import Request, Response

VERSIONS = {"2014-05-26": "ecs", "2016-04-28": "vpc", "2015-04-01": "sts", "2020-05-10": "quotas"}
"""The products by the version of their API. Source: the SDK packages' names."""

COMMON = frozenset(
    {
        "AccessKeyId",
        "Action",
        "Format",
        "SecurityToken",
        "Signature",
        "SignatureMethod",
        "SignatureNonce",
        "SignatureType",
        "SignatureVersion",
        "Timestamp",
        "Version",
    }
)
"""What a request of the first signature version carries besides its parameters."""

Parameters = Mapping[str, Any]


class AlibabaError(Exception):
    """A refusal: the cloud's code, its words, an HTTP status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(code, message)
        self.code, self.message, self.status = code, message, status


def asked(request: Request) -> tuple[str, str, dict[str, str]]:
    """Product, action and flat parameters of a request; the product is its version where none has it."""
    flat = {**request.args.to_dict(), **request.form.to_dict()}
    action = request.headers.get("x-acs-action") or flat.get("Action", "")
    version = request.headers.get("x-acs-version") or flat.get("Version", "")
    if "Authorization" not in request.headers:
        flat = {name: value for name, value in flat.items() if name not in COMMON}
    return VERSIONS.get(version, version), action, flat


def nested(flat: Mapping[str, str]) -> dict[str, Any]:
    """Flat parameters as a tree: ``Tag.1.Key`` is the member ``Key`` of the first element of ``Tag``."""
    root: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        node = root
        for part in path:
            below: Any = node.setdefault(part, {})
            if not isinstance(below, dict):
                raise AlibabaError("InvalidParameter", f"The specified parameter {name} is not valid.")
            node = cast("dict[str, Any]", below)
        node[last] = value
    return {name: _listed(value) for name, value in root.items()}


def _listed(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    members = cast("dict[str, Any]", node)
    if members and all(name.isdecimal() for name in members):
        return [_listed(members[name]) for name in sorted(members, key=int)]
    return {name: _listed(value) for name, value in members.items()}


def true(value: Any) -> bool:
    """Whether a parameter says yes; the SDKs write ``True`` as well as ``true``."""
    return str(value).lower() == "true"


def json_list(value: str | None, name: str) -> list[str] | None:
    """A parameter that holds a list as JSON text; ``None`` where it is not given."""
    if value is None:
        return None
    try:
        items: Any = json.loads(value)
    except ValueError:
        items = None
    if type(items) is not list:
        raise AlibabaError("InvalidParameter", f"The specified parameter {name} is not a JSON array.")
    return list(map(str, items))  # pyright: ignore[reportUnknownArgumentType]


def answer(body: Mapping[str, Any], request_id: str) -> Response:
    """The result of a call."""
    return _response({"RequestId": request_id, **body}, 200, request_id)


def error(failure: AlibabaError, request_id: str, host: str) -> Response:
    """A refusal as the cloud writes it."""
    body = {
        "RequestId": request_id,
        "HostId": host,
        "Code": failure.code,
        "Message": failure.message,
        "Recommend": f"https://api.alibabacloud.com/troubleshoot?q={failure.code}&requestId={request_id}",
    }
    return _response(body, failure.status, request_id)


def _response(body: Mapping[str, Any], status: int, request_id: str) -> Response:
    response = Response(json.dumps(body), status, content_type="application/json;charset=utf-8")
    response.headers["x-acs-request-id"] = request_id
    return response
