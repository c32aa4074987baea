"""The image that each offer would boot, and the software that the first boot installs. Makes no call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpucloud.errors import NoOfferError, UsageError
from gpucloud.planning.boot_images import boots
from gpucloud_pricing.values import number

if TYPE_CHECKING:
    from gpucloud.clouds.cloud import Clouds
    from gpucloud.planning.documents import ImageDocument
    from gpucloud.planning.plan import Candidate
    from gpucloud_templates import Image, Software


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
