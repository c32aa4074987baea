"""What Alibaba Cloud says that an account has paid for already."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from gpucloud.clouds.abilities import Commitments
from gpucloud_alibaba.errors import MalformedAnswerError
from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_pricing import Commitment
from gpucloud_sandbox.client import SandboxClient
from tests.profiles import own_profile
from tests.providers.abilities import able
from tests.providers.alibaba_sandbox import alibaba, alibaba_environment, sandbox, wire
from tests.providers.alibaba_wire import Wire

__all__ = ["alibaba", "alibaba_environment", "sandbox", "wire"]

REGION, T4 = "cn-hangzhou", "ecs.gn6i-c4g1.xlarge"
LATE = date(2090, 12, 31)


def told(provider: AlibabaProvider, region: str = REGION) -> list[Commitment]:
    inquiries = {each.name: each for each in able(provider, Commitments).commitment_inquiries()}
    return list(inquiries[f"reserved instances in {region}"].ask())


def commit(sandbox: SandboxClient, **changes: Any) -> str:
    plain: dict[str, Any] = {"region": REGION, "instance_type": T4, "until": "2090-12-31"}
    id_: str = sandbox.cloud("alibaba", "commit", **{**plain, **changes})
    return id_


def test_reserved_instances_are_told_until_they_end(alibaba: AlibabaProvider, sandbox: SandboxClient) -> None:
    everywhere = commit(sandbox, count=2)
    in_zone = commit(sandbox, zone="cn-hangzhou-i")
    commit(sandbox, until="2020-12-31")  # over
    commit(sandbox, region="cn-beijing")
    common: dict[str, Any] = {
        "cloud": "alibaba",
        "kind": "reserved_instance",
        "region": REGION,
        "instance_type": T4,
        "until": LATE,
        "as_of": datetime.now(UTC).date(),
        "source": "alibaba-reserved-instances",
    }
    assert told(alibaba) == [
        Commitment(**common, id=everywhere, count=2),
        Commitment(**common, id=in_zone, zone="cn-hangzhou-i"),
    ]
    assert len(told(alibaba, "cn-beijing")) == 1


def test_all_pages_are_read(alibaba: AlibabaProvider, sandbox: SandboxClient) -> None:
    """A page has at most 100."""
    ids = [commit(sandbox) for _ in range(101)]
    sandbox.calls(clear=True)
    assert [each.id for each in told(alibaba)] == ids
    [calls] = [call for call in sandbox.calls() if call["action"] == "DescribeReservedInstances"]
    assert calls["count"] == 2


def row(**changes: Any) -> dict[str, Any]:
    return {
        "ReservedInstanceId": "ecsri-1",
        "Status": "Active",
        "Scope": "Region",
        "InstanceType": T4,
        "InstanceAmount": 1,
        "Platform": "Linux",
        "ExpiredTime": "2090-12-31T16:00Z",
        **changes,
    }


def answered(wire: Wire, *rows: dict[str, Any], total: int | None = None) -> None:
    wire.say("DescribeRegions", {"Regions": {"Region": [{"RegionId": REGION}]}})
    wire.say(
        "DescribeReservedInstances",
        {
            "ReservedInstances": {"ReservedInstance": list(rows)},
            "TotalCount": len(rows) if total is None else total,
            "PageNumber": 1,
            "PageSize": 100,
        },
    )


def test_a_day_that_is_not_covered_to_its_end_does_not_count(wire: Wire) -> None:
    """Midnight in Hangzhou is 16:00 in UTC."""
    answered(wire, row())
    assert [each.until for each in told(AlibabaProvider(own_profile()))] == [date(2090, 12, 30)]


@pytest.mark.parametrize("changes", [{"Platform": "Windows"}, {"Status": "Expired"}])
def test_only_what_a_box_can_use_is_told(wire: Wire, changes: dict[str, Any]) -> None:
    answered(wire, row(**changes))
    assert told(AlibabaProvider(own_profile())) == []


@pytest.mark.parametrize(
    "changes", [{"ReservedInstanceId": None}, {"ExpiredTime": "soon"}, {"InstanceAmount": None}]
)
def test_half_an_answer_is_none(wire: Wire, changes: dict[str, Any]) -> None:
    answered(wire, row(**changes))
    with pytest.raises(MalformedAnswerError):
        told(AlibabaProvider(own_profile()))


def test_a_total_that_counts_too_much_is_no_further_page(wire: Wire) -> None:
    answered(wire, total=1_000_000)
    assert told(AlibabaProvider(own_profile())) == []


def test_an_answer_without_an_end_is_none(wire: Wire) -> None:
    answered(wire, row(), total=1_000_000)
    with pytest.raises(MalformedAnswerError, match="and still more"):
        told(AlibabaProvider(own_profile()))
