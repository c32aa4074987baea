"""The files of a command that has ended come home, or their box stays: it is never run again."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.forked import Forked
from tests.shell import Shell
from tests.terminal import Terminal
from tests.waiting import until

RUN = ("run", "--gpu", "T4", "--cloud", "aws", "--ttl", "2h", "--run-id", "r")
FETCH = "gpucloud runs fetch r"
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


def is_said_everywhere(cli: Shell) -> None:
    """Price, end and command of the box that is kept are in each list, and in their documents."""
    kept = the_run(cli)["kept"]
    [box] = cli.boxes()
    assert (kept["box"], kept["until"], kept["command"]) == (box["name"], box["expires_at"], FETCH)
    assert (kept["per_hour"], box["results_of"]) == (box["per_hour"]["total"], "r")
    assert "'out' was not fetched" in kept["why"]
    for arguments in (("list",), ("runs", "list"), ("runs", "show", "r")):
        said = cli(*arguments).err
        assert f"until {box['expires_at']}, for $" in said, said
        assert FETCH in said


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
    is_said_everywhere(cli)
    again = cli(*RUN, "--json", "--", "true")
    assert (again.code, again.error["class"]) == (125, "not_fetched"), "there is no place for its files yet"
    free(cli)
    assert cli("runs", "fetch", "r").code == 0
    is_home(cli)
    assert cli("runs", "fetch", "r").code == 2, "nothing is waiting any more"


def test_what_can_be_copied_is_here_while_other_paths_wait(cli: Shell) -> None:
    process = tries_again(cli, "--fetch", "out:here/first", "--fetch", "ran:there/", "--json")
    assert (cli.home / "there" / "ran").read_text() == "ran\n"
    process.send_signal(signal.SIGTERM)
    ended = cli.finish(process)
    assert (ended.code, "'ran'" in ended.error["message"]) == (125, False), ended.error
    free(cli)
    assert cli("runs", "fetch", "r").code == 0
    is_home(cli)


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


def test_a_program_that_is_gone_when_the_command_has_ended_keeps_the_box(cli: Shell) -> None:
    """It was there when the box was bought."""
    programs = cli.home / "programs"
    programs.mkdir()
    for name in ("bash", "rsync", "sh", "ssh", "ssh-keygen"):
        found = shutil.which(name)
        assert found is not None, name
        (programs / name).symlink_to(found)
    process = cli.start(*RUN, "--restarts", "3", "--fetch", "out:here/", *ONCE, PATH=str(programs))
    assert isinstance(process, Forked)
    for line in process.stderr:
        if "  job  " in line:
            (programs / "rsync").unlink()
        if "trying again" in line:
            break
    process.send_signal(signal.SIGTERM)
    assert cli.finish(process).code == 125
    is_kept(cli, timedelta(hours=1, minutes=50), timedelta(hours=2))
    assert cli("runs", "fetch", "r").code == 0
    is_home(cli)


def test_what_was_not_written_keeps_the_box_for_half_an_hour(cli: Shell) -> None:
    ran = cli(*RUN, "--fetch", "otu:here/", "--json", *ONCE)
    assert (ran.code, ran.error["class"]) == (125, "not_fetched")
    is_kept(cli, timedelta(minutes=28), timedelta(minutes=30))
    [box] = cli.boxes()
    assert box["expires_at"] in cli("runs", "show", "r").out
    assert " 2 h" not in cli("runs", "list").out, "the time that the run had is not what is left"
    assert cli("runs", "fetch", "r", "out:here/").code == 0
    is_home(cli)


def test_a_budget_that_is_used_up_ends_a_kept_box_and_says_so_before(cli: Shell) -> None:
    budget = ("budget", "set", "lab", "--per", "total", "--action", "down")
    assert cli(*budget, "9").code == 0
    ran = cli(*RUN, "--fetch", "nothing", "--json", "--", "true")
    assert ran.code == 125
    assert "(sooner if budget 'lab' is used up)" in ran.error["message"]
    assert cli(*budget, "0.00001").code == 0
    assert "Budget 'lab' is used up: ending" in cli("tend").err
    assert cli.billed() == []
    assert (the_run(cli)["state"], the_run(cli)["failure"]["class"]) == ("failed", "not_fetched")


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


def test_links_that_point_out_of_a_folder_are_named_and_not_created(cli: Shell) -> None:
    links = "for n in 1 2 3 4 5 6 7; do ln -s /etc/passwd out/$n; done; ln -s 1 out/in"
    script = f"mkdir out; {links}; echo ran >out/out"
    ran = cli(*RUN, "--fetch", "out/:here/", "--", "sh", "-c", script)
    assert ran.code == 0, ran.err
    assert "'out/': 7 links that point out of the folder were not created: 1 -> /etc/passwd, 2" in ran.err
    assert ", …" in ran.err
    assert sorted(each.name for each in (cli.home / "here").iterdir()) == ["in", "out"]


def test_a_path_that_is_a_link_brings_what_it_points_to(cli: Shell) -> None:
    """A box with results on another disk of its own has a link to them, mostly."""
    script = """
        mkdir -p far/res; echo 1 >far/res/a; ln -s /etc/passwd far/res/away
        ln -s "$HOME/far/res" out; ln -s far/res/a last; ln -s out on; mkdir one; echo 2 >one/b; ln -s no gone
    """
    paths = ("out", "last", "last:as", "o*:some/")
    asked = [word for path in paths for word in ("--fetch", path)]
    (cli.home / "out").symlink_to("elsewhere")
    ran = cli(*RUN, *asked, "--keep-on-failure", "--", "sh", "-c", f"{script} exit 3")
    assert ran.code == 3, ran.err
    assert "away -> /etc/passwd" in ran.err
    assert not (cli.home / "out").is_symlink()
    for path, text in {"out/a": "1", "last": "1", "as": "1", "some/on/a": "1", "some/one/b": "2"}.items():
        assert (cli.home / path).read_text() == f"{text}\n", path
        assert not (cli.home / path).is_symlink(), path
    [box] = cli.boxes()
    assert cli("sync", f"{box['name']}:out", "copied").code == 0
    assert (cli.home / "copied" / "out" / "a").read_text() == "1\n"
    dangling = cli("sync", f"{box['name']}:gone", "copied")
    assert (dangling.code, "is a link to what is not there" in dangling.err) == (1, True), dangling.err


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


@pytest.mark.parametrize(("kept", "hours"), [("1h", 1), ("5h", 5)])
def test_the_user_says_how_long_results_are_kept(own_clouds: Shell, kept: str, hours: int) -> None:
    """Shorter or longer than the life of the box. Neither tries in vain nor being idle move its end."""
    cli = own_clouds
    ran = cli(*RUN, "--idle", "10m", "--keep-results", kept, "--fetch", "otu:here/", "--json", *ONCE)
    assert (ran.code, ran.error["class"]) == (125, "not_fetched")
    is_kept(cli, timedelta(hours=hours) - timedelta(minutes=2), timedelta(hours=hours))
    [box] = cli.boxes()
    cli.sandbox.clock(advance_s=1800)
    assert cli("tend").code == 8
    [later] = cli.boxes()
    assert (later["id"], later["expires_at"]) == (box["id"], box["expires_at"])
    cli.sandbox.clock(advance_s=hours * 3600)
    assert cli("tend").code == 0
    assert (the_run(cli)["state"], the_run(cli)["failure"]["class"]) == ("failed", "not_fetched")
    assert cli.sandbox.status()["billing"] == []


def test_the_cleanup_of_a_pipeline_fetches_first_and_leaves_what_it_cannot_copy(cli: Shell) -> None:
    process = tries_again(cli)
    process.send_signal(signal.SIGINT)
    assert cli.finish(process).code == 125
    left = cli("down", "--run-id", "r", "--yes", "--json")
    assert (left.code, left.error["class"]) == (8, "not_fetched"), left.err
    assert "per hour" in left.error["message"]
    assert left.error["hint"].endswith("gpucloud down --run-id r --with-results")
    is_kept(cli, timedelta(hours=1, minutes=50), timedelta(hours=2))
    free(cli)
    assert cli("down", "--run-id", "r", "--yes").code == 0
    is_home(cli)


def test_who_asks_for_it_deletes_results_too(cli: Shell) -> None:
    assert cli(*RUN, "--fetch", "nothing:here/", *ONCE).code == 125
    assert cli("down", "--run-id", "r", "--yes", "--json").error["class"] == "not_fetched"
    assert cli("down", "--run-id", "r", "--yes", "--with-results").code == 0
    assert (the_run(cli)["state"], the_run(cli)["exit_code"]) == ("cancelled", 0)
    assert cli.sandbox.status()["billing"] == []


@pytest.mark.parametrize("how", ["attached", "detached"])
def test_files_come_from_every_node_into_a_folder_of_its_own(cli: Shell, how: str) -> None:
    """What only some of them have written is no failure."""
    script = 'echo "$NODE_RANK" >out; [ "$NODE_RANK" = 1 ] || echo >only'
    pair = ("run", "--gpu", "T4:4", "--cloud", "aws", "--nodes", "2", "--run-id", "r", "--fetch-from", "all")
    detach = ("--detach",) if how == "detached" else ()
    ran = cli(*pair, *detach, "--fetch", "out:here/", "--fetch", "only", "--", "sh", "-c", script)
    assert ran.code == 0, ran.err
    if detach:
        until(lambda: cli("tend").code == 0 and the_run(cli)["state"] == "ended", "the run to end")
    assert [(cli.home / "here" / node / "out").read_text() for node in "01"] == ["0\n", "1\n"]
    assert ((cli.home / "0" / "only").exists(), (cli.home / "1" / "only").exists()) == (True, False)
    assert cli.sandbox.status()["billing"] == []


def test_a_kept_box_of_a_failed_command_stays_when_its_files_have_come(cli: Shell) -> None:
    """And what a look finds of it later does not end it."""
    ran = cli(*RUN, "--keep-on-failure", "--fetch", "ran:here/", "--", "sh", "-c", "echo >ran; exit 3")
    assert ran.code == 3, ran.err
    assert cli("tend").code == 0
    assert (the_run(cli)["state"], the_run(cli)["detached"]) == ("ended", False)
    assert [box["state"] for box in cli.boxes()] == ["ready"]


def test_a_second_ctrl_c_at_a_terminal_deletes_the_box_and_its_files(cli: Shell) -> None:
    command = [sys.executable, "-m", "gpucloud", *RUN, "--fetch", "out:here/", *ONCE]
    terminal = Terminal(command, cli.environ, cli.home)
    terminal.sees("  job  ")
    in_the_way(cli)
    terminal.sees("trying again")
    terminal.type("\x03")
    terminal.sees("is kept until", "Ctrl-C within 5 s deletes it")
    terminal.type("\x03")
    terminal.sees("was deleted, with files that were not fetched")
    assert terminal.end() == 130
    assert (the_run(cli)["state"], the_run(cli)["exit_code"]) == ("cancelled", 0)
    assert cli.sandbox.status()["billing"] == []


def test_output_that_cannot_be_written_ends_neither_the_command_nor_its_results(cli: Shell) -> None:
    script = "echo one; echo two; echo ran >out"
    argv = [sys.executable, "-m", "gpucloud", *RUN, "--fetch", "out:here/", "--", "sh", "-c", script]
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            argv, env=cli.environ, cwd=cli.home, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ran.returncode == 125, ran.stderr
    assert "the command ended with exit code 0, but the answer could not be written" in ran.stderr
    assert ran.stderr.count("the output cannot be written any more: No space left on device") == 1
    assert cli("runs", "logs", "r").out == "one\ntwo\n"
    is_home(cli)


@pytest.mark.parametrize("command", [("down", "--run-id", "r", "--yes"), ("sweep", "--yes"), ("tend",)])
@pytest.mark.parametrize("ends", [True, False], ids=["ended", "runs"])
def test_what_a_killed_run_has_left_is_fetched_before_its_box_is_deleted(
    cli: Shell, command: tuple[str, ...], ends: bool
) -> None:
    """All of it where the command has ended meanwhile; as much as is there where it still runs."""
    go, gone = cli.home / "go", cli.home / "gone"
    script = (
        f"echo part >out; echo begun; until [ -e {go} ]; do sleep 0.1; done; echo whole >out; mv {go} {gone}"
    )
    process = cli.start(*RUN, "--fetch", "out:here/", "--", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.kill()
    process.communicate()
    if ends:
        go.write_text("")
        until(gone.exists, "the command to end")
    done = cli(*command)
    if ends and command == ("sweep", "--yes"):  # it leaves what is to be fetched
        assert cli("runs", "fetch", "r").code == 0
    assert done.code == 0, done.err
    assert (cli.home / "here" / "out").read_text() == ("whole\n" if ends else "part\n")
    assert cli.sandbox.status()["billing"] == []
    run = the_run(cli)
    assert (run["state"], run["exit_code"]) == (("ended", 0) if ends else ("failed", None))


def test_another_machine_of_a_team_fetches_results_once_the_box_was_shared_with_it(cli: Shell) -> None:
    """It has the journal, and neither the keys of the box nor the folder that the files were to go to."""
    assert cli(*RUN, "--fetch", "otu:here/", *ONCE).code == 125
    [box] = cli.boxes()
    key = cli.home / "theirs"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    keys = cli.home / "state-sandbox" / "keys" / box["id"]
    with TemporaryDirectory(prefix="run-") as runtime:  # without the connection that is open
        there = replace(cli, runtime=Path(runtime))
        keys.rename(cli.home / "elsewhere")
        refused = there("runs", "fetch", "r", "out:there/", GPUCLOUD_IDENTITY=str(key))
        assert (refused.code, "gpucloud share" in refused.err) == (8, True), refused.err
        shutil.rmtree(keys, ignore_errors=True)
        (cli.home / "elsewhere").rename(keys)
        assert cli("share", box["name"], "--key", f"{key}.pub").code == 0
        keys.rename(cli.home / "elsewhere")
        fetched = there("runs", "fetch", "r", "out:there/", GPUCLOUD_IDENTITY=str(key))
        assert fetched.code == 0, fetched.err
    assert (cli.home / "there" / "out").read_text() == "ran\n"
    assert cli.sandbox.status()["billing"] == []
