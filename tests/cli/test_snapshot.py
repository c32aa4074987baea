"""``snapshot``: copies of volumes, found, billed and ended like boxes, and made into volumes again."""

from __future__ import annotations

import signal
from decimal import Decimal
from typing import Any

import pytest

from tests.cli.test_guard import CLOUDS
from tests.cli.test_least_privilege import apply, policy
from tests.cli.test_volume import create, forget, launch
from tests.shell import Shell

CREATE = {"aws": "CreateSnapshot", "azure": "PUT snapshots", "alibaba": "CreateSnapshot"}
TAKE = ("snapshot", "create", "monday", "--of", "data", "--yes", "--json")


def used(shell: Shell, cloud: str) -> Any:
    """A volume that was attached once: Alibaba Cloud copies no other; the file on it says "kept"."""
    made = create(shell, cloud)
    launch(shell, cloud, "x")
    assert shell("exec", "x", "--", "sh", "-c", "echo kept > /data/file").code == 0
    return made


def taken(shell: Shell, *more: str) -> Any:
    done = shell(*TAKE, *more)
    assert done.code == 0, done.err
    return done.json["snapshot"]


def snapshots(shell: Shell, *more: str) -> Any:
    return shell("snapshot", "list", "--json", *more).json["snapshots"]


def other_zone(shell: Shell, made: Any) -> tuple[str, ...]:
    """The flag for another zone of the region with the same GPU; none where there is no other."""
    line = ("offers", "--gpu", "T4", "--cloud", made["cloud"], "--region", made["region"], "--json")
    zones = {each["zone"] for each in shell(*line).json["offers"]} - {made["zone"], None}
    return ("--zone", min(zones)) if zones else ()


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_copy_has_the_files_of_the_moment_in_another_zone(cli: Shell, cloud: str) -> None:
    """Under the least privileges, of a volume that is in use; a box mounts the copy beside its source."""
    apply(cli, cloud, policy(cli, cloud))
    made = used(cli, cloud)
    copy = taken(cli, "--keep", "2d")
    assert (copy["state"], copy["of"], copy["size_gib"]) == ("ready", "data", 100)
    assert cli("exec", "x", "--", "sh", "-c", "echo later > /data/file").code == 0
    assert cli("down", "x", "--yes").code == 0
    restored = cli(
        "snapshot", "restore", "monday", "--to", "data-2", *other_zone(cli, made), "--yes", "--json"
    )
    assert restored.code == 0, restored.err
    box = cli.launch("--gpu", "T4", "--ttl", "2h", "--name", "y", "--volume", "data-2:/data")
    assert box["zone"] == restored.json["volume"]["zone"]
    assert cli("exec", "y", "--", "cat", "/data/file").out == "kept\n"
    for line in (("down", "y"), ("volume", "delete", "data"), ("volume", "delete", "data-2")):
        assert cli(*line, "--yes").code == 0
    assert [each["kind"] for each in cli.sandbox.status()["billing"]] == ["snapshot"]
    [listed] = cli("list", "--all-kinds", "--json").json["snapshots"]
    assert listed["name"] == "monday"
    assert cli("snapshot", "delete", "monday", "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []
    assert "a cloud bills what monday holds" in cli("spend").err
    parts = {charge["part"] for box in cli("spend", "--json").json["boxes"] for charge in box["charges"]}
    assert "snapshot" in parts


def test_a_box_mounts_a_copy_beside_its_source(cli: Shell) -> None:
    used(cli, "aws")
    assert cli("down", "x", "--yes").code == 0
    taken(cli)
    assert cli("snapshot", "restore", "monday", "--to", "copy", "--yes").code == 0
    cli.launch("--gpu", "T4", "--name", "y", "--volume", "data:/data", "--volume", "copy:/copy")
    write = "echo new > /data/file; cat /copy/file"
    assert cli("exec", "y", "--", "sh", "-c", write).out == "kept\n"


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_snapshot_is_swept_at_its_end_and_not_before(own_clouds: Shell, cloud: str) -> None:
    """Also by a journal that does not know it; ``recover`` finds it as it was."""
    used(own_clouds, cloud)
    assert own_clouds("down", "x", "--yes").code == 0
    made = taken(own_clouds, "--keep", "2h")
    assert own_clouds("volume", "delete", "data", "--yes").code == 0
    forget(own_clouds)
    assert own_clouds("sweep", "--yes", "--older-than", "0s").code == 0
    assert own_clouds.billed("snapshot")
    assert "1 snapshot restored" in own_clouds("recover").err
    [found] = snapshots(own_clouds)
    same = ("id", "name", "state", "cloud", "region", "size_gib", "expires_at", "most_per_hour")
    assert {name: found[name] for name in same} == {name: made[name] for name in same}
    own_clouds.sandbox.clock(advance_s=3 * 3600)
    assert own_clouds("sweep", "--yes").code == 0
    assert own_clouds.sandbox.status()["billing"] == []


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("effect", ["drop", "kill"])
def test_an_answer_that_is_lost_makes_one_snapshot_or_none(
    own_clouds: Shell, cloud: str, effect: str
) -> None:
    used(own_clouds, cloud)
    assert own_clouds("down", "x", "--yes").code == 0
    own_clouds.sandbox.fault(cloud=cloud, action=CREATE[cloud], effect=effect, stage="applied")
    done = own_clouds(*TAKE)
    assert done.code == (0 if effect == "drop" else -signal.SIGKILL)
    own_clouds("sweep", "--yes")
    assert len(own_clouds.billed("snapshot")) == (1 if effect == "drop" else 0)


def test_what_a_snapshot_costs_agrees_with_the_bill(own_clouds: Shell) -> None:
    for cloud in CLOUDS:
        used(own_clouds, cloud)
        assert own_clouds("down", "x", "--yes").code == 0
        taken(own_clouds)
        [billed] = own_clouds.billed("snapshot")
        [known] = snapshots(own_clouds)
        assert abs(Decimal(known["most_per_hour"]["amount"]) - Decimal(billed["price"]["amount"])) < Decimal(
            "0.0005"
        )
        for line in (("volume", "delete", "data"), ("snapshot", "delete", "monday")):
            assert own_clouds(*line, "--yes").code == 0


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (("create", "monday", "--of", "nothing"), "nothing"),
        (("create", "monday", "--of", "data", "--keep", "1m"), "1h"),
        (("create", "Mon day", "--of", "data"), "Mon day"),
        (("create", "data", "--of", "data"), "exists already"),
        (("restore", "nothing", "--to", "copy"), "nothing"),
        (("restore", "there", "--to", "copy", "--size", "50"), "at least 100 GiB"),
        (("restore", "there", "--to", "copy", "--zone", "usw2-az1"), "usw2-az1"),
        (("restore", "there", "--to", "data"), "exists already"),
        (("delete", "nothing"), "nothing"),
        (("delete", "data"), "is a volume"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_spent(
    with_snapshot: Shell, line: tuple[str, ...], word: str
) -> None:
    before = len(with_snapshot.changes_asked())
    refused = with_snapshot("snapshot", *line, "--yes")
    assert (refused.code, word in refused.err) == (2, True), refused.err
    assert len(with_snapshot.changes_asked()) == before


def test_a_volume_that_was_never_used_has_no_snapshot_on_alibaba_and_what_to_do_is_said(cli: Shell) -> None:
    create(cli, "alibaba")
    refused = cli(*TAKE)
    assert refused.code == 5
    assert "IncorrectDiskStatus.NeverAttached" in refused.error["message"]
    assert "gpucloud launch --volume data:/data" in refused.error["hint"]
    assert refused.error["left"] == []
    assert snapshots(cli) == []


@pytest.fixture
def with_snapshot(cli: Shell) -> Shell:
    """A volume ``data`` and a snapshot ``there`` are there."""
    create(cli, "aws")
    done = cli("snapshot", "create", "there", "--of", "data", "--yes")
    assert done.code == 0, done.err
    return cli
