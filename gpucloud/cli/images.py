"""``gpucloud images``: what an offer would boot, and what the first boot adds to it. Asks nobody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpucloud.cli.context import App
from gpucloud.cli.market import today
from gpucloud.cli.options import takes_spec
from gpucloud.errors import NoOfferError, UsageError
from gpucloud.spec.model import Spec

if TYPE_CHECKING:
    from gpucloud.clouds.profile import Profile
    from gpucloud.planning.plan import Candidate
    from gpucloud_templates import Image, Software

COLUMNS = (
    "CLOUD",
    "GPU",
    "FOR EXAMPLE",
    "IMAGE",
    "SYSTEM",
    "DRIVER",
    "CUDA",
    "CUDNN",
    "BRINGS",
    "INSTALLS",
    "WHY",
)


@dataclass(frozen=True, slots=True)
class Choice:
    """What one offer boots; ``problem`` is why it cannot."""

    candidate: Candidate
    image: Image | None
    software: Software | None
    problem: str | None = None


@takes_spec
def images(app: App, spec: Spec) -> int | None:
    """Show which image an offer would boot, with driver, CUDA and frameworks, and what is installed on it."""
    from gpucloud.clouds.profile import Profile
    from gpucloud.planning.planner import candidates_of

    if not spec.wants_gpu:
        raise UsageError("say which GPU: --gpu T4, --gpu A100:8, or --gpu-memory 24")
    demand = spec.demand()
    market = app.client.catalog.market_for(demand)
    candidates = candidates_of(market.search(demand, today=today()))
    if not candidates:
        raise NoOfferError(
            "no offer matches this spec", hint="see what stands in the way: gpucloud offers --why"
        )
    choices = _choices(Profile(app.environment), candidates, spec)
    if app.output.json:
        app.output.document("images", {"images": [_document(choice) for choice in choices]})
    else:
        app.output.table(COLUMNS, [_row(choice) for choice in choices])
        for choice in choices:
            if choice.problem:
                app.output.say(f"{choice.candidate.place}: {choice.problem}")
    return None if any(choice.problem is None for choice in choices) else UsageError.exit_code


def _choices(profile: Profile, candidates: Sequence[Candidate], spec: Spec) -> list[Choice]:
    """One choice for each image that the offers of each GPU boot: that of the cheapest offer."""
    from gpucloud.clouds.cloud import Clouds
    from gpucloud.planning.boot_images import DEFAULT_IMAGE, boots

    clouds = Clouds.installed(profile)
    recipe = spec.image or DEFAULT_IMAGE
    found: dict[tuple[str, ...], Choice] = {}
    for candidate in candidates:
        try:
            cloud = clouds[candidate.cloud]
            image, software = boots(cloud, candidate, recipe)
            choice = Choice(candidate, image, software)
            key = (candidate.cloud, candidate.gpu_model, image.name, candidate.arch)
        except UsageError as error:
            hint = f" ({error.hint})" if error.hint else ""
            choice = Choice(candidate, None, None, f"{error.message}{hint}")
            key = (candidate.cloud, candidate.gpu_model, choice.problem or "", candidate.arch)
        except (KeyError, ImportError) as error:
            choice = Choice(candidate, None, None, f"{candidate.cloud} is not installed: {error}")
            key = (candidate.cloud, "", "", "")
        found.setdefault(key, choice)
    return list(found.values())


def _row(choice: Choice) -> Sequence[object]:
    candidate, image, software = choice.candidate, choice.image, choice.software
    gpu = f"{candidate.gpu_model} {candidate.gpu_memory_gib.normalize():f}GB"
    if image is None or software is None:
        return (candidate.cloud, gpu, candidate.instance_type, *[None] * 7, "cannot work")
    return (
        candidate.cloud,
        gpu,
        candidate.instance_type,
        image.name,
        image.system,
        image.driver or software.driver,
        ", ".join(_cuda(image, software)) or None,
        software.cudnn,
        ", ".join([*image.frameworks, *(["containers"] if image.containers else [])]) or None,
        ", ".join(_installed(image, software)) or None,
        image.why,
    )


def _cuda(image: Image, software: Software) -> Sequence[str]:
    """The toolkits that will be there."""
    return (*image.cuda, *((software.toolkit,) if software.toolkit else ()))


def _installed(image: Image, software: Software) -> list[str]:
    """What the first boot adds to the image."""
    added = {
        f"driver {software.driver}": image.driver is None,
        "containers": software.containers and not image.containers,
        f"cuda-{software.toolkit}": software.toolkit is not None,
        str(software.wheels): software.wheels is not None,
    }
    return [name for name, is_added in added.items() if is_added]


def _document(choice: Choice) -> dict[str, Any]:
    candidate, image, software = choice.candidate, choice.image, choice.software
    offer = {
        "cloud": candidate.cloud,
        "instance_type": candidate.instance_type,
        "gpu": {"model": candidate.gpu_model, "memory_gib": format(candidate.gpu_memory_gib, "f")},
        "arch": candidate.arch,
        "problem": choice.problem,
    }
    if image is None or software is None:
        return offer
    return {
        **offer,
        "image": image.name,
        "system": image.system,
        "driver": image.driver or software.driver,
        "cuda": _cuda(image, software),
        "cudnn": software.cudnn,
        "frameworks": [*image.frameworks, *([software.wheels] if software.wheels else [])],
        "containers": software.containers,
        "installs": _installed(image, software),
        "why": image.why,
    }
