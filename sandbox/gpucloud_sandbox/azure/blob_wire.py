"""The blob service's wire format: which operation a request is, what of it is emulated, and refusals.

Sources of codes and statuses: learn.microsoft.com, "Common REST API error codes" and "Blob Storage error
codes", but where another stands beside one; of the form of refusals: "Status and error codes".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from xml.sax.saxutils import escape

from werkzeug.wrappers import Request, Response

from gpucloud_sandbox import supported
from gpucloud_sandbox.azure.wire import AzureError


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """What an operation needs.

    Attributes:
        level: ``s``, ``c`` or ``o``: service, container, object.
        any_of: the letters of permissions, each of which is enough.
    """

    level: str
    any_of: str


OPERATIONS: Mapping[tuple[str, int, str], tuple[str, Right]] = {
    ("GET", 0, "list"): ("List Containers", Right(level="s", any_of="l")),
    ("POST", 0, "userdelegationkey"): ("Get User Delegation Key", Right(level="s", any_of="")),
    ("PUT", 1, ""): ("Create Container", Right(level="c", any_of="cw")),
    ("GET", 1, ""): ("Get Container Properties", Right(level="c", any_of="r")),
    ("HEAD", 1, ""): ("Get Container Properties", Right(level="c", any_of="r")),
    ("DELETE", 1, ""): ("Delete Container", Right(level="c", any_of="d")),
    ("GET", 1, "list"): ("List Blobs", Right(level="c", any_of="l")),
    ("PUT", 2, ""): ("Put Blob", Right(level="o", any_of="cw")),
    ("PUT", 2, "block"): ("Put Block", Right(level="o", any_of="cw")),
    ("PUT", 2, "blocklist"): ("Put Block List", Right(level="o", any_of="cw")),
    ("GET", 2, "blocklist"): ("Get Block List", Right(level="o", any_of="r")),
    ("PUT", 2, "metadata"): ("Set Blob Metadata", Right(level="o", any_of="w")),
    ("GET", 2, ""): ("Get Blob", Right(level="o", any_of="r")),
    ("HEAD", 2, ""): ("Get Blob Properties", Right(level="o", any_of="r")),
    ("DELETE", 2, ""): ("Delete Blob", Right(level="o", any_of="d")),
}
"""By method, depth of the path and ``comp``: the operation, and what it needs."""

HONOURED = {
    operation: row
    for (service, operation), row in supported.read("gpucloud_sandbox.azure").items()
    if service == "blob"
}
"""By operation: the members of its address, and its headers in lower case, that it supports."""

SIGNATURE = frozenset(
    {
        *("sig", "sp", "ss", "srt", "st", "se", "sip", "spr", "sv", "ses", "si", "sr"),
        *("rscc", "rscd", "rsce", "rscl", "rsct", "sdd", "saoid", "suoid", "scid", "skdutid", "sduoid"),
        *("skoid", "sktid", "skt", "ske", "sks", "skv"),
    }
)
"""The members of an address that are of its shared access signature; without one they mean nothing."""

_OF_EVERY_REQUEST = frozenset({"x-ms-version", "x-ms-date", "x-ms-client-request-id"})
_PLAIN = frozenset({"comp", "restype", "timeout"})
_STANDARD = frozenset(
    {
        *("if-match", "if-none-match", "if-modified-since", "if-unmodified-since"),
        *("range", "content-md5"),
    }
)
"""Headers besides ``x-ms-*`` that change what an operation does.

Those that describe the content are not among them: Put Blob keeps them, to others they describe the body.
``Accept`` is not either: what names Apache Arrow names XML too.
"""
_METADATA = "x-ms-meta-"


def operation(request: Request, names: list[str]) -> tuple[str, Right]:
    """Which operation a request is.

    Args:
        request: the request.
        names: of the container and the blob that its path names.

    Raises:
        AzureError: none that is emulated.
    """
    known = _known(request, names)
    if known is None:
        text = f"The gpucloud sandbox does not emulate {name_of(request, names)}"
        raise AzureError("UnsupportedHttpVerb", text, 405)
    return known


def _known(request: Request, names: list[str]) -> tuple[str, Right] | None:
    comp = request.args.get("comp", "")
    restype = "container" if len(names) == 1 else "service" if comp == "userdelegationkey" else ""
    if request.args.get("restype", "") != restype:
        return None
    return OPERATIONS.get((request.method, len(names), comp))


def name_of(request: Request, names: list[str]) -> str:
    """A request's operation in words, also where it is not emulated."""
    known = _known(request, names)
    if known is not None:
        return known[0]
    what = ("an account", "a container", "a blob")[len(names)]
    said = [f"{each}={request.args[each]}" for each in ("restype", "comp") if each in request.args]
    return f"{request.method} of {what}" + (f" with {' and '.join(said)}" if said else "")


def check_emulated(name: str, request: Request) -> None:
    """Refuses the first member of a request that its operation does not support.

    Args:
        name: the operation.
        request: the request.

    Raises:
        AzureError: names the member.
    """
    for code, given in (
        ("UnsupportedQueryParameter", _parameters(request)),
        ("UnsupportedHeader", _headers(request)),
    ):
        refused = HONOURED[name].refused(given)
        if refused is not None:
            raise not_emulated(f"{name}: {refused}", code)


def not_emulated(what: str, code: str = "UnsupportedHeader") -> AzureError:
    """The refusal of a member that is not emulated."""
    return AzureError(code, f"The gpucloud sandbox does not emulate {what}")


def _parameters(request: Request) -> dict[str, Any]:
    """The members of an address that are neither its operation nor its signature.

    Every operation is done before any ``timeout``.
    """
    signed = "sig" in request.args and "Authorization" not in request.headers
    known = _PLAIN | SIGNATURE if signed else _PLAIN
    return {name: values for name, values in request.args.lists() if name not in known}


def _headers(request: Request) -> dict[str, Any]:
    """The headers that mean something to the blob service; names of metadata are the caller's own."""
    own = {name.lower(): value for name, value in request.headers.items()}
    return {
        name.replace(_METADATA, "x-ms-meta."): value
        for name, value in own.items()
        if (name.startswith("x-ms-") and name not in _OF_EVERY_REQUEST) or name in _STANDARD
    }


def metadata(request: Request) -> dict[str, str]:
    """The caller's own words about a container or blob."""
    own = {name.lower(): value for name, value in request.headers.items()}
    return {name.removeprefix(_METADATA): value for name, value in own.items() if name.startswith(_METADATA)}


def mark(answer: Response, request: Request, request_id: str) -> Response:
    """Gives an answer the headers that all have."""
    for name in ("x-ms-version", "x-ms-client-request-id"):
        if name in request.headers:
            answer.headers[name] = request.headers[name]
    answer.headers["x-ms-request-id"] = request_id
    return answer


def refuse(failure: AzureError, request_id: str, now: datetime) -> Response:
    """A refusal in the service's own XML. Its first words are the reason too: one of HEAD has no body."""
    words = f"{escape(failure.message)}\nRequestId:{request_id}\nTime:{now.isoformat()}"
    text = (
        '<?xml version="1.0" encoding="utf-8"?>'
        f"<Error><Code>{failure.code}</Code><Message>{words}</Message></Error>"
    )
    empty = failure.status == 304
    response = Response(b"" if empty else text, content_type="application/xml")
    response.status = f"{failure.status} {failure.message}"
    response.headers.update({"x-ms-error-code": failure.code, **failure.headers})
    return response
