"""The commitments of the account: reserved instances."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import Any

from gpucloud.clouds.abilities import CommitmentInquiry
from gpucloud_alibaba.clients import has_more, listed
from gpucloud_alibaba.describe import CLOUD, PAGE_SIZE, moment
from gpucloud_alibaba.errors import MalformedAnswerError, named, reading
from gpucloud_alibaba.models import ecs_models
from gpucloud_pricing import Commitment
from gpucloud_pricing.commitments import last_whole_day

SOURCE = "alibaba-reserved-instances"
"""The source of commitments: an id of the market's sources."""
_PAGES = 100
"""The most pages of 100 reserved instances each; more means a broken endpoint."""


def inquiry(ecs: Any, region: str, today: date) -> CommitmentInquiry:
    """The reserved instances of a region."""
    return CommitmentInquiry(
        name=f"reserved instances in {region}", ask=partial(_reserved, ecs, region, today)
    )


def _reserved(ecs: Any, region: str, today: date) -> Sequence[Commitment]:
    """The reserved instances for Linux. Source: ECS API reference, DescribeReservedInstances."""
    models = ecs_models()
    found: list[Commitment] = []
    for page in range(1, _PAGES + 1):
        asked = models.DescribeReservedInstancesRequest(
            region_id=region, status=["Active"], page_number=page, page_size=PAGE_SIZE
        )
        body = ecs.describe_reserved_instances(asked).body
        with reading("DescribeReservedInstances"):
            rows = listed(body.reserved_instances.reserved_instance)
            found += [
                _commitment(row, region, today)
                for row in rows
                if row.status == "Active" and (row.platform or "Linux") == "Linux"
            ]
            if not has_more(len(rows), page, PAGE_SIZE, body.total_count):
                return found
    raise MalformedAnswerError(f"DescribeReservedInstances gave {_PAGES} pages and still more")


def _commitment(row: Any, region: str, today: date) -> Commitment:
    end = moment(named(row.expired_time))
    return Commitment(
        cloud=CLOUD,
        kind="reserved_instance",
        id=named(row.reserved_instance_id),
        region=region,
        zone=named(row.zone_id) if row.scope == "Zone" else None,
        instance_type=named(row.instance_type),
        count=int(row.instance_amount),
        until=None if end is None else last_whole_day(end),
        as_of=today,
        source=SOURCE,
    )
