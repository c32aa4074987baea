"""``gpucloud sweep``: shows and deletes resources of gpucloud that no journal needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.api.sweeping import tags_of
from gpucloud.cli.boxes import answering, paying_text
from gpucloud.cli.context import App
from gpucloud.cli.listing import lists
from gpucloud.cli.unread import say_unjudged, say_unread, search_code, unread_documents, wrong_in
from gpucloud.errors import UsageError
from gpucloud.rendering.table import Table
from gpucloud.rendering.texts import counted
from gpucloud.resources import Ref, ResourceKind, rfc3339, short_id
from gpucloud_pricing import format_money
from gpucloud_pricing.values import usd_document

if TYPE_CHECKING:
    from gpucloud.api.results import Searched
    from gpucloud.cli.documents.searches import FoundDocument, SweepDocument
    from gpucloud.costs.found_prices import FoundPrice
    from gpucloud.ending.sweep import Find
    from gpucloud_pricing import Market

WHY = {
    "past_deadline": "past its end",
    "remains": "left over from a launch or deletion",
    "not_in_journal": "not in this journal",
    "young": "not in this journal, but young: left alone",
    "other_owner": "belongs to another owner: left alone",
    "not_of_its_box": "has the tags of a box, but is not one of its machines",
    "bad_tags": "has your owner tag, but other tags are not from gpucloud: left alone",
}
"""The reason for which a resource is listed, as text."""


@lists("found", name="id")
def sweep(
    app: App,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list resources, delete nothing.")] = False,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            help="Minimum age of a resource unknown to the journal; 0s for any. Default: 15m.",
            metavar="TIME",
        ),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option("--owner", help="Delete this owner's resources instead of yours.", metavar="OWNER"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> int:
    """Find resources with gpucloud's tags in all regions of all clouds; list and delete the unwanted ones.

    Unwanted: past the deadline, left over from a launch, or yours, unknown to this journal and older than
    --older-than. `gpucloud clean` is the same command.

    Exit code 4: no cloud could be asked. 8: some regions could not be read, some resources still exist, or
    some have your owner tag and other tags that gpucloud never writes.

    Examples:
        gpucloud sweep --dry-run
        gpucloud sweep --older-than 2h --yes
    """
    with app.working() as (client, timeline):

        def ask(finds: Sequence[Find], searched: Searched) -> bool:
            """Shows the list; asks for confirmation if it holds unwanted resources."""
            timeline.pause()
            say_unread(app, searched)
            report = _Report(app, client.catalog.market, finds)
            if not searched.nowhere:
                report.show()
            agreed = dry_run or _agreed(app, [each for each in finds if each.unwanted], report, yes=yes)
            timeline.resume()
            return agreed

        swept = client.resources.sweep(older_than=_age(older_than), owner=owner, dry_run=dry_run, confirm=ask)
        report = _Report(app, client.catalog.market, swept.finds)
    ended = sum(find.resource.ref in swept.ended for find in swept.finds if find.unwanted)
    with answering(f"{ended} of {counted(swept.tried, 'resource')} deleted", swept.living):
        if app.output.json:
            answer: SweepDocument = {
                "found": report.documents(swept.ended),
                "price_per_hour": usd_document(report.per_hour()),
                "unread": unread_documents(swept.searched),
                "left_out": dict(swept.searched.left_out),
            }
            app.output.document("sweep", answer)
    if swept.tried:
        app.output.say(f"{ended} of {counted(swept.tried, 'resource')} deleted.")
    for trouble in swept.troubles:
        app.output.say(f"Still owed: {trouble.message}")
    if swept.troubles or swept.left:
        command = "gpucloud sweep" + (f" --owner {owner}" if owner else "") + " --yes"
        app.output.say(f"  delete it with: {command}")
    say_unjudged(app, swept.searched)
    app.output.say(paying_text(swept.living))
    return search_code(swept.searched, owed=bool(swept.troubles or swept.left or swept.searched.unjudged))


class _Report:
    """The list with its prices, as a table and as a document."""

    def __init__(self, app: App, market: Market, finds: Sequence[Find]) -> None:
        from gpucloud.costs.found_prices import found_price

        self._app = app
        self._market = market
        self._finds = finds
        self._prices = [found_price(market, find.resource, find.record) for find in finds]

    def per_hour(self) -> Decimal:
        """The cost of this owner's part of the list, in USD; unknown prices are left out."""
        return self._usd(self._own)

    @property
    def cost(self) -> str:
        """The cost of this owner's part of the list, as text; a lower bound if a price is unknown."""
        least = "at least " if self._is_bound(self._own) else ""
        return f"{least}{format_money(self.per_hour())} per hour"

    @property
    def _own(self) -> list[int]:
        return [number for number, find in enumerate(self._finds) if find.reason != "other_owner"]

    def _is_bound(self, members: Iterable[int]) -> bool:
        return any(self._prices[number].unknown for number in members)

    def show(self) -> None:
        """Prints the table."""
        if self._app.output.json:
            return
        if not self._finds:
            self._app.output.say("No expired or orphaned resources found.")
            return
        groups: dict[tuple[str | None, ...], list[int]] = {}
        for number, find in enumerate(self._finds):
            tags, ref = tags_of(find.resource), find.resource.ref
            whose = (tags.box, tags.owner, tags.run) if tags else (None, None, None)
            key = (*whose, ref.cloud, ref.region, str(find.reason))
            groups.setdefault(key, []).append(number)
        rows = [self._row(key, members) for key, members in groups.items()]
        columns = ("WHAT", "CLOUD", "REGION", "BOX", "RUN", "CREATED", "PER HOUR", "WHY")
        optional = ("RUN", "CREATED", "BOX")
        self._app.output.table(Table.of_rows(columns, rows, right=("PER HOUR",), optional=optional))
        self._app.output.say(f"Your resources in this list cost {self.cost}.")

    def _row(self, key: tuple[str | None, ...], members: Sequence[int]) -> Sequence[object]:
        """The resources of one box in one region that are listed for one reason."""
        box, _, run, cloud, region, reason = key
        resources = [self._finds[number].resource for number in members]
        machines = [
            short_id(resource.ref.id) for resource in resources if resource.ref.kind is ResourceKind.INSTANCE
        ]
        others = Counter(
            str(resource.ref.kind) for resource in resources if resource.ref.kind is not ResourceKind.INSTANCE
        )
        what = machines + [kind if count == 1 else counted(count, kind) for kind, count in others.items()]
        made = min((resource.created_at for resource in resources if resource.created_at), default=None)
        return (
            ", ".join(what),
            cloud,
            region,
            box,
            run or None,
            rfc3339(made) if made else None,
            ("≥ " if self._is_bound(members) else "") + format_money(self._usd(members)),
            WHY[str(reason)],
        )

    def _usd(self, members: Iterable[int]) -> Decimal:
        """The cost per hour of part of the list, in USD; unknown prices are left out."""
        prices = [price for number in members for price in self._prices[number].known]
        known = [self._market.usd(price.amount, price.currency) for price in prices]
        return sum((amount for amount in known if amount is not None), Decimal(0))

    def documents(self, gone: Collection[Ref]) -> list[FoundDocument]:
        """``found`` of ``gpucloud.sweep/v1``; ``gone`` are the resources deleted by now."""
        pairs = zip(self._finds, self._prices, strict=True)
        return [self._entry(find, price, find.resource.ref in gone) for find, price in pairs]

    def _entry(self, find: Find, price: FoundPrice, gone: bool) -> FoundDocument:
        resource, tags = find.resource, tags_of(find.resource)
        document: FoundDocument = {
            "kind": str(resource.ref.kind),
            "id": resource.ref.id,
            "cloud": resource.ref.cloud,
            "region": resource.ref.region,
            "owner": tags.owner if tags else None,
            "box": tags.box if tags else None,
            "run_id": tags.run or None if tags else None,
            "created_at": rfc3339(resource.created_at) if resource.created_at else None,
            "expires_at": tags.expires if tags and tags.expires != "none" else None,
            "price": price.own.document() if price.own else None,
            "reason": str(find.reason),
            "wrong": wrong_in(resource),
            "unwanted": find.unwanted,
            "removed": find.unwanted and gone,
        }
        if price.address:
            document["address_price"] = price.address.document()
        if price.unknown:
            document["unknown"] = {"price": price.unknown}
        return document


def _age(text: str | None) -> timedelta | None:
    from gpucloud.spec.fields import end

    if text is None:
        return None
    if text.strip() in {"0", "0s", "0m", "0h"}:
        return timedelta()
    try:
        age = end(text)
    except ValueError as error:
        raise UsageError(f"--older-than: {error}") from error
    if isinstance(age, str):
        raise UsageError(f"--older-than: {text!r} is not an age", hint="allowed: 15m, 2h, 0s")
    return age


def _agreed(app: App, finds: Sequence[Find], report: _Report, *, yes: bool) -> bool:
    """Whether the unwanted resources may be deleted."""
    if yes or not finds:
        return True
    cost = f"cost{'s' if len(finds) == 1 else ''} {report.cost}"
    what = f"{counted(len(finds), 'resource')} that {cost}"
    if not app.output.interactive:
        raise UsageError(f"deleting {what} needs confirmation", hint="add --yes, or list only: --dry-run")
    return app.output.ask(f"Delete {what}? All data on the disks is lost.")
