"""Fetches a public file: without credentials, without redirects, and up to a maximum size."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from gpucloud.clouds.profile import Profile, is_loopback


def is_trusted(url: str) -> bool:
    """Whether a URL has TLS, or stays on this machine.

    One with control characters has neither: ``urlsplit`` drops them, and no client does.
    """
    try:
        scheme = urlsplit(url).scheme
    except ValueError:  # it is no URL
        return False
    return url.strip().isprintable() and (scheme == "https" or (scheme == "http" and is_loopback(url)))


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
