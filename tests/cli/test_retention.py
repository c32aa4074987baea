"""Superseded sets of checkpoints go, with the user's rights; the newest whole ones of each attempt stay."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from tests.cli.test_checkpoints import STORES, Store, s3_store
from tests.shell import Shell
from tests.waiting import until

RUN = ("run", "--gpu", "T4", "--cloud", "aws", "--checkpoint-every", "1s")
STEPS = "for i in 1 2 3 4 5; do echo $i >kept/new; mv kept/new kept/step; {wait}; done"
"""Each step waits until its set is in the store, as the test says."""
WAITS = "while [ ! -e go$i ]; do sleep 0.1; done"


def steps(cli: Shell, store: Store, *more: str) -> Any:
    """A run of five steps, each of which is a set of its own."""
    process = cli.start(*RUN, *store.line, *more, "--", "sh", "-c", STEPS.format(wait=WAITS))
    for number in range(1, 6):
        until(partial(has_set, store, number), "a set")
        if number == 1:
            store.put("r1/attempts/1/1/notes", b"of the user")
        [home] = (cli.endpoint.folder / "boxes").glob("*/root/home/gpucloud")
        (home / f"go{number}").touch()
    return cli.finish(process)


def newest(store: Store) -> int:
    return int(json.loads(store.get("r1/attempts/1/latest.json") or b'{"number": 0}')["number"])


def has_set(store: Store, number: int) -> bool:
    return newest(store) >= number


def set_numbers(store: Store) -> list[int]:
    return [number for number in range(1, 9) if store.get(f"r1/attempts/1/sets/{number}.json")]


@pytest.mark.parametrize("kind", STORES)
def test_the_newest_whole_sets_stay_and_what_older_ones_alone_have_goes(cli: Shell, kind: str) -> None:
    store = STORES[kind](cli)
    ran = steps(cli, store)
    assert ran.code == 0, ran.err
    last = newest(store)
    assert set_numbers(store) == [last - 1, last]
    assert "deleted what only superseded sets have" in " ".join(ran.err.split())
    for number in set_numbers(store):
        listed = json.loads(store.get(f"r1/attempts/1/sets/{number}.json") or b"")["files"]
        assert store.get(f"r1/attempts/1/{listed['step'][2]}/step"), number
    assert store.get("r1/attempts/1/1/step") is None
    assert store.get("r1/attempts/1/1/notes") == b"of the user"


def test_all_sets_stay_where_all_are_wanted_and_where_the_user_may_not_delete(cli: Shell) -> None:
    store = s3_store(cli)
    cli.sandbox.fault(
        effect="error", code="AccessDenied", status=403, cloud="aws", action="DeleteObject", times=None
    )
    ran = steps(cli, store)
    assert (ran.code, "superseded sets were not deleted" in " ".join(ran.err.split())) == (0, True)
    assert set_numbers(store) == list(range(1, newest(store) + 1))
    cli.sandbox.clear_faults()
    ran = cli(*RUN, *store.line, "--checkpoint-keep", "all", "--", "true")
    assert ran.code == 0, ran.err
    assert set_numbers(store) == list(range(1, newest(store) + 1)), "another attempt deletes none of these"


def test_what_a_store_holds_is_said_and_goes_when_its_user_says_so(cli: Shell) -> None:
    store = s3_store(cli)
    assert cli(*RUN, *store.line, "--", "sh", "-c", "echo 1 >kept/step").code == 0
    store.put("r1/attempts/1/of-the-user", b"x")
    shown = cli("runs", "show", "r1", "--json").json["store"]
    assert (shown["attempts"], shown["sets"], shown["others"], shown["url"]) == (1, 1, 1, f"{store.url}/r1")
    assert shown["per_month"]["currency"] == "USD"
    assert "1 set of 1 attempt" in cli("runs", "show", "r1").out
    assert cli("spend", "--stores", "--json").json["stores"] == [shown]
    assert "1 set of 1 attempt" in cli("spend", "--stores").err
    for refused in (("runs", "delete", "r1"), ("runs", "delete", "r1", "--checkpoints")):
        assert cli(*refused).code == 2
    deleted = cli("runs", "delete", "r1", "--checkpoints", "--yes", "--json")
    assert (deleted.code, deleted.json["deleted"]["sets"]) == (0, 1), deleted.err
    left = cli("runs", "show", "r1", "--json").json["store"]
    assert (left["objects"], left["others"]) == (0, 1)
    assert store.get("r1/attempts/1/of-the-user") == b"x"


def test_the_checkpoints_of_a_run_that_is_not_over_are_not_deleted(cli: Shell) -> None:
    store = s3_store(cli)
    assert cli(*RUN, *store.short_line, "--detach", "--", "sleep", "600").code == 0
    refused = cli("runs", "delete", "r1", "--checkpoints", "--yes", "--json")
    assert (refused.code, "gpucloud runs cancel r1" in refused.error["hint"]) == (2, True)
    assert cli("runs", "cancel", "r1", "--yes").code == 0
