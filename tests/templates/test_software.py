"""Which software runs on which GPU: what is impossible is refused, with the nearest that is possible."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gpucloud.errors import UsageError
from gpucloud.planning.boot_images import gpu_of, possible
from gpucloud_templates.software import (
    PYTHONS,
    Gpu,
    Image,
    ImpossibleError,
    driver,
    number,
    own_image,
    release_for,
    releases,
    software_for,
    wheels_of,
)
from tests.planning.test_plan import a_candidate

V100 = Gpu(model="V100", architecture="Volta", capability="7.0", last_cuda="12.9", last_driver="580")
T4 = Gpu(model="T4", architecture="Turing", capability="7.5")
H100 = Gpu(model="H100", architecture="Hopper", capability="9.0", first_cuda="11.8")
B200 = Gpu(model="B200", architecture="Blackwell", capability="10.0", first_cuda="12.8")
B300 = Gpu(model="B300", architecture="Blackwell Ultra", capability="10.3", first_cuda="12.9")
K80 = Gpu(model="K80", architecture="Kepler", capability="3.7", last_driver="470")
H200 = Gpu(model="H200", architecture="Hopper", capability="9.0", first_driver="550.90.07")
HGX_B200 = replace(B200, needs_nvlsm=True)
VGPU = Gpu(model="L4", architecture="Ada", capability="8.9", needs_grid=True)
JAMMY = Image(name="plain", system="ubuntu-22.04")
NOBLE = Image(name="plain", system="ubuntu-24.04")
OLD = Image(name="old driver", system="ubuntu-22.04", driver="535", containers=True)
NEW = Image(
    name="new driver", system="ubuntu-22.04", driver="595.91.07", cuda=("12.8", "13.0"), containers=True
)

PINNED = re.compile(r"[a-z0-9_.-]+==[\w.+]+ --hash=sha256:[0-9a-f]{64}")


@pytest.mark.parametrize(
    ("gpu", "recipe", "means"),
    [
        (V100, "pytorch", "pytorch-2.10"),  # 2.11 and later hold nothing for Volta
        (T4, "pytorch", "pytorch-2.12"),
        (B200, "pytorch", "pytorch-2.12"),
        (B300, "pytorch", "pytorch-2.12"),
        (V100, "tensorflow", "tensorflow-2.20"),
        (H100, "cuda-12.4", "cuda-12.4"),
    ],
)
def test_a_recipe_means_the_newest_version_that_works(gpu: Gpu, recipe: str, means: str) -> None:
    assert release_for(recipe, gpu).recipe == means


def test_an_older_driver_means_an_older_version() -> None:
    assert release_for("pytorch", T4, driver_version="535").recipe == "pytorch-2.10"


@pytest.mark.parametrize(
    ("gpu", "recipe", "says", "nearest"),
    [
        (V100, "cuda-13.0", "12.9 is the last CUDA for it", "cuda-12.9"),
        (V100, "pytorch-2.12", "12.9 is the last CUDA for it", "pytorch-2.10"),
        (B200, "cuda-12.4", "needs CUDA 12.8", "cuda-12.8"),
        (B300, "pytorch-2.9", "needs CUDA 12.9", "pytorch-2.11"),
        (T4, "pytorch-1.13", "is not known here", "pytorch-2.8"),
        (T4, "pytorch-9.9", "is not known here", "pytorch-2.12"),
        (T4, "cuda-12.7", "is not known here", "cuda-12.6"),
    ],
)
def test_what_cannot_work_is_refused_with_the_nearest_that_does(
    gpu: Gpu, recipe: str, says: str, nearest: str
) -> None:
    with pytest.raises(ImpossibleError, match=says) as caught:
        release_for(recipe, gpu)
    assert caught.value.nearest == nearest
    assert release_for(nearest, gpu).recipe == nearest


def test_a_driver_that_is_too_old_or_too_new_is_refused() -> None:
    with pytest.raises(ImpossibleError, match="needs driver 580, and 535 is what there will be"):
        software_for("cuda-13.0", T4, OLD)
    with pytest.raises(ImpossibleError, match="580 is the last for V100"):
        software_for("cuda", V100, NEW)


@pytest.mark.parametrize(
    ("gpu", "image", "says"),
    [
        (K80, JAMMY, "plain would get driver 580.65.06, and 470 is the last for K80"),
        (H200, OLD, "old driver has driver 535, and 550.90.07 is the first for H200"),
        (HGX_B200, NOBLE, "plain does not have NVIDIA's NVLink subnet manager, which B200 needs"),
        (VGPU, NEW, r"new driver does not have NVIDIA's GRID \(vGPU\) driver, which this L4 needs"),
    ],
)
@pytest.mark.parametrize("recipe", ["cuda", "ubuntu-24.04"])
def test_an_image_without_the_driver_that_a_gpu_needs_is_refused(
    recipe: str, gpu: Gpu, image: Image, says: str
) -> None:
    with pytest.raises(ImpossibleError, match=says):
        software_for(recipe, gpu, image)
    assert software_for("ami-1234", gpu, own_image("ami-1234")).driver  # it may bring any driver


def test_a_toolkit_is_only_installed_on_a_system_that_it_is_published_for() -> None:
    with pytest.raises(ImpossibleError, match=r"cuda-12\.4 cannot be installed on ubuntu-24\.04"):
        software_for("cuda-12.4", T4, NOBLE)


@pytest.mark.parametrize(
    ("recipe", "image", "steps"),
    [
        ("ubuntu-22.04", JAMMY, ("driver:580",)),
        ("cuda", JAMMY, ("driver:580", "containers")),
        ("cuda-12.6", JAMMY, ("driver:580", "containers", "toolkit:12.6")),
        ("cuda-12.8", NEW, ("driver:580", "containers")),
        ("pytorch", NOBLE, ("driver:580", "containers", "wheels:torch")),
        ("tensorflow", NOBLE, ("driver:580", "containers", "wheels:tensorflow")),
        ("ami-1234", Image(name="ami-1234", system=None), ("driver:580",)),
    ],
)
def test_what_the_image_lacks_is_installed(recipe: str, image: Image, steps: tuple[str, ...]) -> None:
    assert software_for(recipe, T4, image).steps == steps


def test_a_framework_that_the_image_brings_is_not_installed_again() -> None:
    brings = Image(name="x", system="ubuntu-24.04", driver="595.91.07", frameworks=("pytorch-2.8",))
    assert software_for("pytorch", T4, brings).wheels is None
    assert software_for("pytorch-2.9", T4, brings).wheels == "pytorch-2.9"


def test_wheels_are_known_for_one_architecture_only() -> None:
    with pytest.raises(ImpossibleError, match="x86_64 only"):
        software_for("pytorch", T4, NOBLE, arch="arm64")


def test_every_wheel_of_every_framework_is_pinned_by_its_digest() -> None:
    frameworks = [release for release in releases() if release.cudnn]
    assert len(frameworks) >= 6
    for release in frameworks:
        for system in PYTHONS:
            lines = wheels_of(release.recipe, system).splitlines()
            assert all(
                re.fullmatch(r"[a-z0-9_.-]+==[\w.+]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines
            )
            family = "torch" if release.recipe.startswith("pytorch") else "tensorflow"
            assert any(line.startswith(f"{family}=={release.version} ") for line in lines)


def test_the_driver_that_is_installed_runs_everything_that_is_known() -> None:
    assert all(number(release.driver) <= number(driver().version) for release in releases())


def test_offers_whose_gpu_cannot_run_it_are_left_out_and_refused_only_when_none_is_left() -> None:
    old, new = (a_candidate(gpu_model=model, instance_type=model.lower()) for model in ("V100", "T4"))
    assert possible([old, new], "cuda-13.0") == [new]
    assert possible([old], "cuda") == [old]
    with pytest.raises(UsageError, match="last CUDA") as caught:
        possible([old], "cuda-13.0")
    assert caught.value.hint == "use --image cuda-12.9, or another GPU"


def test_a_gpu_that_nobody_described_runs_what_needs_no_knowledge() -> None:
    strange = gpu_of(a_candidate(gpu_model="X9000"))
    assert software_for("cuda", strange, JAMMY).steps == ("driver:580", "containers")
    with pytest.raises(ImpossibleError):
        software_for("cuda-12.6", strange, JAMMY)
