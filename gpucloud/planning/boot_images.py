"""The boot of each offer: its image, and the software that the first boot installs. Makes no call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpucloud.clouds.abilities import Boot
from gpucloud.errors import NoOfferError, UsageError
from gpucloud.planning.plan import Candidate
from gpucloud_pricing.gpu_models import BY_NAME, family
from gpucloud_pricing.gpus import parse_requirements
from gpucloud_pricing.rules import NEEDS_GRID, grants, slices
from gpucloud_pricing.values import number
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
    from gpucloud.clouds.cloud import Cloud, Clouds
    from gpucloud.planning.documents import ImageDocument
    from gpucloud.planning.plan import Candidate
    from gpucloud_templates import Image, Software

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BootChoice:
    """The boot of one offer: an image and software; or ``problem``, the reason why no image works."""

    candidate: Candidate
    image: Image | None = None
    software: Software | None = None
    problem: str | None = None

    @property
    def driver(self) -> str | None:
        """The version of the GPU driver on the box."""
        if self.image is None or self.software is None:
            return None
        return self.image.driver or self.software.driver

    @property
    def cuda(self) -> Sequence[str]:
        """The CUDA toolkits on the box."""
        if self.image is None or self.software is None:
            return ()
        return (*self.image.cuda, *((self.software.toolkit,) if self.software.toolkit else ()))

    @property
    def installs(self) -> list[str]:
        """The software that the first boot adds to the image."""
        image, software = self.image, self.software
        if image is None or software is None:
            return []
        added = {
            f"driver {software.driver}": image.driver is None,
            "containers": software.containers and not image.containers,
            f"cuda-{software.toolkit}": software.toolkit is not None,
            str(software.wheels): software.wheels is not None,
        }
        return [name for name, is_added in added.items() if is_added]

    def document(self) -> ImageDocument:
        """An image of ``gpucloud.images/v1``."""
        candidate, image, software = self.candidate, self.image, self.software
        offer: ImageDocument = {
            "cloud": candidate.cloud,
            "instance_type": candidate.instance_type,
            "gpu": {"model": candidate.gpu_model, "memory_gib": number(candidate.gpu_memory_gib)},
            "arch": candidate.arch,
            "problem": self.problem,
        }
        if image is None or software is None:
            return offer
        return {
            **offer,
            "image": image.name,
            "system": image.system,
            "driver": self.driver,
            "cuda": list(self.cuda),
            "cudnn": software.cudnn,
            "frameworks": [*image.frameworks, *([software.wheels] if software.wheels else [])],
            "containers": software.containers,
            "installs": self.installs,
            "why": image.why,
        }


def boot_choices(clouds: Clouds, candidates: Sequence[Candidate], recipe: str) -> list[BootChoice]:
    """One choice for each image that the offers of each GPU boot: that of the best offer.

    Args:
        clouds: the installed clouds; none is called.
        candidates: the offers, the best first.
        recipe: the spec's image, as a cloud is told.

    Raises:
        NoOfferError: there is no offer.
    """
    if not candidates:
        raise NoOfferError("no offer matches this spec", hint="see why: gpucloud offers --why")
    found: dict[tuple[str, ...], BootChoice] = {}
    for candidate in candidates:
        try:
            image, software = boots(clouds[candidate.cloud], candidate, recipe)
            choice = BootChoice(candidate=candidate, image=image, software=software)
            key = (candidate.cloud, candidate.gpu_model, image.name, candidate.arch)
        except UsageError as error:
            hint = f" ({error.hint})" if error.hint else ""
            choice = BootChoice(candidate=candidate, problem=f"{error.message}{hint}")
            key = (candidate.cloud, candidate.gpu_model, choice.problem or "", candidate.arch)
        except (KeyError, ImportError) as error:
            problem = f"{candidate.cloud} is not installed: {error}"
            choice = BootChoice(candidate=candidate, problem=problem)
            key = (candidate.cloud, "", "", "")
        found.setdefault(key, choice)
    return list(found.values())
