"""Which objects of an attempt are deleted: never one of a kept set, and never one outside of the attempt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucloud.runs.retention import superseded
from gpucloud_templates.checkpoints.manifest import DamagedError, checked, objects

SETS = {
    1: {"1/model": 5, "1/fixed": 1},
    2: {"2/model": 5, "1/fixed": 1},
    3: {"3/model": 5, "1/fixed": 1},
    4: {"4/model": 6, "1/fixed": 1},
}
THERE = {name: size for each in SETS.values() for name, size in each.items()}
GONE = ["1/model", "2/model", "sets/1.json", "sets/2.json"]


def test_what_only_superseded_sets_have_goes_and_their_manifests_last() -> None:
    assert superseded(SETS, SETS[4], THERE, 2) == GONE
    assert superseded(SETS, SETS[4], THERE, 1) == [*GONE[:2], "3/model", *GONE[2:], "sets/3.json"]
    assert superseded(SETS, SETS[4], THERE, 4) == []


def test_a_deletion_that_was_cut_off_goes_on() -> None:
    left = {name: size for name, size in THERE.items() if name != "1/model"}
    assert superseded(SETS, SETS[4], left, 2) == GONE[1:]


@pytest.mark.parametrize("missing", ["4/model", "1/fixed"])
def test_nothing_goes_while_the_newest_set_is_not_whole(missing: str) -> None:
    assert superseded(SETS, SETS[4], {**THERE, missing: 9}, 1) == []
    there = {name: size for name, size in THERE.items() if name != missing}
    assert superseded(SETS, SETS[4], there, 1) == []
    assert superseded({**SETS, 5: None}, SETS[4], THERE, 1) == [], "its manifest is damaged"


def test_a_set_that_is_not_whole_does_not_count_as_kept_and_loses_nothing() -> None:
    there = {name: size for name, size in THERE.items() if name != "3/model"}
    assert superseded(SETS, SETS[4], there, 2) == ["1/model", "sets/1.json"]


def test_what_no_manifest_lists_stays() -> None:
    there = {**THERE, "1/notes": 3, "5/begun": 3, "results/0/model": 5, "logs/job.log": 5}
    assert superseded(SETS, SETS[4], there, 2) == GONE


def test_only_objects_of_numbered_folders_are_ever_chosen() -> None:
    others = ["../2/1/a", "ended.json", "results/0/a", "sets/2.json", "1/../../2/a", "1/", "1"]
    sets = {1: dict.fromkeys(["1/a", *others], 1), 2: {"2/a": 1}}
    there = dict.fromkeys(["1/a", "2/a", *others], 1)
    assert superseded(sets, (), there, 1) == ["1/a", "sets/1.json"]


NAMES = st.sampled_from(
    [
        "a",
        "b/c",
        "../1/a",
        "/a",
        "sets/2.json",
        "../../2/1/a",
        "a\n",
        "..",
        "",
        "../ended.json",
        "results/0/a",
    ]
)
ENTRIES = st.lists(st.one_of(st.integers(-1, 4), NAMES), min_size=2, max_size=5)
MANIFESTS = st.dictionaries(
    st.integers(1, 5),
    st.builds(lambda files: {"number": 1, "files": files}, st.dictionaries(NAMES, ENTRIES, max_size=3)),
    max_size=5,
)
EVERYTHING = [
    f"{number}/{name}" for number in range(5) for name in ("a", "b/c", "results/0/a", "sets/2.json")
]
OTHERS = ["ended.json", "results/0/a", "logs/job.log", "latest.json", "sets/2.json", "../2/1/a"]


@given(MANIFESTS, st.dictionaries(st.sampled_from(EVERYTHING), st.integers(0, 4)), st.integers(1, 3))
def test_whatever_boxes_write_nothing_that_is_kept_or_not_theirs_goes(
    manifests: dict[int, Any], there: dict[str, int], keep: int
) -> None:
    sets = {number: read(said) for number, said in manifests.items()}
    everything = {**dict.fromkeys(OTHERS, 1), **there}
    gone = superseded(sets, (), everything, keep)
    whole = [
        number
        for number, each in sorted(sets.items(), reverse=True)
        if each and all(everything.get(name) == size for name, size in each.items())
    ]
    assert not gone or whole[0] == max(sets)
    kept = {name for number in whole[:keep] for name in sets[number] or ()}
    listed = {name for each in sets.values() for name in each or ()}
    for name in gone:
        assert name not in kept
        if name.startswith("sets/"):
            assert int(name[5:-5]) not in whole[:keep]
        else:
            assert name in listed
            assert name.split("/")[0].isdecimal()
            assert not {"", ".", ".."} & set(name.split("/"))


def read(said: Any) -> dict[str, int] | None:
    """A manifest as it is read from the store."""
    try:
        return objects(checked(json.dumps(said).encode()))
    except DamagedError:
        return None
