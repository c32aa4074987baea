"""The program that keeps a box's folder in an object store: sets, restoring, logs, the notice."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpucloud.ssh.checkpoints import hook
from gpucloud_templates.checkpoints import manifest
from tests.templates.conftest import MANIFESTS, RCLONE, Box, failing


def test_the_next_box_gets_the_files_and_their_times(box: Callable[..., Box]) -> None:
    first = box("first")
    assert first.begin(1) == {"folder": str(first.home / "saved"), "restored": None, "damaged": []}
    first.write("model", "one")
    first.write_folder("a", {"b c/ü": "kept"})
    assert first.upload() == {"number": 1, "files": 2, "bytes": 7}
    first.write("model", "two")
    assert first.upload() == {"number": 2, "files": 2, "bytes": 7}
    assert not (first.attempt(1) / "2/a").exists(), "what has not changed is uploaded once"
    second = box("second")
    assert second.begin(2)["restored"] == {"attempt": 1, "number": 2, "files": 2, "bytes": 7}
    assert second.files() == {"model": "two", "a/b c/ü": "kept"}
    times = [(each.home / "saved/model").stat().st_mtime_ns for each in (first, second)]
    assert times[0] == times[1]
    second.upload()
    assert not second.attempt(2).exists(), "nothing has changed since"


def test_an_upload_that_is_cut_off_leaves_the_checkpoint_before(
    box: Callable[..., Box], tmp_path: Path
) -> None:
    first = box("first")
    first.begin(1)
    first.write("model", "good")
    first.upload()
    cut = box("cut", rclone=failing(tmp_path, MANIFESTS))
    cut.begin(2)
    cut.write("model", "half")
    assert cut.ask("upload").returncode != 0
    assert (cut.attempt(2) / "1/model").read_text() == "half", "it was there, and not finished"
    third = box("third")
    begun = third.begin(3)
    assert begun["restored"]["attempt"] == 1
    assert begun["damaged"] == ["attempt 2: it has no whole checkpoint"]
    assert third.files() == {"model": "good"}


def test_a_failed_upload_is_made_good_by_the_next_one(box: Callable[..., Box], tmp_path: Path) -> None:
    one = box("one", rclone=failing(tmp_path, MANIFESTS))
    one.begin(1)
    one.write("model", "new")
    assert one.ask("upload").returncode != 0
    one.use(RCLONE)
    assert one.upload()["number"] == 2, "the first one may have got through"
    assert not (one.attempt(1) / "2").exists(), "its files were up"
    assert box("two").begin(2)["restored"]["attempt"] == 1


def test_each_attempt_is_whole_by_itself(box: Callable[..., Box]) -> None:
    """So that a rule of the bucket may delete old attempts."""
    first, second = box("first"), box("second")
    first.begin(1)
    first.write("old", "old")
    first.upload()
    second.begin(2)
    second.write("new", "new")
    second.upload()
    (first.attempt(1) / "1/old").unlink()
    third = box("third")
    assert third.begin(3)["restored"]["attempt"] == 2
    assert third.files() == {"old": "old", "new": "new"}


@pytest.mark.parametrize("inner", ["", ".gpucloud/kept", "link"])
def test_a_folder_with_the_keys_of_the_box_is_refused(box: Callable[..., Box], inner: str) -> None:
    one = box("one")
    (one.home / "link").symlink_to("..")
    refused = one.ask("begin", json.dumps({**one.settings, "folder": str(one.home / inner)}))
    assert (refused.returncode, "has files of gpucloud itself" in refused.stderr) == (1, True), refused.stderr
    assert not one.store.exists()


def test_an_emptied_folder_is_no_checkpoint(box: Callable[..., Box]) -> None:
    one = box("one")
    one.begin(1)
    one.write("model", "x")
    one.upload()
    (one.home / "saved/model").unlink()
    assert one.upload()["files"] == 1
    assert box("two").begin(2)["restored"]["files"] == 1


@pytest.mark.parametrize(
    "marker",
    [
        b"{",
        b"[]",
        b'{"number": 1}',
        b'{"number": 1, "files": ["a"]}',
        b'{"number": 1, "files": {"a": ["1", 1, 1]}}',
        b'{"number": 1, "files": {"a": [1, 1, -1]}}',
        b'{"number": 1, "files": {"../a": [1, 1, 1]}}',
        b'{"number": 1, "files": {"/a": [1, 1, 1]}}',
        b'{"number": 1, "files": {"a/../../b": [1, 1, 1]}}',
        b'{"number": 1, "files": {"a\\nb": [1, 1, 1]}}',
        b'{"number": 1, "files": {"a": [1, 1, 1], "a/b": [1, 1, 1]}}',
        b'{"number": 1, "files": {"a": [1, 1, 1, "../b"]}}',
        b'{"number": 1, "files": {"a": [1, 1, 1, "b\\nc"]}}',
        b'{"number": 1, "files": {"a": [1, 1, 1, 2]}}',
        b'{"number": 1, "files": {"\\ud800": [1, 1, 1]}}',
        b'{"number": 1, "files": {"' + b"a" * 256 + b'": [1, 1, 1]}}',
        b"[" * 100_000,
    ],
)
def test_a_list_of_files_that_is_damaged_or_leads_elsewhere_is_refused(marker: bytes) -> None:
    with pytest.raises(manifest.DamagedError):
        manifest.checked(marker)


@pytest.mark.parametrize("name", ["../escaped", "gone"])
def test_what_a_hostile_box_has_written_harms_nobody(box: Callable[..., Box], name: str) -> None:
    good = box("good")
    good.begin(1)
    good.write("model", "good")
    good.upload()
    hostile = good.attempt(2)
    (hostile / "1").mkdir(parents=True)
    (hostile / "escaped").write_text("x")
    (hostile / "latest.json").write_text(json.dumps({"number": 1, "files": {name: [1, 1, 1]}}))
    next_box = box("next")
    begun = next_box.begin(3)
    assert (begun["restored"]["attempt"], len(begun["damaged"])) == (1, 1)
    assert next_box.files() == {"model": "good"}
    assert not list(next_box.home.rglob("escaped"))


def test_a_store_that_cannot_be_read_is_not_taken_for_an_empty_one(
    box: Callable[..., Box], tmp_path: Path
) -> None:
    """The command would begin anew, for days."""
    for broken in (failing(tmp_path, "lsf"), str(tmp_path / "no-rclone-at-all")):
        one = box(Path(broken).name + "-box", rclone=broken)
        done = one.ask("begin", json.dumps(one.settings))
        assert done.returncode != 0, done.stdout


def test_the_end_of_a_box_uploads_the_ends_of_its_logs_without_the_values_of_its_variables(
    box: Callable[..., Box], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = box("one")
    one.begin(1)
    one.write("model", "1")
    (one.home / ".gpucloud/env").write_text("export TOKEN='of the lab'\nexport N=1\n")
    (one.home / "boot.log").write_text("boot 1\n")
    (one.home / "setup.log").write_text("with of the lab\n")
    one.upload()
    assert not (one.attempt(1) / "logs").exists(), "it goes on"
    monkeypatch.setattr(Box, "environ", {**one.environ, "GPUCLOUD_END_REASON": "deadline"})
    assert one.upload() == {"number": 1, "files": 1, "bytes": 1}
    assert (one.attempt(1) / "logs/boot.log").read_text() == "boot 1\nwith [hidden]\n"
    assert not (one.attempt(1) / "logs/job.log").exists(), "there is none"
    line = "x" * 99 + "\n"
    (one.home / "out").write_text(line * 80_000 + "last\n")
    one.write("model", "2")
    one.use(failing(one.home, MANIFESTS))
    assert one.ask("upload").returncode != 0, "the checkpoint failed"
    kept = (one.attempt(1) / "logs/job.log").read_text()
    assert kept.endswith("last\n")
    assert len(kept) < 7_000_001
    assert kept.startswith(line), "whole lines"
    two = box("two")
    assert two.begin(2)["restored"] == {"attempt": 1, "number": 1, "files": 1, "bytes": 1}


def test_logs_that_cannot_be_uploaded_do_not_fail_the_checkpoint(
    box: Callable[..., Box], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = box("one", rclone=failing(tmp_path, "own:bucket/lab/r1/attempts/1/logs/job.log"))
    one.begin(1)
    one.write("model", "1")
    (one.home / "out").write_text("said\n")
    monkeypatch.setattr(Box, "environ", {**one.environ, "GPUCLOUD_END_REASON": "deadline"})
    assert one.upload()["number"] == 1
    assert not (one.attempt(1) / "logs").exists()


def test_the_notice_uploads_what_is_there_and_what_the_users_command_adds(box: Callable[..., Box]) -> None:
    one = box("one")
    one.begin(1)
    one.write("early", "1")
    command = hook("cp saved/early saved/late; sleep 1")
    done = subprocess.run(["bash", "-c", command], cwd=one.home, env=one.environ, check=False)
    assert done.returncode == 0
    two = box("two")
    two.begin(2)
    assert two.files() == {"early": "1", "late": "1"}
    without = subprocess.run(["bash", "-c", hook("touch here")], cwd=one.store, check=False)
    assert without.returncode == 0, "a box without the program runs the user's command alone"
    assert (one.store / "here").exists()
