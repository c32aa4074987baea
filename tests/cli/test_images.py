"""What an offer boots, and the wishes that no image can fulfil."""

from __future__ import annotations

import pytest

from tests.shell import Shell


def test_images_show_what_is_there_and_what_the_first_boot_adds(cli: Shell) -> None:
    shown = cli("images", "--gpu", "T4", "--image", "pytorch", "--json").json["images"]
    by_cloud = {each["cloud"]: each for each in shown if each["problem"] is None}
    assert set(by_cloud) == {"alibaba", "aws", "azure"}
    assert by_cloud["aws"]["frameworks"] == ["pytorch-2.12"]
    assert by_cloud["aws"]["installs"] == []
    assert by_cloud["azure"]["installs"] == ["pytorch-2.10"]
    assert by_cloud["alibaba"]["installs"] == ["driver 580", "containers", "pytorch-2.12"]
    assert all(each["cudnn"] and each["why"] for each in by_cloud.values())
    (impossible,) = [each for each in shown if each["problem"] is not None]
    assert impossible["instance_type"].startswith("ecs.vgn6i")
    assert "GRID" in impossible["problem"]


def test_images_is_a_table_for_people(cli: Shell) -> None:
    shown = cli("images", "--gpu", "V100", "--cloud", "aws", "--image", "cuda-12.4")
    assert shown.code == 0
    assert "ubuntu-22.04" in shown.out
    assert "cuda-12.4" in shown.out


@pytest.mark.parametrize(
    ("gpu", "image", "says", "hint"),
    [
        ("V100", "cuda-13.0", "12.9 is the last CUDA for it", "--image cuda-12.9"),
        ("V100", "pytorch-2.12", "12.9 is the last CUDA for it", "--image pytorch-2.10"),
        ("B200:8", "cuda-12.4", "it needs CUDA 12.8", "--image cuda-12.8"),
        ("T4", "pytorch-1.9", "pytorch-1.9 is not known here", "--image pytorch-2.8"),
    ],
)
def test_an_impossible_wish_is_refused_at_plan_time_with_the_nearest_possible_one(
    cli: Shell, gpu: str, image: str, says: str, hint: str
) -> None:
    refused = cli("plan", "--gpu", gpu, "--image", image, "--json")
    assert refused.code == 2
    assert says in refused.error["message"]
    assert hint in refused.error["hint"]
    assert cli.changes_asked() == []
    shown = cli("images", "--gpu", gpu, "--image", image)
    assert shown.code == 2
    assert says in shown.err


@pytest.mark.parametrize(
    ("gpu", "cloud", "says", "nearest"),
    [
        ("L4:1/8", "aws", "the L4 of aws g6f.large needs NVIDIA's GRID (vGPU) driver", " g6.xlarge "),
        ("A10:1/6", "alibaba", "the A10 of alibaba ecs.vgn7i-vws", " ecs.gn7i-"),
        ("A10", "azure", "the A10 of azure Standard_NV36a", " azure "),
        ("RTX-PRO-6000:1/4", "azure", "the RTX-PRO-6000 of azure Standard_NC", " azure "),
    ],
)
def test_a_gpu_that_needs_grid_is_refused_at_plan_time_with_the_nearest_that_works(
    cli: Shell, gpu: str, cloud: str, says: str, nearest: str
) -> None:
    offers = cli("offers", "--gpu", gpu, "--cloud", cloud, "--json").json["offers"]
    assert all("needs_grid" in offer["flags"] for offer in offers)
    for command in (("plan",), ("launch", "--yes")):
        refused = cli(*command, "--gpu", gpu, "--cloud", cloud, "--json")
        assert refused.code == 2, command
        assert says in refused.error["message"]
        assert nearest in refused.error["hint"]
    assert cli.changes_asked() == []
    problem = cli("images", "--gpu", gpu, "--cloud", cloud)
    assert problem.code == 2
    assert "GRID" in problem.err


def test_vgpus_are_passed_over_and_named_however_cheap_they_are(cli: Shell) -> None:
    plan = cli("plan", "--gpu", "A10", "--json").json
    assert {attempt["cloud"] for attempt in plan["attempts"]} == {"alibaba"}
    assert "GRID" in plan["left_out"]["azure vGPUs"]


def test_an_image_of_the_users_own_may_bring_the_grid_driver(cli: Shell) -> None:
    own = ("--image", "ami-0123456789abcdef0", "--cloud", "aws")
    plan = cli("plan", "--gpu", "L4:1/8", *own, "--json").json
    assert {attempt["instance_type"] for attempt in plan["attempts"]} <= {"g6f.large", "g6f.xlarge"}
    assert all("needs_grid" in attempt["flags"] for attempt in plan["attempts"])


def test_offers_whose_gpu_cannot_run_it_are_passed_over(cli: Shell) -> None:
    plan = cli("plan", "--gpu", "V100,T4", "--image", "cuda-13.0", "--json").json
    assert {attempt["gpu_model"] for attempt in plan["attempts"]} == {"T4"}


@pytest.mark.parametrize("cloud", ["alibaba", "aws", "azure"])
def test_a_framework_is_there_when_the_box_is_ready(cli: Shell, cloud: str) -> None:
    box = cli.launch("--gpu", "T4", "--cloud", cloud, "--image", "pytorch-2.9", "--name", "learner")
    assert box["state"] == "ready"
    log = cli("logs", "learner").out
    assert "wheels: exit code 0" in log
    assert cli("down", "learner", "--yes").code == 0
