"""Checkpoints that are rotated while they are uploaded, scaled down; ``make interruptions`` has 500 MB."""

from __future__ import annotations

import pytest

from tests.chaos.rotations import PLAYS, Rotation, rotating, uploads_said
from tests.shell import Shell

SMALL = Rotation(mib=3, step_s=0.1, notice_s=3.0, apart=20)


@pytest.mark.parametrize("cloud", ["aws", "azure", "alibaba"])
@pytest.mark.parametrize(
    ("how", "losses"),
    [
        ("attached", ("interrupted",)),
        ("attached", ("interrupted", "killed", "interrupted")),
        ("detached", ("interrupted", "interrupted", "interrupted")),
    ],
    ids=["attached", "killed", "detached"],
)
def test_a_training_that_rotates_its_checkpoints_repeats_what_came_after_the_last_whole_set(
    cli: Shell, cloud: str, how: str, losses: tuple[str, ...]
) -> None:
    with rotating(cli, cloud, SMALL, restarts=len(losses)) as training:
        PLAYS[how](training, losses)
        assert training.wrong == []
        assert cli.billed() == []


def test_a_rate_that_nobody_measured_is_said_to_be_unknown() -> None:
    assert uploads_said(120e6, 150e6).startswith("  uploads at 120 MB/s; rclone copy")
    unknown = uploads_said(None, 150e6)
    assert "no upload of the last box was seen whole" in unknown
    assert "uploads at" not in unknown
