"""Fetches a public file: without credentials, without redirects, and up to a maximum size."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from gpucloud.clouds.profile import Profile, is_loopback


def is_trusted(url: str) -> bool:
    """Whether a URL has TLS, or stays on this machine; a link-local address is no host of anybody's.

    One with control characters has neither: ``urlsplit`` drops them, and no client does.
    """
    try:
        at = urlsplit(url)
        scheme, host = at.scheme, at.hostname or ""
    except ValueError:  # it is no URL
        return False
    safe = scheme == "https" or (scheme == "http" and is_loopback(url))
    return url.strip().isprintable() and safe and not _is_link_local(host)


def _is_link_local(host: str) -> bool:
    try:
        return ip_address(host).is_link_local
    except ValueError:
        return False


def same_origin(one: str, other: str) -> bool:
    """Whether two URLs have one scheme, host and port, said or not."""
    try:
        return _origin(one) == _origin(other)
    except ValueError:  # one is no URL
        return False


def _origin(url: str) -> tuple[str, str | None, int | None]:
    at = urlsplit(url)
    return at.scheme, at.hostname, at.port or _PORTS.get(at.scheme)


_PORTS = {"https": 443, "http": 80}


def fetched(url: str, profile: Profile, *, most_bytes: int, timeout_s: float) -> bytes:
    """The content of a URL. Follows no redirect, so that only the requested host answers.

    Raises:
        OSError: there is no answer, or it is a refusal or no HTTP.
        ValueError: the answer is longer than ``most_bytes``.
    """
    from http.client import HTTPException
    from ssl import create_default_context
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

    class NoRedirect(HTTPRedirectHandler):
        def redirect_request(self, *_: Any, **__: Any) -> None:
            return None

    handlers: list[Any] = [NoRedirect(), ProxyHandler(profile.proxies(url))]
    if profile.ca_bundle is not None:
        handlers.append(HTTPSHandler(context=create_default_context(cafile=profile.ca_bundle)))
    try:
        with build_opener(*handlers).open(Request(url), timeout=timeout_s) as answer:  # noqa: S310  (checked)
            text: bytes = answer.read(most_bytes + 1)
    except HTTPError as error:  # a refusal is an answer too, whose connection is open
        error.close()
        raise
    except HTTPException as error:
        raise OSError(f"the answer is not HTTP: {error!r}") from error
    if len(text) > most_bytes:
        raise ValueError(f"the answer has more than {most_bytes} bytes")
    return text
