"""The files of a command that has ended come home, or their box stays: it is never run again."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.forked import Forked
from tests.shell import Shell

RUN = ("run", "--gpu", "T4", "--cloud", "aws", "--ttl", "2h", "--run-id", "r")
ONCE = ("--", "sh", "-c", "echo ran >>ran; cp ran out")


def the_run(cli: Shell) -> Any:
    return cli("runs", "show", "r", "--json").json["run"]


def in_the_way(cli: Shell) -> None:
    """A file is where the folder of the files was."""
    (cli.home / "here").rmdir()
    (cli.home / "here").write_text("in the way")


def free(cli: Shell) -> None:
    (cli.home / "here").unlink()


def tries_again(cli: Shell, *more: str) -> Forked:
    """A run whose command has ended, and whose files cannot be copied."""
    process = cli.start(*RUN, *more, "--fetch", "out:here/", *ONCE)
    assert isinstance(process, Forked)
    for line in process.stderr:
        if "  job  " in line:
            in_the_way(cli)
        if "trying again" in line:
            return process
    raise AssertionError(process.communicate())


def is_kept(cli: Shell, least: timedelta, most: timedelta) -> None:
    [box] = cli.boxes()
    left = datetime.fromisoformat(box["expires_at"]) - datetime.now(UTC)
    assert least < left <= most
    assert (the_run(cli)["state"], the_run(cli)["exit_code"]) == ("fetching", 0)


def is_home(cli: Shell) -> None:
    """The file is here, written by one command; nothing is billed."""
    assert (cli.home / "here" / "out").read_text() == "ran\n"
    assert cli.sandbox.status()["billing"] == []
    assert (the_run(cli)["state"], the_run(cli)["exit_code"]) == ("ended", 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_copies_keeps_the_box_and_nothing_runs_again(
    cli: Shell, number: signal.Signals
) -> None:
    process = tries_again(cli, "--restarts", "10", "--json")
    process.send_signal(number)
    ended = cli.finish(process)
    assert (ended.code, ended.error["class"]) == (125, "not_fetched")
    assert "the command ended with exit code 0; 'out' was not fetched" in ended.error["message"]
    assert "per hour" in ended.error["message"]
    assert ended.error["hint"].endswith("gpucloud runs fetch r")
    is_kept(cli, timedelta(hours=1, minutes=50), timedelta(hours=2))
    again = cli(*RUN, "--", "true", "--json")
    assert again.code == 125, "its id is in use"
    free(cli)
    assert cli("runs", "fetch", "r").code == 0
    is_home(cli)
    assert cli("runs", "fetch", "r").code == 2, "nothing is waiting any more"


def test_a_run_that_is_killed_while_it_copies_loses_nothing(cli: Shell) -> None:
    """Neither the next command nor a look takes its box for one that nobody needs."""
    process = tries_again(cli)
    process.kill()
    process.communicate()
    assert cli("down", "--run-id", "nobody").code == 0
    looked = cli("tend", "--json")
    assert (looked.code, looked.json["runs"]) == (8, [])
    assert "'out' was not fetched" in looked.json["troubles"][0]["message"]
    is_kept(cli, timedelta(hours=1, minutes=50), timedelta(hours=2))
    free(cli)
    looked = cli("tend", "--json")
    assert (looked.code, looked.json["runs"][0]["did"]) == (0, "ended"), looked.out
    is_home(cli)


def test_what_was_not_written_keeps_the_box_for_half_an_hour(cli: Shell) -> None:
    ran = cli(*RUN, "--fetch", "otu:here/", "--json", *ONCE)
    assert (ran.code, ran.error["class"]) == (125, "not_fetched")
    is_kept(cli, timedelta(minutes=28), timedelta(minutes=30))
    assert cli("runs", "fetch", "r", "out:here/").code == 0
    is_home(cli)


def test_a_box_that_ends_with_files_of_a_run_is_told(own_clouds: Shell) -> None:
    assert own_clouds(*RUN, "--fetch", "nothing", "--", "true").code == 125
    own_clouds.sandbox.clock(advance_s=3600)
    assert own_clouds("tend").code == 0
    run = the_run(own_clouds)
    assert (run["state"], run["exit_code"], run["failure"]["class"]) == ("failed", 0, "not_fetched")
    assert own_clouds.sandbox.status()["billing"] == []


def test_a_look_keeps_the_box_of_a_detached_run_until_its_files_are_here(cli: Shell) -> None:
    assert cli(*RUN, "--detach", "--fetch", "out:here/", *ONCE).code == 0
    in_the_way(cli)
    for _ in range(2):
        looked = cli("tend", "--json")
        if looked.code == 0:  # its command had not ended
            looked = cli("tend", "--json")
        assert (looked.code, looked.json["runs"]) == (8, [])
    is_kept(cli, timedelta(hours=1, minutes=50), timedelta(hours=2))
    free(cli)
    assert cli("tend").code == 0
    is_home(cli)


@pytest.mark.parametrize("place", ["taken/", "taken/file"])
def test_where_nothing_can_be_written_nothing_is_bought(cli: Shell, place: str) -> None:
    (cli.home / "taken").write_text("")
    refused = cli(*RUN, "--fetch", f"out:{place}", "--json", *ONCE)
    assert refused.error["class"] == "usage"
    assert "nothing can be copied to" in refused.error["message"]
    assert cli.changes_asked() == []


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_folder_comes_as_a_folder_and_what_is_here_keeps_its_mode(cli: Shell, slash: str) -> None:
    (cli.home / "out").mkdir(mode=0o755)
    before = cli.home.stat().st_mode
    script = "mkdir -m 700 -p out/deep; echo 1 >out/deep/file; chmod 700 out; echo 2 >out/file"
    ran = cli(*RUN, "--fetch", f"out{slash}", "--", "sh", "-c", script)
    assert ran.code == 0, ran.err
    assert (cli.home / "out" / "deep" / "file").read_text() == "1\n"
    assert (cli.home / "out" / "file").read_text() == "2\n"
    assert (cli.home.stat().st_mode, (cli.home / "out").stat().st_mode & 0o777) == (before, 0o755)
