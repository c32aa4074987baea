"""A launch with the vendors' SDKs as they might be one day: slower perhaps, but a launch."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests import later_sdks
from tests.shell import OF_GPUCLOUD, Shell

RUN = "\nfrom gpucloud.__main__ import main\n\nmain()\n"


@pytest.mark.parametrize(("cloud", "change"), [("aws", later_sdks.AWS), ("alibaba", later_sdks.ALIBABA)])
def test_a_box_is_launched_and_ended_by_a_later_sdk(
    cli: Shell, tmp_path: Path, cloud: str, change: str
) -> None:
    later_sdks.later_ecs(tmp_path)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    for line in (
        ("launch", "--yes", "--json", "--name", "later", "--gpu", "T4", "--cloud", cloud),
        ("down", "later", "--yes", "--json"),
    ):
        ran = cli.run(sys.executable, "-c", change + RUN, *line, PYTHONPATH=path, **OF_GPUCLOUD)
        assert ran.code == 0, ran.err or ran.out
        assert "the SDK" not in ran.err
    assert any(event["kind"] == "instance" for event in cli.sandbox.ledger())
    assert cli.sandbox.status()["billing"] == []
