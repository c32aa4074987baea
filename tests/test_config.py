"""Where files go, and the owner's id."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from gpucloud.config import find_owner, find_paths, make_private
from gpucloud.errors import UsageError
from gpucloud.ssh.keys import create_keys


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_one_variable_moves_every_folder(tmp_path: Path) -> None:
    paths = find_paths({"GPUCLOUD_HOME": str(tmp_path)}, sandbox=False)
    assert {paths.state.parent, paths.config.parent, paths.sandbox.parent} == {tmp_path}


def test_the_sandbox_has_a_journal_of_its_own_and_keeps_its_files_apart(tmp_path: Path) -> None:
    environment = {"GPUCLOUD_HOME": str(tmp_path)}
    real, emulated = (find_paths(environment, sandbox=sandbox) for sandbox in (False, True))
    assert real.state != emulated.state
    assert emulated.sandbox not in {real.state, emulated.state, *emulated.state.parents}
    assert real.config == emulated.config


def test_finding_the_folders_makes_none(tmp_path: Path) -> None:
    find_paths({"GPUCLOUD_HOME": str(tmp_path / "new")}, sandbox=True)
    assert list(tmp_path.iterdir()) == []


def test_a_relative_home_is_taken_from_where_the_user_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_paths({"GPUCLOUD_HOME": "here"}, sandbox=False).state == tmp_path / "here" / "state"


def test_folders_are_private_down_to_the_first_that_was_missing(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        folder = make_private(tmp_path / "a" / "b")
    finally:
        os.umask(previous)
    assert [mode(folder), mode(folder.parent)] == [0o700, 0o700]


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_folder_is_private_whatever_the_umask_and_whatever_it_was(tmp_path: Path, mask: int) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "open").chmod(0o755)
    previous = os.umask(mask)
    try:
        folders = [make_private(tmp_path / "a" / "b"), make_private(tmp_path / "open")]
        create_keys(tmp_path / "state" / "keys" / "b-1", "b-1")
    finally:
        os.umask(previous)
    folders += [folders[0].parent, *(tmp_path / "state").glob("**/")]
    assert {mode(folder) for folder in folders} == {0o700}
    private = [file for file in (tmp_path / "state").glob("**/*") if file.is_file() and file.suffix != ".pub"]
    assert {mode(file) for file in private} == {0o600}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("link", [False, True])
def test_a_folder_of_another_user_is_refused_with_the_fix(tmp_path: Path, link: bool) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 4711, 4711)
    folder = tmp_path / "state" if link else theirs
    if link:
        folder.symlink_to(theirs)
    with pytest.raises(UsageError, match="another user \\(uid 4711\\)") as refused:
        make_private(folder)
    assert "chown" in str(refused.value.hint)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link to another user")
def test_a_link_of_another_user_to_a_folder_of_ours_is_refused(tmp_path: Path) -> None:
    """Its owner can make it point elsewhere at any moment."""
    (tmp_path / "ours").mkdir(mode=0o700)
    (tmp_path / "state").symlink_to(tmp_path / "ours")
    os.chown(tmp_path / "state", 4711, 4711, follow_symlinks=False)
    with pytest.raises(UsageError, match="another user"):
        make_private(tmp_path / "state")


def test_a_file_in_the_way_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(UsageError, match="state"):
        make_private(tmp_path / "state" / "deep")
    with pytest.raises(UsageError, match="state"):
        make_private(tmp_path / "state")


def test_the_owner_is_made_once_and_readable_by_the_user_alone(tmp_path: Path) -> None:
    paths = find_paths({"GPUCLOUD_HOME": str(tmp_path)}, sandbox=False)
    owner = find_owner(paths, {})
    assert owner == find_owner(paths, {})
    assert mode(paths.config / "owner") == 0o600
    assert [file.name for file in paths.config.iterdir()] == ["owner"]


def test_the_environment_names_the_owner_without_touching_the_disk(tmp_path: Path) -> None:
    paths = find_paths({"GPUCLOUD_HOME": str(tmp_path)}, sandbox=False)
    assert find_owner(paths, {"GPUCLOUD_OWNER": "ci@example.com"}) == "ci@example.com"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("owner", ["a b", "x" * 65, "-x", "a\nb", "a;rm", "ü"])
def test_an_owner_that_no_tag_could_hold_is_refused(tmp_path: Path, owner: str) -> None:
    paths = find_paths({"GPUCLOUD_HOME": str(tmp_path)}, sandbox=False)
    with pytest.raises(UsageError, match="GPUCLOUD_OWNER"):
        find_owner(paths, {"GPUCLOUD_OWNER": owner})


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"two words"])
def test_a_damaged_owner_file_is_refused_and_not_replaced(tmp_path: Path, content: bytes) -> None:
    paths = find_paths({"GPUCLOUD_HOME": str(tmp_path)}, sandbox=False)
    file = make_private(paths.config) / "owner"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="owner"):
        find_owner(paths, {})
    assert file.read_bytes() == content


def test_many_who_start_at_once_agree_on_one_owner(tmp_path: Path) -> None:
    paths = find_paths({"GPUCLOUD_HOME": str(tmp_path)}, sandbox=False)
    ready = threading.Barrier(8)
    owners: list[str] = []

    def start() -> None:
        ready.wait()
        owners.append(find_owner(paths, {}))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(owners) == 8
    assert len(set(owners)) == 1
