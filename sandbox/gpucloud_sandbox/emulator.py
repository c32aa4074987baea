"""The interface of an emulated cloud, and what it receives.

An emulator is found through the entry-point group ``gpucloud.sandboxes``: an entry is a callable that takes a
:class:`World` and returns an :class:`Emulator`. It keeps its rules and its wire format apart, reads only the
world's clock, and keeps its state only on the world's shelves.
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from werkzeug.wrappers import Request, Response

from gpucloud_sandbox.addresses import AddressPool
from gpucloud_sandbox.boxes import BoxSpec
from gpucloud_sandbox.clock import Clock
from gpucloud_sandbox.database import Database
from gpucloud_sandbox.faults import Call, Fault
from gpucloud_sandbox.ledger import Ledger
from gpucloud_sandbox.market import Market
from gpucloud_sandbox.review import Review

Control = Callable[[Mapping[str, Any]], Any]
"""Something that can be asked of one cloud besides its own protocol: JSON in, JSON out."""


CALLER_ADDRESS = "198.51.100.7"
"""From where the clouds see the caller, until that is moved (RFC 5737)."""


class UnknownResourceError(Exception):
    """A control request names an unknown resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast the clouds are.

    Attributes:
        transition_s: how long an instance is pending, and how long it is ending.
        latency_s: added to every call.
        lag_s: for so long after its creation an instance is hidden from reads.
        lag_calls: from so many reads it is hidden after its creation.
    """

    transition_s: float = 0.5
    latency_s: float = 0.0
    lag_s: float = 0.0
    lag_calls: int = 0


class BoxHost(Protocol):
    """The machines behind instances (:class:`gpucloud_sandbox.boxes.Boxes`)."""

    def boot(self, spec: BoxSpec, /) -> None:
        """Starts a box and returns at once."""
        ...

    def make_unhealthy(self, sickness: str, times: int, /) -> None:
        """The next boxes get a faulty GPU."""
        ...

    def stop(self, id_: str, /) -> None:
        """Stops a box and keeps its disk, without waiting; does nothing for an unknown one."""
        ...

    def end(self, id_: str, /) -> None:
        """Ends a box and its disk, without waiting; does nothing for an unknown one."""
        ...

    def ssh_port(self, id_: str, /) -> int | None:
        """The loopback port of the box's ssh; ``None`` until it answers."""
        ...

    def console(self, id_: str, /) -> str:
        """What the box wrote to its console."""
        ...

    def plug(self, id_: str, device: str, volume: str, /) -> None:
        """Shows a volume to a box, as a device."""
        ...

    def unplug(self, id_: str, volume: str, /) -> None:
        """Takes a volume away from a box; does nothing for one that is not there."""
        ...

    def copy(self, source: str, target: str, /) -> None:
        """Fills a volume or a snapshot with the files of another one."""
        ...

    def copy_root(self, id_: str, target: str, /) -> None:
        """Fills a snapshot with the files of a box's root disk."""
        ...

    def wipe(self, volume: str, /) -> None:
        """Deletes the files of a volume; does nothing for an unknown one."""
        ...

    def tell_time(self) -> None:
        """Tells every box that the clock was moved; returns when its clocks show it."""
        ...

    def notice_interruption(self, id_: str, at: datetime, /) -> None:
        """Tells the box through its metadata that it will be taken away."""
        ...

    def close(self) -> None:
        """Ends all boxes' processes."""
        ...


class Dials:
    """What the control API has set: pace, the caller's address, and what is reviewed. Persistent."""

    def __init__(self, database: Database) -> None:
        self._database = database
        kept: dict[str, Any] = database.setting("pace") or {}
        self.pace = Pace(**kept)
        self.caller_address: str = database.setting("caller_address") or CALLER_ADDRESS
        self.review = Review(database.setting("review") or Review.OWN)

    def set_pace(self, changes: Mapping[str, Any]) -> None:
        """Changes some of the pace's fields."""
        self.pace = replace(self.pace, **changes)
        self._database.keep_setting("pace", asdict(self.pace))

    def set_review(self, review: Review) -> None:
        """Changes which requests the reviewers examine."""
        self.review = review
        self._database.keep_setting("review", review)

    def set_caller_address(self, address: str) -> None:
        """Moves the caller to another address."""
        self.caller_address = address
        self._database.keep_setting("caller_address", address)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the emulators share. ``token`` gives fresh random hexadecimal digits.

    ``box_environ`` is in the environment of every box: an emulator adds what its own server needs there.
    """

    folder: Path
    database: Database
    clock: Clock
    ledger: Ledger
    market: Market
    dials: Dials
    addresses: AddressPool
    boxes: BoxHost
    box_environ: dict[str, str] = field(default_factory=dict[str, str])
    token: Callable[[int], str] = field(default=lambda digits: secrets.token_hex((digits + 1) // 2)[:digits])


class Emulator(Protocol):
    """One emulated cloud."""

    @property
    def name(self) -> str:
        """The cloud's short name, as in the market's data."""
        ...

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS settings of its server; ``None`` if the vendor's SDK accepts plain HTTP."""
        ...

    @property
    def controls(self) -> Mapping[str, Control]:
        """The settings that only this cloud has (reservations, quotas), by name."""
        ...

    def environment(self, origin: str, /) -> Mapping[str, str]:
        """The environment variables that point the vendor's SDK, and gpucloud, at ``origin``."""
        ...

    @property
    def unexported(self) -> frozenset[str]:
        """The variables that a user's shell must not have: tools refuse them beside the others."""
        ...

    def identify(self, request: Request, /) -> Call:
        """Which call this is."""
        ...

    def answer(self, request: Request, call: Call, /) -> Response:
        """Does what the call asks and answers it, errors included, in the cloud's own wire format."""
        ...

    def fail(self, call: Call, fault: Fault, /) -> Response:
        """The answer that a fault of kind ``error`` or ``throttle`` makes."""
        ...

    def admits(self, box: str, port: int, source: str, /) -> bool:
        """Whether a running instance's firewall lets ``source`` in on ``port``."""
        ...

    def tick(self) -> None:
        """Advances the cloud to its present time: transitions, interruptions."""
        ...

    def resume(self) -> None:
        """Boots the instances that were alive when the process ended."""
        ...

    def power_off(self, box: str, /) -> None:
        """The guest of an instance powered itself off."""
        ...

    @property
    def notice_s(self) -> float:
        """How many seconds before a spot interruption the cloud announces it."""
        ...

    def interrupt(self, instance: str, at: datetime, /) -> None:
        """Schedules the interruption of a spot instance.

        Raises:
            UnknownResourceError: it is no running spot instance of this cloud.
        """
        ...

    def reset(self) -> None:
        """Forgets everything and ends all instances."""
        ...
