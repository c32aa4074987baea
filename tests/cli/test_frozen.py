"""The code of a run is frozen at its submission: every attempt runs it, and it goes with the run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_tend import interrupt, tended
from tests.sandbox.running import client
from tests.shell import Shell
from tests.waiting import until

T4 = ("--gpu", "T4", "--cloud", "aws", "--ttl", "2h")
DETACH = ("run", "--detach", *T4, "--spot", "--run-id", "r", "--restarts", "3")
TRAINS = ("--", "sh", "-c", "sh p/train.sh; sleep 600")


@pytest.fixture
def project(cli: Shell) -> Path:
    """A folder with a script, in a repository."""
    folder = cli.home / "p"
    folder.mkdir()
    (folder / "train.sh").write_text("echo first >>told; echo first\n")
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(folder))
    for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "x")):
        subprocess.run([*git, *words], check=True)
    return folder


def archives(cli: Shell) -> list[str]:
    """What is frozen here."""
    return sorted(file.name for file in (cli.home / "state-sandbox" / "code").glob("*/*"))


def code_of(cli: Shell) -> dict[str, Any]:
    """What was frozen for the run."""
    code: dict[str, Any] = cli("runs", "show", "r", "--json").json["run"]["code"]
    return code


def output_of(cli: Shell) -> str:
    return str(until(lambda: cli("runs", "logs", "r").out, "the command"))


def test_every_attempt_runs_what_was_submitted_from_another_folder_too_and_it_goes_with_the_run(
    cli: Shell, project: Path
) -> None:
    begun = cli(*DETACH, "--sync", "p", "--setup", "cat p/train.sh >seen", *TRAINS)
    assert begun.code == 0, begun.err
    code = code_of(cli)
    asked = ["git", "-C", str(project), "rev-parse", "HEAD"]
    head = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    assert (code["files"], code["commit"]) == (1, head)
    assert archives(cli) == [f"{code['sha256']}.tar.gz"]
    assert f"commit {head}" in cli("runs", "show", "r").out
    assert output_of(cli) == "first\n"
    (project / "train.sh").write_text("echo edited\n")
    shutil.move(project, cli.home / "elsewhere")
    interrupt(cli)
    assert tended(cli)[0] == "restarted"
    assert output_of(cli) == "first\n"
    [box] = cli.boxes()
    assert cli("exec", box["name"], "--", "cat", "seen").out == "echo first >>told; echo first\n"
    assert cli("runs", "cancel", "r", "--yes").code == 0
    assert archives(cli) == []


def test_changes_are_said_and_two_runs_of_the_same_code_have_one_archive(cli: Shell, project: Path) -> None:
    (project / "new.py").write_text("")
    line = ("run", *T4, "--run-id", "r", "--sync", "p", "--keep-on-failure", "--", "false")
    assert cli(*line).code == 1
    assert code_of(cli)["commit"].endswith("+dirty")
    [archive] = archives(cli)
    assert cli("run", *T4, "--sync", "p", "--", "true").code == 0
    assert archives(cli) == [archive], "the box of the first run is kept"
    assert cli("down", "--all", "--yes").code == 0
    assert cli("tend").code == 0
    assert archives(cli) == []


def test_a_box_that_a_run_keeps_repeats_its_setup_with_the_frozen_code(cli: Shell, project: Path) -> None:
    line = ("run", *T4, "--name", "x", "--keep-on-failure", "--sync", "p", "--setup", "test -e mended")
    assert cli(*line, "--", "true").code == 125
    (project / "train.sh").write_text("echo edited\n")
    assert cli("exec", "x", "--", "sh", "-c", "touch mended; echo lost >p/train.sh").code == 0
    ready = cli("setup", "x")
    assert ready.code == 0, ready.err
    assert cli("exec", "x", "--", "cat", "p/train.sh").out.startswith("echo first")


def test_another_machine_takes_the_code_from_the_store_and_without_one_names_who_has_it(
    cli: Shell, project: Path
) -> None:
    client(cli.endpoint, "s3").create_bucket(Bucket="lab")
    store = ("--checkpoint-to", "s3://lab/team")
    assert cli(*DETACH, "--sync", "p", *store, *TRAINS).code == 0
    assert code_of(cli)["stored"]
    for archive in (cli.home / "state-sandbox" / "code").glob("*/*"):
        archive.write_bytes(b"not what it was")
    (project / "train.sh").unlink()
    interrupt(cli)
    assert tended(cli)[0] == "restarted"
    assert output_of(cli) == "first\n"
    assert cli("runs", "cancel", "r", "--yes").code == 0
    (project / "train.sh").write_text("echo second\n")
    assert cli(*DETACH, "--sync", "p", *TRAINS).code == 0
    machine = code_of(cli)["machine"]
    shutil.rmtree(cli.home / "state-sandbox" / "code")
    interrupt(cli)
    looked = cli("tend", "--json")
    [trouble] = looked.json["troubles"]
    assert f"its code was frozen on {machine}" in trouble["message"]
    assert cli.billed() == []


def test_too_much_is_refused_before_anything_is_bought_with_the_way_out(cli: Shell) -> None:
    (cli.home / "p").mkdir()
    with (cli.home / "p" / "large").open("wb") as file:
        file.truncate((2 << 30) + 1)
    refused = cli("run", *T4, "--sync", "p", "--", "true")
    assert (refused.code, cli.changes_asked()) == (125, [])
    assert "p/large (2.1 GB)" in refused.err
    assert "--data" in refused.err
