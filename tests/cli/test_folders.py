"""Folders that another user made: refused before anything is bought."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.shell import Shell

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")


@pytest.mark.parametrize("which", ["sockets", "state", "config", "link to sockets"])
@pytest.mark.parametrize("command", [("launch", "--yes"), ("run",)])
def test_a_folder_of_another_user_is_refused_before_anything_is_bought(
    cli: Shell, tmp_path: Path, which: str, command: tuple[str, ...]
) -> None:
    folder = {
        "sockets": cli.runtime / "gpucloud",
        "state": cli.home / "state-sandbox",
        "config": cli.home / "config",
        "link to sockets": tmp_path / "theirs",
    }[which]
    folder.mkdir(mode=0o777)
    os.chown(folder, 4711, 4711)
    if which == "link to sockets":
        (cli.runtime / "gpucloud").symlink_to(folder)
    line = (*command, "--gpu", "T4", "--cloud", "aws", *(["--", "true"] if command == ("run",) else []))
    refused = cli(*line)
    assert refused.code == (125 if command == ("run",) else 2), refused.err
    assert "another user" in refused.err or "only you can read" in refused.err
    assert "hint:" in refused.err
    assert cli.changes_asked() == []
