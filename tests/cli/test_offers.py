"""``gpucloud offers``, as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from gpucloud_pricing import Demand, Market, parse_requirements
from tests.shell import Run


def today() -> date:
    return datetime.now(UTC).date()


def test_json_is_one_document_with_every_matching_offer_in_the_order_of_choosing(run: Run) -> None:
    code, out, _ = run("offers", "--gpu", "A100:8", "--json")
    document = json.loads(out)
    expected = Market.load().search(Demand(gpus=parse_requirements("A100:8")), today())
    assert code == 0
    assert document["schema"] == "gpucloud.offers/v1"
    assert [(o["cloud"], o["region"], o["zone"], o["instance_type"]) for o in document["offers"]] == [
        (o.cloud, o.region, o.zone, o.instance_type) for o in expected
    ]
    first = document["offers"][0]
    assert first["gpu"] == {"model": "A100", "count": 8, "memory_gib": 40}
    assert first["price"] == {"amount": "21.95764", "currency": "USD"}
    assert first["purchase"] == "on_demand"
    assert first["as_of"]
    assert first["source"]
    assert first["flags"] == []


def test_limit_gives_so_many(run: Run) -> None:
    _, out, _ = run("offers", "--gpu", "T4", "--json", "--limit", "3")
    assert len(json.loads(out)["offers"]) == 3
    _, out, _ = run("offers", "--gpu", "T4", "--limit", "4")
    assert len(out.splitlines()) == 5


def test_zones_of_equal_price_share_a_row(run: Run) -> None:
    _, out, _ = run("offers", "--gpu", "A100:8", "--region", "us-east-2")
    rows = [line for line in out.splitlines() if "p4d.24xlarge" in line]
    assert len(rows) == 1
    assert "use2-az1,2,3" in rows[0]


def test_yuan_are_shown_with_dollars_and_the_rate_with_its_date(run: Run) -> None:
    _, out, err = run("offers", "--gpu", "T4", "--cloud", "alibaba", "--limit", "2")
    assert "CNY " in out
    assert "$" in out
    rate = Market.load().rate("CNY")
    assert rate is not None
    assert f"1 USD = {rate.rate} CNY, the reference rate of {rate.as_of}" in err
    _, out, _ = run("offers", "--gpu", "T4", "--cloud", "alibaba", "--limit", "1", "--json")
    document = json.loads(out)
    offer = document["offers"][0]
    assert offer["price"]["currency"] == "CNY"
    assert document["rates"][0]["as_of"] == "2026-10-02"
    exact = Decimal(offer["price"]["amount"]) / Decimal(document["rates"][0]["rate"])
    assert abs(Decimal(offer["price_usd"]["amount"]) - exact) < Decimal("0.000001")


def test_csv_has_one_line_per_offer(run: Run) -> None:
    _, out, _ = run("offers", "--gpu", "T4", "--csv", "--limit", "5")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 5
    assert {row["gpu_model"] for row in rows} == {"T4"}
    assert all(Decimal(row["price_usd"]) > 0 for row in rows)


def test_csv_has_how_often_spot_is_interrupted_and_nothing_where_that_is_not_known(run: Run) -> None:
    line = ("offers", "--gpu", "T4", "--cloud", "aws", "--csv", "--limit", "1")
    [spot] = csv.DictReader(io.StringIO(run(*line, "--spot")[1]))
    low, high = (int(spot[f"interruption_{end}_percent"]) for end in ("low", "high"))
    assert 0 <= low < high <= 100
    assert date.fromisoformat(spot["interruption_as_of"]) < date(2026, 1, 1)
    [other] = csv.DictReader(io.StringIO(run(*line, "--on-demand")[1]))
    assert other["interruption_high_percent"] == other["interruption_as_of"] == ""


def test_doubtful_offers_do_not_come_first_by_what_work_costs(run: Run) -> None:
    _, out, _ = run(
        "offers", "--gpu", "V100", "--json", "--limit", "0", "--sort", "gpu-price", "--include-hidden"
    )
    flagged = [bool(offer["flags"]) for offer in json.loads(out)["offers"] if offer["price_usd"]]
    assert {*flagged} == {True, False}
    assert flagged == sorted(flagged)


def test_sort_changes_what_comes_first(run: Run) -> None:
    _, out, _ = run("offers", "--gpu", "T4:1..8", "--json", "--limit", "50", "--sort", "gpu-price")
    prices = [Decimal(o["price_per_gpu_usd"]["amount"]) for o in json.loads(out)["offers"]]
    assert prices == sorted(prices)
    _, out, _ = run("offers", "--gpu", "T4:1..8", "--json", "--limit", "50", "--sort", "vcpus")
    vcpus = [o["vcpus"] for o in json.loads(out)["offers"]]
    assert vcpus == sorted(vcpus, reverse=True)


def test_spot_is_chosen_by_how_often_it_is_interrupted(run: Run) -> None:
    """Of those alike the cheapest comes first; last is what no cloud says anything of."""
    asked = ("offers", "--gpu", "T4", "--spot", "--limit", "0", "--sort", "interruptions")
    _, out, _ = run(*asked, "--json")
    offers = json.loads(out)["offers"]
    bands = [o["interruption"] and o["interruption"]["percent_per_month"][::-1] for o in offers]
    known = [band for band in bands if band]
    assert known == sorted(known)
    assert len({*map(tuple, known)}) > 1
    assert bands == known + [None] * (len(bands) - len(known))
    prices = [o["price_usd"]["amount"] for o, band in zip(offers, bands, strict=True) if band == bands[0]]
    assert [*map(Decimal, prices)] == sorted(map(Decimal, prices))
    _, out, _ = run(*asked, "-o", "wide")
    heading, first, *_, last = out.splitlines()
    assert "MONTHLY BAND" in heading
    assert f"under {bands[0][0]} % {offers[0]['interruption']['as_of']}" in first
    assert "unknown" in last


def test_why_shows_what_was_turned_down_and_by_which_demand(run: Run) -> None:
    line = ("offers", "--gpu", "A100:8", "--region", "eu", "--max-price", "24")
    code, out, _ = run(*line, "--why")
    assert code == 0
    assert "by --region" in out
    assert "without --max-price:" in out
    refused = out.split("The refused offers with the fewest reasons:\n")[1].splitlines()
    assert any("euc1-az1,2" in line for line in refused)
    without_zones = [re.sub(r"[a-z0-9]+-az[0-9,]+ ", "", line) for line in refused]
    assert len(set(without_zones)) == len(without_zones) > 1, "zones that differ in nothing else are one line"
    _, out, _ = run(*line, "--why", "--json", "--limit", "5")
    document = json.loads(out)
    assert len(document["turned_down"]) == 5
    assert all(refusal["reasons"] for refusal in document["turned_down"])
    assert document["turned_down_by"]["region"] > 0


def test_no_match_is_exit_3_and_says_what_to_relax(run: Run) -> None:
    code, out, err = run("offers", "--gpu", "T4G")
    assert code == 3
    assert out == ""
    assert "with another --arch" in err


def test_types_are_named_with_or_without_a_gpu(run: Run) -> None:
    def found(*flags: str) -> set[str]:
        _, out, _ = run("offers", *flags, "--json")
        return {offer["instance_type"] for offer in json.loads(out)["offers"]}

    assert found("--instance-type", "P4D.24xlarge,Standard_NC*T4*,!*64*") == {
        "p4d.24xlarge", "Standard_NC4as_T4_v3", "Standard_NC8as_T4_v3", "Standard_NC16as_T4_v3",
    }  # fmt: skip
    assert found("--instance-type", "p4d.*,g4dn.*", "--gpu", "A100:8") == {"p4d.24xlarge"}


def test_one_date_is_said_once(run: Run) -> None:
    _, _, err = run("offers", "--instance-type", "Standard_NV6ads_A10_v5", "--limit", "1")
    assert re.search(r"List prices before tax, of \d{4}-\d\d-\d\d\.", err)


def test_a_type_that_is_not_sold_where_it_is_wanted_says_where_it_is(run: Run) -> None:
    code, _, err = run("offers", "--instance-type", "p4d.24xlarge", "--region", "af-south-1")
    assert code == 3
    assert "without --region:" in err
    assert "p4d.24xlarge on-demand" in err
    assert "--instance-type:" not in err


def test_a_count_that_no_machine_has_is_answered_with_those_that_exist(run: Run) -> None:
    for command in ("offers", "cost", "images"):
        code, _, err = run(command, "--gpu", "H100:3,A100-40GB:5")
        assert code == 3
        assert "no offer matches: H100 comes as 1, 2, 8; A100-40GB comes as 1, 4, 8" in err
    _, out, _ = run("offers", "--gpu", "H100:3", "--why", "--json")
    assert json.loads(out)["other_counts"] == {"H100": [1, 2, 8]}


def test_a_price_limit_that_alone_removes_every_offer_is_exit_7(run: Run) -> None:
    code, _, err = run("offers", "--gpu", "A100:8", "--max-price", "1")
    assert code == 7
    assert "$21.96" in err
    code, out, _ = run("offers", "--gpu", "A100:8", "--max-price", "1", "--why")
    assert code == 7
    assert "by --max-price" in out


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--gpu", "A10O", "unknown GPU 'A10O'; did you mean A100?"),
        ("--region", "eu-wst-1", "did you mean eu-west-1?"),
        ("--cloud", "asw", "did you mean aws?"),
        ("--cloud", "aliyun", "did you mean alibaba?"),
        ("--cloud", "Amazon", "did you mean aws?"),
        ("--gpu", "A100-80", "did you mean A100-80GB?"),
        ("--gpu", "RTX4090", "no RTX4090 here: only NVIDIA's GPUs for servers"),
        ("--gpu", "MI300X", "no MI300X here"),
        ("--gpu", "TPU", "no TPU here"),
        ("--zone", "use1-az9", "unknown zone 'use1-az9'"),
        ("--max-age", "soon", "'soon' is not an age"),
        ("--sort", "beauty", "beauty"),
    ],
)
def test_a_bad_value_is_exit_2_and_names_the_nearest(run: Run, flag: str, value: str, message: str) -> None:
    line = ("offers", flag, value) if flag == "--gpu" else ("offers", "--gpu", "T4", flag, value)
    code, out, err = run(*line)
    assert code == 2
    assert out == ""
    assert message in err
    assert flag in err


@pytest.mark.parametrize(
    ("gpu", "way"),
    [
        ("A100:16", "on several machines: --nodes 2 --gpu A100:8"),
        ("A100-80GB:24", "--nodes 3 --gpu A100-80GB:8"),
        ("A100:1/7", "a slice, for the price of all of it: --gpu A100/1g.5gb"),
        ("A100:3", None),
    ],
)
def test_a_count_that_no_machine_has_is_answered_by_another_way_to_it(
    run: Run, gpu: str, way: str | None
) -> None:
    code, _, err = run("offers", "--gpu", gpu)
    assert code == 3
    assert "A100" in err
    assert (way in err) if way else ("--nodes" not in err)
    if way:
        suggested = way.split("--gpu ")[1]
        assert run("offers", "--gpu", suggested)[0] == 0, "what is suggested is there"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("frankfurt", {"eu-central-1", "germanywestcentral"}),
        ("virginia", {"us-east-1", "eastus", "eastus2"}),
        ("hong-kong", {"ap-east-1", "cn-hongkong", "eastasia"}),
    ],
)
def test_a_region_is_found_by_its_city(run: Run, word: str, expected: set[str]) -> None:
    code, out, _ = run("offers", "--gpu", "T4,V100,A10,A100,A10G", "--region", word, "--limit", "0", "--json")
    assert code == 0
    assert {each["region"] for each in json.loads(out)["offers"]} <= expected


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB"),
        ("Tesla-V100-SXM2-16GB", "V100-16GB"),
        ("nvidia-h100-80gb", "H100-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
    ],
)
def test_a_gpu_is_found_by_the_name_that_its_driver_shows(run: Run, written: str, read: str) -> None:
    found = [run("offers", "--gpu", name, "-n", "1", "--json")[1] for name in (written, read)]
    assert json.loads(found[0])["offers"] == json.loads(found[1])["offers"] != []


@pytest.mark.parametrize(
    ("line", "listed"),
    [
        (("--cloud", "asw"), "clouds: alibaba, aws, azure"),
        (("--region", "nowhere"), "; azure: australiacentral, "),
        (("--region", "us-eest-1"), "aws: ca-west-1, eu-west-1, sa-east-1, us-east-1, "),
        (("--region", "nowhere", "--cloud", "aws"), "regions of aws: af-south-1, ap-east-1, "),
        (("--zone", "nowhere", "--region", "us-east-1", "--cloud", "aws"), "zones of aws: us-east-1-atl-1, "),
        (("--instance-type", "p4d.24xlrge"), "the most similar of 196 instance types: aws: "),
        (("--instance-type", "p4", "--gpu", "A100:8", "--cloud", "aws"), "p4d.24xlarge, p4de.24xlarge"),
    ],
)
def test_a_name_that_does_not_exist_lists_those_that_do(run: Run, line: tuple[str, ...], listed: str) -> None:
    code, _, err = run("offers", *line)
    assert code == 2
    assert listed in " ".join(err.split())


def test_old_prices_can_be_left_out(run: Run) -> None:
    _, out, _ = run("offers", "--gpu", "T4", "--spot", "--json")
    _, fresh, _ = run("offers", "--gpu", "T4", "--spot", "--json", "--max-age", "2y")
    clouds = {o["cloud"] for o in json.loads(out)["offers"]}
    assert clouds == {"aws", "azure", "alibaba"}
    assert all(o["as_of"] > "2024-06-01" for o in json.loads(fresh)["offers"])


def test_commitments_are_listed_as_to_buy(run: Run) -> None:
    _, out, _ = run("offers", "--gpu", "T4", "--reserved", "--json")
    offers = json.loads(out)["offers"]
    assert {o["purchase"] for o in offers} == {"reserved_1y", "subscription_1m"}
    assert all(o["to_buy"] for o in offers)
