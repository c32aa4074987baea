"""``--image`` with a snapshot of a box: what it narrows a plan to, and when no box can boot from it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpucloud.errors import UsageError
from gpucloud.journal.events import named
from gpucloud.journal.facts import Facts, Node, Place, SnapshotFacts
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Snapshot
from gpucloud.journal.store import Journal
from gpucloud.planning.own_image import image_id, own_image
from gpucloud.planning.snapshot_plan import plan_snapshot
from gpucloud.resources import ResourceKind, State
from gpucloud.spec.file import load_spec
from gpucloud_pricing import Market
from tests.builders import START, a_box, a_ref, some_tags

BOTH = (ResourceKind.IMAGE, ResourceKind.SNAPSHOT)


def journal_with(
    folder: Path, *, kinds: tuple[ResourceKind, ...] = BOTH, state: BoxState = BoxState.READY
) -> Journal:
    """A journal that knows ``mine``, a snapshot in us-east-1 of 200 GiB, which ends in an hour."""
    journal = Journal.open(folder / "journal.db", lambda: START)
    journal.recover(
        Snapshot,
        id="s-1",
        name="mine",
        tags=some_tags(box="s-1"),
        state=state,
        created_at=START,
        expires_at=START + timedelta(hours=1),
        facts=Facts(
            place=Place(cloud="aws", account="account-1", region="us-east-1"),
            disk_gib=200,
            snapshot=SnapshotFacts(of="x", bootable=True, arch="arm64"),
        ),
        resources=[named(a_ref(kind=kind, id=f"{kind}-1")) for kind in kinds],
    )
    return journal


def wanted(**more: Any) -> Any:
    return load_spec(None, {"gpu": "T4", "image": "mine", "disk": 200, **more})


def test_a_box_that_boots_from_it_is_in_its_region_and_of_its_architecture(tmp_path: Path) -> None:
    journal, spec = journal_with(tmp_path), wanted()
    own = own_image(journal, "u-tester", spec, START)
    assert own is not None
    demand = own.narrowed(spec.demand())
    assert demand.image is not None
    assert (demand.image.cloud, demand.image.region, demand.arch) == ("aws", "us-east-1", "arm64")
    assert image_id(spec, own) == "image-1"


@pytest.mark.parametrize("image", ["pytorch", "ubuntu-22.04", "ami-12345678", "other"])
def test_any_other_name_is_for_the_cloud_to_know(tmp_path: Path, image: str) -> None:
    spec = wanted(image=image)
    assert own_image(journal_with(tmp_path), "u-tester", spec, START) is None
    assert image_id(spec, None) == image


@pytest.mark.parametrize(
    ("known", "more", "after", "words"),
    [
        ({}, {}, timedelta(hours=2), "is past its deadline"),
        ({}, {"disk": 100}, timedelta(), "--disk: 100 GiB is smaller"),
        ({"kinds": BOTH[1:]}, {}, timedelta(), "is of a volume"),
        ({"state": BoxState.DELETING}, {}, timedelta(), "is deleting"),
    ],
)
def test_one_that_cannot_be_booted_is_refused(
    tmp_path: Path, known: dict[str, Any], more: dict[str, Any], after: timedelta, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        own_image(journal_with(tmp_path, **known), "u-tester", wanted(**more), START + after)


@pytest.mark.parametrize(
    ("state", "nodes", "words", "hint"),
    [
        (BoxState.READY, 1, "it runs", "gpucloud stop box-1"),
        (BoxState.STOPPED, 2, "it has 2 nodes", "gpucloud list"),
        (BoxState.STARTING, 1, "its state is starting", "gpucloud list"),
    ],
)
def test_only_a_stopped_box_of_one_node_is_copied(state: BoxState, nodes: int, words: str, hint: str) -> None:
    machines = tuple(Node(instance_id=f"i-{number}", state=State.STOPPED) for number in range(nodes))
    market = Market.build(types=[], offers=[], tariffs=[], rates=[])
    with pytest.raises(UsageError, match=words) as refused:
        plan_snapshot(market, a_box(state=state, nodes=machines), name="mine", keep=timedelta(days=1))
    assert hint in str(refused.value.hint)
