"""``launch --name x`` while x lives refuses, also where no journal tells of it."""

from __future__ import annotations

from tests.cli.test_sweep import forget_everything
from tests.shell import Shell


def test_a_name_that_lives_in_a_cloud_is_taken_with_an_empty_journal_or_said_to_be_unknown(
    cli: Shell,
) -> None:
    """The clouds are asked for a short time: one that is slow is said, and holds no launch."""
    box = cli.launch("--gpu", "T4", "--name", "x", "--cloud", "azure")
    forget_everything(cli)
    again = cli("launch", "--gpu", "T4", "--name", "x", "--cloud", "azure", "--yes")
    refused = again.code == 2 and box["nodes"][0]["instance_id"] in again.err
    said = again.code == 0 and "azure did not answer, so a box 'x' there could not be ruled out" in again.err
    assert refused or said, again.err
