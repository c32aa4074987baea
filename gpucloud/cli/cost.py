"""``gpucloud cost``: estimates before buying, every way of paying side by side."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from enum import StrEnum
from functools import partial
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Annotated

import typer

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.cli.cost_answers import write_csv, write_markdown
from gpucloud.cli.cost_tables import show
from gpucloud.cli.cost_work import WorkloadOptions
from gpucloud.cli.listing import lists
from gpucloud.cli.options import Options, SpecFlags, takes_options
from gpucloud.cli.output import refuse_unwritable, utc_now
from gpucloud.costs import amounts as read
from gpucloud.costs.comparison import Comparison, worth_showing
from gpucloud.errors import NoOfferError, UsageError
from gpucloud.market.cells import paid_text
from gpucloud.spec.file import flag_of, load_spec
from gpucloud.spec.model import Spec
from gpucloud_pricing.terms import TERM_UNITS


class CostSort(StrEnum):
    """The sort orders of ways of paying, the best first: total cost, or the cost of work."""

    TOTAL = "total"
    PER_GPU = "gpu-price"
    PER_GIB = "gpu-memory-price"
    PER_BANDWIDTH = "bandwidth-price"
    PER_FP64 = "fp64-price"
    PER_FP32 = "fp32-price"
    PER_TF32 = "tf32-price"
    PER_FP16 = "fp16-price"
    PER_BF16 = "bf16-price"
    PER_FP8 = "fp8-price"


_ORDERS = f"Sort order: {', '.join(CostSort)}."


@dataclass(frozen=True, slots=True, kw_only=True)
class TermOptions(Options):
    """The commitments that count, and what the money for them costs."""

    max_term: Annotated[
        str | None,
        typer.Option("--max-term", help="Leave out commitments for longer: 14d, 1m, 1y.", metavar="TERM"),
    ] = None
    cost_of_capital: Annotated[
        str | None,
        typer.Option(
            "--cost-of-capital",
            help="Percent a year: 8%. Compares by the value at the start: what is paid later costs less.",
            metavar="PERCENT",
        ),
    ] = None

    def longest(self) -> Decimal | None:
        """The longest term, in hours.

        Raises:
            UsageError: it cannot be read.
        """
        if self.max_term is None:
            return None
        match = re.fullmatch(r"([1-9][0-9]{0,3})([dwmy])", self.max_term.strip().lower())
        if match is None:
            raise UsageError(f"--max-term: {self.max_term!r} is not a term; allowed: 14d, 26w, 1m, 1y")
        return int(match[1]) * TERM_UNITS[match[2]]

    def capital(self) -> Decimal | None:
        """The cost of capital in a year, as a share.

        Raises:
            UsageError: it cannot be read, or is not from 0 to 100 %.
        """
        if self.cost_of_capital is None:
            return None
        percent = read.number("--cost-of-capital", self.cost_of_capital.removesuffix("%").strip())
        if not percent.is_finite() or not 0 <= percent <= 100:
            raise UsageError(
                f"--cost-of-capital: {self.cost_of_capital!r} is not allowed; allowed: 0% to 100%"
            )
        return percent / 100


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions(Options):
    """The form of the answer."""

    explain: Annotated[
        bool, typer.Option("--explain", help="Show how each figure is computed, with dates and sources.")
    ] = False
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a comment.")] = False
    all_terms: Annotated[
        bool,
        typer.Option("--all-terms", help="Show commitments that do not pay for these hours, too."),
    ] = False
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Also write a report as one page: FILE.html.", metavar="FILE"),
    ] = None
    plot: Annotated[
        list[Path] | None,
        typer.Option(
            "--plot",
            help="Also plot the cost per month by hours: FILE.svg, FILE.png; repeatable.",
            metavar="FILE",
        ),
    ] = None

    def refuse_several(self, *, json: bool) -> None:
        """Refuses flags that ask for several forms of the answer.

        Raises:
            UsageError: there are several.
        """
        forms = {"--json": json, "--csv": self.csv, "--markdown": self.markdown}
        given = [flag for flag, is_given in forms.items() if is_given]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} contradict each other")

    def write(self, app: App, comparison: Comparison, before: Comparison | None, places: int) -> None:
        """Writes the answer to stdout; a budget that does not hold is the answer to a program."""
        exceeded = comparison.over_budget
        if app.output.json and exceeded is None:
            app.output.document("cost", comparison.document(before, explain=self.explain))
        elif app.output.json:
            pass  # one document, and that is the error's
        elif self.csv:
            write_csv(app.output, comparison, before)
        elif self.markdown:
            write_markdown(comparison, before)
        else:
            rows = worth_showing(comparison, places, all_terms=self.all_terms)
            show(app, comparison, before, estimates=rows, explain=self.explain)
        if exceeded is not None:
            raise exceeded


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(Options):
    """The files that are read."""

    conditions: Annotated[
        Path | None,
        typer.Option(
            "--conditions",
            help="Your discounts, credits and commitments. Default: conditions.yaml of the configuration.",
            metavar="FILE",
        ),
    ] = None
    against: Annotated[
        str | None,
        typer.Option(
            "--against", help="Show the difference to another spec: FILE, or REF:FILE in git.", metavar="SPEC"
        ),
    ] = None
    project: Annotated[
        Path | None,
        typer.Option(
            "--project",
            help="Find the cheapest places for several specs and the data between them: FILE.",
            metavar="FILE",
        ),
    ] = None


@lists("options", name="offer.instance_type")
@takes_options
def cost(
    app: App,
    spec: SpecFlags,
    *,
    work: WorkloadOptions,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Places per cloud and way of paying.", metavar="N")
    ] = 1,
    sort: Annotated[CostSort, typer.Option("--sort", help=_ORDERS, metavar="ORDER")] = CostSort.TOTAL,
    max_age: Annotated[
        str | None, typer.Option("--max-age", help="Leave out older prices: 90d, 8w, 6m, 2y.", metavar="AGE")
    ] = None,
    hidden: Annotated[
        bool,
        typer.Option("--include-hidden", help="Include retired types and types that are not sold publicly."),
    ] = False,
    terms: TermOptions,
    answer: AnswerOptions,
    source: SourceOptions,
) -> None:
    """Estimate every way of paying, side by side: compute, disk, address, egress, boot and idle time.

    With --budget, exit code 7 means that no offer that can be launched is expected to cost so little.

    Examples:
        gpucloud cost --gpu A100:8 --hours 72
        gpucloud cost --gpu A100:8 --tokens 2B --throughput 25k --explain
    """
    answer.refuse_several(json=app.output.json)
    if source.project is not None:
        narrower = {
            "--limit": limit != 1,
            "--sort": sort is not CostSort.TOTAL,
            "--include-hidden": hidden,
            "--max-term": terms.max_term is not None,
            "--cost-of-capital": terms.cost_of_capital is not None,
        }
        ignored = [*(flag for flag, given in narrower.items() if given), *(["--max-age"] if max_age else [])]
        _cost_of_project(app, source, spec, work, answer, ignored)
        return
    other = None if source.against is None else _other_spec(source.against)
    plots = shown.load_plots("--plot", answer.plot) if answer.plot else None
    report_plots = None if answer.html is None else shown.load_plots("--html")
    if answer.html is not None:
        refuse_unwritable("the report", answer.html)
    estimate = partial(
        app.client.market.estimate,
        workload=work.workload(spec),
        places=limit,
        sort=sort,
        conditions=source.conditions,
        max_age=shown.read_age(max_age),
        include_hidden=hidden,
        max_term=terms.longest(),
        cost_of_capital=terms.capital(),
    )
    comparison = estimate(spec)
    before = None if other is None else estimate(other)
    _say_uncounted(app, (comparison,) if before is None else (comparison, before))
    if answer.plot and plots is not None:
        _draw(app, comparison, answer.plot, plots)
    if answer.html is not None and report_plots is not None:
        _report(app, comparison, answer.html, report_plots, limit)
    answer.write(app, comparison, before, limit)


def _say_uncounted(app: App, comparisons: Sequence[Comparison]) -> None:
    """The savings plans that do not count."""
    for plan in dict.fromkeys(plan for each in comparisons for plan in each.uncounted):
        app.output.say(f"Not counted, as its rate is not known: {plan}. Ask: gpucloud prices refresh")


def _cost_of_project(
    app: App,
    source: SourceOptions,
    spec: Spec,
    work: WorkloadOptions,
    answer: AnswerOptions,
    ignored: Sequence[str],
) -> None:
    """The cheapest places of the project in a file.

    Raises:
        UsageError: there are flags that a project does not have.
    """
    from gpucloud.cli.cost_project import show_project

    given = [flag_of(name) for name in sorted(spec.given)]
    given += [
        f"--{each.name.replace('_', '-')}"
        for each in fields(work)
        if getattr(work, each.name) != each.default
    ]
    others = {"--against": source.against, "--html": answer.html, "--plot": answer.plot}
    given += [*(flag for flag, value in others.items() if value is not None), *ignored]
    if given or source.project is None:
        raise UsageError(
            f"--project does not go with {', '.join(given)}",
            hint="write specs and hours into the project's file",
        )
    show_project(
        app,
        source.project,
        source.conditions,
        all_terms=answer.all_terms,
        form="csv"
        if answer.csv
        else "markdown"
        if answer.markdown
        else "json"
        if app.output.json
        else "text",
        explain=answer.explain,
    )


def _report(app: App, comparison: Comparison, file: Path, plots: ModuleType, places: int) -> None:
    """Writes the comparison as a page."""
    from gpucloud.cli.cost_report import write_report

    write_report(file, comparison, app.client.catalog, plots, utc_now(), places)
    app.output.say(f"Written: {file}")


def _draw(app: App, comparison: Comparison, files: Sequence[Path], plots: ModuleType) -> None:
    """Draws the ways of paying in the first place that has several."""
    places = comparison.lasting()
    if not places:
        raise NoOfferError("there is nothing to draw: no place has several ways of paying for what lasts")
    figure = plots.draw_ways(places[0], paid_text)
    shown.draw_into(app.output, figure, files, plots, shown.at(places[0][0].offer))


def _other_spec(text: str) -> Spec:
    """The spec in a file, or in a file at a commit: ``spec.yaml``, ``main:spec.yaml``.

    Raises:
        UsageError: there is none.
    """
    file = Path(text)
    if file.exists():
        return load_spec(file, {})
    if ":" not in text or text.startswith("-"):
        raise UsageError(
            f"--against: there is no file {text!r}; allowed: FILE, or REF:FILE of this repository"
        )
    if which("git") is None:
        raise UsageError(f"--against: {text!r} needs git, which is not installed")
    found = subprocess.run(["git", "show", text], capture_output=True, text=True, check=False)
    if found.returncode:
        raise UsageError(f"--against: git show {text}: {found.stderr.strip()}")
    with TemporaryDirectory() as folder:
        copy = Path(folder, "spec.yaml")
        copy.write_text(found.stdout, encoding="utf-8")
        return load_spec(copy, {})
