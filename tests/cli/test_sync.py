"""Files on their way to a box: which travel, what is said of them before, and what they are listed as."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.shell import Shell

T4 = ("--gpu", "T4", "--cloud", "aws", "--ttl", "1h")
FIND = ("sh", "-c", "find . -type f -not -path './.*' | sort")


@pytest.fixture
def project(cli: Shell) -> Path:
    """A repository with data, checkpoints and a secret that git ignores, and one that it does not."""
    root = cli.home / "p"
    for name in (
        "data/big.bin",
        "data/keep.csv",
        "m.ckpt",
        ".venv/x",
        ".env",
        "src/a.py",
        "notes/.env.local",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("1")
    (root / ".gitignore").write_text("data/*\n!data/keep.csv\n*.ckpt\n.venv/\n.env\n")
    subprocess.run(["git", "init", "--quiet", root], check=True)
    return root


def test_a_run_takes_what_git_would_keep_and_says_what_it_leaves_and_which_secrets_travel(
    cli: Shell, project: Path
) -> None:
    ran = cli("run", *T4, "--sync", project.name, "--", *FIND)
    assert ran.out.split() == [
        *("./p/.gitignore", "./p/data/keep.csv", "./p/notes/.env.local", "./p/src/a.py"),
    ], ran.err
    assert "--sync leaves out 4 files" in ran.err
    assert "p/notes/.env.local: these look like secrets, and travel" in ran.err
    assert ran.err.index("look like secrets") < ran.err.index("create")


def test_sync_and_a_repeated_copy_leave_out_the_same_and_what_the_line_says(
    cli: Shell, project: Path
) -> None:
    cli.launch(*T4, "--name", "x", "--sync", f"{project.name}/:work", "--exclude", "notes/")
    assert cli("exec", "x", "--", "find", "work", "-name", "*.ckpt", "-o", "-name", "notes").out == ""
    assert cli("sync", project.name, "x:there", "--exclude", "*.csv").code == 0
    listed = cli("exec", "x", "--", "sh", "-c", "cd there/p && find . -type f | sort").out.split()
    assert listed == ["./.gitignore", "./notes/.env.local", "./src/a.py"]
    (cli.home / "large").write_bytes(bytes(12_000_000))
    assert cli("sync", "large", "x:").code == 0
    assert cli("exec", "x", "--", "stat", "-c", "%s", "large").out == "12000000\n"


def test_more_than_ten_megabytes_are_told_with_rate_and_time(cli: Shell) -> None:
    (cli.home / "large").mkdir()
    (cli.home / "large" / "file").write_bytes(bytes(12_000_000))
    launched = cli("launch", *T4, "--name", "x", "--yes", "--sync", "large")
    assert launched.code == 0
    [told] = [line for line in launched.err.splitlines() if "100%" in line]
    assert "B/s" in told
    assert told.endswith(" left")


def test_what_would_travel_is_listed_and_nothing_else_is_done(cli: Shell, project: Path) -> None:
    listed = cli("run", "--sync", project.name, "--exclude", "src/", "--dry-run")
    assert [line.split()[-1] for line in listed.out.splitlines()] == [
        *("p/.gitignore", "p/data/keep.csv", "p/notes/.env.local"),
    ]
    assert "3 files, " in listed.err
    answer = cli("sync", f"{project.name}/", "x:work", "--dry-run", "--json").json
    assert answer["schema"] == "gpucloud.sync-list/v1"
    assert {file["there"] for file in answer["files"]} >= {"work/src/a.py"}
    assert (answer["left_out_files"], len(answer["secrets"])) == (4, 1)
    assert cli("sync", "x:", ".", "--dry-run").code == 2
    assert cli.changes_asked() == []


def test_the_list_for_programs_has_names_as_they_are_and_the_one_for_people_on_one_line(cli: Shell) -> None:
    (cli.home / "odd").mkdir()
    (cli.home / "odd" / "line\nbreak").write_text("")
    (cli.home / "odd" / os.fsdecode(b"no\xfftext")).write_text("")
    line = ("run", "--sync", "odd", "--dry-run")
    found = {file["here"] for file in cli(*line, "--json").json["files"]}
    assert found == {"odd/line\nbreak", "odd/no\\xfftext"}
    assert [each.split(maxsplit=2)[-1] for each in cli(*line).out.splitlines()] == [
        *("'odd/line\\nbreak'", "'odd/no\\udcfftext'"),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--", "python train.py"), "sh -c 'python train.py'"),
        (("--", "python", "train.py"), "add --sync ."),
        (("--", "sh", "-c", "python train.py"), "add --sync ."),
        (("--sync", "p", "--", "python", "train.py"), "add --sync ."),
        (("--sync", "p", "--", "python", "p/m.ckpt.py"), "add --dry-run"),
        (("--sync", "p", "--sync", "other/p", "--", "true"), "would both be 'p' on the box"),
        (("--sync", "p:../x", "--", "true"), "leads out of a folder"),
        (("--exclude", "", "--", "true"), "--exclude"),
        (("--sync", "linked", "--", "true"), "linked is a link, and what it points to would stay here"),
    ],
)
def test_a_mistake_that_is_certain_is_refused_before_anything_is_bought(
    cli: Shell, project: Path, words: tuple[str, ...], said: str
) -> None:
    (cli.home / "train.py").write_text("")
    (project / "m.ckpt.py").write_text("")
    (project / ".gpucloudignore").write_text("*.ckpt.py\n")
    (cli.home / "other" / "p").mkdir(parents=True)
    (cli.home / "linked").symlink_to("p")
    refused = cli("run", *T4, *words)
    assert refused.code == 125
    assert said in refused.err
    assert cli.changes_asked() == []


def test_a_script_that_travels_is_not_refused(cli: Shell) -> None:
    (cli.home / "code").mkdir()
    (cli.home / "code" / "train.sh").write_text("echo trained\n")
    assert cli("run", *T4, "--sync", "code/", "--", "sh", "train.sh").out == "trained\n"
