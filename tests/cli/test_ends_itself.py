"""A detached run with a store needs nobody: its box stores what it leaves, and ends itself where it can."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.cli.test_box_identity import ROLE
from tests.cli.test_checkpoints import STORES, Store, s3_store
from tests.cli.test_fetch import ONCE, free, in_the_way, tries_again
from tests.shell import Shell
from tests.waiting import until

RUN = ("run", "--gpu", "T4", "--ttl", "2h", "--detach", "--restarts", "10", "--fetch", "out:here/")
ATTACHED = ("run", "--gpu", "T4", "--cloud", "aws", "--spot", "--restarts", "3", "--fetch", "out:here/")
ENDED, RESULT = "r1/attempts/1/ended.json", "r1/attempts/1/results/0/out"


def begins(cli: Shell, store: Store, *more: str, cloud: str = "aws") -> Any:
    ran = cli(*RUN, "--cloud", cloud, *store.short_line, *more)
    assert ran.code == 0, ran.err
    return ran


def ends_itself(cli: Shell) -> None:
    """Nobody has looked: the bill has ended all the same."""
    until(lambda: cli.billed() == [], "a box that ends itself")


def show(cli: Shell) -> Any:
    return cli("runs", "show", "r1", "--json").json["run"]


@pytest.mark.parametrize(("cloud", "kind", "identity"), [("aws", "s3", ()), ("azure", "az", ROLE)])
def test_a_box_that_ended_itself_was_no_loss_and_its_results_come_home(
    cli: Shell, cloud: str, kind: str, identity: tuple[str, ...]
) -> None:
    store = STORES[kind](cli)
    said = begins(cli, store, *identity, *ONCE, cloud=cloud).err
    assert "ends itself" in " ".join(said.split())
    ends_itself(cli)
    looked = cli("tend", "--json")
    assert (looked.code, looked.json["runs"][0]["did"]) == (0, "ended"), looked.out
    assert (cli.home / "here/out").read_text() == "ran\n"
    assert (show(cli)["state"], show(cli)["exit_code"], show(cli)["restarts"]) == ("ended", 0, 0)
    assert store.get("r1/attempts/1/logs/job.log") is None, "it has said nothing"
    assert cli.billed() == []


def test_a_run_that_is_waited_for_runs_no_command_again_whose_end_is_stored(cli: Shell) -> None:
    """Its box is lost before anybody here has heard of the end."""
    store = s3_store(cli)
    process = cli.start(*ATTACHED, *store.short_line, "--", "sh", "-c", "echo begun; sleep 600")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    files = {"out": [4, 1]}
    result = {"asked": "out", "path": "out", "folder": False, "files": files, "links": {}, "outside": {}}
    record = {"run": "r1", "attempt": 1, "exit_code": 0, "timed_out": False, "absent": [], "left_out": []}
    store.put(RESULT, b"ran\n")
    store.put(ENDED, json.dumps({**record, "results": [result]}).encode())
    [machine] = {each["id"] for each in cli.billed()}
    cli.sandbox.interrupt(machine, notice_s=0)
    ended = cli.finish(process)
    assert ended.code == 0, ended.err
    assert (cli.home / "here/out").read_text() == "ran\n"
    assert (show(cli)["state"], show(cli)["exit_code"], show(cli)["restarts"]) == ("ended", 0, 0)
    assert cli.billed() == []


def test_results_wait_in_the_store_until_there_is_a_place_for_them(cli: Shell) -> None:
    store = s3_store(cli)
    begins(cli, store, *ONCE)
    ends_itself(cli)
    in_the_way(cli)
    for _ in range(2):
        looked = cli("tend", "--json")
        assert (looked.code, looked.json["runs"]) == (8, [])
        assert (
            "its results are in s3://lab/team/r1/attempts/1/results" in looked.json["troubles"][0]["message"]
        )
    assert (show(cli)["state"], show(cli)["exit_code"]) == ("fetching", 0)
    free(cli)
    fetched = cli("runs", "fetch", "r1")
    assert fetched.code == 0, fetched.err
    assert "s3://lab/team/r1/attempts/1/results" in fetched.err
    assert (cli.home / "here/out").read_text() == "ran\n"
    assert (show(cli)["state"], show(cli)["exit_code"]) == ("ended", 0)


@pytest.mark.parametrize("kind", ["az", "oss"])
def test_a_box_that_cannot_end_its_own_bill_has_stored_what_it_leaves(cli: Shell, kind: str) -> None:
    """Its cloud takes it back before anybody has looked: the command is not run again."""
    store = STORES[kind](cli)
    said = begins(cli, store, "--spot", *ONCE, cloud="alibaba").err
    assert "It cannot end its own bill" in " ".join(said.split())
    until(lambda: store.get(ENDED), "the record of the end")
    [machine] = {each["id"] for each in cli.billed()}
    cli.sandbox.interrupt(machine, notice_s=0)
    until(lambda: cli.billed() == [], "the interruption")
    looked = cli("tend", "--json")
    assert (looked.code, looked.json["runs"][0]["did"]) == (0, "ended"), looked.out
    assert (cli.home / "here/out").read_text() == "ran\n"
    assert show(cli)["restarts"] == 0


def test_a_command_that_asks_for_a_restart_gets_one_though_its_box_ended_itself(cli: Shell) -> None:
    store = s3_store(cli)
    begins(cli, store, "--", "sh", "-c", "[ $GPUCLOUD_RESTARTS = 1 ] || exit 75; echo again >out")
    ends_itself(cli)
    assert cli("tend", "--json").json["runs"][0]["did"] in {"lost", "restarted"}
    until(lambda: show(cli)["restarts"] == 1 and cli.billed() == [], "the second one")
    assert cli("tend").code == 0
    assert (cli.home / "here/out").read_text() == "again\n"


def altered(store: Store, name: str, **changes: Any) -> None:
    found = store.get(name)
    assert found is not None
    store.put(name, json.dumps({**json.loads(found), **changes}).encode())


def test_what_is_damaged_in_the_store_is_said_and_harms_nothing_here(cli: Shell) -> None:
    store = s3_store(cli)
    begins(cli, store, *ONCE)
    ends_itself(cli)
    store.put(RESULT, b"something longer")
    looked = cli("tend", "--json")
    assert looked.code == 0, "there is nothing to wait for"
    assert "bytes" in looked.json["runs"][0]["message"]
    assert (show(cli)["state"], show(cli)["exit_code"]) == ("failed", 0)
    assert show(cli)["failure"]["class"] == "not_fetched"
    assert not (cli.home / "here/out").exists()
    assert list((cli.home / "here").iterdir()) == []


@pytest.mark.parametrize("changes", [{"run": "r2"}, {"attempt": 2}, {"results": [{"asked": "out"}]}])
def test_a_record_that_cannot_be_believed_ends_no_run(cli: Shell, changes: dict[str, Any]) -> None:
    store = s3_store(cli)
    begins(cli, store, *ONCE)
    ends_itself(cli)
    altered(store, ENDED, **changes)
    looked = cli("tend", "--json")
    assert "ended.json of attempt 1" in looked.err
    assert (show(cli)["state"], show(cli)["failure"]["class"]) == ("failed", "box_lost")


def test_a_store_that_refuses_leaves_a_run_as_it_is(cli: Shell) -> None:
    """It may have ended: nothing is bought for it before that is known."""
    store = s3_store(cli)
    begins(cli, store, *ONCE)
    ends_itself(cli)
    denied = {"code": "AccessDenied", "status": 403, "action": "GetObject"}
    cli.sandbox.fault(effect="error", cloud="aws", times=None, **denied)
    looked = cli("tend", "--json")
    assert (looked.code, looked.json["runs"]) == (4, [])
    assert "AccessDenied" in looked.json["troubles"][0]["message"]
    assert show(cli)["state"] == "running"
    cli.sandbox.clear_faults()
    assert cli("tend").code == 0
    assert (cli.home / "here/out").read_text() == "ran\n"


def test_another_machine_takes_results_out_of_the_store_alone(cli: Shell) -> None:
    """It has neither the journal nor the keys, and the run is not over where they are."""
    store = s3_store(cli)
    begins(cli, store, *ONCE)
    ends_itself(cli)
    elsewhere, shared = str(cli.home / "elsewhere"), str(cli.home / "sandbox")
    own = {"GPUCLOUD_HOME": elsewhere, "GPUCLOUD_SANDBOX_HOME": shared}
    unknown = cli("runs", "fetch", "r2", "--from", store.url, **own)
    assert (unknown.code, "no results of run 'r2'" in unknown.err) == (2, True)
    fetched = cli("runs", "fetch", "r1", "out:there/", "--from", store.url, "--json", **own)
    assert (fetched.code, fetched.json["run"]) == (0, None), fetched.err
    assert (cli.home / "there/out").read_text() == "ran\n"
    assert cli("runs", "fetch", "r1", "--from", store.url, **own).code == 0
    assert (cli.home / "out").read_text() == "ran\n"
    record = json.loads(store.get(ENDED) or b"")
    folder = {**record["results"][0], "folder": True, "outside": {"away": "/etc/passwd"}}
    altered(store, ENDED, results=[folder])
    linked = cli("runs", "fetch", "r1", "out:linked/", "--from", store.url, **own)
    assert "1 link that points out of the folder was not created: away -> /etc/passwd" in linked.err
    assert [each.name for each in (cli.home / "linked/out").iterdir()] == ["out"]


def test_a_run_that_waits_keeps_no_box_for_what_its_store_has(cli: Shell) -> None:
    store = s3_store(cli)
    process = tries_again(cli, "--run-id", "r1", *store.short_line)
    until(lambda: store.get(ENDED), "the record of the end")
    process.send_signal(signal.SIGTERM)
    ended = cli.finish(process)
    assert (ended.code, "its results are in s3://lab/team/r1/attempts/1/results" in ended.err) == (125, True)
    assert cli.billed() == []
    free(cli)
    assert cli("runs", "fetch", "r1").code == 0
    assert (cli.home / "here/out").read_text() == "ran\n"
    assert (show(cli)["state"], show(cli)["exit_code"]) == ("ended", 0)
