"""A command loads the SDK of the clouds that it calls, and no other."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.shell import Shell

SDKS = {
    "aws": {"boto3", "botocore"},
    "azure": {"azure", "msal"},
    "alibaba": {"alibabacloud_ecs20140526", "alibabacloud_tea_openapi", "alibabacloud_credentials"},
}
PROGRAM = """
import atexit, json, pathlib, sys
*arguments, file, missing = sys.argv[1:]
sys.modules.update(dict.fromkeys(missing.split()))
atexit.register(lambda: pathlib.Path(file).write_text(json.dumps(sorted(sys.modules))))
from gpucloud.__main__ import main
main(arguments)
"""


def loaded(cli: Shell, folder: Path, *arguments: str, without: Iterable[str] = ()) -> set[str]:
    """The clouds whose SDKs a command loads; without these packages."""
    file = folder / "modules.json"
    line = (*arguments, str(file), " ".join(without))
    ran = cli.run(sys.executable, "-c", PROGRAM, *line, GPUCLOUD_SANDBOX="1")
    assert ran.code == 0, ran.err
    modules = {name.partition(".")[0] for name in json.loads(file.read_text())} - {*without}
    return {cloud for cloud, sdk in SDKS.items() if sdk & modules}


@pytest.mark.parametrize("cloud", SDKS)
def test_a_launch_loads_one_sdk(cli: Shell, tmp_path: Path, cloud: str) -> None:
    launch = ("launch", "--gpu", "T4", "--cloud", cloud, "--name", "x", "--yes")
    assert loaded(cli, tmp_path, *launch) == {cloud}
    assert loaded(cli, tmp_path, "down", "x", "--yes") == {cloud}


@pytest.mark.parametrize("cloud", SDKS)
def test_one_extra_alone_is_enough_from_launch_to_down(cli: Shell, tmp_path: Path, cloud: str) -> None:
    """Nobody has to say this machine's address because another cloud's SDK is missing."""
    others = {package for name, sdk in SDKS.items() if name != cloud for package in sdk}
    for command in (
        ("launch", "--gpu", "T4", "--name", "x", "--ttl", "2h", "--yes"),
        ("extend", "x", "--ttl", "3h"),
        ("stop", "x", "--yes"),
        ("start", "x", "--yes"),
        ("down", "x", "--yes"),
    ):
        assert loaded(cli, tmp_path, *command, without=others) <= {cloud}
    assert cli.billed() == []


def test_a_launch_anywhere_loads_the_sdks_of_the_clouds_that_it_asks(cli: Shell, tmp_path: Path) -> None:
    loaded_for = loaded(cli, tmp_path, "launch", "--gpu", "T4", "--name", "x", "--yes")
    assert loaded_for == {call["cloud"] for call in cli.sandbox.calls()}


@pytest.mark.parametrize(
    "command",
    [
        ("offers", "--gpu", "T4"),
        ("cost", "--gpu", "T4"),
        ("list",),
        ("version",),
        ("check", "--policy", "aws"),
    ],
)
def test_what_asks_no_cloud_loads_none(cli: Shell, tmp_path: Path, command: tuple[str, ...]) -> None:
    assert loaded(cli, tmp_path, *command) == set()
