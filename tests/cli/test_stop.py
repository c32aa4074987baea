"""``stop`` and ``start``: only the compute bill ends and begins; what fails leaves a stopped box."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.cli.test_guard import CLOUDS
from tests.shell import Shell
from tests.waiting import until

STOP = {"aws": "StopInstances", "azure": "POST virtualMachines/deallocate", "alibaba": "StopInstance"}
START = {"aws": "StartInstances", "azure": "POST virtualMachines/start", "alibaba": "StartInstance"}
NO_STOCK = {
    "aws": "InsufficientInstanceCapacity",
    "azure": "AllocationFailed",
    "alibaba": "OperationDenied.NoStock",
}
DENIED = {"aws": "UnauthorizedOperation", "azure": "AuthorizationFailed", "alibaba": "Forbidden.RAM"}


def launch(shell: Shell, cloud: str, *more: str) -> Any:
    return shell.launch("--gpu", "T4", "--cloud", cloud, "--name", "x", "--ttl", "2h", *more)


def kinds(shell: Shell) -> set[str]:
    return {entry["kind"] for entry in shell.sandbox.status()["billing"]}


def the_box(shell: Shell, *more: str) -> Any:
    return shell("show", "x", "--json", *more).box


def test_a_file_on_the_disk_is_there_again(own_clouds: Shell) -> None:
    launch(own_clouds, "azure")
    own_clouds("exec", "x", "--", "sh", "-c", "echo kept > file")
    stopped = own_clouds("stop", "x", "--keep", "2d", "--yes", "--json")
    assert stopped.box["state"] == "stopped"
    assert "loses: processes" in stopped.err
    assert kinds(own_clouds) == {"disk", "address"}
    assert "is stopped" in own_clouds("ssh", "x").err
    assert own_clouds("start", "x", "--yes", "--json").box["state"] == "ready"
    assert own_clouds("exec", "x", "--", "cat", "file").out == "kept\n"


@pytest.mark.parametrize("cloud", CLOUDS)
def test_without_capacity_it_stays_stopped(own_clouds: Shell, cloud: str) -> None:
    box = launch(own_clouds, cloud)
    assert own_clouds("stop", "x", "--yes").code == 0
    end = the_box(own_clouds)["expires_at"]
    own_clouds.sandbox.stock(cloud=cloud, instance_type=box["instance_type"], count=0)
    refused = own_clouds("start", "x", "--yes", "--json")
    assert (refused.code, refused.error["code"]) == (5, NO_STOCK[cloud])
    assert "gpucloud down x" in refused.error["hint"]
    left = the_box(own_clouds, "--live")
    assert (left["state"], left["expires_at"]) == ("stopped", end)
    assert "instance" not in kinds(own_clouds)
    own_clouds.sandbox.stock(cloud=cloud, instance_type=box["instance_type"], count=5)
    assert own_clouds("start", "x", "--yes").code == 0


def test_a_dearer_start_is_refused(cli: Shell) -> None:
    box = launch(cli, "aws")
    assert cli("stop", "x", "--yes").code == 0
    cli.sandbox.price(cloud="aws", instance_type=box["instance_type"], factor="1.5")
    refused = cli("start", "x", "--yes", "--json")
    assert refused.code == 7
    assert "--max-price" in refused.error["hint"]
    assert "StartInstances" not in cli.changes_asked()
    started = cli("start", "x", "--max-price", "1", "--yes", "--json").box
    assert float(started["price"]["amount"]) == pytest.approx(1.5 * float(box["price"]["amount"]))


REFUSED = {
    "one-time spot": ("aws", ("--spot",), "one-time"),
    "two nodes": ("azure", ("--nodes", "2"), "one node"),
    "local disks": ("alibaba", ("--gpu", "P100"), "local disks"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_stopped_is_refused_before_anything_changes(cli: Shell, case: str) -> None:
    cloud, more, why = REFUSED[case]
    box = launch(cli, cloud, *more)
    before = cli.changes_asked()
    refused = cli("stop", "x", "--yes")
    assert refused.code == 2
    assert why in refused.err
    assert cli.changes_asked() == before
    left = the_box(cli)
    assert (left["state"], left["expires_at"]) == ("ready", box["expires_at"])


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_stop_that_the_cloud_refuses_leaves_the_box_as_it_was(own_clouds: Shell, cloud: str) -> None:
    box = launch(own_clouds, cloud)
    own_clouds.sandbox.fault(cloud=cloud, action=STOP[cloud], effect="error", code=DENIED[cloud], status=403)
    refused = own_clouds("stop", "x", "--yes", "--json")
    assert (refused.code, refused.error["code"]) == (4, DENIED[cloud])
    left = the_box(own_clouds, "--live")
    assert (left["state"], left["expires_at"]) == ("ready", box["expires_at"])
    assert own_clouds("exec", "x", "--", "true").code == 0


@pytest.mark.parametrize(
    ("cloud", "stage"), [*((cloud, "applied") for cloud in CLOUDS), ("aws", "received"), ("aws", "answered")]
)
def test_what_is_killed_in_the_middle_is_stopped_by_the_next_command(
    own_clouds: Shell, cloud: str, stage: str
) -> None:
    """A stop is finished and a start taken back; the disk and its deadline stay."""
    launch(own_clouds, cloud)
    own_clouds.sandbox.fault(cloud=cloud, action=STOP[cloud], effect="kill", stage=stage)
    assert own_clouds("stop", "x", "--yes").code == -signal.SIGKILL
    assert "left unfinished" in own_clouds("list").err
    until(lambda: is_swept_to_rest(own_clouds), "the stop")
    end = at_rest(own_clouds)
    own_clouds.sandbox.fault(cloud=cloud, action=START[cloud], effect="kill", stage=stage)
    assert own_clouds("start", "x", "--yes").code == -signal.SIGKILL
    until(lambda: is_swept_to_rest(own_clouds), "the stop of what was started")
    assert at_rest(own_clouds) == end
    assert own_clouds("start", "x", "--yes").code == 0
    assert own_clouds("down", "x", "--yes").code == 0
    assert own_clouds.sandbox.status()["billing"] == []


def test_a_refusal_after_the_stop_leaves_a_stop_to_be_finished(own_clouds: Shell) -> None:
    """The machine is off: the box must not count as running again, with the end that it had."""
    launch(own_clouds, "azure")
    own_clouds.sandbox.fault(
        cloud="azure", action="PATCH *tags*", effect="error", code="AuthorizationFailed", status=403
    )
    stopped = own_clouds("stop", "x", "--yes", "--json")
    assert (stopped.code, the_box(own_clouds)["state"]) == (8, "stopping")
    own_clouds("sweep", "--yes")
    at_rest(own_clouds)


def test_azure_needs_no_timer_for_a_deallocated_machine(own_clouds: Shell) -> None:
    """The daily shutdown reaches a day ahead; a subscription without ComputeSchedule has nothing else."""
    own_clouds.sandbox.fault(
        cloud="azure",
        action="POST *SubmitDeallocate",
        effect="error",
        code="AuthorizationFailed",
        status=403,
        times=None,
    )
    launch(own_clouds, "azure")
    assert own_clouds("stop", "x", "--keep", "7d", "--yes").code == 0
    assert at_rest(own_clouds)
    refused = own_clouds("start", "x", "--ttl", "2d", "--yes")
    assert (refused.code, the_box(own_clouds)["state"]) == (4, "stopped")
    assert own_clouds("start", "x", "--ttl", "2h", "--yes").code == 0


def is_swept_to_rest(shell: Shell) -> bool:
    """Whether the box is stopped after a sweep, which settles for seconds and leaves the rest to the next."""
    shell("sweep", "--yes")
    return bool(the_box(shell)["state"] == "stopped")


def at_rest(shell: Shell) -> str:
    """The deadline of the box, which is stopped."""
    box = the_box(shell)
    assert box["state"] == "stopped"
    assert "instance" not in kinds(shell)
    return str(box["expires_at"])


def test_a_lost_journal_finds_it_stopped(cli: Shell) -> None:
    launch(cli, "aws")
    assert cli("stop", "x", "--yes").code == 0
    for file in (cli.home / "state-sandbox").glob("journal.db*"):
        file.unlink()
    recovered = cli("recover")
    assert recovered.code == 0
    assert the_box(cli)["state"] == "stopped"
    assert "The cost of x is unknown." in recovered.err  # its disk is billed, at a price that no tag tells
    assert cli("down", "x", "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (("stop", "x", "--keep", "none"), "--keep"),
        (("stop", "x", "--keep", "5m"), "at least 1h"),
        (("start", "x", "--max-price", "much"), "--max-price"),
        (("start", "x", "--ttl", "12"), "--ttl"),
        (("stop", "nobody", "--yes"), "nobody"),
    ],
)
def test_wrong_input_is_refused(cli: Shell, line: tuple[str, ...], word: str) -> None:
    refused = cli(*line)
    assert refused.code == 2
    assert word in refused.err
