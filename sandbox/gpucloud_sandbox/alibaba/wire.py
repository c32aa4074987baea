"""The RPC wire format: parameters in, JSON or XML out, refusals in the cloud's own form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, cast
from xml.etree.ElementTree import Element, SubElement, tostring

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

_XML: ContextVar[bool] = ContextVar("xml", default=False)
"""Whether the request that this thread answers is answered in XML."""


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


def choose_format(request: Request) -> None:
    """Decides in which format this thread's request is answered.

    The older signature's requests get XML unless they ask for JSON; the newer one's get JSON.
    """
    values = {**request.args.to_dict(), **request.form.to_dict()}
    _XML.set("Authorization" not in request.headers and values.get("Format", "").upper() != "JSON")


def answer(action: str, body: Mapping[str, Any], request_id: str) -> Response:
    """The result of a call."""
    return _response(f"{action}Response", {"RequestId": request_id, **body}, 200, request_id)


def error(failure: AlibabaError, request_id: str, host: str) -> Response:
    """A refusal as the cloud writes it."""
    body = {
        "RequestId": request_id,
        "HostId": host,
        "Code": failure.code,
        "Message": failure.message,
        "Recommend": f"https://api.alibabacloud.com/troubleshoot?q={failure.code}&requestId={request_id}",
    }
    return _response("Error", body, failure.status, request_id)


def _response(root: str, body: Mapping[str, Any], status: int, request_id: str) -> Response:
    if _XML.get():
        response = Response(xml_document(root, body), status, content_type="text/xml;charset=utf-8")
    else:
        response = Response(json.dumps(body), status, content_type="application/json;charset=utf-8")
    response.headers["x-acs-request-id"] = request_id
    return response


def xml_document(root: str, body: Mapping[str, Any]) -> bytes:
    """A document: members as elements of their names."""
    element = Element(root)
    _fill(element, body)
    text: bytes = tostring(element, encoding="UTF-8", xml_declaration=True)
    return text


def _fill(parent: Element, members: Mapping[str, Any]) -> None:
    """Members as elements; a list is an element of its name for each item."""
    for name, value in members.items():
        items = cast("Sequence[Any]", value) if isinstance(value, list) else [value]
        for item in items:
            element = SubElement(parent, name)
            if isinstance(item, dict):
                _fill(element, cast("dict[str, Any]", item))
            else:
                element.text = str(item).lower() if isinstance(item, bool) else str(item)
