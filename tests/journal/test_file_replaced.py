"""The journal deleted, moved or replaced under a command: it is noticed, nothing is left, and it is said."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpucloud.clouds.provider import Record
from gpucloud.journal.errors import JournalError
from gpucloud.journal.events import StateChanged
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.store import Journal
from gpucloud.purchase.failover import launch
from gpucloud.resources import Machine, Order, Request
from tests.bench import Bench
from tests.builders import Clock
from tests.memory import MemoryProvider


def delete(file: Path) -> None:
    for each in file.parent.glob("journal.db*"):
        each.unlink()


def move(file: Path) -> None:
    (file.parent / "aside").mkdir()
    for each in list(file.parent.glob("journal.db*")):
        each.rename(file.parent / "aside" / each.name)


def replace_by_a_copy(file: Path) -> None:
    copy = file.with_name("copy")
    shutil.copy(file, copy)
    copy.replace(file)


pytestmark = pytest.mark.files
ATTACKS = [delete, move, replace_by_a_copy]
Attack = Callable[[Path], None]


@dataclass
class Attacked(MemoryProvider):
    """Another process attacks the journal before or after a call of ours."""

    when: str
    attack: Callable[[], None]

    def prepare(self, order: Order, record: Record, /) -> Request:
        self._strike("before prepare")
        return super().prepare(order, record)

    def create(self, request: Request, /) -> Sequence[Machine]:
        self._strike("before create")
        machines = super().create(request)
        self._strike("after create")
        return machines

    def _strike(self, when: str) -> None:
        if when == self.when:
            self.when = "never again"
            self.attack()


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("when", ["before prepare", "before create", "after create"])
def test_a_launch_whose_journal_is_attacked_leaves_nothing_and_says_so(
    tmp_path: Path, attack: Attack, when: str
) -> None:
    clock = Clock()
    file = tmp_path / "journal.db"

    def attacked(cloud: object) -> MemoryProvider:
        provider = Attacked(when, lambda: attack(file))
        provider.cloud = cloud  # type: ignore[assignment]
        return provider

    bench = Bench(tmp_path, clock, [MemoryProvider.named("aws", clock=clock)], kind=attacked)  # type: ignore[arg-type]
    with pytest.raises(JournalError, match="deleted, moved or replaced"):
        launch(bench.context(), bench.purchase())
    assert bench.billed() == []
    assert any("deleting the box anyway" in text for _, text in bench.lines)


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_is_committed_to_a_journal_that_nobody_will_read(tmp_path: Path, attack: Attack) -> None:
    clock = Clock()
    bench = Bench(tmp_path, clock, [MemoryProvider.named("aws", clock=clock)])
    journal = bench.context().journal
    box = launch(bench.context(), bench.purchase())
    attack(tmp_path / "journal.db")
    with pytest.raises(JournalError, match="deleted, moved or replaced"):
        journal.write(box, StateChanged(state=BoxState.READY))
    if (tmp_path / "journal.db").exists():
        assert Journal.open(tmp_path / "journal.db", clock).box(box.id).state == box.state
