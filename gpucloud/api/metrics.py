"""Metrics for Prometheus: ``client.metrics``."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from gpucloud.api.budgets import Budgets
from gpucloud.api.prices import MOST_PRICES, Prices, gpus_of
from gpucloud.boxes.connection import target_of
from gpucloud.config import write_whole
from gpucloud.costs.spend import Charge, first_of_month, spend_of, totals_of
from gpucloud.ending.pending import pending_deletions
from gpucloud.errors import UsageError
from gpucloud.journal.leases import claim
from gpucloud.journal.lifecycle import OVER, BoxState, Claim
from gpucloud.journal.records import Box, Holding
from gpucloud.monitor.exposition import Sample, text_of
from gpucloud.monitor.money import money_samples
from gpucloud.monitor.scraping import FRESH_S, Scraper
from gpucloud.monitor.server import serving
from gpucloud.monitor.targets import Targets, targets

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.costs.budgets import Standing
    from gpucloud_pricing.values import Money, Price

SUMS_FRESH_S = 60.0
"""How long sums of the month and of budgets are used again: they take all boxes of the journal."""
TARGETS = "targets.json"


T = TypeVar("T")


@dataclass(slots=True)
class _Kept(Generic[T]):
    """A value that is computed again after a while; one thread computes, and the others wait."""

    compute: Callable[[], T]
    fresh_s: float
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: tuple[float, T] | None = None

    def value(self) -> T:
        with self._lock:
            if self._known is None or time.monotonic() >= self._known[0]:
                value = self.compute()
                self._known = time.monotonic() + self.fresh_s, value
            return self._known[1]


class _SlowFigures(NamedTuple):
    """What takes long to read: the spending of the month by cloud, budgets, prices of the GPUs in use."""

    spent: Mapping[str, Sequence[Money]]
    budgets: Sequence[Standing]
    watched: Mapping[str, Sequence[Price]]


class Metrics:
    """What Prometheus may know of one client's boxes. Safe to use from several threads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._scraper = Scraper()
        self._sums = _Kept(self._read_sums, SUMS_FRESH_S)
        self._samples = _Kept(self._read, FRESH_S)

    def samples(self) -> Sequence[Sample]:
        """The metrics of the journal, at most ten seconds old. Asks no cloud and no box."""
        return self._samples.value()

    def text(self) -> str:
        """:meth:`samples` in Prometheus' text format."""
        return text_of(self.samples())

    def targets(self, address: str) -> Targets:
        """Where Prometheus finds the metrics of the boxes that are up: at a server of :meth:`serving`.

        Args:
            address: host and port of the server.
        """
        return targets(self._session.journal.boxes(owner=self._session.owner), address)

    def write_targets(self, folder: Path, address: str) -> Path:
        """Writes :meth:`targets` to ``targets.json`` in a folder, for file service discovery; returns it.

        Raises:
            UsageError: it cannot be written.
        """
        file = folder / TARGETS
        write_whole(file, json.dumps(self.targets(address), indent=2) + "\n", mode=0o644)
        return file

    def box_text(self, box: str, node: int = 0) -> str:
        """The metrics that the guard of a node wrote, over ssh; known names alone, at most ten seconds old.

        Args:
            box: the id of the box.
            node: the number of the node.

        Raises:
            UsageError: there is no such living box or node.
            GpucloudError: it did not answer within five seconds.
        """
        session = self._session
        found = session.journal.known(Box, [box])
        if not found or found[0].owner not in session.owners or found[0].state in OVER:
            raise UsageError(f"there is no box with the id {box[:40]!r}")
        return self._scraper.text(target_of(found[0], node, session.state, session.proxy_command))

    @contextmanager
    def serving(self, port: int = 0, *, token: str | None = None) -> Generator[str]:
        """Answers Prometheus on loopback while the body runs: ``/metrics``, ``/sd``, ``/box/ID/metrics``.

        Args:
            port: the port; 0 for any.
            token: what a caller must send as ``Authorization: Bearer``; ``None`` for nothing.

        Yields:
            The address: host and port.

        Raises:
            UsageError: the port cannot be used.
        """
        with serving(self, port, token) as address:
            yield address

    # --- inside

    def _read(self) -> Sequence[Sample]:
        session, journal = self._session, self._session.journal
        holdings = journal.holdings(Holding, owner=session.owner)
        cursor = journal.last()
        events, _ = journal.since(cursor - 1, most=1)
        left = {box.id: len(pending_deletions(journal, box)) for box in holdings if self._should_be_gone(box)}
        return list(
            money_samples(
                holdings,
                left,
                *self._sums.value(),
                last_event=events[-1].at if events else None,
                now=session.now(),
                billing_of=session.billing_of,
            )
        )

    def _should_be_gone(self, holding: Holding) -> bool:
        """Whether a box was to be deleted, or was left unfinished by a process that is no more."""
        if holding.state is BoxState.DELETING:
            return True
        return holding.is_remains and claim(holding.lease, self._session.journal.now()) is not Claim.HELD

    def _read_sums(self) -> _SlowFigures:
        session = self._session
        gpus = gpus_of(session.journal.boxes(owner=session.owner))
        trends, _ = Prices(session).of_gpus(gpus, each=MOST_PRICES)
        return _SlowFigures(
            self._read_spent(),
            Budgets(session).list(),
            {gpu: [spans[-1].price for spans in found.series.values()] for gpu, found in trends.items()},
        )

    def _read_spent(self) -> dict[str, list[Money]]:
        session = self._session
        now = session.now()
        boxes = session.journal.holdings(Holding, owner=session.owner, over=True)
        charges: dict[str, list[Charge]] = defaultdict(list)
        for charge in spend_of(boxes, first_of_month(now), now, session.billing_of).charges:
            charges[charge.holding.cloud].append(charge)
        return {cloud: totals_of(each) for cloud, each in charges.items()}


def write_files(folder: Path) -> list[Path]:
    """Writes alert rules, examples of configuration and a dashboard for Grafana into a folder.

    Raises:
        UsageError: a file cannot be written.
    """
    written: list[Path] = []
    for source in sorted(files("gpucloud_templates").joinpath("prometheus").iterdir(), key=str):
        file = folder / source.name
        write_whole(file, source.read_text(encoding="utf-8"), mode=0o644)
        written.append(file)
    return written
