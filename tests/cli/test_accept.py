"""``launch --accept-test``: a box with a sick GPU is replaced once, and nothing of it is left."""

from __future__ import annotations

import pytest

from tests.cli.test_guard import deadlines
from tests.shell import Shell
from tests.waiting import until

LAUNCH = ("launch", "--gpu", "T4", "--name", "x", "--json", "--yes")


@pytest.mark.parametrize(("cloud", "sickness"), [("aws", "slow"), ("azure", "memory")])
def test_a_box_that_fails_the_test_is_replaced(cli: Shell, cloud: str, sickness: str) -> None:
    cli.sandbox.gpu(sickness)
    box = cli(*LAUNCH, "--cloud", cloud, "--accept-test", "--ttl", "3h").box
    assert "failed the GPU test: GPU 0" in box["replaced"]
    until(lambda: deadlines(cli) == [cli.boxes()[0]["expires_at"]], "the end that was asked for")
    assert [gpu["wrong_words"] for node in box["accept_test"] for gpu in node["gpus"]] == [0]
    assert cli("exec", "x", "--", "true").code == 0
    assert [resource["id"] for resource in cli.billed()] == [box["nodes"][0]["instance_id"]]
    assert cli("down", "x", "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []


def test_a_second_sick_box_ends_the_launch_and_nothing_is_left(cli: Shell) -> None:
    cli.sandbox.gpu("memory", times=2)
    failed = cli(*LAUNCH, "--cloud", "aws", "--accept-test")
    assert failed.code != 0
    assert "17 words of memory" in failed.error["message"]
    assert cli.sandbox.status()["billing"] == []


@pytest.mark.parametrize(("gpu", "says"), [("V100:4..8", "its driver shows"), ("T4", "has no GPU")])
def test_a_gpu_that_does_not_answer_is_noticed_without_the_test(cli: Shell, gpu: str, says: str) -> None:
    cli.sandbox.gpu("lost")
    box = cli("launch", "--gpu", gpu, "--name", "x", "--json", "--yes", "--cloud", "aws").box
    assert says in box["replaced"]
    assert len(cli.billed()) == 1


def test_a_test_that_does_not_come_to_an_end_is_failed(cli: Shell) -> None:
    """A GPU that hangs takes the program along; here it dies."""
    cli.sandbox.gpu("hangs")
    box = cli(*LAUNCH, "--cloud", "aws", "--accept-test").box
    assert "did not finish" in box["replaced"]
    assert len(cli.billed()) == 1


@pytest.mark.parametrize("cloud", ["aws", "azure"])
def test_a_driver_older_than_the_image_promises_is_not_ready(cli: Shell, cloud: str) -> None:
    """Another machine would boot the same image: it is not replaced."""
    cli.sandbox.gpu("driver")
    failed = cli(*LAUNCH, "--cloud", cloud)
    assert "has driver 470.256.02; the image needs 5" in failed.error["message"]
    assert cli.sandbox.status()["billing"] == []


def test_a_share_of_a_gpu_is_refused_before_anything_is_tested_or_bought(cli: Shell) -> None:
    command = ("launch", "--gpu", "A10:1/6", "--cloud", "azure", "--name", "x", "--json", "--yes")
    refused = cli(*command, "--accept-test")
    assert (refused.code, "GRID" in refused.error["message"]) == (2, True)
    assert cli("list", "--json").json["boxes"] == []


def test_who_does_not_ask_for_the_test_is_not_kept_by_it(cli: Shell) -> None:
    cli.sandbox.gpu("memory")
    box = cli(*LAUNCH, "--cloud", "aws").box
    assert (box["replaced"], box["accept_test"]) == (None, [])
