"""``run --detach`` and ``tend``: a run outlives its process, and never has two boxes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.truth import most_at_once
from tests.cli.test_takeover import CONTAINER, may_unshare
from tests.forked import Forked
from tests.sandbox.running import client
from tests.shell import PROGRAMS, Shell
from tests.waiting import until

DETACH = ("run", "--detach", "--gpu", "T4", "--cloud", "aws", "--spot", "--run-id", "r", "--restarts", "3")
WAITS = ("run", "--detach", "--gpu", "T4", "--zone", "use1-az4", "--run-id", "r", "--wait", "2s")
LONG_AGO = ("2026-01-01T00:00:00+00:00",)
FOREVER = ("--", "sh", "-c", "echo begun; sleep 600")


def the_run(cli: Shell) -> dict[str, Any]:
    """The run as its document."""
    run: dict[str, Any] = cli("runs", "show", "r", "--json").json["run"]
    return run


def tended(cli: Shell) -> tuple[str, str]:
    """One look: what was done for the run."""
    looked = cli("tend", "--json")
    assert looked.code == 0, looked.err
    [done] = looked.json["runs"]
    return done["did"], done["message"]


def interrupt(cli: Shell) -> None:
    """The cloud takes the only box back."""
    [machine] = [each for each in cli.billed() if each["kind"] == "instance"]
    cli.sandbox.interrupt(machine["id"], notice_s=0)


def tended_elsewhere(cli: Shell) -> str:
    """One look from another container, which sees no process of here: what was done for the run."""
    unshare = shutil.which("unshare")
    assert unshare is not None
    line = (Path(unshare), *CONTAINER, PROGRAMS / "gpucloud", "tend", "--json")
    looked = cli.run(*line, GPUCLOUD_SANDBOX="1")
    assert looked.code == 0, looked.err
    [done] = looked.json["runs"]
    return str(done["did"])


def stopped_in_its_launch(cli: Shell) -> subprocess.Popen[str] | Forked:
    """A tender that has bought a box for the run, and does not go on: SIGSTOP."""
    return stopped_at(cli, "  ssh  ")


def ends_with_its_process(cli: Shell) -> bool:
    """Whether the only living box is the remains of a launch once its process has died, by the journal."""
    with closing(sqlite3.connect(cli.home / "state-sandbox" / "journal.db")) as journal:
        found = journal.execute("SELECT document FROM states WHERE kind = 'box'")
        boxes = [json.loads(document) for (document,) in found]
    [box] = [each for each in boxes if each["state"] == "ready"]
    return bool(box["attended"])


def stopped_at(cli: Shell, step: str) -> subprocess.Popen[str] | Forked:
    """A tender that does not go on once it has told this step: SIGSTOP."""
    process = cli.start("tend")
    assert process.stderr is not None
    for line in process.stderr:
        if step in line:
            break
    process.send_signal(signal.SIGSTOP)
    return process


def test_a_detached_run_is_restarted_by_one_of_two_tenders_and_ended_with_its_files(cli: Shell) -> None:
    """Without a tender nothing is bought; two at once make one box; the last look brings everything back."""
    script = 'echo "$GPUCLOUD_RESTARTS $WORD" | tee out; until [ -e "$1" ]; do sleep 0.1; done; exit 4'
    go = cli.home / "go"
    line = (*DETACH, "--env", "WORD=one", "--fetch", "out:here/", "--", "sh", "-c", script, "sh", str(go))
    begun = cli(*line)
    assert (begun.code, begun.out) == (0, "r\n"), begun.err
    assert the_run(cli)["detached"]
    assert tended(cli) == ("left", "it is running")
    follower = cli.start("runs", "logs", "r", "-f")
    assert follower.stdout is not None
    assert follower.stdout.readline() == "0 one\n"
    interrupt(cli)
    assert cli("list", "--live").code == 0
    assert cli("sweep", "--yes").code == 0
    assert (cli.boxes(), cli.billed()) == ([], []), "the remains are gone, and nothing is new"
    assert cli("tend", "--json").json["troubles"][0]["message"].startswith("run 'r' cannot be restarted"), (
        "no WORD"
    )
    both = [cli.start("tend", WORD="two") for _ in range(2)]
    assert [cli.finish(each).code for each in both] == [0, 0]
    run = the_run(cli)
    assert (run["state"], [each["loss"] for each in run["attempts"]]) == ("running", ["interruption", None])
    assert follower.stdout.readline() == "1 two\n", "the reader goes on over the interruption"
    go.touch()
    until(lambda: tended(cli)[0] == "ended", "the command to end")
    run = the_run(cli)
    assert (run["state"], run["exit_code"]) == ("ended", 4)
    assert (cli.home / "here" / "out").read_text() == "1 two\n"
    followed = cli.finish(follower)
    assert (followed.code, followed.out) == (4, ""), followed.err
    assert (cli.boxes(), cli.billed()) == ([], [])
    looked = cli("tend", "--json")
    assert (looked.json["runs"], looked.json["troubles"]) == ([], [])


def test_a_tender_that_is_killed_as_it_starts_the_command_ends_no_run(cli: Shell) -> None:
    """Its box is ready, and is the remains of a launch: the run itself goes on, on the next one."""
    assert cli(*DETACH, *FOREVER).code == 0
    interrupt(cli)
    assert cli("list", "--live").code == 0
    tender = stopped_at(cli, "starting the command")
    assert ends_with_its_process(cli), "the command has not begun"
    tender.kill()
    cli.finish(tender)
    assert cli("tend").code == 0
    run = the_run(cli)
    assert (run["state"], run["failure"]) == ("waiting", None), "not ended for want of a process"
    until(lambda: tended(cli)[0] == "restarted", "the next attempt")
    assert the_run(cli)["state"] == "running"


def test_a_tender_that_is_killed_in_its_launch_leaves_what_the_next_one_ends_before_it_buys(
    cli: Shell,
) -> None:
    assert cli(*DETACH, *FOREVER).code == 0
    interrupt(cli)
    killed = stopped_in_its_launch(cli)
    assert tended(cli) == ("left", "another process works on it"), "it lives: it may go on"
    killed.kill()
    cli.finish(killed)
    assert tended(cli) == ("lost", f"the launch of box {cli.boxes('--all')[-1]['name']!r} was not finished")
    until(lambda: tended(cli)[0] == "restarted", "the pause after the second loss in a row")
    assert [each["loss"] for each in the_run(cli)["attempts"]] == ["interruption", "launch", None]
    assert most_at_once(cli.sandbox.ledger()) == 1
    cancelled = cli("down", "--run-id", "r", "--yes")
    assert cancelled.code == 0, cancelled.err
    assert (the_run(cli)["state"], cli("tend", "--json").json["runs"]) == ("cancelled", [])
    assert cli.sandbox.status()["billing"] == []


@pytest.mark.skipif(not may_unshare(), reason="this system gives no namespaces to this user")
def test_a_tender_that_is_paused_beyond_its_lease_buys_nothing_more_when_it_goes_on(cli: Shell) -> None:
    """Another one, in another container, has ended its box and begun the next attempt meanwhile."""
    assert cli(*DETACH, *FOREVER).code == 0
    interrupt(cli)
    paused = stopped_in_its_launch(cli)
    with closing(sqlite3.connect(cli.home / "state-sandbox" / "journal.db")) as journal, journal:
        journal.execute("UPDATE states SET lease = json_set(lease, '$.beat', ?) WHERE lease <> ''", LONG_AGO)
    assert tended(cli)[1] == "another process works on it", "who can be seen to live is waited for"
    until(lambda: tended_elsewhere(cli) == "restarted", "the pause after the second loss in a row")
    machines = [each["id"] for each in cli.billed() if each["kind"] == "instance"]
    paused.send_signal(signal.SIGCONT)
    ended = cli.finish(paused)
    assert "taken over" in ended.err
    assert [each["id"] for each in cli.billed() if each["kind"] == "instance"] == machines
    assert len(machines) == most_at_once(cli.sandbox.ledger()) == 1
    assert the_run(cli)["state"] == "running"


def test_a_run_whose_process_was_killed_is_not_restarted_and_its_id_is_free(cli: Shell) -> None:
    """It was not detached: nobody asked that it goes on without its process."""
    line = ("run", *DETACH[2:], *FOREVER)
    process = cli.start(*line)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.kill()
    cli.finish(process)
    assert the_run(cli)["abandoned"]
    assert tended(cli) == ("ended", "the process that ran it has ended")
    assert (the_run(cli)["state"], cli.sandbox.status()["billing"]) == ("failed", [])
    again = cli("run", *DETACH[2:], "--", "true")
    assert again.code == 0, again.err


def test_a_detached_run_goes_on_with_its_checkpoints_and_has_its_lease_from_whoever_tends_it(
    own_clouds: Shell,
) -> None:
    """The second box uploads before and after a renewal of its lease, and at the end of its command."""
    cli = own_clouds
    s3 = client(cli.endpoint, "s3")
    s3.create_bucket(Bucket="lab")
    kept = ("--checkpoint-dir", "kept", "--checkpoint-to", "s3://lab/team", "--checkpoint-every", "1s")
    script = (
        "if [ -e kept/one ]; then while [ ! -e go ]; do sleep 0.2; done; "
        'cat kept/one >>"$1"; echo end >kept/end; '
        'else echo "$GPUCLOUD_CHECKPOINT_URL" >kept/one; sleep 600; fi'
    )
    result = cli.home / "result"
    begun = cli(*DETACH, "--region", "us-west-2", *kept, "--", "sh", "-c", script, "sh", str(result))
    assert begun.code == 0, begun.err
    until(lambda: has(s3, "team/r/attempts/1/latest.json"), "the first checkpoint")
    interrupt(cli)
    looked = cli("tend", "--json")
    assert looked.json["runs"][0]["did"] == "restarted", looked.err
    said = "restart on aws us-west-2: reading the checkpoint (about 0.0 GiB) from s3://lab/team/r costs "
    assert said in " ".join(looked.err.split())
    lost, again = the_run(cli)["attempts"]
    assert (lost["traffic"], said in again["traffic"]) == (None, True)
    assert (lost["checkpoint"], lost["checkpoint_bytes"]) == ("1", len("s3://lab/team/r\n"))
    [machine] = cli.billed()
    home = cli.endpoint.folder / "boxes" / str(machine["id"]) / "root/home/gpucloud"
    config = home / ".gpucloud/checkpoints/rclone.conf"
    first = config.read_bytes()
    assert tended(cli) == ("left", "it is running")
    assert config.read_bytes() == first, "it is young"
    cli.sandbox.clock(advance_s=3700)
    (home / "kept/late").write_text("after the first lease")
    os.utime(config, (0, 0))  # the box's clock is not the clouds'
    assert tended(cli) == ("left", "it is running")
    until(lambda: has(s3, "team/r/attempts/2/1/late"), "a checkpoint with a new lease")
    (home / "go").touch()
    until(lambda: tended(cli)[0] == "ended", "the command to end")
    assert result.read_text() == "s3://lab/team/r\n"
    marker = json.loads(s3.get_object(Bucket="lab", Key="team/r/attempts/2/latest.json")["Body"].read())
    assert sorted(marker["files"]) == ["end", "late", "one"]
    assert cli.billed() == []


def test_a_box_with_faulty_hardware_is_replaced_if_its_run_wants_that(cli: Shell) -> None:
    """Not for an error of a program; and what it has done until then goes along."""
    s3 = client(cli.endpoint, "s3")
    s3.create_bucket(Bucket="lab")
    kept = ("--checkpoint-dir", "kept", "--checkpoint-to", "s3://lab/team")
    hook = ("--checkpoint", 'echo "$GPUCLOUD_END_REASON" >>kept/one')
    script = 'if [ -e kept/one ]; then cat kept/one >"$1"; else echo begun >kept/one; sleep 600; fi'
    result = cli.home / "result"
    begun = cli(
        *DETACH, "--on-unhealthy", "replace", *kept, *hook, "--", "sh", "-c", script, "sh", str(result)
    )
    assert begun.code == 0, begun.err
    [machine] = cli.billed()
    root = cli.endpoint.folder / "boxes" / str(machine["id"]) / "root"
    until((root / "home/gpucloud/kept/one").exists, "the command")

    def logged(text: str, health: str) -> None:
        with (root / "dev/kmsg").open("a") as log:
            log.write(f"4,1,2,-;NVRM: Xid (PCI:0000:00:1e): {text}\n")
        status = root / "run/gpucloud/guard.json"
        until(lambda: health in json.loads(status.read_text())["health"], "the guard to see it")

    logged("31, pid=7, name=python, Ch 00000008, MMU Fault", "xid")
    assert tended(cli) == ("left", "it is running")
    logged("79, pid=7, GPU has fallen off the bus.", "hardware")
    assert tended(cli)[0] == "restarted"
    [lost, _] = the_run(cli)["attempts"]
    assert lost["loss"] == "hardware"
    assert "is faulty: Xid 79, pid=7, GPU has fallen off the bus." in lost["message"]
    until(lambda: tended(cli)[0] == "ended", "the command to end")
    assert result.read_text() == "begun\nhardware\n"
    assert most_at_once(cli.sandbox.ledger()) == 1
    assert cli.billed() == []


def has(s3: Any, key: str) -> bool:
    """Whether the bucket has an object."""
    found = s3.list_objects_v2(Bucket="lab", Prefix=key).get("Contents", ())
    return key in {each["Key"] for each in found}


def test_a_look_that_fails_as_a_whole_is_told_and_the_next_one_goes_on(cli: Shell) -> None:
    cli.launch("--gpu", "T4", "--cloud", "aws", "--name", "x")
    tender = cli.start("tend", "--every", "5s", "--json")
    assert tender.stdout is not None
    looks = map(json.loads, tender.stdout)
    assert next(looks)["troubles"] == []
    with closing(sqlite3.connect(cli.home / "state-sandbox" / "journal.db", isolation_level=None)) as journal:
        journal.execute("ALTER TABLE states RENAME TO elsewhere")
        until(lambda: next(looks)["troubles"], "a look that cannot read the journal")
        journal.execute("ALTER TABLE elsewhere RENAME TO states")
    until(lambda: not next(looks)["troubles"], "a look that can")
    tender.send_signal(signal.SIGTERM)
    assert cli.finish(tender).code == 128 + signal.SIGTERM


def test_a_detached_run_waits_for_its_first_box_where_there_is_no_capacity(cli: Shell) -> None:
    cli.sandbox.stock(count=0)
    begun = cli(*DETACH, "--retry-on", "capacity", "--", "true")
    assert begun.code == 0, begun.err
    assert "waits for a box, which only `gpucloud tend` buys" in begun.err
    run = the_run(cli)
    assert (run["state"], [each["loss"] for each in run["attempts"]]) == ("waiting", ["capacity"])
    assert run["detached"]
    assert cli.billed() == []
    assert tended(cli)[0] == "left", "it is not due yet"
    assert cli("runs", "cancel", "r", "--yes").code == 0


def test_a_detached_run_that_may_wait_gets_its_first_box_from_whoever_tends_it(cli: Shell) -> None:
    """Its time counts from that box, and the tries before are no restarts."""
    cli.sandbox.stock(count=0)
    result = cli.home / "result"
    script = f'echo "$GPUCLOUD_RESTARTS" >{result}'
    begun = cli(*WAITS, "--ttl", "2h", "--", "sh", "-c", script)
    assert begun.code == 0, begun.err
    waiting = the_run(cli)
    assert (waiting["state"], waiting["most_restarts"]) == ("waiting", 0)
    assert waiting["waits_until"] in begun.err
    cli.sandbox.stock(count=None)
    until(lambda: tended(cli)[0] == "restarted", "the next try")
    run = the_run(cli)
    assert run["expires_at"] > waiting["expires_at"]
    assert (run["waits_until"], run["restarts"]) == (None, 0)
    until(lambda: tended(cli)[0] == "ended", "the command to end")
    assert result.read_text() == "0\n"
    assert most_at_once(cli.sandbox.ledger()) == 1
    assert cli.billed() == []


def test_a_detached_run_fails_once_its_wait_is_over(cli: Shell) -> None:
    cli.sandbox.stock(count=0)
    assert cli(*WAITS, "--", "true").code == 0
    until(lambda: tended(cli)[0] == "ended", "the end of the wait")
    run = the_run(cli)
    assert (run["state"], run["failure"]["class"]) == ("failed", "capacity")
    assert "no box was to be had until" in run["failure"]["message"]


def test_without_a_restart_no_capacity_is_the_end_of_a_detached_run(cli: Shell) -> None:
    cli.sandbox.stock(count=0)
    line = [word for word in DETACH if word not in {"--restarts", "3"}]
    assert cli(*line, "--", "true").code == 125
    assert the_run(cli)["state"] == "failed"
