"""``--near``: a bucket whose region narrows the plan."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.test_checkpoints import azure_container
from tests.sandbox.azure_lab import REGION, Azure
from tests.sandbox.running import HollowBoxes, client
from tests.shell import Shell

FAR = "eu-central-1"
NEAR = ("--gpu", "T4", "--near", "s3://lab/set")


@pytest.fixture
def s3(cli: Shell) -> Any:
    found = client(cli.endpoint, "s3")
    found.create_bucket(Bucket="lab", CreateBucketConfiguration={"LocationConstraint": FAR})
    return found


def places(planned: Any) -> set[tuple[str, str]]:
    return {(each["cloud"], each["region"]) for each in planned.json["attempts"]}


def test_a_plan_is_narrowed_to_the_region_of_the_bucket_and_why_names_it(cli: Shell, s3: Any) -> None:
    assert places(cli("plan", *NEAR, "--json")) == {("aws", FAR)}
    azure_container(Azure(cli.endpoint, HollowBoxes()))
    assert places(cli("plan", "--gpu", "T4", "--near", "az://checkpoints/con", "--json")) == {
        ("azure", REGION)
    }
    found = cli("offers", *NEAR, "--why", "--json").json
    assert {each["region"] for each in found["offers"]} == {FAR}
    reasons = {each["text"] for row in found["turned_down"] for each in row["reasons"]}
    assert f"not near s3://lab/set, which is in aws {FAR}" in reasons
    none = cli("plan", *NEAR, "--instance-type", "Standard_NC*", "--json")
    assert (none.code, none.error["class"]) == (3, "no_offer")
    assert "without --near: " in none.error["hint"]


def test_a_box_and_a_run_are_launched_near_their_bucket(cli: Shell, s3: Any) -> None:
    box = cli.launch(*NEAR, "--name", "b1")
    assert (box["cloud"], box["region"]) == ("aws", FAR)
    ran = cli("run", *NEAR, "--json", "--", "true")
    assert (ran.json["box"]["cloud"], ran.json["box"]["region"]) == ("aws", FAR)


def test_costs_equivalents_and_images_are_those_of_the_region_of_the_bucket(cli: Shell, s3: Any) -> None:
    costs = cli("cost", *NEAR, "--json").json
    assert {each["offer"]["region"] for each in costs["options"]} == {FAR}
    others = cli("equivalents", "--gpu", "T4:4", *NEAR[2:], "--json").json
    assert {each["offer"]["region"] for each in others["equivalents"]} == {FAR}
    images = cli("images", *NEAR, "--json").json
    assert {each["cloud"] for each in images["images"]} == {"aws"}


@pytest.mark.parametrize("line", [("check",), ("prices", "history"), ("prices", "refresh")])
def test_what_does_not_ask_where_a_bucket_is_refuses_it(cli: Shell, line: tuple[str, ...]) -> None:
    refused = cli(*line, *NEAR, "--json")
    assert (refused.code, refused.error["class"]) == (2, "usage")
    assert f"{line[0]} does not look up where s3://lab/set is" in refused.error["message"]
    assert cli.sandbox.calls() == []


REFUSED = [
    (("--near", "s3://no-such-bucket"), "there is no bucket 'no-such-bucket'"),
    (("--near", "s3://somebody-elses-bucket"), "belongs to another AWS account"),
    (("--near", "gs://lab"), "gs:// is not supported"),
    (("--near", "lab"), "is not an address in an object store"),
    (("--cloud", "azure"), f"near: s3://lab/set is in aws {FAR}, which --cloud azure leaves out"),
    (("--region", "us,!eu"), f"near: s3://lab/set is in aws {FAR}, which --region us,!eu leaves out"),
    (("--residency", "us"), f"near: the bucket is in aws {FAR}, outside of the residency us"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_a_bucket_that_no_box_can_be_near_is_refused_before_anything_is_bought(
    cli: Shell, s3: Any, options: tuple[str, ...], said: str
) -> None:
    refused = cli("launch", "--yes", *NEAR, *options, "--json")
    assert (refused.code, refused.error["class"]) == (2, "usage"), refused.out
    assert said in refused.error["message"]
    assert cli.changes_asked() == ["CreateBucket"], "that of the test itself"
