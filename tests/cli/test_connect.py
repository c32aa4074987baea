"""Who gets into a box, and what comes back from it unharmed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpucloud_sandbox.client import Endpoint
from tests.shell import Shell, newcomer

ODD_NAMES = (
    "plain.txt",
    "with space",
    " leading and trailing ",
    "-rf",
    "--delete",
    "quote'and\"double",
    "dollar$HOME$(touch x)`id`",
    "star*and?[a-z]",
    "back\\slash",
    "new\nline",
    "colon:in:name",
    "größe-模型-🚀",
    "semi;colon&amp",
    "~tilde",
    "#hash",
    ".hidden",
)


@pytest.fixture(scope="module")
def work(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell whose user has a box named ``work``."""
    with newcomer(endpoint, tmp_path_factory.mktemp("user")) as shell:
        shell.launch("--gpu", "T4", "--name", "work")
        yield shell


def make_odd(folder: Path) -> Path:
    """A folder of everything that a careless copy would lose."""
    folder.mkdir()
    for number, name in enumerate(ODD_NAMES):
        (folder / name).write_bytes(f"{number}\n".encode() + os.urandom(200))
    (folder / "empty").touch()
    (folder / "big").write_bytes(os.urandom(300_000))
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "deep" / "er ").mkdir(parents=True)
    (folder / "deep" / "er " / "file").write_text("x")
    (folder / "an empty folder").mkdir()
    (folder / "link").symlink_to("plain.txt")
    return folder


def tree(folder: Path) -> dict[str, object]:
    """Every path below a folder, with what makes it that."""

    def content(path: Path) -> object:
        if path.is_symlink():
            return path.readlink()
        return "folder" if path.is_dir() else (path.read_bytes(), path.stat().st_mode & 0o777)

    return {str(path.relative_to(folder)): content(path) for path in sorted(folder.rglob("*"))}


def test_a_folder_goes_there_and_comes_back_byte_for_byte(work: Shell, tmp_path: Path) -> None:
    odd = make_odd(tmp_path / "odd")
    there = work("sync", f"{odd}/", "work:in it")
    assert there.code == 0, there.err
    back = work("sync", "work:in it/", f"{tmp_path}/back")
    assert back.code == 0, back.err
    assert tree(tmp_path / "back") == tree(odd)
    assert work("exec", "work", "--", "head", "-n1", "in it/with space").out == "1\n"


def test_launch_brings_files_along(work: Shell, tmp_path: Path) -> None:
    odd = make_odd(tmp_path / "odd")
    work.launch("--gpu", "T4", "--name", "laden", "--sync", f"{odd}/:here", "--sync", str(odd / "run.sh"))
    assert work("sync", "laden:here/", f"{tmp_path}/back").code == 0
    assert tree(tmp_path / "back") == tree(odd)
    assert work("exec", "laden", "--", "ls", "run.sh").out == "run.sh\n"


def test_private_keys_are_for_the_user_alone(work: Shell) -> None:
    state = work.home / "state-sandbox"
    files = [path for path in state.rglob("*") if path.is_file()]
    keys = [path for path in files if b"PRIVATE KEY" in path.read_bytes()]
    assert keys
    assert {path.stat().st_mode & 0o777 for path in keys} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in files if path.suffix == ".db"} == {0o600}
    assert state.stat().st_mode & 0o777 == 0o700


@contextmanager
def moved_to(address: str, shell: Shell) -> Iterator[Shell]:
    """The same user on another network: with another address, and without the connections of before."""
    before = shell.sandbox.address()
    shell.sandbox.address(address)
    with TemporaryDirectory(prefix="run-") as runtime:
        yield Shell(shell.home, Path(runtime), shell.endpoint)
    shell.sandbox.address(before)


def let_in(shell: Shell, name: str) -> list[str]:
    """The addresses that a box's group lets in, as the cloud shows it."""
    [box] = [each for each in shell.boxes() if each["name"] == name]
    of_box = [{"Name": "tag:gpucloud:box", "Values": [box["id"]]}]
    seen = shell.ec2(box["region"]).describe_security_groups(Filters=of_box)
    return [
        each["CidrIp"] for rule in seen["SecurityGroups"][0]["IpPermissions"] for each in rule["IpRanges"]
    ]


@pytest.mark.parametrize(("command", "address"), [("exec", "198.51.100.99"), ("ssh", "192.0.2.42")])
def test_a_caller_whose_address_changed_is_let_in_again_alone(
    work: Shell, command: str, address: str
) -> None:
    with moved_to(address, work) as elsewhere:
        said = elsewhere(command, "work", "--", "echo", "here")
    assert (said.code, said.out) == (0, "here\n"), said.err
    assert address in said.err, "moving the rule is said"
    assert let_in(work, "work") == [f"{address}/32"]


def test_a_caller_outside_of_the_addresses_that_were_named_is_refused(work: Shell) -> None:
    named = f"{work.sandbox.address()}/32"
    work.launch("--gpu", "T4", "--name", "strict", "--allow-from", named)
    with moved_to("198.51.100.99", work) as elsewhere:
        refused = elsewhere("exec", "strict", "--", "true")
        assert refused.code == 125
        assert named in refused.err
        assert elsewhere("ssh", "strict", "--", "true").code != 0
    assert let_in(work, "strict") == [named], "nothing was changed"
    assert work("exec", "strict", "--", "true").code == 0


def test_nobody_lets_the_world_in(work: Shell) -> None:
    before = len(work.changes_asked())
    refused = work("launch", "--gpu", "T4", "--allow-from", "0.0.0.0/0", "--yes")
    assert refused.code == 2
    assert len(work.changes_asked()) == before


def test_a_box_that_is_over_cannot_be_entered(work: Shell) -> None:
    work.launch("--gpu", "T4", "--name", "gone")
    assert work("down", "gone", "--yes").code == 0
    refused = work("ssh", "gone", "--", "true")
    assert refused.code != 0
    assert "deleted" in refused.err
    assert work("sync", "gone:x", "x").code == 2
