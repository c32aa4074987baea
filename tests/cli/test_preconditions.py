"""What is needed on this machine is looked at before anything is bought."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpucloud_sandbox.client import Endpoint
from tests.forked import ForkServer
from tests.shell import Shell, newcomer

T4 = ("--gpu", "T4", "--cloud", "aws")
LAUNCH = ("launch", *T4, "--yes")
RUN = ("run", *T4)
COMMAND = ("--", "sh", "-c", "echo 1 >out")
NAMELESS = 1_000_680_000


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("ssh", LAUNCH),
        ("ssh", (*RUN, *COMMAND)),
        ("ssh-keygen", LAUNCH),
        ("rsync", (*LAUNCH, "--sync", ".")),
        ("rsync", (*RUN, "--sync", ".", *COMMAND)),
        ("rsync", (*RUN, "--fetch", "out", *COMMAND)),
        ("rsync", (*RUN, "--detach", "--fetch", "out", *COMMAND)),
    ],
)
def test_without_a_program_that_it_needs_nothing_is_bought(
    cli: Shell, program: str, line: tuple[str, ...]
) -> None:
    programs = cli.home / "programs"
    programs.mkdir()
    for name in {"bash", "rsync", "sh", "ssh", "ssh-keygen"} - {program}:
        found = shutil.which(name)
        assert found is not None, name
        (programs / name).symlink_to(found)
    refused = cli(*line, PATH=str(programs))
    assert refused.code == (125 if line[0] == "run" else 2)
    assert f"{program} is not installed" in refused.err
    assert "apt-get install" in refused.err
    assert cli.changes_asked() == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_user_id_without_a_name_buys_nothing_that_its_ssh_could_not_reach(
    endpoint: Endpoint, forks: ForkServer
) -> None:
    """OpenShift gives such IDs; where the image lets it, it gets a name instead (tests/ssh/test_user.py)."""
    with TemporaryDirectory(prefix="nameless-") as folder, newcomer(endpoint, Path(folder), forks) as cli:
        for own in (folder, cli.runtime):
            os.chown(own, NAMELESS, NAMELESS)
        environment = {**cli.environ, "HOME": folder}
        for line in (LAUNCH, (*RUN, "--sync", ".", "--fetch", "out", *COMMAND)):
            process = forks.start(line, environment=environment, folder=folder, uid=NAMELESS)
            refused = cli.finish(process)
            assert refused.code == (125 if line[0] == "run" else 2)
            assert f"user ID {NAMELESS} has no name here" in refused.err
            assert "chmod g=u /etc/passwd" in refused.err
        assert cli.changes_asked() == []
