"""Incidents of other tools, played again: a naive client fails as theirs did, and gpucloud does not.

Each names the reports of it in public trackers. What befalls both is the same fault of the sandbox. Run by
``make torture``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.lab import Home, Lab
from tests.chaos.scenes import SCENES
from tests.chaos.schedules import AFTER_THE_WINDOW_S
from tests.sandbox.running import client, launch, make_group
from tests.shell import Result

CREATE, END = "RunInstances", "TerminateInstances"
LOST: Mapping[str, Any] = {"effect": "drop", "stage": "applied"}
DENIED: Mapping[str, Any] = {"effect": "error", "code": "UnauthorizedOperation", "status": 403}
FAILED_AFTER: Mapping[str, Any] = {
    "effect": "error",
    "stage": "applied",
    "code": "InternalError",
    "status": 500,
}


@dataclass
class Naive:
    """A client as many are written: it remembers what it has been told, and believes what it is shown."""

    home: Home
    file: Path = field(init=False)
    ec2: Any = field(init=False)
    group: str = field(init=False)

    def __post_init__(self) -> None:
        self.file = self.home.path / "naive.json"
        self.ec2 = client(self.home.lab.endpoint)
        self.group = make_group(self.ec2)

    @property
    def state(self) -> dict[str, str]:
        """Instance by box name: all that it knows."""
        return json.loads(self.file.read_text()) if self.file.exists() else {}

    def launch(self, name: str, **parameters: Any) -> None:
        """Starts an instance, and then remembers it."""
        made = self.ec2.run_instances(**launch(self.group, **parameters))["Instances"][0]["InstanceId"]
        self._keep({**self.state, name: made})

    def launch_unless_shown(self, name: str) -> None:
        """Starts an instance if the list shows none."""
        if not self.shown():
            self.launch(name)

    def launch_until_told(self, name: str) -> None:
        """Tries again whenever it is not told of success."""
        for _ in range(3):
            with suppress(Exception):
                self.launch(name)
                return

    def down(self, name: str) -> None:
        """Ends an instance and forgets it: whatever was said counts as done."""
        with suppress(Exception):
            self.ec2.terminate_instances(InstanceIds=[self.state[name]])
        self._keep({each: id_ for each, id_ in self.state.items() if each != name})

    def refresh(self) -> None:
        """Forgets what the list does not show."""
        shown = self.shown()
        self._keep({name: id_ for name, id_ in self.state.items() if id_ in shown})

    def sweep(self) -> None:
        """Ends what it knows."""
        for name in list(self.state):
            self.down(name)

    def sweep_everything_old(self) -> None:
        """Ends whatever there is: its journal is not asked who uses it."""
        self.ec2.terminate_instances(InstanceIds=list(self.shown()))

    def shown(self) -> set[str]:
        """Living instances, as the list shows them."""
        reservations = self.ec2.describe_instances()["Reservations"]
        instances = [each for one in reservations for each in one["Instances"]]
        return {each["InstanceId"] for each in instances if each["State"]["Name"] in {"pending", "running"}}

    def _keep(self, state: Mapping[str, str]) -> None:
        self.file.write_text(json.dumps(state))


def billed(home: Home) -> int:
    """How many machines are paid for."""
    return sum(each["kind"] == "instance" for each in home.lab.billing())


def ours(home: Home, *line: str, **how: Any) -> Result:
    """gpucloud's launch of ``x``, or another command."""
    return home.run(*(line or SCENES["launch"].line("aws")), **how)


def nothing_is_left(home: Home) -> None:
    """What anybody would do next ends everything, once nothing can still show up."""
    done = home.run("down", "--all", "--yes", plight={"later": AFTER_THE_WINDOW_S})
    assert (done.code, home.lab.billing()) == (0, []), done.err


# --- each: what the naive client does, and what gpucloud does under the same fault


def crashed_before_it_remembered(lab: Lab) -> None:
    """The process ends between the cloud's success and its own note of it.

    dstackai/dstack#3453, kubernetes-sigs/cluster-api-provider-aws#5794 and #6131, skypilot-org/skypilot#93
    and #2261, aws/karpenter-provider-aws#549, hashicorp/terraform-provider-aws#18051,
    aliyun/terraform-provider-alicloud#231.
    """
    home = lab.begin("aws")
    naive = Naive(home)
    lab.clouds.fault(action=CREATE, **LOST)
    with suppress(Exception):
        naive.launch("x")
    naive.sweep()
    assert billed(home) == 1, "leaked"

    home = lab.begin("aws")
    lab.clouds.fault(action=CREATE, effect="kill", stage="applied")
    assert ours(home).code == -9
    nothing_is_left(home)


def tried_again_after_a_lost_answer(lab: Lab) -> None:
    """No key, or another one: each try buys.

    dstackai/dstack#707, Azure/azure-sdk-for-net#10837, ubicloud/ubicloud#5898.
    """
    home = lab.begin("aws")
    naive = Naive(home)
    lab.clouds.fault(action=CREATE, times=2, **LOST)
    naive.launch_until_told("x")
    assert billed(home) == 3, "doubled"

    home = lab.begin("aws")
    lab.clouds.fault(action=CREATE, times=2, **LOST)
    assert (ours(home).code, billed(home)) == (0, 1)
    nothing_is_left(home)


def failed_over_past_what_was_not_known(lab: Lab) -> None:
    """The first place says "error" and starts a machine; the second is tried.

    skypilot-org/skypilot#656, #661, #2990 and #4392.
    """
    home = lab.begin("aws")
    naive = Naive(home)
    lab.clouds.fault(action=CREATE, **FAILED_AFTER)
    naive.launch_until_told("x")
    assert billed(home) == 2, "doubled"

    home = lab.begin("aws")
    lab.clouds.fault(action=CREATE, **FAILED_AFTER)
    assert (ours(home).code, billed(home)) == (0, 1)
    nothing_is_left(home)


def took_an_empty_list_for_none(lab: Lab) -> None:
    """Lists lag behind creations; a second box is started.

    kubernetes-sigs/cluster-api-provider-aws#2915, gardener/machine-controller-manager-provider-aws#54.
    """
    home = lab.begin("aws")
    naive = Naive(home)
    lab.clouds.pace(lag_calls=3)
    naive.launch_unless_shown("x")
    naive.launch_unless_shown("x")
    assert billed(home) == 2, "doubled"
    lab.clouds.pace(lag_calls=0)

    home = lab.begin("aws")
    lab.clouds.pace(lag_calls=3)
    assert ours(home).code == 0
    again = ours(home)
    lab.clouds.pace(lag_calls=0)
    assert (again.code, "exists already" in again.err, billed(home)) == (2, True, 1)
    nothing_is_left(home)


def forgot_what_the_list_did_not_show(lab: Lab) -> None:
    """An empty list while the box starts, and its row is dropped.

    skypilot-org/skypilot#4431 and #1496.
    """
    home = lab.begin("aws")
    naive = Naive(home)
    naive.launch("x")
    lab.clouds.fault(action="DescribeInstances", effect="empty")
    naive.refresh()
    naive.sweep()
    assert billed(home) == 1, "leaked"

    home = lab.begin("aws")
    assert ours(home).code == 0
    lab.clouds.fault(action="DescribeInstances", effect="empty")
    ours(home, "list", "--live")
    lab.clouds.clear_faults()
    assert list(home.boxes().values()) == ["ready"]
    nothing_is_left(home)


def cancelled_before_the_id_was_known(lab: Lab) -> None:
    """The stop job, on another machine, has no id to stop.

    openvdb/fvdb-core#768, machulav/ec2-github-runner#69, runs-on/runs-on#44, skypilot-org/skypilot#4410.
    """
    home = lab.begin("aws")
    naive = Naive(home)
    lab.clouds.fault(action=CREATE, **LOST)
    with suppress(Exception):
        naive.launch("x")
    with suppress(KeyError):
        naive.down("x")
    assert billed(home) == 1, "leaked"

    home = lab.begin("aws")
    lab.clouds.fault(action=CREATE, effect="kill", stage="applied")
    assert ours(home, *SCENES["launch"].line("aws"), "--run-id", "r").code == -9
    for file in home.state.glob("journal.db*"):
        file.unlink()
    stopped = ours(home, "down", "--run-id", "r", "--yes")
    assert (stopped.code, lab.billing()) == (0, []), stopped.err


def swept_only_what_its_state_file_knew(lab: Lab) -> None:
    """The state is lost, or was never written.

    groundlight/edge-endpoint#421, dstackai/dstack#2114, hashicorp/terraform#30266.
    """
    home = lab.begin("aws")
    naive = Naive(home)
    naive.launch("x")
    naive.file.unlink()
    naive.sweep()
    assert billed(home) == 1, "leaked"

    home = lab.begin("aws")
    assert ours(home).code == 0
    for file in home.state.glob("journal.db*"):
        file.unlink()
    swept = ours(home, "sweep", "--older-than", "0s", "--yes")
    assert (swept.code, lab.billing()) == (0, []), swept.err


def believed_that_a_deletion_was_done(lab: Lab) -> None:
    """The cloud says yes, and nothing happens.

    dstackai/dstack#1551, aws/karpenter-provider-aws#7684, cloudpilot-ai/karpenter-provider-gcp#242.
    """
    home = lab.begin("aws")
    naive = Naive(home)
    naive.launch("x")
    lab.clouds.fault(action=END, effect="ignore")
    naive.down("x")
    assert (billed(home), naive.state) == (1, {}), "leaked"

    home = lab.begin("aws")
    assert ours(home).code == 0
    lab.clouds.fault(action=END, effect="ignore")
    done = ours(home, "down", "x", "--yes")
    assert (done.code, billed(home)) in {(0, 0), (8, 1)}, done.err
    nothing_is_left(home)


def swallowed_a_refused_deletion(lab: Lab) -> None:
    """403 on delete alone, and silence.

    skypilot-org/skypilot#4605 and #4433, dstackai/dstack#4030.
    """
    home = lab.begin("aws")
    naive = Naive(home)
    naive.launch("x")
    lab.clouds.fault(action=END, times=None, **DENIED)
    naive.down("x")
    assert (billed(home), naive.state) == (1, {}), "leaked"
    lab.clouds.clear_faults()

    home = lab.begin("aws")
    assert ours(home).code == 0
    lab.clouds.fault(action=END, times=None, **DENIED)
    owed = ours(home, "down", "x", "--yes")
    assert (owed.code, "UnauthorizedOperation" in owed.err) == (8, True)
    lab.clouds.clear_faults()
    nothing_is_left(home)


def swept_what_was_in_use(lab: Lab) -> None:
    """Age alone tells nothing of who works on a box.

    github-aws-runners/terraform-aws-github-runner#4391.
    """
    home = lab.begin("aws")
    naive = Naive(home)
    naive.launch("x")
    naive.sweep_everything_old()
    assert billed(home) == 0, "ended while in use"

    home = lab.begin("aws")
    assert ours(home).code == 0
    assert ours(home, "sweep", "--older-than", "0s", "--yes").code == 0
    assert billed(home) == 1
    nothing_is_left(home)


def used_one_key_for_ever(lab: Lab) -> None:
    """After a cleanup, the key of the session brings the ended box back.

    harbor-framework/harbor#2346, boto/boto3#4406.
    """
    home = lab.begin("aws")
    naive = Naive(home)
    naive.launch("x", ClientToken="session")
    naive.down("x")
    with suppress(Exception):
        naive.launch("x", ClientToken="session")
    assert billed(home) == 0, "never started"

    home = lab.begin("aws")
    for _ in range(2):
        assert ours(home).code == 0
        assert billed(home) == 1
        assert ours(home, "down", "x", "--yes").code == 0
    nothing_is_left(home)


def was_interrupted_while_it_launched(lab: Lab) -> None:
    """Ctrl-C while the answer is on its way.

    skypilot-org/skypilot#93, hashicorp/terraform-provider-aws#31731, dstackai/dstack#2068.
    """
    home = lab.begin("aws")
    naive = Naive(home)
    lab.clouds.fault(action=CREATE, **LOST)
    with suppress(Exception):
        naive.launch("x")  # its own handler ends it here: nothing was noted
    naive.sweep()
    assert billed(home) == 1, "leaked"

    home = lab.begin("aws")
    lab.clouds.fault(action=CREATE, effect="kill", stage="applied", signal="SIGINT")
    assert ours(home).code == 130
    assert lab.billing() == []


INCIDENTS: tuple[Callable[[Lab], None], ...] = (
    crashed_before_it_remembered,
    tried_again_after_a_lost_answer,
    failed_over_past_what_was_not_known,
    took_an_empty_list_for_none,
    forgot_what_the_list_did_not_show,
    cancelled_before_the_id_was_known,
    swept_only_what_its_state_file_knew,
    believed_that_a_deletion_was_done,
    swallowed_a_refused_deletion,
    swept_what_was_in_use,
    used_one_key_for_ever,
    was_interrupted_while_it_launched,
)


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda each: each.__name__)
def test_a_naive_client_fails_and_gpucloud_does_not(lab: Lab, incident: Callable[[Lab], None]) -> None:
    """Each incident asserts both itself."""
    incident(lab)
