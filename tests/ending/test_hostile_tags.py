"""The five tags as they come in: what gpucloud may have written, and what becomes of the rest."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gpucloud.ending.discovery import begin, finish, refuse_taken_name
from gpucloud.ending.reconcile import settle
from gpucloud.ending.recover import adopt_found
from gpucloud.ending.sweep import SweepReason, end, look, look_again
from gpucloud.errors import UsageError
from gpucloud.journal.events import StateChanged
from gpucloud.journal.lifecycle import BoxState
from gpucloud.purchase.failover import launch
from gpucloud.resources import BadTags, Ref, ResourceKind, Search, Tags, cloud_name
from gpucloud_pricing import Market
from tests.bench import OWNER, Bench
from tests.builders import Clock, some_tags
from tests.memory import BY_NAME_LONG_RUNNING, TOKEN_ATOMIC, VANISHING, MemoryProvider, Temperament

HOSTILE = {
    "box": [
        "",
        "*",
        "@0",
        "-oProxyCommand=x",
        "..",
        "../../etc",
        "b/1",
        "b-1.1",
        "b 1",
        "b-1\n",
        "b-\x1b[2J",
        "\u202eb-1",
        "b\u20111",
        "\uff42-1",
        "b-1\x00",
        "x" * 300,
    ],
    "owner": ["", "*", "u tester", "u-tester\n", "\u0443-tester", "x" * 65],
    "op": ["*", "o 1", "o-1\n", "x" * 65],
    "run": ["*", "r\n1", "$(id)", "x" * 129],
    "expires": ["soon", "2026-13-01T00:00:00Z", "2026-01-06T12:00:00", "2026-01-06", "NONE", "\u0662026"],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in HOSTILE.items() for v in values])
def test_a_value_that_gpucloud_never_writes_makes_the_thing_foreign(name: str, value: str) -> None:
    parsed = Tags.parse({**some_tags().as_dict(), f"gpucloud:{name}": value})
    assert isinstance(parsed, BadTags)
    assert f"gpucloud:{name}" in parsed.wrong
    assert parsed.wrong.isascii()
    assert parsed.wrong.isprintable()
    assert len(parsed.wrong) < 400
    assert parsed.shown[name] == value


def test_what_gpucloud_writes_is_read_as_it_was_written() -> None:
    for tags in (some_tags(), some_tags(run="", expires="none"), some_tags(run="ci/7:a@b=c+d%e")):
        assert Tags.parse(tags.as_dict()) == tags
    assert Tags.parse({"Name": "x"}) is None


@pytest.mark.parametrize("temperament", [TOKEN_ATOMIC, BY_NAME_LONG_RUNNING, VANISHING])
@pytest.mark.parametrize("value", ["*", "", "../b-2", "x" * 300])
def test_a_bad_tag_among_good_ones_is_shown_and_neither_adopted_nor_ended(
    tmp_path: Path, temperament: Temperament, value: str
) -> None:
    clock = Clock()
    bench = Bench(tmp_path, clock, [MemoryProvider.named("aws", temperament=temperament, clock=clock)])
    for name in ("b-1", "b-2", "b-3"):
        context = bench.context()
        box = launch(context, bench.purchase(box=name, name=name))
        context.journal.write(box, StateChanged(state=BoxState.READY))
    cloud = bench.providers[0].cloud
    bad = {item.ref for item in cloud.items.values() if item.tags["gpucloud:box"] == "b-2"}
    for item in cloud.items.values():
        if item.ref in bad:
            item.tags["gpucloud:box"] = value
    clock.sleep(3600)
    lost = replace(bench, folder=tmp_path / "lost")
    lost.folder.mkdir()
    context = lost.context()
    for _ in range(4):  # lists lag
        discovery = finish(context, begin(context, Search(owner=OWNER)))
    assert {resource.ref for resource in discovery.suspects} == bad
    boxes, troubles = adopt_found(context, discovery, Market.load())
    assert ({box.id for box in boxes}, troubles) == ({"b-1", "b-3"}, [])
    assert settle(context) == []
    finds = look(context, owner=OWNER, older_than=timedelta()).finds
    assert {find.resource.ref for find in finds} == bad
    assert not any(find.unwanted for find in finds)
    assert bench.machines() == 3


@pytest.mark.parametrize("temperament", [TOKEN_ATOMIC, BY_NAME_LONG_RUNNING, VANISHING])
def test_a_name_that_lives_in_a_cloud_is_taken_with_an_empty_journal_too(
    tmp_path: Path, temperament: Temperament
) -> None:
    clock = Clock()
    bench = Bench(tmp_path, clock, [MemoryProvider.named("aws", temperament=temperament, clock=clock)])
    launch(bench.context(), bench.purchase(box="b-1", name="x"))
    for item in bench.providers[0].cloud.machines():
        item.spec["name"] = cloud_name("x", "b-1")
    lost = replace(bench, folder=tmp_path / "lost")
    lost.folder.mkdir()
    search = Search(owner=OWNER, machines_only=True)
    for context, name, refused in (
        (lost.context(), "x", True),
        (lost.context(), "y", False),
        (bench.context(), "x", False),
    ):
        for _ in range(4):  # lists lag
            discovery = finish(context, begin(context, search, {"aws": None}))
        assert {resource.ref.kind for resource in discovery.resources} == {ResourceKind.INSTANCE}
        with pytest.raises(UsageError, match="not in this journal") if refused else nullcontext():
            refuse_taken_name(context, name, discovery)


def test_a_sweep_ends_a_second_machine_under_a_boxs_tags_and_leaves_the_box(tmp_path: Path) -> None:
    clock = Clock()
    bench = Bench(tmp_path, clock, [MemoryProvider.named("aws", clock=clock)])
    for name in ("b-1", "b-2"):
        context = bench.context()
        box = launch(context, bench.purchase(box=name, name=name, nodes=2))
        context.journal.write(box, StateChanged(state=BoxState.READY))
        context.journal.release(box)
    copied = bench.providers[0].cloud
    second = [item for item in copied.machines() if item.tags["gpucloud:box"] == "b-2"]
    for item in copied.items.values():
        item.tags["gpucloud:box"] = "b-1"
    for state in (BoxState.DELETING, BoxState.DELETED):
        context.journal.write(box, StateChanged(state=state))
    clock.sleep(3600)
    context = bench.context()
    first = look(context, owner=OWNER, older_than=timedelta())
    machines = {
        find.resource.ref: find.reason
        for find in first.finds
        if find.resource.ref.kind is ResourceKind.INSTANCE
    }
    assert machines == {item.ref: SweepReason.NOT_OF_ITS_BOX for item in second}
    again = look_again(context, first, owner=OWNER, older_than=timedelta())
    assert end(context, again.finds, Market.load()) == []
    assert bench.machines() == 2
    assert context.journal.box("b-1").state is BoxState.READY


def test_a_box_that_fails_in_an_unforeseen_way_keeps_no_other_from_its_settling(tmp_path: Path) -> None:
    """A provider that chokes on one of its cloud's answers."""

    class Choking(MemoryProvider):
        def delete(self, ref: Ref, /) -> None:
            if self.cloud.items[ref.region, ref.id].tags["gpucloud:box"] == "b-1":
                raise ValueError("not even its author knows why")
            super().delete(ref)

    clock = Clock()
    bench = Bench(tmp_path, clock, [MemoryProvider.named("aws", clock=clock)])
    for name in ("b-1", "b-2"):
        box = launch(bench.context(), bench.purchase(box=name, name=name))
        bench.context().journal.release(box)
    bench.kind = Choking
    context = bench.context()
    for box in context.journal.boxes(owner=OWNER):
        context.journal.write(box, StateChanged(state=BoxState.DELETING))
    [trouble] = settle(context, budget_s=600)
    assert "b-1" in trouble.message
    assert context.journal.box("b-2").state is BoxState.DELETED
