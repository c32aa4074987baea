"""``gpucloud equivalents``: other GPUs with equal memory or speed, and their prices."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.cli.options import takes_spec
from gpucloud.market.search import paid_text
from gpucloud.spec.model import Spec
from gpucloud_pricing.work import Equivalent, source_of

if TYPE_CHECKING:
    from gpucloud.market.equivalents import Equivalents


class Measure(StrEnum):
    """The measures: memory, or TFLOPS of a precision."""

    MEMORY = "memory"
    FP64 = "fp64"
    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    FP8 = "fp8"


@takes_spec
def show(
    app: App,
    spec: Spec,
    by: Annotated[
        Measure, typer.Option("--by", help="Measure to compare by: GPU memory, or TFLOPS of a precision.")
    ] = Measure.MEMORY,
) -> None:
    """Show sets of other GPUs with equal memory or speed, in the fewest machines, cheapest first."""
    found = app.client.equivalents(spec, by=by)
    if app.output.json:
        app.output.document("equivalents", found.document())
        return
    _show(app, found)


def _show(app: App, compared: Equivalents) -> None:
    found, by = compared.equivalents, compared.by
    offers = [each.offer for each in found]
    columns: dict[str, Sequence[object]] = {
        "PER HOUR": [shown.usd_text(each.per_hour) for each in found],
        "AS MUCH AS": [f"{each.gpus:.1f} × {_gpu(each)}" for each in found],
        "IN": [f"{each.nodes} × {each.offer.instance_type}" for each in found],
        "WITH": [f"{each.nodes} × {shown.gpu_text(each.offer)}" for each in found],
        "CLOUD": [o.cloud for o in offers],
        "REGION": [o.region for o in offers],
        "PAID AS": [paid_text(o) for o in offers],
        "PRICE OF": [o.as_of for o in offers],
    }
    shown.show_table(app.output, columns, right=("PER HOUR",), optional=("PRICE OF", "PAID AS", "REGION"))
    what = "of GPU memory" if by == "memory" else f"at {by}, peak and without sparsity"
    app.output.say(
        f"{compared.amount.normalize():f} {compared.unit} {what}; "
        "the fewest machines of each GPU that have it."
    )
    weak = sorted({o.gpu_model for o in offers if source_of(o.gpu_model, by) is None})
    if weak:
        app.output.say(f"The figures of {', '.join(weak)} rest on no source that can be relied on.")
    if compared.without_figure:
        unknown = ", ".join(compared.without_figure)
        app.output.say(f"Not compared, as a figure or a price is not known: {unknown}.")
    shown.say_rates(app.output, compared.rates, offers)


def _gpu(each: Equivalent) -> str:
    return f"{each.offer.gpu_model} {each.offer.gpu_memory_gib.normalize():f}GB"
