"""``gpucloud equivalents``: other GPUs with equal memory or speed, or two sizes side by side, with prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.cli.listing import lists
from gpucloud.cli.options import SpecFlags
from gpucloud.errors import UsageError
from gpucloud.market import cells
from gpucloud.market.cells import paid_text
from gpucloud.rendering.table import Table
from gpucloud.spec.model import Spec, SpecError
from gpucloud_pricing.work import UNITS, Equivalent, Range

if TYPE_CHECKING:
    from gpucloud.market.equivalents import Equivalents, SizeComparison


class Measure(StrEnum):
    """The measures: memory, its bandwidth, or TFLOPS of a precision."""

    MEMORY = "memory"
    BANDWIDTH = "bandwidth"
    FP64 = "fp64"
    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"


@lists("equivalents", name="offer.instance_type")
def show(
    app: App,
    spec: SpecFlags,
    sizes: Annotated[
        list[str] | None,
        typer.Argument(help="One size, as --gpu; or two to compare: A100-80GB:8 H100:4.", metavar="[GPU]..."),
    ] = None,
    by: Annotated[
        Measure | None,
        typer.Option(
            "--by",
            help="Measure: GPU memory (the default), its bandwidth, or TFLOPS of a precision.",
        ),
    ] = None,
) -> None:
    """Show sets of other GPUs with equal memory or speed, in the fewest machines, cheapest first.

    With two sizes: the ratio by each measure, and the cheapest machines that have them.

    Examples:
        gpucloud equivalents --gpu A100-80GB:8
        gpucloud equivalents --gpu H100:4 --by fp16
    """
    spec = _with_sizes(spec, sizes or [])
    if len(sizes or []) < 2:
        found = app.client.market.equivalents(spec, by=by or Measure.MEMORY)
        if app.output.json:
            app.output.document("equivalents", found.document())
        else:
            _show(app, found)
        return
    if by is not None:
        raise UsageError("--by: two sizes are compared by every measure")
    compared = app.client.market.compare_sizes(spec)
    if app.output.json:
        app.output.document("equivalents", compared.document())
    else:
        _show_compared(app, compared)


def _with_sizes(spec: Spec, sizes: Sequence[str]) -> Spec:
    """The spec with the sizes of the command line as its GPUs.

    Raises:
        UsageError: there are too many, --gpu is given too, or one cannot be read.
    """
    if not sizes:
        return spec
    if spec.gpu is not None:
        raise UsageError(f"--gpu and {' '.join(sizes)}: specify the GPU once")
    if len(sizes) > 2:
        raise UsageError(f"{' '.join(sizes)}: two sizes at most are compared")
    try:
        return spec.replaced(gpu=",".join(sizes))
    except SpecError as error:
        raise UsageError("; ".join(text for _, text in error.problems)) from None


def _show(app: App, compared: Equivalents) -> None:
    found, by = compared.equivalents, compared.by
    offers = [each.offer for each in found]
    columns: dict[str, Sequence[object]] = {
        "PER HOUR": [cells.usd_text(each.per_hour) for each in found],
        "AS MUCH AS": [f"{each.gpus:.1f} × {_gpu(each)}" for each in found],
        **_machines(found),
    }
    app.output.table(Table(columns, right=("PER HOUR",), optional=("AS OF", "PAID AS", "REGION")))
    app.output.say(
        f"{compared.amount.normalize():f} {compared.unit} {_MEANINGS.get(by, f'at {by}, {_PEAK}')}; "
        "the fewest machines of each GPU that have it."
    )
    app.output.say_each(shown.doubt_notes(offers, by))
    for model, reason in compared.unknown.items():
        app.output.say(f"Not compared: {model}, {reason}.")
    app.output.say_each(shown.rate_notes(compared.rates, offers))


def _show_compared(app: App, compared: SizeComparison) -> None:
    first, second = (each.size for each in compared.sizes)
    measures = compared.measures
    columns: dict[str, Sequence[object]] = {
        "MEASURE": [f"{each.by}, {UNITS[each.by]}" for each in measures],
        first: [_range_text(each.amounts[0]) for each in measures],
        second: [_range_text(each.amounts[1]) for each in measures],
        f"{second} / {first}": [_range_text(each.ratio, ".2f") for each in measures],
    }
    app.output.table(Table(columns, right=list(columns)[1:]))
    app.output.line("")
    rows = [(each.size, found) for each in compared.sizes for found in each.sets]
    sets = [found for _, found in rows]
    offers = [found.offer for found in sets]
    columns = {
        "SIZE": [size for size, _ in rows],
        "PER HOUR": [cells.usd_text(found.per_hour) for found in sets],
        **_machines(sets),
    }
    app.output.table(Table(columns, right=("PER HOUR",), optional=("AS OF", "PAID AS", "REGION")))
    _say_compared(app, compared)
    app.output.say_each(shown.rate_notes(compared.rates, offers))


def _say_compared(app: App, compared: SizeComparison) -> None:
    say = app.output.say
    first, second = compared.sizes
    if compared.price_ratio is not None:
        ratio = f"{compared.price_ratio:.2f}"
        say(f"The cheapest machines with {second.size} cost {ratio} times as much as with {first.size}.")
    for size in compared.sizes:
        say(f"{size.size} is {' or '.join(size.cards)}; rates are {_PEAK}.")
        if not size.sets:
            say(f"No price of {size.size} is known, or every offer of it has a flag.")
    _say_reasons(app, "doubtful", {each.by: each.doubts for each in compared.measures})
    _say_reasons(app, "not known", {each.by: each.unknown for each in compared.measures})


def _say_reasons(app: App, what: str, reasons: Mapping[str, Mapping[str, str]]) -> None:
    """Says reasons by measure and size, one line for the measures that share one."""
    shared: dict[tuple[str, str], list[str]] = {}
    for by, of_sizes in reasons.items():
        for of_size in of_sizes.items():
            shared.setdefault(of_size, []).append(by)
    for (size, reason), measures in shared.items():
        app.output.say(f"{', '.join(measures)} of {size}: {what}, {reason}.")


_PEAK = "peak and without sparsity"
_MEANINGS = {"memory": "of GPU memory", "bandwidth": "of GPU memory bandwidth, peak"}


def _machines(found: Sequence[Equivalent]) -> dict[str, Sequence[object]]:
    offers = [each.offer for each in found]
    return {
        "IN": [f"{each.nodes} × {each.offer.instance_type}" for each in found],
        "WITH": [f"{each.nodes} × {cells.gpu_text(each.offer)}" for each in found],
        "CLOUD": [o.cloud for o in offers],
        "REGION": [o.region for o in offers],
        "PAID AS": [paid_text(o) for o in offers],
        "AS OF": [o.as_of for o in offers],
    }


def _range_text(amount: Range | None, form: str = ",.4g") -> str:
    """``1.59``, or ``0.5 to 1.2`` where a size of memory is left open; ``?`` where it is not known."""
    if amount is None:
        return "?"
    return " to ".join(dict.fromkeys(f"{float(value):{form}}" for value in (amount.low, amount.high)))


def _gpu(each: Equivalent) -> str:
    return f"{each.offer.gpu_model} {each.offer.gpu_memory_gib.normalize():f}GB"
