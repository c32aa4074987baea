"""The end of a command on a box: what it leaves goes into the store, and last the record of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpucloud.runs.exit_record import ExitRecord, read_record
from gpucloud.ssh.checkpoints import PROGRAM
from tests.templates.conftest import RCLONE, Box, failing
from tests.waiting import until

JOB = ".gpucloud/jobs/run"
LEFT = "left"
"""A file that the program makes where it would end the machine."""


def begin(box: Box, *results: str, leave: bool = False) -> None:
    """Begins as a run does, with these paths to be brought home."""
    command = ["touch", LEFT] if leave else []
    told = {**box.settings, "attempt": 2, "job": JOB, "results": list(results), "leave": command}
    box.answer("begin", json.dumps(told))
    (box.home / JOB).mkdir(parents=True)


def end(box: Box, code: int = 0) -> None:
    (box.home / JOB / "exit").write_text(f"{code}\n")


def waited(box: Box) -> None:
    """The program that waits for the end has done all that it does."""
    done = box.ask("wait")
    assert done.returncode == 0, done.stderr


def record_of(box: Box) -> ExitRecord:
    """The record, as who finds it in the store reads it; what it lists is there."""
    record = read_record((box.attempt(2) / "ended.json").read_bytes(), "r1", 2)
    for name, size in record.objects.items():
        assert (box.attempt(2) / name).stat().st_size == size, name
    return record


def with_sudo(box: Box) -> Box:
    """The box, whose sudo runs what it is told."""
    programs = box.home / "programs"
    programs.mkdir()
    (programs / "sudo").write_text('#!/bin/sh\nshift; exec "$@"\n')
    (programs / "sudo").chmod(0o755)
    environ = {**box.environ, "PATH": f"{programs}:/usr/bin:/bin"}

    class Own(Box):
        @property
        def environ(self) -> dict[str, str]:
            return environ

    return Own(box.home, box.store, box.rclone)


def test_what_a_command_leaves_is_in_the_store_and_the_record_says_what(box: Callable[..., Box]) -> None:
    one = with_sudo(box("one"))
    begin(one, "out", "model.pt", "logs/*.txt", "/nothing/at/all", leave=True)
    for name in ("out/a", "out/b c/ü", "out/line\nbreak", "model-7.pt", "logs/1.txt", "logs/2.txt"):
        one.write(f"../{name}", name)
    (one.home / "out/last").symlink_to("b c/ü")
    (one.home / "out/away").symlink_to("/etc/passwd")
    (one.home / "model.pt").symlink_to("model-7.pt")
    one.write("step", "7")
    end(one, 3)
    waited(one)
    record = record_of(one)
    assert (record.exit_code, record.timed_out, record.absent) == (3, False, ("/nothing/at/all",))
    out, model, *logs = record.results
    assert sorted(each.name for each in out.files) == ["a", "b c/ü", "line\nbreak"]
    assert dict(out.links) == {"last": "b c/ü"}
    assert dict(out.outside) == {"away": "/etc/passwd"}
    assert ([each.name for each in model.files], model.is_folder) == (["model.pt"], False)
    assert [each.path for each in logs] == ["logs/1.txt", "logs/2.txt"]
    [odd] = [each for each in out.files if "\n" in each.name]
    assert (one.attempt(2) / odd.object).read_text() == "out/line\nbreak"
    assert json.loads((one.attempt(2) / "latest.json").read_text())["files"].keys() == {"step"}
    assert (one.home / LEFT).exists(), "a command that failed may have written less"


def test_a_box_whose_results_are_not_all_there_stays(box: Callable[..., Box]) -> None:
    """A path that is not there after a success is most likely another one there."""
    one = with_sudo(box("one"))
    begin(one, "otu", leave=True)
    end(one)
    waited(one)
    assert record_of(one).absent == ("otu",)
    assert not (one.home / LEFT).exists()


@pytest.mark.parametrize("path", [".", "~/", "up"])
def test_who_asks_for_the_home_folder_does_not_store_the_keys_of_the_box(
    box: Callable[..., Box], path: str
) -> None:
    one = box("one")
    (one.home / "up").symlink_to(".")
    begin(one, path)
    one.write("../out/a", "x")
    end(one)
    waited(one)
    names = [file.name for file in record_of(one).results[0].files]
    assert "out/a" in names
    assert not [name for name in names if name.startswith(".gpucloud/")]


def test_results_are_stored_also_where_the_logs_cannot_be(box: Callable[..., Box], tmp_path: Path) -> None:
    """The box stays: they are nowhere else."""
    one = with_sudo(box("one", rclone=failing(tmp_path, "/logs/")))
    begin(one, "out", leave=True)
    one.write("../out/a", "x")
    one.write("../boot.log", "begun\n")
    end(one)
    waited(one)
    record = record_of(one)
    assert [each.startswith("the logs: rclone rcat") for each in record.left_out] == [True]
    assert [file.name for file in record.results[0].files] == ["a"]
    assert not (one.home / LEFT).exists()


def test_what_fails_is_tried_again_and_no_record_comes_before(
    box: Callable[..., Box], tmp_path: Path
) -> None:
    one = box("one", rclone=failing(tmp_path, "results/0"))
    begin(one, "out")
    one.write("../out/a", "x")
    end(one)
    command: list[str] = [sys.executable, PROGRAM, "wait"]
    failure = one.home / ".gpucloud/checkpoints/failure.json"
    with subprocess.Popen(command, cwd=one.home, env=one.environ) as waiting:
        until(failure.exists, "the failure")
        assert not (one.attempt(2) / "ended.json").exists()
        waiting.kill()
    assert "rclone copy" in json.loads(failure.read_text())["words"]
    one.use(RCLONE)
    waited(one)
    assert record_of(one).is_all
