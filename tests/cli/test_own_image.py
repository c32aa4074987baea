"""``snapshot create --of BOX`` and ``launch --image``: the root disk of a stopped box boots other boxes."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.cli.test_least_privilege import apply, policy
from tests.cli.test_volume import forget
from tests.shell import Shell

CLOUDS = ("aws", "alibaba", "azure")
CREATE = {"aws": "CreateImage", "alibaba": "CreateImage", "azure": "PUT versions"}
LAST = {"aws": "DeleteSnapshot", "alibaba": "DeleteSnapshot", "azure": "DELETE resourceGroups"}
"""The call that deletes the last of it."""
OLD = {"azure": ("--image", "ubuntu-22.04")}
"""The box that is copied: on Azure, one with Trusted Launch."""
TAKE = ("snapshot", "create", "mine", "--of", "x", "--yes", "--json")
KEPT = "echo kept > ~/file"
"""What is on the disk of the box, and is to be on that of the box that boots from its image."""
MOUNTS = "LABEL=gpucloud-abc1234 /data ext4 nofail 0 2\\ntmpfs /cache tmpfs size=1g 0 0\\n"


def stopped(shell: Shell, cloud: str, *more: str) -> Any:
    """A stopped box with a file on its root disk, a secret variable, and a volume that it had."""
    box = shell.launch(
        "--gpu", "T4", "--cloud", cloud, "--name", "x", "--ttl", "2h", "--env", "TOKEN=old", *more
    )
    assert shell("exec", "x", "--", "sh", "-c", KEPT).code == 0
    assert shell("exec", "x", "--", "sudo", "sh", "-c", f"printf '{MOUNTS}' >>/etc/fstab").code == 0
    assert shell("stop", "x", "--yes").code == 0
    return box


def taken(shell: Shell, *more: str) -> Any:
    done = shell(*TAKE, *more)
    assert done.code == 0, done.err
    return done.json["snapshot"]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_box_boots_from_a_copy_of_another_one_with_an_end_and_keys_of_its_own(
    cli: Shell, cloud: str
) -> None:
    """Under the least privileges; the image may be deleted while the box lives."""
    apply(cli, cloud, policy(cli, cloud))
    old = stopped(cli, cloud, *OLD.get(cloud, ()))
    made = taken(cli, "--keep", "2d")
    assert (made["state"], made["of"], made["bootable"], made["size_gib"]) == ("ready", "x", True, 100)
    assert cli("down", "x", "--yes").code == 0
    assert {each["kind"] for each in cli.sandbox.status()["billing"]} == {"snapshot"}
    box = cli.launch("--gpu", "T4", "--name", "y", "--ttl", "5h", "--image", "mine")
    assert (box["cloud"], box["region"]) == (old["cloud"], old["region"])
    assert cli("exec", "y", "--", "cat", "file").out == "kept\n"
    assert cli("exec", "y", "--", "sh", "-c", "cat ~/.gpucloud/env; echo [$TOKEN]").out == "[]\n"
    assert cli("exec", "y", "--", "cat", "/etc/fstab").out == "tmpfs /cache tmpfs size=1g 0 0\n"
    guard = cli("show", "y", "--json", "--live").box["guards"][0]
    assert 4.9 * 3600 < guard["left_s"] <= 5 * 3600
    [listed] = cli("list", "--all-kinds", "--json").json["snapshots"]
    assert listed["name"] == "mine"
    assert cli("snapshot", "delete", "mine", "--yes").code == 0
    assert cli("exec", "y", "--", "cat", "file").out == "kept\n"
    assert cli("down", "y", "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []
    parts = {charge["part"] for box in cli("spend", "--json").json["boxes"] for charge in box["charges"]}
    assert "snapshot" in parts


@pytest.mark.parametrize("cloud", CLOUDS)
def test_it_narrows_the_plan_and_is_swept_at_its_end_and_not_before(own_clouds: Shell, cloud: str) -> None:
    """Also by a journal that does not know it; ``recover`` finds it as it was, and a box can boot from it."""
    stopped(own_clouds, cloud)
    made = taken(own_clouds, "--keep", "2h")
    assert own_clouds("down", "x", "--yes").code == 0
    forget(own_clouds)
    assert own_clouds("sweep", "--yes", "--older-than", "0s").code == 0
    assert own_clouds.billed("snapshot")
    assert "1 snapshot restored" in own_clouds("recover").err
    [found] = own_clouds("snapshot", "list", "--json").json["snapshots"]
    same = ("id", "name", "state", "bootable", "cloud", "region", "size_gib", "expires_at", "most_per_hour")
    assert {name: found[name] for name in same} == {name: made[name] for name in same}
    wanted = ("--gpu", "T4", "--image", "mine")
    why = own_clouds("offers", *wanted, "--why", "--json").json
    assert {(each["cloud"], each["region"]) for each in why["offers"]} == {(cloud, made["region"])}
    reason = f"image mine is in {cloud} {made['region']}"
    assert any(reason == each["text"] for offer in why["turned_down"] for each in offer["reasons"])
    refused = own_clouds("launch", *wanted, "--disk", "50", "--yes")
    assert (refused.code, "--disk 100" in refused.err) == (2, True), refused.err
    refused = own_clouds("snapshot", "restore", "mine", "--to", "data", "--yes")
    assert (refused.code, "launch --image mine" in refused.err) == (2, True), refused.err
    own_clouds.sandbox.clock(advance_s=3 * 3600)
    assert own_clouds("sweep", "--yes").code == 0
    assert own_clouds.sandbox.status()["billing"] == []


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_lost_answer_leaves_one_image_and_a_kill_between_the_deletions_nothing(
    own_clouds: Shell, cloud: str
) -> None:
    """A box that boots from an image that is not complete waits for it."""
    stopped(own_clouds, cloud)
    own_clouds.sandbox.fault(cloud=cloud, action=CREATE[cloud], effect="kill", stage="applied")
    assert own_clouds(*TAKE).code == -signal.SIGKILL
    own_clouds("sweep", "--yes")
    assert not own_clouds.billed("snapshot")
    own_clouds.sandbox.fault(cloud=cloud, action=CREATE[cloud], effect="drop", stage="applied")
    taken(own_clouds)
    assert len(own_clouds.billed("snapshot")) == 1
    own_clouds.sandbox.fault(cloud=cloud, action=LAST[cloud], effect="kill", stage="received")
    assert own_clouds("snapshot", "delete", "mine", "--yes").code == -signal.SIGKILL
    own_clouds("sweep", "--yes")
    assert not own_clouds.billed("snapshot")


def test_what_cannot_be_copied_or_booted_is_refused_with_the_next_command(own_clouds: Shell) -> None:
    own_clouds.launch("--gpu", "T4", "--name", "x", "--ttl", "2h")
    before = len(own_clouds.changes_asked())
    for line, words in (
        (("snapshot", "create", "mine", "--of", "x"), "gpucloud stop x"),
        (("snapshot", "create", "pytorch", "--of", "x"), "names a recipe"),
        (("snapshot", "create", "mine", "--of", "nothing"), "nothing"),
        (("launch", "--gpu", "T4", "--image", "nothing"), "gpucloud snapshot list"),
    ):
        refused = own_clouds(*line, "--yes")
        assert (refused.code, words in refused.err) == (2, True), refused.err
    assert len(own_clouds.changes_asked()) == before
