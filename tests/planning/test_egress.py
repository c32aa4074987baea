"""Where a run is restarted: the traffic of its checkpoint counts beside the price per hour."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from gpucloud.market.catalog import Catalog
from gpucloud.planning.egress import CheckpointTransfer
from gpucloud.planning.plan import rank
from tests.planning.test_plan import a_candidate

MARKET = Catalog(None).shipped
HERE = "aws/us-east-1/z"
FAR = "azure/eastus/1"
OTHER_REGION = "aws/us-west-2/z"
UNPRICED = "aws/cn-north-1/z"  # no price of data that leaves it was found


def carried(gib: str | None, hours: str = "10", nodes: int = 1) -> CheckpointTransfer:
    return CheckpointTransfer(
        url="s3://lab/r1",
        place=("aws", "us-east-1"),
        gib=None if gib is None else Decimal(gib),
        hours=Decimal(hours),
        nodes=nodes,
    )


@pytest.mark.parametrize(
    ("carries", "here", "there", "wins", "sentence"),
    [
        (carried("0"), "1.00", (FAR, "0.90"), FAR, "without data, the cheaper one wins"),
        (carried("300"), "1.00", (FAR, "0.90"), HERE, "in ten hours, 300 GiB cost more than a dollar"),
        (carried("300", hours="1000"), "1.00", (FAR, "0.90"), FAR, "in a thousand hours, they do not"),
        (carried("300", nodes=50), "1.00", (FAR, "0.90"), FAR, "of 50 machines, each saves as much"),
        (carried("300"), "9.00", (FAR, "0.90"), FAR, "a saving that is large enough is worth it"),
        (carried("300"), "1.00", (OTHER_REGION, "0.90"), HERE, "between regions of a cloud it costs too"),
        (carried("1"), "9.00", (UNPRICED, "0.01"), HERE, "what is unknown never wins"),
        (carried(None), "9.00", (FAR, "0.01"), HERE, "nor does a checkpoint of an unknown size"),
    ],
)
def test_a_run_leaves_the_region_of_its_bucket_only_where_that_saves_more_than_the_traffic_costs(
    carries: CheckpointTransfer, here: str, there: tuple[str, str], wins: str, sentence: str
) -> None:
    offers = [a_candidate(HERE, here), a_candidate(*there)]
    first = rank(carries.ordered(MARKET, offers))[0]
    assert f"{first.cloud}/{first.region}/{first.zone}" == wins, sentence
    assert first.price_usd in {Decimal(here), Decimal(there[1])}, "the price itself is the cloud's"


def test_what_is_unknown_loses_also_against_what_is_flagged_and_is_taken_where_nothing_else_is_left() -> None:
    flagged, unknown = a_candidate(HERE, "9.00", flags=("no_new_capacity",)), a_candidate(UNPRICED, "0.01")
    ordered = carried("1").ordered(MARKET, [unknown, flagged])
    assert [each.region for each in rank(ordered)] == ["us-east-1", "cn-north-1"]
    assert [each.region for each in rank(ordered[:1])] == ["cn-north-1"]


def test_it_says_what_a_restart_costs_and_why_a_cheaper_offer_is_not_first() -> None:
    said = carried("12").text(MARKET, ("azure", "eastus"))
    assert said is not None
    assert said.startswith(
        "restart on azure eastus: reading the checkpoint (about 12.0 GiB) from s3://lab/r1 costs "
    )
    assert "costs $18.00, uploading a whole one from there $17.40" in str(
        carried("300").text(MARKET, ("azure", "eastus"))
    ), "without the 100 GiB a month that both clouds give for nothing"
    assert carried("12").text(MARKET, ("aws", "us-east-1")) is None
    ordered = carried("300").ordered(MARKET, [a_candidate(HERE, "1.00"), a_candidate(FAR, "0.90")])
    passed_over = carried("300").passed_over(MARKET, rank(ordered))
    assert passed_over is not None
    assert passed_over.startswith(
        "azure eastus 1 t.large on-demand at $0.9000 per hour is not first: reading"
    )
    assert carried("0").passed_over(MARKET, rank(carried("0").ordered(MARKET, ordered))) is None
    assert "unknown, as its size is" in str(carried(None).text(MARKET, ("azure", "eastus")))
    home = replace(carried("300"), place=("alibaba", "eu-central-1"))
    said = home.text(MARKET, ("alibaba", "eu-central-1"))
    assert "reading the checkpoint" in str(said), "boxes there reach OSS by its public address"
    unpriced = carried("1").text(MARKET, ("aws", "cn-north-1"))
    assert "unknown, as a price between there and aws us-east-1 is" in str(unpriced)
