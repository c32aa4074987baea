"""Notices to people: ``client.notices``. Commands send most of them by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from gpucloud.errors import UsageError
from gpucloud.monitor.delivery import FILE, Sent, deliver, try_each
from gpucloud.monitor.notices import (
    Notice,
    Occasion,
    a_test,
    of_price,
    of_unusual_price,
)
from gpucloud.monitor.watching import LAST_S
from gpucloud.runtime.events import Warned

TEST_S = 20.0
"""How long a test waits for channels, which it asks at the same time; each is tried three times."""

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.market.watch import Look


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """What became of a test.

    Attributes:
        channel: the name of the channel.
        kind: its way: ``webhook``, ``slack``, ``smtp`` or ``apprise``.
        occasions: what else it gets.
        error: why it did not take it; ``None`` if it did.
    """

    channel: str
    kind: str
    occasions: tuple[str, ...]
    error: str | None


@dataclass(frozen=True, slots=True)
class Notices:
    """The notices of one client."""

    _session: Session

    def test(self, names: Sequence[str] = ()) -> list[Tested]:
        """Sends a test to each channel, with the tries that any notice has.

        Args:
            names: only to these channels.

        Raises:
            UsageError: there is no channel, or none of a name, or the settings cannot be used.
        """
        channels = self._session.channels()
        if not channels:
            raise UsageError("there is no channel for notices", hint="docs/monitoring.md has an example")
        known = {channel.name: channel for channel in channels}
        if unknown := [name for name in names if name not in known]:
            raise UsageError(f"there is no channel {unknown[0]!r}; there are {', '.join(known)}")
        notice = self._of_here(a_test(f"test:{uuid4().hex}", self._session.now()))
        done: list[Tested] = []
        chosen = list(dict.fromkeys(names or known))
        failures = try_each([known[name] for name in chosen], notice, within_s=TEST_S)
        for name in chosen:
            gets = tuple(each for each in Occasion if each is not Occasion.TEST)
            only = tuple(each for each in gets if not known[name].only or each in known[name].only)
            kind = type(known[name].way).__name__.lower()
            done.append(Tested(channel=name, kind=kind, occasions=only, error=failures.get(name)))
        return done

    def tell_price(self, look: Look, offer: str) -> None:
        """Sends the notice for an offer that has fallen below a limit; what is not sent is a warning.

        Args:
            look: the look that found it.
            offer: the offer, in words.
        """
        if look.offer is None:
            return
        self._tell([of_price(f"price:{uuid4().hex}", offer, look.at, cloud=look.offer.cloud)])

    def tell_unusual(self, look: Look) -> None:
        """Sends the notices for what is wrong with prices; what is not sent is a warning."""
        self._tell([of_unusual_price(each, look.at) for each in look.anomalies])

    def _tell(self, notices: Sequence[Notice]) -> None:
        session = self._session
        deliver(
            session.channels(),
            Sent(session.state / FILE),
            list(map(self._of_here, notices)),
            within_s=LAST_S,
            complain=lambda text: session.on_event(Warned("notify", text)),
        )

    def _of_here(self, notice: Notice) -> Notice:
        return replace(notice, text=f"{self._session.notice_prefix}{notice.text}")
