"""A set of a living folder: what a job does to its files meanwhile tears none of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gpucloud.ssh.checkpoints import PROGRAM
from gpucloud_templates.checkpoints import choice
from gpucloud_templates.checkpoints.files import Look, Seen
from tests.cli.test_takeover import may_unshare
from tests.templates.conftest import FROZEN, RCLONE, Box, meanwhile

LARGE = "x" * 100_000
SMALL_FILES = int(os.environ.get("SMALL_FILES", "2000"))
"""More than what is copied in any case."""


def restored(made: Callable[..., Box], attempt: int = 2) -> dict[str, str]:
    """What the next box finds."""
    box = made(f"next-{attempt}")
    box.begin(attempt)
    return box.files()


def left_out(box: Box) -> list[str]:
    words: list[str] = box.status()["left_out"]["words"]
    return words


def test_what_is_deleted_and_replaced_during_an_upload_is_in_its_set(
    box: Callable[..., Box], tmp_path: Path
) -> None:
    """A job that keeps its newest two: neither is there any more when it is sent."""
    one = box("one")
    one.begin(1)
    for name in ("step-1", "step-2"):
        one.write(name, LARGE + name)
    rotate = "cd saved; echo newer >draft; mv draft step-2; rm step-1; cd .."
    one.use(meanwhile(tmp_path, FROZEN, rotate))
    assert one.upload()["files"] == 2
    assert restored(box) == {"step-1": LARGE + "step-1", "step-2": LARGE + "step-2"}
    assert not list(one.home.glob(f"*{FROZEN}")), "what was frozen is gone"


def test_a_file_that_is_written_in_place_keeps_its_last_whole_version(
    box: Callable[..., Box], tmp_path: Path
) -> None:
    one = box("one")
    one.begin(1)
    one.write("model", LARGE + "1")
    one.write("other", "1")
    one.upload()
    for name, text in (("draft", LARGE + "22"), ("other", "2"), ("new", LARGE)):
        one.write(name, text)
    (one.saved / "draft").replace(one.saved / "model")
    one.use(meanwhile(tmp_path, FROZEN, "echo torn >>saved/model; echo torn >>saved/new"))
    assert one.upload()["number"] == 2
    assert left_out(one) == [f"{name}: it was written during its upload" for name in ("model", "new")]
    assert restored(box) == {"model": LARGE + "1", "other": "2"}
    one.use(meanwhile(tmp_path, FROZEN, "echo again >>saved/new"))
    assert one.upload()["number"] == 3
    assert left_out(one) == [], "what is known to be written in place is copied before"
    assert restored(box, 3)["new"] == LARGE + "torn\n"


def test_a_small_file_that_is_rewritten_all_the_time_is_in_each_set(
    box: Callable[..., Box], tmp_path: Path
) -> None:
    one = box("one")
    one.begin(1)
    one.use(meanwhile(tmp_path, FROZEN, "echo later >saved/step"))
    for number, text in enumerate(("one", "two", "three"), start=1):
        one.write("step", text)
        assert one.upload()["number"] == number
        assert (one.attempt(1) / f"{number}/step").read_text() == text


def test_a_file_that_somebody_writes_is_left_out_with_a_word_until_it_is_closed(
    box: Callable[..., Box],
) -> None:
    one = box("one")
    one.begin(1)
    one.write("whole", LARGE)
    with (one.saved / "half").open("w") as half:
        half.write(LARGE)
        half.flush()
        assert one.upload()["files"] == 1
        assert left_out(one) == ["half: it is being written"]
    assert one.upload()["files"] == 2
    assert restored(box) == {"whole": LARGE, "half": LARGE}


def test_a_file_is_sent_once_whatever_it_is_called(box: Callable[..., Box]) -> None:
    """A second name of it, and the name that it was given since."""
    one = box("one")
    one.begin(1)
    one.write("last", LARGE)
    os.link(one.saved / "last", one.saved / "best")
    assert one.upload()["files"] == 2
    (one.saved / "last").rename(one.saved / "previous")
    one.write("last", LARGE + "2")
    one.upload()
    sent = [file for file in one.attempt(1).glob("[0-9]*/*") if file.is_file()]
    assert sorted(file.stat().st_size for file in sent) == [len(LARGE), len(LARGE) + 1]
    assert restored(box) == {"best": LARGE, "previous": LARGE, "last": LARGE + "2"}


def test_a_new_folder_counts_once_it_is_filled(box: Callable[..., Box]) -> None:
    one = box("one")
    one.begin(1)
    one.write("step-1/a", "half")
    one.write_folder("step-2", {"a": "2", "b/c": "2"})
    assert one.upload()["files"] == 2
    assert left_out(one) == ["step-1: it is being filled"]
    for each in (one.saved / "step-1/a", one.saved / "step-1"):
        os.utime(each, (0, 0))
    assert one.upload()["files"] == 3, "nothing has changed in it for long"
    assert restored(box) == {"step-1/a": "half", "step-2/a": "2", "step-2/b/c": "2"}


def test_any_name_of_a_file_comes_back_as_it_was(box: Callable[..., Box]) -> None:
    names = [
        b"line\nbreak",
        b"\xff\xfe",
        b" ends with a blank ",
        b"=",
        b"a" * 255,
        b"dot.",
        b"\x1b[31m",
        b"#x",
    ]
    one, two = box("one"), box("two")
    one.begin(1)
    for name in names:
        (one.saved / os.fsdecode(name)).write_bytes(name)
    assert one.upload()["files"] == len(names)
    two.begin(2)
    assert {os.fsencode(file.name): file.read_bytes() for file in two.saved.iterdir()} == dict(
        zip(names, names, strict=True)
    )


def test_links_are_left_out_and_none_leads_a_file_out_of_the_folder(box: Callable[..., Box]) -> None:
    one, two = box("one"), box("two")
    one.begin(1)
    one.write_folder("out", {"x": "1"})
    (one.saved / "latest").symlink_to("out")
    (one.saved / "secret").symlink_to("/etc/passwd")
    assert one.upload()["files"] == 1
    assert left_out(one) == ["latest: a link", "secret: a link"]
    two.saved.mkdir()
    (two.home / "elsewhere").mkdir()
    (two.saved / "out").symlink_to(two.home / "elsewhere")
    begun = two.begin(2)
    assert (begun["restored"], begun["damaged"]) == (None, ["attempt 1: 'out' leads out of the folder"])
    assert not list((two.home / "elsewhere").iterdir())


def test_a_folder_that_vanishes_leaves_the_newest_set(box: Callable[..., Box], tmp_path: Path) -> None:
    one = box("one")
    one.begin(1)
    one.write("model", LARGE)
    one.upload()
    one.write("model", LARGE + "2")
    one.use(meanwhile(tmp_path, FROZEN, "rm -r saved"))
    assert one.upload()["number"] == 2, "it was frozen"
    assert one.upload()["number"] == 2
    assert restored(box) == {"model": LARGE + "2"}


def test_files_that_are_up_are_not_sent_again_after_a_failure(
    box: Callable[..., Box], tmp_path: Path
) -> None:
    one = box("one")
    one.begin(1)
    one.write("model", LARGE)
    one.use(meanwhile(tmp_path, "attempts/1/1/", "exit 1"))
    assert one.ask("upload").returncode != 0
    one.use(RCLONE)
    assert one.upload()["number"] == 1, "nothing of it had been finished"
    assert restored(box) == {"model": LARGE}


def test_an_older_set_of_an_attempt_is_restored_if_the_newest_is_damaged(box: Callable[..., Box]) -> None:
    one, two = box("one"), box("two")
    one.begin(1)
    for text in ("1", "2"):
        one.write("model", text)
        one.upload()
    (one.attempt(1) / "2/model").write_text("longer than it was")
    begun = two.begin(2)
    assert begun["restored"]["number"] == 1
    assert begun["damaged"] == ["attempt 1: not all of its files are there"]
    assert two.files() == {"model": "1"}


@pytest.mark.parametrize("size", [1 << 62, 100])
def test_a_set_whose_sizes_are_a_lie_is_passed_over_before_the_disk_is_full(
    box: Callable[..., Box], size: int
) -> None:
    good, liar, third = box("good"), box("liar"), box("third")
    good.begin(1)
    good.write("model", "good")
    good.upload()
    liar.begin(2)
    liar.write("model", "liar")
    liar.upload()
    for path in ("latest.json", "sets/1.json"):
        lie = {"number": 1, "files": {"model": [size, 1, 1]}}
        (liar.attempt(2) / path).write_text(json.dumps(lie))
    begun = third.begin(3)
    assert begun["restored"]["attempt"] == 1
    assert third.files() == {"model": "good"}


def test_the_attempt_that_has_uploaded_last_is_restored_by_the_clock_of_the_store(
    box: Callable[..., Box],
) -> None:
    """The first box lived on: its process had lost it, and its set has more of the work."""
    first, second, third = box("first"), box("second"), box("third")
    first.begin(1)
    first.write("model", "1")
    first.upload()
    second.begin(2)
    second.write("model", "2")
    second.upload()
    for file in second.attempt(2).rglob("*.json"):
        os.utime(file, (1, 1))
    first.write("model", "3")
    first.upload()
    begun = third.begin(3)
    assert begun["restored"]["attempt"] == 1
    assert begun["damaged"] == ["attempt 2: attempt 1 has uploaded a newer one"]
    assert third.files() == {"model": "3"}


@pytest.mark.timeout(1200)
def test_very_many_small_files_are_one_whole_set_that_is_sent_once(
    box: Callable[..., Box], tmp_path: Path
) -> None:
    """As a job has them that keeps a file for each sample; it rotates a folder of them during the upload.

    ``make torture`` has a hundred thousand.
    """
    one = box("one")
    one.begin(1)
    wanted: dict[str, str] = {}
    for folder in range(100):
        texts = {f"{name}": f"{folder}-{name}" for name in range(SMALL_FILES // 100)}
        one.write_folder(f"part-{folder}", texts)
        wanted.update({f"part-{folder}/{name}": text for name, text in texts.items()})
    one.use(meanwhile(tmp_path, FROZEN, "rm -r saved/part-0; mv saved/part-1 saved/part-0"))
    assert one.upload() == {"number": 1, "files": len(wanted), "bytes": sum(map(len, wanted.values()))}
    assert left_out(one) == []
    assert restored(box) == wanted
    one.use(meanwhile(tmp_path, FROZEN, "exit 1"))
    rotated = {
        name.replace("part-1/", "part-0/"): text
        for name, text in wanted.items()
        if not name.startswith("part-0/")
    }
    assert one.upload()["files"] == len(rotated), "nothing is sent: files that were renamed are up"
    assert one.upload()["number"] == 2, "nothing has changed"
    assert restored(box, 3) == rotated


# --- which files are a set

OLD, NEW = 1_000_000_000, 2_000_000_000


def a_look(names: Mapping[str, int]) -> Look:
    """A look at files, with their times."""
    look = Look()
    look.files = {name: Seen(10, at, number) for number, (name, at) in enumerate(names.items())}
    return look


MARKED = [
    ("*/done", {"1/a": OLD, "1/done": OLD, "2/a": NEW}, {"1/a", "1/done"}),
    ("*/done", {"1/a": OLD, "1/done": OLD, "2/b/c": NEW, "2/done": NEW}, {"2/b/c", "2/done"}),
    ("*.index", {"m-1.index": OLD, "m-1.data-0": OLD, "m-10.data-0": NEW}, {"m-1.index", "m-1.data-0"}),
    ("x/*.done", {"x/1.done": OLD, "x/1/a": OLD, "x/2/a": NEW}, {"x/1.done", "x/1/a"}),
    ("latest", {"latest": OLD, "step-1/a": OLD, "step-2/a": NEW}, {"latest", "step-1/a"}),
    ("*/done", {"1/a": OLD}, set[str]()),
]


@pytest.mark.parametrize(("pattern", "names", "wanted"), MARKED)
def test_a_marker_tells_which_files_are_a_set(
    pattern: str, names: Mapping[str, int], wanted: set[str]
) -> None:
    found = choice.marked(a_look(names), pattern, lambda name: False).names
    assert {name for name in found if "/" in name or name in wanted} == wanted


def test_a_marker_one_of_whose_files_is_being_written_gives_way_to_the_one_before() -> None:
    look = a_look({"1/a": OLD, "1/done": OLD, "2/a": NEW, "2/done": NEW})
    found = choice.marked(look, "*/done", lambda name: name == "2/a")
    assert found.names == {"1/a", "1/done"}
    assert found.waiting == {"2/done": "'2/a' is being written"}


def test_with_a_marker_a_set_has_the_files_of_one_checkpoint(box: Callable[..., Box]) -> None:
    one = box("one")
    one.begin(1, marker="*/done")
    one.write("1/model", "1")
    one.write("latest", "1")
    assert one.upload()["files"] == 0
    assert left_out(one) == ["*/done: no file has this name yet"]
    one.write("1/done", "")
    assert one.upload()["files"] == 3
    one.write("2/model", "2")
    assert one.upload()["number"] == 1, "it is not whole"
    one.write("2/done", "")
    assert one.upload()["number"] == 2
    assert restored(box) == {"2/model": "2", "2/done": "", "latest": "1"}


# --- disks

MOUNTS = ("unshare", "--mount", "--map-root-user")


def on_a_disk(box: Box, mib: int, at: str, script: str) -> str:
    """What a script says in a copy of a box's home, which is a disk of its own or has one."""
    command = f"""
set -e
mkdir -p ../disk/{at}; mount -t tmpfs -o size={mib}m none ../disk/{at}
cp -a . ../disk; cd ../disk
export HOME="$PWD"
program() {{ {sys.executable} {PROGRAM} "$@"; }}
{script}
"""
    done = subprocess.run(
        [*MOUNTS, "bash", "-c", command],
        cwd=box.home,
        env=box.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not may_unshare(), reason="this system gives no namespaces to this user")
def test_a_folder_that_is_a_mount_is_frozen_inside_itself(box: Callable[..., Box], tmp_path: Path) -> None:
    one = box("one", rclone=meanwhile(tmp_path, FROZEN, "ls -A saved >&2; rm saved/model"))
    settings = json.dumps(one.settings)
    script = f"""
program begin '{settings}' >/dev/null
head -c 200000 /dev/zero >saved/model
program upload
ls -A saved
"""
    assert json.loads(on_a_disk(one, 8, "saved", script)) == {"number": 1, "files": 1, "bytes": 200_000}
    assert (one.attempt(1) / "1/model").stat().st_size == 200_000, "frozen, and nothing of that is left"


@pytest.mark.skipif(not may_unshare(), reason="this system gives no namespaces to this user")
def test_what_is_there_is_uploaded_from_a_full_disk(box: Callable[..., Box]) -> None:
    one = box("one")
    settings = json.dumps(one.settings)
    script = f"""
program begin '{settings}' >/dev/null
head -c 200000 /dev/zero >saved/model
cat /dev/zero >filler 2>/dev/null || true
program upload
"""
    assert json.loads(on_a_disk(one, 24, ".", script))["bytes"] == 200_000
    assert restored(box)["model"] == "\0" * 200_000
