"""``gpucloud images``: the image of each offer, and the software that its first boot installs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpucloud.cli.context import App
from gpucloud.cli.listing import lists
from gpucloud.cli.options import SpecFlags
from gpucloud.errors import UsageError
from gpucloud.rendering.table import Table

if TYPE_CHECKING:
    from gpucloud.planning.boot_images import BootChoice
    from gpucloud.planning.documents import ImagesDocument

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


@lists("images", name="image")
def images(app: App, spec: SpecFlags) -> int | None:
    """Show the image that each offer boots, with driver, CUDA and frameworks, and the installed software.

    Examples:
        gpucloud images --gpu A100:8
        gpucloud images --gpu T4 --image pytorch
    """
    choices = app.client.market.images(spec)
    if app.output.json:
        answer: ImagesDocument = {"images": [choice.document() for choice in choices]}
        app.output.document("images", answer)
    else:
        hidden_first = ("WHY", "CUDNN", "SYSTEM", "FOR EXAMPLE")
        app.output.table(Table.of_rows(COLUMNS, map(_row, choices), optional=hidden_first))
        for choice in choices:
            if choice.problem:
                app.output.say(f"{choice.candidate.place}: {choice.problem}")
    return None if any(choice.problem is None for choice in choices) else UsageError.exit_code


def _row(choice: BootChoice) -> Sequence[object]:
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
        choice.driver,
        ", ".join(choice.cuda) or None,
        software.cudnn,
        ", ".join([*image.frameworks, *(["containers"] if image.containers else [])]) or None,
        ", ".join(choice.installs) or None,
        image.why,
    )
