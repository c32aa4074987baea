"""What ends machines from outside, with the real SDKs: nothing is billed as compute after its end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from gpucloud.clouds.cloud import Backoff, Cloud, Clouds
from gpucloud.ending.teardown import take_down
from gpucloud.errors import CleanupIncompleteError, CloudError
from gpucloud.journal.records import Box
from gpucloud.journal.store import Journal
from gpucloud.planning.plan import Candidate
from gpucloud.purchase.failover import launch
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import Tasks
from gpucloud_pricing.purchases import Purchase
from gpucloud_sandbox.azure.roles import SELF_DELETE
from gpucloud_sandbox.client import Endpoint, SandboxClient
from tests.bench import a_purchase
from tests.planning.test_plan import a_candidate
from tests.profiles import own_profile
from tests.waiting import until

ROLE = "arn:aws:iam::123456789012:role/gpucloud-ttl"
TTL = timedelta(hours=30)
"""More than a day, so that Azure has one timer only."""
CREATES = {"aws": "RunInstances", "azure": "PUT virtualMachines"}
DELETES = {"aws": "TerminateInstances", "azure": "DELETE virtualMachines"}
REFUSALS = {"aws": "UnauthorizedOperation", "azure": "AuthorizationFailed"}
SCHEDULES = {"aws": "CreateSchedule", "azure": "POST *SubmitDeallocate"}
CLOUDS = tuple(CREATES)


@pytest.fixture
def clouds(endpoint: Endpoint, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxClient]:
    """Empty accounts, whose clock a test moves."""
    endpoint.client.reset()
    for name, value in endpoint.environ.items():
        monkeypatch.setenv(name, value)
    yield endpoint.client
    endpoint.client.reset()


def offer(cloud: str) -> Candidate:
    """A T4."""
    place, name = {
        "aws": ("aws/us-east-1/use1-az4", "g4dn.xlarge"),
        "azure": ("azure/eastus/1", "Standard_NC4as_T4_v3"),
    }[cloud]
    return a_candidate(place, "0.526", instance_type=name, purchase=Purchase.ON_DEMAND)


def context_of(folder: Path) -> Context:
    """A command's context, on the journal of a folder."""
    entries = entry_points(group="gpucloud.providers")
    providers = {each.name: partial(each.load(), own_profile()) for each in entries}
    return Context(
        owner="u-tester",
        journal=Journal.open(folder / "journal.db", lambda: datetime.now(UTC)),
        clouds=Clouds(providers, lambda it: Cloud(provider=it, backoff=Backoff(first_s=0.05, budget_s=0.5))),
        tasks=Tasks(),
    )


def launched(folder: Path, cloud: str, **changes: Any) -> Box:
    """A box whose guest does nothing about its end."""
    context = context_of(folder)
    role = {"ttl_role": ROLE} if cloud == "aws" else {}
    spec = {"gpu": "T4", **role, **changes}
    return launch(context, a_purchase([offer(cloud)], context.clock() + TTL, spec=spec))


def compute(clouds: SandboxClient) -> list[Any]:
    return [each for each in clouds.status()["billing"] if each["kind"] == "instance"]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_machine_whose_create_answers_were_all_lost_ends_from_outside(
    clouds: SandboxClient, tmp_path: Path, cloud: str
) -> None:
    clouds.fault(effect="drop", stage="applied", cloud=cloud, action=CREATES[cloud], times=None)
    launched(tmp_path, cloud)
    clouds.clock(advance_s=(TTL - timedelta(minutes=1)).total_seconds())
    assert len(compute(clouds)) == 1
    clouds.clock(advance_s=timedelta(minutes=10).total_seconds())
    until(lambda: compute(clouds) == [])


def test_a_machine_whose_create_answers_were_all_lost_has_the_role_to_delete_itself(
    clouds: SandboxClient, tmp_path: Path
) -> None:
    clouds.fault(effect="drop", stage="applied", cloud="azure", action=CREATES["azure"], times=None)
    launched(tmp_path, "azure", box_identity=SELF_DELETE)
    assigned = [call for call in clouds.received() if call["action"] == "PUT roleAssignments"]
    assert [call["status"] for call in assigned] == [201]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_machine_whose_deletion_is_refused_still_ends_from_outside(
    clouds: SandboxClient, tmp_path: Path, cloud: str
) -> None:
    box = launched(tmp_path, cloud)
    clouds.fault(
        effect="error", cloud=cloud, action=DELETES[cloud], code=REFUSALS[cloud], status=403, times=None
    )
    context = context_of(tmp_path)
    taken = context.take(box, by_force=True)
    assert taken is not None
    with pytest.raises(CleanupIncompleteError):
        take_down(context, taken, budget_s=30)
    assert len(compute(clouds)) == 1
    clouds.clock(advance_s=(TTL + timedelta(minutes=10)).total_seconds())
    until(lambda: compute(clouds) == [])


@pytest.mark.parametrize("cloud", CLOUDS)
def test_where_nothing_would_end_a_machine_that_was_found_nothing_is_billed(
    clouds: SandboxClient, tmp_path: Path, cloud: str
) -> None:
    """However often it is asked."""
    fault = partial(clouds.fault, cloud=cloud, times=None)
    fault(effect="drop", stage="applied", action=CREATES[cloud])
    fault(effect="error", action=SCHEDULES[cloud], code="InternalServerError", status=500)
    with pytest.raises(CloudError) as caught:
        launched(tmp_path, cloud)
    assert "InternalServerError" in caught.value.message
    assert "The box was deleted" in caught.value.message
    assert clouds.status()["billing"] == []
