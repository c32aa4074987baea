"""A command loads the SDK of the clouds that it calls, and no other."""

from __future__ import annotations

import json
import sys
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
*arguments, file = sys.argv[1:]
atexit.register(lambda: pathlib.Path(file).write_text(json.dumps(sorted(sys.modules))))
from gpucloud.cli.app import main
main(arguments)
"""


def loaded(cli: Shell, folder: Path, *arguments: str) -> set[str]:
    """The clouds whose SDKs a command loads."""
    file = folder / "modules.json"
    ran = cli.run(sys.executable, "-c", PROGRAM, *arguments, str(file), GPUCLOUD_SANDBOX="1")
    assert ran.code == 0, ran.err
    modules = {name.partition(".")[0] for name in json.loads(file.read_text())}
    return {cloud for cloud, sdk in SDKS.items() if sdk & modules}


@pytest.mark.parametrize("cloud", SDKS)
def test_a_launch_loads_one_sdk(cli: Shell, tmp_path: Path, cloud: str) -> None:
    launch = ("launch", "--gpu", "T4", "--cloud", cloud, "--name", "x", "--yes")
    assert loaded(cli, tmp_path, *launch) == {cloud}
    assert loaded(cli, tmp_path, "down", "x", "--yes") == {cloud}


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
