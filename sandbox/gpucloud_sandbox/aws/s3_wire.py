"""S3's REST protocol, server side, out of botocore's own model: which call a request is, and its members.

UNVERIFIED: the codes IncompleteBody and MalformedXML, and their texts; botocore's model of S3 has neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote
from xml.etree import ElementTree

from botocore.model import ListShape, OperationModel, Shape, StructureShape
from werkzeug.wrappers import Request

from gpucloud_sandbox.aws.wire import AwsError, service_model

_STREAMING = "STREAMING-"
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})(;chunk-signature=[0-9a-f]{64})?\r\n")


@dataclass(frozen=True, slots=True)
class _Route:
    """What makes a request one call: its method, how far its path goes, and what must be in it."""

    call: str
    method: str
    depth: int
    query: Mapping[str, str]
    asked: frozenset[str]
    headers: frozenset[str]

    def fits(self, request: Request, depth: int) -> bool:
        """Whether a request is this call, or a less special one."""
        return (
            (self.method, self.depth) == (request.method, depth)
            and all(request.args.get(name) == value for name, value in self.query.items())
            and all(name in request.args for name in self.asked)
            and all(name in request.headers for name in self.headers)
        )


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request, and the headers that came behind it."""

    content: bytes
    trailers: Mapping[str, str] = field(default_factory=dict[str, str])


def path_of(request: Request) -> str:
    """The path as the client wrote it: S3 signs it so, and keys may hold what normalising removes."""
    return str(request.environ["REQUEST_URI"]).partition("?")[0]


def place_of(request: Request) -> tuple[str, str]:
    """The bucket and the key that a request names; empty where it names none."""
    bucket, _, key = path_of(request).removeprefix("/").partition("/")
    return unquote(bucket), unquote(key)


def call_of(request: Request) -> str:
    """Which call a request is; empty for none. S3 tells calls apart by what is in the query."""
    depth = sum(map(bool, place_of(request)))
    fitting = [route for route in _routes() if route.fits(request, depth)]
    return max(fitting, key=_speciality).call if fitting else ""


def body_of(request: Request) -> Body:
    """The body of a request, out of its chunks where it came in such.

    The signatures of single chunks are not verified; that of the whole request is.

    Raises:
        AwsError: it ends too early, or is none in chunks although it says so.
    """
    sent = request.get_data(cache=True)
    if not request.headers.get("X-Amz-Content-SHA256", "").startswith(_STREAMING):
        return Body(sent)
    body, rest = _unchunked(sent)
    if str(len(body)) != request.headers.get("X-Amz-Decoded-Content-Length"):
        raise AwsError("IncompleteBody", "The body has not the length that the headers say.")
    lines = (line.partition(":") for line in rest.decode("latin-1").split("\r\n") if ":" in line)
    return Body(body, {name.strip().lower(): value.strip() for name, _, value in lines})


def members_of(operation: OperationModel, request: Request, body: bytes) -> dict[str, Any]:
    """The members of a call, as texts; those that the model does not have are overlooked, as S3 does.

    Raises:
        AwsError: the body is not the XML that the call takes.
    """
    shape = operation.input_shape
    assert isinstance(shape, StructureShape)  # noqa: S101  (for the type checker)
    bucket, key = place_of(request)
    found: dict[str, Any] = {}
    for name, member in shape.members.items():
        said = str(member.serialization.get("name", name))
        match member.serialization.get("location"):
            case "uri":
                found[name] = {"Bucket": bucket, "Key": key}[name]
            case "querystring" if said in request.args:
                found[name] = request.args[said]
            case "header" if said in request.headers:
                found[name] = request.headers[said]
            case "headers":
                found[name] = dict(_prefixed(request, said))
            case None if name == shape.serialization.get("payload"):
                found[name] = _payload(member, body)
            case _:
                pass
    return {name: value for name, value in found.items() if value not in (None, {})}


def malformed() -> AwsError:
    """The refusal of a body that is not the XML of its call, or is none."""
    text = "The XML you provided was not well-formed or did not validate against our published schema"
    return AwsError("MalformedXML", text)


def _prefixed(request: Request, prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in request.headers.items():
        if name.lower().startswith(prefix):
            yield name[len(prefix) :].lower(), value


def _payload(shape: Shape, body: bytes) -> Any:
    if not isinstance(shape, StructureShape):
        return body
    if not body:
        return None
    try:  # it comes from this machine, by whoever holds the sandbox's key
        return _value(shape, ElementTree.fromstring(body))  # noqa: S314
    except (ElementTree.ParseError, KeyError, StopIteration):
        raise malformed() from None


def _value(shape: Shape, node: ElementTree.Element) -> Any:
    if not isinstance(shape, StructureShape):
        return node.text or ""
    found: dict[str, Any] = {}
    for child in node:
        tag = child.tag.rpartition("}")[2]
        name, member = next(
            each for each in shape.members.items() if each[1].serialization.get("name", each[0]) == tag
        )
        if isinstance(member, ListShape) and member.serialization.get("flattened"):
            found.setdefault(name, []).append(_value(member.member, child))
        elif isinstance(member, ListShape):
            found[name] = [_value(member.member, each) for each in child]
        else:
            found[name] = _value(member, child)
    return found


def _unchunked(sent: bytes) -> tuple[bytes, bytes]:
    """The pieces of a body in chunks, and what follows the last one."""
    body, at = bytearray(), 0
    while found := _CHUNK.match(sent, at):
        size, at = int(found[1], 16), found.end()
        if not size:
            return bytes(body), sent[at:]
        body += sent[at : at + size]
        at += size + len(b"\r\n")
    raise AwsError("IncompleteBody", "The request body terminated unexpectedly")


def _speciality(route: _Route) -> int:
    return len(route.query) + len(route.asked) + len(route.headers)


@cache
def _routes() -> tuple[_Route, ...]:
    model = service_model("s3")
    return tuple(_route(model.operation_model(name)) for name in model.operation_names)


def _route(operation: OperationModel) -> _Route:
    path, _, query = operation.http["requestUri"].partition("?")
    shape = operation.input_shape
    needed = [shape.members[name] for name in shape.required_members] if shape else []
    places = {str(each.serialization.get("name")): each.serialization.get("location") for each in needed}
    return _Route(
        call=operation.name,
        method=operation.http["method"],
        depth=path.count("{"),
        query=dict(parse_qsl(query, keep_blank_values=True)),
        asked=frozenset(name for name, place in places.items() if place == "querystring"),
        headers=frozenset(name for name, place in places.items() if place == "header"),
    )
