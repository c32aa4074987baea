"""Public addresses of the emulated instances, out of the documentation networks (RFC 5737)."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network

from gpucloud_sandbox.database import Database

NETWORKS = ("203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24")


def are_the_world(blocks: Iterable[str]) -> bool:
    """Whether networks hold together half of all addresses or more, of IPv4 or of IPv6.

    ``0.0.0.0/1`` and ``128.0.0.0/1`` are as open as ``0.0.0.0/0``. Raises ``ValueError``.
    """
    networks = [ip_network(block, strict=False) for block in blocks]
    fourth = collapse_addresses(each for each in networks if isinstance(each, IPv4Network))
    sixth = collapse_addresses(each for each in networks if isinstance(each, IPv6Network))
    return (
        sum(each.num_addresses for each in fourth) >= 1 << 31
        or sum(each.num_addresses for each in sixth) >= 1 << 127
    )


class NoAddressError(Exception):
    """All addresses are in use."""


class AddressPool:
    """Which instance has which address. A freed address is reused only after all others. Persistent."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pool = [str(address) for network in NETWORKS for address in ip_network(network).hosts()]
        self._holders: dict[str, str] = {}
        self._next = 0
        self._load()
        database.on_read_again(self._load)

    def _load(self) -> None:
        self._holders = dict(self._database.setting("addresses") or {})
        self._next = self._database.setting("next_address") or 0

    def take(self, holder: str, *, but: str) -> str:
        """Assigns an address to an instance; never ``but``, the caller's own.

        Raises:
            NoAddressError: all are in use.
        """
        turn = (self._next + step for step in range(len(self._pool)))
        free = (at % len(self._pool) for at in turn)
        found = next(
            (at for at in free if self._pool[at] not in self._holders and self._pool[at] != but), None
        )
        if found is None:
            raise NoAddressError
        self._next = (found + 1) % len(self._pool)
        self._holders[self._pool[found]] = holder
        self._keep()
        return self._pool[found]

    def lead(self, address: str, holder: str) -> None:
        """Routes a taken address to an instance."""
        self._holders[address] = holder
        self._keep()

    def free(self, address: str) -> None:
        """Releases an address."""
        if self._holders.pop(address, None) is not None:
            self._keep()

    def holder(self, address: str) -> str | None:
        """The instance at an address."""
        return self._holders.get(address)

    def clear(self) -> None:
        """Releases all addresses."""
        self._holders.clear()
        self._keep()

    def _keep(self) -> None:
        with self._database.transaction():
            self._database.keep_setting("addresses", self._holders)
            self._database.keep_setting("next_address", self._next)
