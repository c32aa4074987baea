"""Boxes end with the clouds alone, where the journal of a team cannot be reached or names no server."""

from __future__ import annotations

import pytest

from gpucloud_sandbox.client import Endpoint
from tests.shell import Shell

NOBODY = "postgresql://alice@127.0.0.1:1/gpucloud"
UNKNOWN = "postgresql://alice@nowhere.invalid/gpucloud?sslrootcert=system"
CLOUDS = ("aws", "azure", "alibaba")
AWAY = {"GPUCLOUD_JOURNAL": NOBODY}


def billed(clouds: Endpoint) -> list[str]:
    """The owners of the machines that are billed."""
    found = clouds.client.status()["billing"]
    return sorted(each["owner"] for each in found if each["kind"] == "instance")


def launched(
    shell: Shell, name: str, cloud: str = "aws", *more: str, owner: str = "alice", ttl: str = "2h"
) -> None:
    """A box of which no journal that is reached later knows."""
    line = ("launch", "--gpu", "T4", "--cloud", cloud, "--name", name, "--ttl", ttl, "--yes", *more)
    made = shell(*line, GPUCLOUD_OWNER=owner)
    assert made.code == 0, made.err


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_box_of_the_login_ends_by_its_name_and_a_colleagues_stays(own_clouds: Shell, cloud: str) -> None:
    launched(own_clouds, "x", cloud)
    launched(own_clouds, "x", cloud, owner="bob")
    ended = own_clouds("down", "x", "--yes", "--json", **AWAY)
    assert (ended.code, [box["name"] for box in ended.json["boxes"]]) == (0, ["x"]), ended.err
    assert "end without the journal" in ended.err
    assert billed(own_clouds.endpoint) == ["bob"]


def test_all_boxes_of_the_login_end_and_volumes_stay(own_clouds: Shell) -> None:
    for cloud in CLOUDS:
        launched(own_clouds, f"on-{cloud}", cloud)
    line = ("volume", "create", "data", "--size", "10", "--near", "T4", "--cloud", "aws", "--yes")
    assert own_clouds(*line, GPUCLOUD_OWNER="alice").code == 0
    ended = own_clouds("down", "--all", "--yes", **AWAY)
    assert ended.code == 0, ended.err
    assert "Volumes and snapshots are not known" in ended.out + ended.err
    assert [each["kind"] for each in own_clouds.endpoint.client.status()["billing"]] == ["disk"]


def test_a_run_ends_by_its_id_and_a_region_that_cannot_be_read_is_owed(own_clouds: Shell) -> None:
    launched(own_clouds, "x", "aws", "--run-id", "r")
    own_clouds.sandbox.fault(
        effect="error", code="AccessDenied", status=403, cloud="aws", action="DescribeInstances", times=None
    )
    unread = own_clouds("down", "--run-id", "r", "--yes", **AWAY)
    assert unread.code == 8, unread.err
    own_clouds.sandbox.clear_faults()
    ended = own_clouds("down", "--run-id", "r", "--yes", **AWAY)
    assert ended.code == 0, ended.err
    assert billed(own_clouds.endpoint) == []


def test_a_sweep_ends_what_is_past_its_deadline_and_leaves_what_lives(own_clouds: Shell) -> None:
    """Without the journal, no living box is taken for one that nobody knows."""
    launched(own_clouds, "over", ttl="1h")
    launched(own_clouds, "lives", ttl="12h")
    names = {
        box["name"]: box["id"] for box in own_clouds("list", "--json", GPUCLOUD_OWNER="alice").json["boxes"]
    }
    own_clouds.sandbox.clock(advance_s=2 * 3600)
    swept = own_clouds("sweep", "--yes", "--older-than", "0s", "--json", **AWAY)
    assert swept.code == 0, swept.err
    assert {each["box"] for each in swept.json["found"] if each["unwanted"]} == {names["over"]}
    assert billed(own_clouds.endpoint) == ["alice"]


def test_a_server_whose_name_is_unknown_is_away_too(own_clouds: Shell) -> None:
    launched(own_clouds, "x")
    ended = own_clouds("down", "--all", "--yes", GPUCLOUD_JOURNAL=UNKNOWN)
    assert ended.code == 0, ended.err
    assert billed(own_clouds.endpoint) == []


def test_nothing_is_bought_and_the_hint_says_what_ends_boxes(own_clouds: Shell) -> None:
    refused = own_clouds("launch", "--gpu", "T4", "--yes", "--json", **AWAY)
    assert refused.code == 2
    assert "gpucloud down NAME" in refused.error["hint"]
    assert own_clouds.endpoint.client.status()["billing"] == []
