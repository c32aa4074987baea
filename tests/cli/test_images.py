"""What an offer boots, and the wishes that no image can fulfil."""

from __future__ import annotations

import pytest

from tests.shell import Shell


def test_images_show_what_is_there_and_what_the_first_boot_adds(cli: Shell) -> None:
    shown = cli("images", "--gpu", "T4", "--image", "pytorch", "--json").json["images"]
    by_cloud = {each["cloud"]: each for each in shown}
    assert set(by_cloud) == {"alibaba", "aws", "azure"}
    assert by_cloud["aws"]["frameworks"] == ["pytorch-2.12"]
    assert by_cloud["aws"]["installs"] == []
    assert by_cloud["azure"]["installs"] == ["pytorch-2.10"]
    assert by_cloud["alibaba"]["installs"] == ["driver 580", "containers", "pytorch-2.12"]
    assert all(each["cudnn"] and each["why"] for each in shown)


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
