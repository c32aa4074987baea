"""``extend``: every layer that ends a box has the new end, and the old one does nothing."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpucloud.clouds.cloud import Clouds
from gpucloud.resources import Search, Tags
from tests.cli.test_guard import CLOUDS, deadlines
from tests.profiles import own_profile
from tests.shell import Shell
from tests.waiting import until

HOUR_S = 3600.0


def launch(shell: Shell, cloud: str, ttl: str) -> Any:
    return shell.launch("--gpu", "T4", "--cloud", cloud, "--name", "x", "--ttl", ttl)


def extended(shell: Shell, ttl: str) -> Any:
    return shell("extend", "x", "--ttl", ttl, "--json").box


def runs(shell: Shell) -> bool:
    return bool(shell.billed())


def tagged_ends(shell: Shell, monkeypatch: pytest.MonkeyPatch, box: Any) -> set[str]:
    """What the tags of everything that the box has tell, as the cloud shows them."""
    for name, value in shell.endpoint.environ.items():
        monkeypatch.setenv(name, value)
    found = Clouds.installed(own_profile())[box["cloud"]].find(Search(box=box["id"]))
    assert len(found.resources) > 3
    return {resource.tags.expires for resource in found.resources if isinstance(resource.tags, Tags)}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_later_end(own_clouds: Shell, monkeypatch: pytest.MonkeyPatch, cloud: str) -> None:
    began = time.monotonic()
    launch(own_clouds, cloud, "2h")
    box = extended(own_clouds, "12h")
    lives = datetime.fromisoformat(box["expires_at"]) - datetime.fromisoformat(box["created_at"])
    passed = timedelta(seconds=time.monotonic() - began + 1)
    assert timedelta(hours=12) <= lives < timedelta(hours=12) + passed
    assert tagged_ends(own_clouds, monkeypatch, box) == {box["expires_at"]}
    until(lambda: deadlines(own_clouds) == [box["expires_at"]])
    for _ in range(3):  # long past the old end
        own_clouds.sandbox.clock(advance_s=HOUR_S)
        time.sleep(0.5)
    assert runs(own_clouds)
    assert own_clouds("exec", "x", "--", "true").code == 0
    own_clouds.sandbox.clock(advance_s=9.3 * HOUR_S)
    until(lambda: not runs(own_clouds))


@pytest.mark.parametrize("cloud", ["alibaba", "azure"])
def test_a_sooner_end(own_clouds: Shell, cloud: str) -> None:
    """Where the cloud has timers of its own."""
    launch(own_clouds, cloud, "2d")
    end = own_clouds.boxes()[0]["expires_at"]
    refused = own_clouds("extend", "x", "--ttl", "1h")
    assert refused.code == 2
    assert end in refused.err
    assert "--yes" in refused.err
    assert own_clouds.boxes()[0]["expires_at"] == end, "nothing is moved before it is confirmed"
    assert own_clouds("extend", "x", "--ttl", "1h", "--yes").code == 0
    own_clouds.sandbox.clock(advance_s=1.2 * HOUR_S)
    until(lambda: not runs(own_clouds))


@pytest.mark.parametrize("cloud", ["alibaba", "azure"])
def test_no_end_any_more(own_clouds: Shell, monkeypatch: pytest.MonkeyPatch, cloud: str) -> None:
    """Where the cloud has timers of its own."""
    launch(own_clouds, cloud, "2h")
    box = extended(own_clouds, "none")
    assert box["expires_at"] is None
    assert tagged_ends(own_clouds, monkeypatch, box) == {"none"}
    own_clouds.sandbox.clock(advance_s=50 * HOUR_S)
    time.sleep(0.5)
    assert own_clouds("exec", "x", "--", "true").code == 0


def test_all_nodes_of_a_box(own_clouds: Shell) -> None:
    own_clouds.launch("--gpu", "T4", "--cloud", "azure", "--name", "x", "--ttl", "2h", "--nodes", "2")
    box = extended(own_clouds, "30h")  # more than the daily timer can tell
    own_clouds.sandbox.clock(advance_s=3 * HOUR_S)
    time.sleep(0.5)
    assert len(own_clouds.billed()) == 2
    until(lambda: deadlines(own_clouds) == [box["expires_at"]] * 2)


REFUSALS = {
    "aws": ("CreateTags", "UnauthorizedOperation"),
    "azure": ("POST virtualMachinesSubmitDeallocate", "AuthorizationFailed"),
    "alibaba": ("ModifyInstanceAutoReleaseTime", "Forbidden.RAM"),
}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_what_the_cloud_refuses_moves_nothing(cli: Shell, cloud: str) -> None:
    box = launch(cli, cloud, "2h")
    action, code = REFUSALS[cloud]
    cli.sandbox.fault(cloud=cloud, action=action, effect="error", code=code, times=5)
    refused = cli("extend", "x", "--ttl", "30h", "--json")
    assert (refused.code, refused.error["code"]) == (4, code)
    until(lambda: deadlines(cli) == [box["expires_at"]])
    assert cli.boxes()[0]["expires_at"] == box["expires_at"]


def test_a_guard_that_does_not_listen_is_told_and_repeating_goes_on(cli: Shell) -> None:
    box = launch(cli, "aws", "2h")
    control = "/usr/local/lib/gpucloud/guardctl"
    cli("exec", "x", "--", "sudo", "mv", control, f"{control}.away")
    failed = cli("extend", "x", "--ttl", "8h", "--json")
    assert "still has the old deadline" in failed.error["message"]
    assert "the earlier of the two" in failed.error["hint"]
    assert cli.boxes()[0]["expires_at"] == box["expires_at"], (
        "the journal tells no later end than the box has"
    )
    cli("exec", "x", "--", "sudo", "mv", f"{control}.away", control)
    later = extended(cli, "8h")
    until(lambda: deadlines(cli) == [later["expires_at"]])


def test_a_box_that_is_over_has_no_end_to_move(cli: Shell) -> None:
    launch(cli, "aws", "2h")
    cli("down", "x", "--yes")
    refused = cli("extend", "x", "--ttl", "8h", "--json")
    assert refused.code == 2
    assert "its state is deleted" in refused.error["message"]


def _about(told: str | None, end: str) -> bool:
    """Whether a guard has this end; it counts whole seconds from its own clock."""
    ends = (datetime.fromisoformat(each) for each in (told or "1970-01-01T00:00:00Z", end))
    return abs(next(ends) - next(ends)) <= timedelta(seconds=2)


def test_time_is_added_to_the_deadline(cli: Shell) -> None:
    end = datetime.fromisoformat(launch(cli, "aws", "2h")["expires_at"])
    later = extended(cli, "+90m")
    assert datetime.fromisoformat(later["expires_at"]) == end + timedelta(minutes=90)
    until(lambda: any(_about(told, later["expires_at"]) for told in deadlines(cli)))
    extended(cli, "none")
    assert "no deadline to add to" in cli("extend", "x", "--ttl", "+1h", "--json").error["message"]


@pytest.mark.parametrize("ttl", ["", "10", "-1h", "0s", "forever", "9999d", "+none", "+"])
def test_what_is_no_duration_is_refused_before_anything_is_asked(cli: Shell, ttl: str) -> None:
    refused = cli("extend", "x", "--ttl", ttl)
    assert refused.code == 2
    assert "--ttl" in refused.err


def test_a_try_that_failed_leaves_no_timer_behind(own_clouds: Shell) -> None:
    """The new timer was set and the old one could not be cancelled: the next try knows of both."""
    launch(own_clouds, "azure", "2h")
    rule = {"cloud": "azure", "action": "POST virtualMachinesCancelOperations", "effect": "error"}
    own_clouds.sandbox.fault(**rule, code="AuthorizationFailed", status=403, times=1)
    assert own_clouds("extend", "x", "--ttl", "4h").code == 4
    assert own_clouds("extend", "x", "--ttl", "30h").code == 0
    for _ in range(5):  # past the first end, and past that of the try
        own_clouds.sandbox.clock(advance_s=HOUR_S)
    time.sleep(0.5)
    assert runs(own_clouds)
    assert own_clouds("exec", "x", "--", "true").code == 0


def test_the_box_of_a_run_lives_longer_while_its_command_runs(own_clouds: Shell) -> None:
    """Its process holds the box all that time, and says how to do this."""
    cli = own_clouds
    go = cli.home / "go"
    script = f"echo begun; until [ -e {go} ]; do sleep 0.1; done; echo ran >out"
    line = ("--gpu", "T4", "--cloud", "aws", "--name", "x", "--ttl", "2h", "--fetch", "out")
    process = cli.start("run", *line, "--", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    box = extended(cli, "9h")
    assert [each["expires_at"] for each in cli.boxes()] == [box["expires_at"]]
    until(lambda: deadlines(cli) == [box["expires_at"]])
    cli.sandbox.clock(advance_s=3 * HOUR_S)  # past the old end
    go.write_text("")
    ran = cli.finish(process)
    assert ran.code == 0, ran.err
    assert (cli.home / "out").read_text() == "ran\n"
    assert cli.sandbox.status()["billing"] == []
