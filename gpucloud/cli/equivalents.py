"""``gpucloud equivalents``: which other GPUs have as much, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

import typer

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.cli.options import takes_spec
from gpucloud.errors import UsageError
from gpucloud.spec.model import Spec
from gpucloud_pricing.values import number, usd_document
from gpucloud_pricing.work import UNITS, Equivalent, NoFigureError, amount_wanted, equivalents, source_of


class Measure(StrEnum):
    """What is to be as much: memory, or TFLOPS of a precision."""

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
        Measure, typer.Option("--by", help="What is to be as much: GPU memory, or TFLOPS of a precision.")
    ] = Measure.MEMORY,
) -> None:
    """Show which other GPUs have as much memory, or can do as much, in as few machines, cheapest first."""
    demand = spec.demand()
    if len(demand.gpus) != 1:
        raise UsageError("--gpu: name one GPU and how many: A100-80GB:8")
    try:
        wanted = amount_wanted(demand.gpus[0], by)
    except NoFigureError as error:
        raise UsageError(f"--gpu: {error}") from None
    anything = replace(demand, gpus=())
    market = app.client.catalog.market_for(anything)
    offers = market.search(anything, shown.today())
    found = equivalents(offers, wanted, by)
    unknown = sorted({o.gpu_model for o in offers} - {each.offer.gpu_model for each in found})
    if app.output.json:
        app.output.document(
            "equivalents",
            {
                "by": str(by),
                "amount": number(wanted),
                "unit": UNITS[by],
                "equivalents": [_document(each, by) for each in found],
                "without_figure": unknown,
                "rates": shown.rates_document(shown.rates_of(market, [each.offer for each in found])),
            },
        )
        return
    _show(app, found, wanted, by)
    if unknown:
        app.output.say(f"Not compared, for want of a figure or a price: {', '.join(unknown)}.")
    shown.say_rates(app.output, shown.rates_of(market, [each.offer for each in found]))


def _document(each: Equivalent, by: str) -> dict[str, Any]:
    return {
        "gpus": float(round(each.gpus, 3)),
        "nodes": each.nodes,
        "per_hour_usd": usd_document(each.per_hour),
        "figure_source": source_of(each.offer.gpu_model, by),
        "offer": each.offer.document(),
    }


def _show(app: App, found: Sequence[Equivalent], wanted: Decimal, by: str) -> None:
    offers = [each.offer for each in found]
    columns: dict[str, Sequence[object]] = {
        "PER HOUR": [shown.usd_text(each.per_hour) for each in found],
        "AS MUCH AS": [f"{each.gpus:.1f} × {_gpu(each)}" for each in found],
        "IN": [f"{each.nodes} × {each.offer.instance_type}" for each in found],
        "WITH": [f"{each.nodes} × {shown.gpu_text(each.offer)}" for each in found],
        "CLOUD": [o.cloud for o in offers],
        "REGION": [o.region for o in offers],
        "PAID AS": [shown.paid_text(o) for o in offers],
        "PRICE OF": [o.as_of for o in offers],
    }
    shown.show_table(app.output, columns, right=("PER HOUR",), optional=("PRICE OF", "PAID AS", "REGION"))
    what = "of GPU memory" if by == "memory" else f"at {by}, peak and without sparsity"
    app.output.say(
        f"{wanted.normalize():f} {UNITS[by]} {what}; the fewest machines of each GPU that have it."
    )
    weak = sorted({o.gpu_model for o in offers if source_of(o.gpu_model, by) is None})
    if weak:
        app.output.say(f"The figures of {', '.join(weak)} rest on no source that can be relied on.")


def _gpu(each: Equivalent) -> str:
    return f"{each.offer.gpu_model} {each.offer.gpu_memory_gib.normalize():f}GB"
