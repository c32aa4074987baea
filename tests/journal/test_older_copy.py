"""An older copy of the journal put back: what became ready since is no remainder."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gpucloud.ending.reconcile import settle
from gpucloud.ending.sweep import look
from gpucloud.errors import ErrorClass
from gpucloud.journal.events import StateChanged, ready_note
from gpucloud.journal.facts import Facts, Measured
from gpucloud.journal.lifecycle import BoxState
from gpucloud.purchase.failover import launch
from gpucloud.resources import ResourceKind
from gpucloud.runtime.context import Context
from gpucloud.ssh.keys import create_keys, keep_ready, key_folder
from tests.bench import OWNER, Bench
from tests.builders import Clock
from tests.memory import BY_NAME_LONG_RUNNING, TOKEN_ATOMIC, MemoryProvider, Temperament

pytestmark = pytest.mark.files


def rolled_back(folder: Path, temperament: Temperament, *, became_ready: bool) -> tuple[Bench, Context]:
    """A box that was launched; then the journal of the middle of its launch is put back, a day later."""
    clock = Clock()
    bench = Bench(folder, clock, [MemoryProvider.named("aws", temperament=temperament, clock=clock)])
    context = replace(bench.context(), state=folder)
    box = launch(context, bench.purchase(expires_at=clock() + timedelta(days=7)))
    context.journal.release(box)
    shutil.copy(folder / "journal.db", folder / "copy")
    for side in folder.glob("journal.db-*"):
        shutil.copy(side, folder / side.name.replace("journal.db", "copy"))
    keys = key_folder(folder, box.id)
    create_keys(keys, box.id)
    measured = Measured(gpus={"Tesla T4": 1}, driver="1", boot_seconds={})
    context.journal.write(box, StateChanged(state=BoxState.READY, facts=Facts(measured=measured)))
    if became_ready:
        keep_ready(keys, ready_note(context.journal.box(box.id).known))
    for copy in folder.glob("copy*"):
        copy.replace(folder / copy.name.replace("copy", "journal.db"))
    clock.sleep(3600)
    return bench, replace(bench.context(), state=folder)


@pytest.mark.parametrize("temperament", [TOKEN_ATOMIC, BY_NAME_LONG_RUNNING])
def test_what_was_ready_is_taken_as_it_was_and_not_taken_down(
    tmp_path: Path, temperament: Temperament
) -> None:
    bench, context = rolled_back(tmp_path, temperament, became_ready=True)
    assert context.journal.box("b-1").state is BoxState.BOOTSTRAPPING
    assert settle(context) == []
    box = context.journal.box("b-1")
    assert (box.state, box.measured and box.measured.driver, box.lease) == (BoxState.READY, "1", None)
    assert bench.machines() == 1
    assert not any(find.unwanted for find in look(context, owner=OWNER, older_than=timedelta()).finds)


def test_a_sweep_does_not_list_what_was_ready_either(tmp_path: Path) -> None:
    _, context = rolled_back(tmp_path, TOKEN_ATOMIC, became_ready=True)
    assert not any(find.unwanted for find in look(context, owner=OWNER, older_than=timedelta()).finds)


def test_what_never_became_ready_is_a_remainder_as_before(tmp_path: Path) -> None:
    bench, context = rolled_back(tmp_path, TOKEN_ATOMIC, became_ready=False)
    assert settle(context, budget_s=600) == []
    assert bench.machines() == 0


def test_what_was_ready_and_is_gone_is_a_remainder(tmp_path: Path) -> None:
    bench, context = rolled_back(tmp_path, TOKEN_ATOMIC, became_ready=True)
    [machine] = bench.providers[0].cloud.machines()
    bench.providers[0].cloud.end(machine.ref)
    settle(context, budget_s=600)
    assert context.journal.box("b-1").state is BoxState.FAILED
    assert bench.billed() == []


def test_nothing_is_taken_down_while_the_cloud_does_not_tell(tmp_path: Path) -> None:
    bench, context = rolled_back(tmp_path, TOKEN_ATOMIC, became_ready=True)
    cloud = bench.providers[0].cloud
    cloud.fail("get", cloud.say(ErrorClass.AUTH), times=1)
    [trouble] = settle(context)
    assert "not allowed" in trouble.message or "as the test says" in trouble.message
    assert [item.ref.kind for item in cloud.machines()] == [ResourceKind.INSTANCE]
    assert settle(context) == []
    assert context.journal.box("b-1").state is BoxState.READY
