"""Asking AWS from which address this machine is seen."""

from __future__ import annotations

import ipaddress
import os
from typing import Any
from urllib.parse import urlsplit

from gpucloud.errors import UsageError
from gpucloud_aws.actions import is_loopback

ECHO_URL = "https://checkip.amazonaws.com"
ECHO_VARIABLE = "GPUCLOUD_AWS_ECHO_URL"
TIMEOUT_S = 5
MOST_BYTES = 64  # an IPv6 address is 45 at most

_HINT = "name your address yourself: --allow-from 203.0.113.7/32"


def caller_address() -> str:
    """The address from which AWS sees this machine.

    ``GPUCLOUD_AWS_ECHO_URL`` names another echo; without TLS only on this machine.

    Raises:
        UsageError: no usable answer; names the flag that makes the question needless.
    """
    url = os.environ.get(ECHO_VARIABLE) or ECHO_URL
    local = is_loopback(url)
    if urlsplit(url).scheme != "https" and not (urlsplit(url).scheme == "http" and local):
        raise UsageError(f"{ECHO_VARIABLE}={url} has no TLS and is not on this machine", hint=_HINT)
    try:
        answer = _fetched(url, past_proxies=local).decode("ascii").strip()
        address = ipaddress.ip_address(answer)
    except (OSError, ValueError) as error:
        raise UsageError(f"could not learn this machine's address from {url}: {error}", hint=_HINT) from error
    if address.is_unspecified or address.is_multicast:
        raise UsageError(f"{url} says that this machine's address is {address}, which cannot be", hint=_HINT)
    return str(address)


def _fetched(url: str, *, past_proxies: bool) -> bytes:
    """At most a line from a URL. Follows no redirect: who answers must be who was asked."""
    from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

    class NoRedirect(HTTPRedirectHandler):
        def redirect_request(self, *_: Any, **__: Any) -> None:
            return None

    handlers: list[Any] = [NoRedirect(), *([ProxyHandler({})] if past_proxies else [])]
    with build_opener(*handlers).open(Request(url), timeout=TIMEOUT_S) as answer:  # noqa: S310  (checked)
        text: bytes = answer.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError("the answer is too long for an address")
    return text
