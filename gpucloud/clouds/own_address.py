"""This machine's public address, as services on the internet see it."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Iterator, Sequence
from queue import SimpleQueue

from gpucloud.clouds.fetch import fetched, is_trusted
from gpucloud.clouds.profile import Profile
from gpucloud.errors import UsageError

VARIABLE = "GPUCLOUD_ECHO_URL"
"""Names a service of the user's own, which is asked alone."""
IPV4 = (
    "https://checkip.amazonaws.com",
    "https://api.ipify.org",
    "https://ipv4.icanhazip.com",
    "https://ipinfo.io/ip",
)
IPV6 = ("https://api6.ipify.org", "https://ipv6.icanhazip.com")
"""Services of several operators, which answer with the caller's address alone; boxes are reached by IPv4."""
TIMEOUT_S = 5
MOST_BYTES = 64  # an IPv6 address is 45 at most

_HINT = "specify your address: --allow-from 203.0.113.7/32"


def own_address(profile: Profile) -> str:
    """The address that two services name; where only one answers, that one's answer.

    Args:
        profile: what names another service, proxies and certificates.

    Raises:
        UsageError: no usable answer, or no two that agree; the hint names the flag that replaces this call.
    """
    own = profile.get(VARIABLE)
    if own is not None and not is_trusted(own):
        raise UsageError(f"{VARIABLE}={own} does not use TLS and is not on this machine", hint=_HINT)
    return agreed(profile, IPV4 if own is None else (own,), IPV6 if own is None else ())


def agreed(profile: Profile, *families: Sequence[str]) -> str:
    """The address that two services of a family name: of the first family of which any answers.

    Raises:
        UsageError: see :func:`own_address`.
    """
    failures: list[str] = []
    for services in families:
        found: dict[str, str] = {}
        for service, answer in _answers(profile, services):
            if isinstance(answer, str):
                if answer in found.values():
                    return answer
                found[service] = answer
            else:
                failures.append(f"from {service}: {answer}")
        if len(found) == 1:
            return next(iter(found.values()))
        if found:
            said = ", ".join(f"{answer} ({service})" for service, answer in found.items())
            raise UsageError(f"this machine's public address is not certain: {said}", hint=_HINT)
    raise UsageError(f"could not determine this machine's public address {'; '.join(failures)}", hint=_HINT)


def _answers(profile: Profile, services: Sequence[str]) -> Iterator[tuple[str, str | Exception]]:
    """What services answer, as they do; nobody waits for one that is not needed any more."""
    answers: SimpleQueue[tuple[str, str | Exception]] = SimpleQueue()

    def ask(service: str) -> None:
        try:
            answers.put((service, _address(profile, service)))
        except (OSError, ValueError) as error:
            answers.put((service, error))

    for service in services:
        threading.Thread(target=ask, args=(service,), daemon=True).start()
    for _ in services:
        yield answers.get()


def _address(profile: Profile, service: str) -> str:
    """What one service answers.

    Raises:
        OSError: it does not.
        ValueError: it is no address that a machine can have.
    """
    answer = fetched(service, profile, most_bytes=MOST_BYTES, timeout_s=TIMEOUT_S)
    address = ipaddress.ip_address(answer.decode("ascii").strip())
    if address.is_unspecified or address.is_multicast:
        raise ValueError(f"{address} is no address of a machine")
    return str(address)
