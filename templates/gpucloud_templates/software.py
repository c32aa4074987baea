"""Which software runs on which GPU, and what it needs: the data of ``software.toml``, and rules over it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

_SOFTWARE = re.compile(r"(cuda|pytorch|tensorflow)(-\d+(\.\d+)*)?")
PYTHONS = {"ubuntu-22.04": "py310", "ubuntu-24.04": "py312"}
"""The systems that wheels are known for, and their Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """What is known of a GPU: its compute capability (``7.0``), and what CUDA and driver support it.

    ``needs_grid`` says that, as it is rented, only NVIDIA's GRID (vGPU) driver drives it; ``needs_nvlsm``
    that it runs no CUDA without NVIDIA's NVLink subnet manager. A first boot installs neither.
    """

    model: str
    architecture: str
    capability: str
    first_cuda: str | None = None
    last_cuda: str | None = None
    first_driver: str | None = None
    last_driver: str | None = None
    needs_grid: bool = False
    needs_nvlsm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What a machine boots, as far as is known beforehand.

    Attributes:
        name: the cloud's own name of it.
        system: ``ubuntu-22.04``; ``None`` for an image of the user's own.
        driver: the version of NVIDIA's driver, or the lowest that it may be; ``None`` where it has none.
        cuda: the toolkits that it brings.
        cudnn: the version that it brings, if known.
        frameworks: the recipes that it contains completely.
        containers: whether it has Docker with NVIDIA's toolkit.
        disk_gib: the size of its disk, which no machine's disk may be below; 0 where that is not known.
        why: the reason for this choice, as text.
    """

    name: str
    system: str | None
    driver: str | None = None
    cuda: tuple[str, ...] = ()
    cudnn: str | None = None
    frameworks: tuple[str, ...] = ()
    containers: bool = False
    disk_gib: int = 0
    why: str = ""


def own_image(name: str) -> Image:
    """An image of the user's own, of which nothing is known."""
    return Image(name=name, system=None, why="your own image; the first boot looks for a driver")


def contents_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row of a provider's ``images.toml`` says of an image: fields of :class:`Image`."""
    known = {field.name for field in fields(Image)} & row.keys()
    return {name: tuple(row[name]) if isinstance(row[name], list) else row[name] for name in known}


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """What the first boot installs. Each step looks first whether the image has it.

    Attributes:
        driver: the branch of the driver.
        containers: whether Docker with NVIDIA's toolkit.
        toolkit: the version of the CUDA toolkit, if any.
        wheels: the framework, if any.
        system: what it is installed on.
        least_driver: the first driver that runs what was asked for.
        cudnn: the version of cuDNN that will be there, if known.
        erdma: whether Alibaba Cloud's driver for eRDMA.
        mig: how the GPUs are cut, if at all: ``1g.5gb=7,3`` makes seven slices of the first and three of the
            second.
    """

    driver: str | None = None
    containers: bool = False
    toolkit: str | None = None
    wheels: str | None = None
    system: str | None = None
    least_driver: str | None = None
    cudnn: str | None = None
    erdma: bool = False
    mig: str | None = None

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps of the first boot, in order; what follows a colon is the step's argument."""
        wanted = {
            f"driver:{self.driver}": self.driver is not None,
            f"mig:{self.mig}": self.mig is not None,
            "erdma": self.erdma,
            "containers": self.containers,
            f"toolkit:{self.toolkit}": self.toolkit is not None,
            f"wheels:{module_of(self.wheels or '')}": self.wheels is not None,
        }
        return tuple(step for step, is_wanted in wanted.items() if is_wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One version of CUDA or of a framework.

    Attributes:
        recipe: how a spec asks for it: ``cuda-12.4``, ``pytorch-2.10``.
        version: its own.
        cuda: the CUDA version that it is, or brings along.
        cudnn: the cuDNN version that it brings along; ``None`` for CUDA itself.
        driver: the first driver that runs it, by CUDA's minor version compatibility.
        own_driver: the first driver that is of its CUDA version, which also compiles its PTX.
        capabilities: the lowest and the highest compute capability that it runs on.
        systems: the systems that it can be installed on.
    """

    recipe: str
    version: str
    cuda: str
    cudnn: str | None
    driver: str
    own_driver: str | None
    capabilities: tuple[str, str]
    systems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The driver that is installed where an image has none, and the CUDA version that it is of."""

    branch: str
    version: str
    cuda: str


NOTHING = Software()
"""An image as it is."""


class ImpossibleError(ValueError):
    """A recipe that cannot work; ``nearest`` is one that does, if any."""

    def __init__(self, message: str, nearest: str | None) -> None:
        super().__init__(message)
        self.nearest = nearest


def number(version: str) -> tuple[int, ...]:
    """A version as a tuple that can be compared."""
    return tuple(int(part) for part in version.split("."))


@cache
def driver() -> Driver:
    """What is installed where an image has no driver."""
    return Driver(**_data()["driver"])


@cache
def releases() -> tuple[Release, ...]:
    """Every version that is known, those of one thing from old to new."""
    data = _data()
    own_drivers: dict[str, str] = {row["version"]: row["driver"] for row in data["cuda"]}
    toolkits = [
        Release(
            recipe=f"cuda-{row['version']}",
            version=row["version"],
            cuda=row["version"],
            cudnn=None,
            driver=data["runs"][row["version"].partition(".")[0]],
            own_driver=row["driver"],
            capabilities=(row["capabilities"][0], row["capabilities"][1]),
            systems=tuple(row["systems"]),
        )
        for row in data["cuda"]
    ]
    frameworks = [
        Release(
            recipe=row["recipe"],
            version=row["version"],
            cuda=row["cuda"],
            cudnn=row["cudnn"],
            driver=data["runs"][row["cuda"].partition(".")[0]],
            own_driver=own_drivers.get(row["cuda"]),
            capabilities=(row["capabilities"][0], row["capabilities"][1]),
            systems=tuple(PYTHONS),
        )
        for row in data["framework"]
    ]
    return (*toolkits, *frameworks)


def is_software(recipe: str) -> bool:
    """Whether a recipe names CUDA or a framework, rather than a system or an image."""
    return bool(_SOFTWARE.fullmatch(recipe))


def is_own(image: str) -> bool:
    """Whether the image of a spec is an image of the user's own, rather than a recipe."""
    return not is_software(image) and image not in PYTHONS


def module_of(recipe: str) -> str:
    """The Python module of a framework's recipe."""
    return "torch" if recipe.startswith("pytorch") else "tensorflow"


def software_for(recipe: str, gpu: Gpu, image: Image, *, arch: str = "x86_64") -> Software:
    """What is to be installed on an image, so that a recipe works on a GPU.

    Raises:
        ImpossibleError: it cannot work.
    """
    if problem := driver_problem(gpu, image):
        raise ImpossibleError(problem, None)
    system = Software(driver=driver().branch, system=image.system)
    if not is_software(recipe):
        return system
    usual = replace(system, containers=True)
    if recipe == "cuda":
        return usual
    release = _brought(recipe, gpu, image) or release_for(recipe, gpu, driver_version=image.driver)
    usual = replace(usual, least_driver=release.driver, cudnn=release.cudnn or image.cudnn)
    if release.recipe in image.frameworks or release.version in image.cuda:
        return usual
    if image.system not in release.systems:
        raise ImpossibleError(
            f"{release.recipe} cannot be installed on {image.system}", _newest_on(image.system, recipe, gpu)
        )
    if release.cudnn is None:
        return replace(usual, toolkit=release.version, cudnn="9")
    if arch != "x86_64":
        raise ImpossibleError(f"the wheels of {release.recipe} are known for x86_64 only", "cuda")
    return replace(usual, wheels=release.recipe)


def driver_problem(gpu: Gpu, image: Image) -> str | None:
    """Why the driver of an image, or the one that is installed on it, does not drive a GPU.

    ``None`` where it does, and for an image of the user's own, which may bring any driver.
    """
    if image.system is None:
        return None
    if gpu.needs_grid:
        return f"{image.name} does not have NVIDIA's GRID (vGPU) driver, which this {gpu.model} needs"
    there = image.driver or driver().version
    has = f"{image.name} {'has' if image.driver else 'would get'} driver {there}"
    if gpu.last_driver and number(there)[0] > int(gpu.last_driver):
        return f"{has}, and {gpu.last_driver} is the last for {gpu.model}"
    if gpu.first_driver and number(there) < number(gpu.first_driver):
        return f"{has}, and {gpu.first_driver} is the first for {gpu.model}"
    if gpu.needs_nvlsm and image.driver is None:
        return f"{image.name} does not have NVIDIA's NVLink subnet manager, which {gpu.model} needs"
    return None


def _brought(recipe: str, gpu: Gpu, image: Image) -> Release | None:
    """A framework that the image brings, if that is what is asked for, and it works."""
    for release in releases():
        is_asked = release.recipe == recipe or release.recipe.startswith(f"{recipe}-")
        if is_asked and release.recipe in image.frameworks and why_not(release, gpu) is None:
            return release
    return None


def _newest_on(system: str | None, recipe: str, gpu: Gpu) -> str | None:
    family = recipe.partition("-")[0]
    fitting = [
        release.recipe
        for release in releases()
        if release.recipe.startswith(f"{family}-") and system in release.systems and not why_not(release, gpu)
    ]
    return fitting[-1] if fitting else None


def release_for(recipe: str, gpu: Gpu, *, driver_version: str | None = None) -> Release:
    """The version that a recipe means on a GPU: the one that it names, or the newest that works.

    Args:
        recipe: of CUDA or a framework, with or without a version.
        gpu: where it is to run.
        driver_version: the driver that will be there; ``None`` for the one that is installed.

    Raises:
        ImpossibleError: there is no such version, or it does not run there.
    """
    family, _, asked = recipe.partition("-")
    known = [release for release in releases() if release.recipe.startswith(f"{family}-")]
    working = [release for release in known if why_not(release, gpu, driver_version) is None]
    if not asked:
        if not working:
            raise ImpossibleError(f"no {family} that is known here runs on {gpu.model}", None)
        return working[-1]
    named = next((release for release in known if release.recipe == recipe), None)
    if named is None:
        words = ", ".join(release.recipe for release in known)
        raise ImpossibleError(f"{recipe} is not known here; these are: {words}", nearest(asked, working))
    reason = why_not(named, gpu, driver_version)
    if reason:
        raise ImpossibleError(reason, nearest(asked, working))
    return named


def why_not(release: Release, gpu: Gpu, driver_version: str | None = None) -> str | None:
    """Why a version does not run on a GPU under a driver; ``None`` where it does."""
    lowest, highest = release.capabilities
    what = f"{gpu.model} is {gpu.architecture} (compute capability {gpu.capability})"
    if gpu.last_cuda and number(release.cuda) > number(gpu.last_cuda):
        return f"{what}: {gpu.last_cuda} is the last CUDA for it, and {release.recipe} is of {release.cuda}"
    if gpu.first_cuda and number(release.cuda) < number(gpu.first_cuda):
        return f"{what}: it needs CUDA {gpu.first_cuda}, and {release.recipe} is of {release.cuda}"
    if not number(lowest) <= number(gpu.capability) <= number(highest):
        return f"{what}: {release.recipe} runs on {lowest} to {highest}"
    there = driver_version or driver().version
    if number(there) < number(release.driver):
        return f"{release.recipe} needs driver {release.driver}, and {there} is what there will be"
    return None


def later(*versions: str | None) -> str | None:
    """The latest of the versions that are known; ``None`` where none is."""
    return max(filter(None, versions), key=number, default=None)


def wheels_of(recipe: str, system: str) -> str:
    """The requirements file, each wheel with its digest, of a framework on a system."""
    file = files("gpucloud_templates").joinpath("wheels", f"{recipe}-{PYTHONS[system]}.txt")
    return file.read_text(encoding="utf-8")


def nearest(asked: str, working: Sequence[Release]) -> str | None:
    """The recipe, of those that work, whose version is nearest to what was asked for; the older first."""
    if not working:
        return None
    wanted = number(asked)
    older = [release for release in working if number(release.version)[: len(wanted)] <= wanted]
    return (older[-1] if older else working[0]).recipe


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(files("gpucloud_templates").joinpath("software.toml").read_text(encoding="utf-8"))
