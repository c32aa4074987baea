"""Asks AWS for the public address of this machine."""

from __future__ import annotations

import ipaddress

from gpucloud.clouds.abilities import Echo
from gpucloud.clouds.fetch import fetched, is_trusted
from gpucloud.clouds.profile import Profile
from gpucloud.errors import UsageError

ECHO_URL = "https://checkip.amazonaws.com"
ECHO_VARIABLE = "GPUCLOUD_AWS_ECHO_URL"
TIMEOUT_S = 5
MOST_BYTES = 64  # an IPv6 address is 45 at most

_HINT = "specify your address: --allow-from 203.0.113.7/32"


class AwsEcho(Echo):
    """The echo service of AWS.

    Args:
        profile: what names another service, proxies and certificates.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def caller_address(self) -> str:
        """The address from which AWS sees this machine: the answer of https://checkip.amazonaws.com.

        ``GPUCLOUD_AWS_ECHO_URL`` sets another echo service; without TLS only on this machine.

        Raises:
            UsageError: no usable answer; the hint names the flag that replaces this call.
        """
        url = self._profile.get(ECHO_VARIABLE) or ECHO_URL
        if not is_trusted(url):
            raise UsageError(f"{ECHO_VARIABLE}={url} does not use TLS and is not on this machine", hint=_HINT)
        try:
            answer = fetched(url, self._profile, most_bytes=MOST_BYTES, timeout_s=TIMEOUT_S)
            address = ipaddress.ip_address(answer.decode("ascii").strip())
        except (OSError, ValueError) as error:
            raise UsageError(
                f"could not determine this machine's public address from {url}: {error}", hint=_HINT
            ) from error
        if address.is_unspecified or address.is_multicast:
            raise UsageError(
                f"{url} returned {address} as this machine's address, which is not a valid one", hint=_HINT
            )
        return str(address)
