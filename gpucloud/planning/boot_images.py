"""The boot of a box: the image for an offer, and the software that a recipe needs on its GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpucloud.clouds.abilities import Boot
from gpucloud.errors import UsageError
from gpucloud.planning.plan import Candidate
from gpucloud_pricing.gpu_models import BY_NAME, family
from gpucloud_pricing.gpus import parse_requirements
from gpucloud_pricing.rules import NEEDS_GRID, grants, slices
from gpucloud_templates.software import (
    Gpu,
    Image,
    ImpossibleError,
    Software,
    is_software,
    own_image,
    release_for,
    software_for,
)

if TYPE_CHECKING:
    from gpucloud.clouds.cloud import Cloud

DEFAULT_IMAGE = "cuda"


def gpu_of(candidate: Candidate) -> Gpu:
    """The known properties of an offer's GPU; only its name, for a model without a description."""
    name = family(candidate.gpu_model, candidate.gpu_memory_gib)
    model = BY_NAME.get(name)
    needs_grid = NEEDS_GRID in candidate.flags
    if model is None:
        return Gpu(model=name, architecture="unknown", capability="0.0", needs_grid=needs_grid)
    return Gpu(
        model=name,
        architecture=model.architecture,
        capability=model.sm,
        first_cuda=model.first_cuda,
        last_cuda=model.last_cuda,
        first_driver=model.first_driver,
        last_driver=model.last_driver,
        needs_grid=needs_grid,
        needs_nvlsm=model.needs_nvlsm,
    )


def possible(candidates: Sequence[Candidate], recipe: str) -> list[Candidate]:
    """The offers whose GPUs can run a recipe, independently of the image.

    Raises:
        UsageError: none can; the message names the nearest recipe that works.
    """
    if not is_software(recipe) or recipe == DEFAULT_IMAGE:
        return list(candidates)
    refusals: dict[str, ImpossibleError] = {}
    fitting: list[Candidate] = []
    for candidate in candidates:
        gpu = gpu_of(candidate)
        try:
            if gpu.model not in refusals:
                release_for(recipe, gpu)
                fitting.append(candidate)
        except ImpossibleError as error:
            refusals[gpu.model] = error
    if candidates and not fitting:
        raise refused(next(iter(refusals.values())))
    return fitting


def boots(cloud: Cloud, candidate: Candidate, recipe: str) -> tuple[Image, Software]:
    """The image that an offer boots, and the software that is installed on it.

    Raises:
        UsageError: the recipe cannot work there.
    """
    boot = cloud.ability(Boot)
    if boot is None:
        image = own_image(recipe)
    else:
        image = boot.boot_image(recipe, candidate.arch, candidate.instance_type)
    try:
        return image, software_for(recipe, gpu_of(candidate), image, arch=candidate.arch)
    except ImpossibleError as error:
        raise refused(error) from error


def cut(candidate: Candidate, wanted: str | None) -> str | None:
    """The MIG profile of an offer's GPUs, as in :class:`Software`; ``None`` for whole GPUs.

    Args:
        candidate: the offer.
        wanted: the GPUs of the spec.
    """
    requirements = parse_requirements(wanted) if wanted else ()
    requirement = next((requirement for requirement in requirements if grants(requirement, candidate)), None)
    if requirement is None or requirement.mig is None:
        return None
    return f"{requirement.mig}={','.join(map(str, slices(requirement, candidate)))}"


def refused(error: ImpossibleError) -> UsageError:
    """The error of an impossible image, with the nearest possible one."""
    hint = f"use --image {error.nearest}, or another GPU" if error.nearest else "use another GPU or image"
    return UsageError(f"--image: {error}", hint=hint)
