"""Refuses calls that are not emulated, and members of requests that are not supported."""

from __future__ import annotations

from typing import Any

from werkzeug.wrappers import Request

from gpucloud_sandbox import supported
from gpucloud_sandbox.azure import validation
from gpucloud_sandbox.azure.wire import AzureError, Json, body_of

_ROWS = supported.read("gpucloud_sandbox.azure")
TABLE = {call.lower(): (call, row) for (service, call), row in _ROWS.items() if service != "blob"}
"""By call in lower case: the call, and the members that it supports."""
_HEADERS = ("If-Match", "If-None-Match", "x-ms-authorization-auxiliary")
"""The headers of requests that change what a call does."""
_OF_ALL_CALLS = {"api-version", "$skiptoken"}


def check(call: str, request: Request) -> None:
    """Passes a call whose members are all supported.

    Bodies that Azure itself would refuse pass: the handler refuses them, after the caller's permissions.

    Args:
        call: the method and the resource's type.
        request: the request.

    Raises:
        AzureError: something is not emulated.
    """
    known = TABLE.get(call.lower())
    if known is None:
        raise not_emulated(call)
    options: dict[str, Any] = {
        **{each: request.headers[each] for each in _HEADERS if each in request.headers},
        **{each: value for each, value in request.args.items() if each not in _OF_ALL_CALLS},
    }
    check_members(known[0], body_of(request), options)


def check_members(call: str, body: Json, options: Json | None = None) -> None:
    """Passes members that a call supports.

    Args:
        call: as the table writes it.
        body: the request's.
        options: its query and headers.

    Raises:
        AzureError: one is not supported.
    """
    try:
        read = validation.read(call, body, again=True)
    except AzureError:
        return
    refused = TABLE[call.lower()][1].refused({**(options or {}), **read})
    if refused is not None:
        raise not_emulated(f"{call}: {refused}")


def not_emulated(what: str) -> AzureError:
    """The refusal of what the sandbox does not emulate."""
    return AzureError("UnsupportedOperation", f"The gpucloud sandbox does not emulate {what}", 405)
