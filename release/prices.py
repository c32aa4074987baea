"""Takes the prices of a refresh into the shipped data: ``python -m release.prices PRICES_DB``.

Nothing is written if the new data looks wrong: what a person would not merge is not proposed. The text of the
pull request is written to ``build/prices.md``.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path

from gpucloud_pricing import Market, Price
from gpucloud_pricing.history import PriceHistory
from gpucloud_pricing.snapshot import SNAPSHOT
from release.lock import ROOT

OFFERS = SNAPSHOT.parent / "data" / "offers.csv"
TEXT = ROOT / "build" / "prices.md"
ROWS_SHARE = Decimal("0.05")
"""By how much the number of a cloud's rows may change in a night."""
TIMES = 3
"""By what factor no price changes in a night; one that seems to is a misread unit or currency."""
SHOWN = 40
"""How many prices the pull request shows one by one: those that changed most."""

Row = Mapping[str, str]
Key = tuple[str, ...]


def taken(rows: Sequence[Row], prices: Iterable[Price]) -> list[Row]:
    """The rows with newer prices: those of a type, region and way of paying replace all older ones of it.

    Ways of paying that a cloud's rows do not have yet are left out, and so are terms that a row cannot tell.
    """
    ways = {(row["provider"], row["purchase"]) for row in rows}
    newer: dict[Key, list[Row]] = defaultdict(list)
    for price in prices:
        if (price.cloud, price.purchase) in ways and not price.terms and not price.upfront:
            newer[price.cloud, price.region, price.instance_type, price.purchase].append(_row(price))
    kept = [row for row in rows if _place(row) not in newer]
    return sorted([*kept, *(row for found in newer.values() for row in found)], key=_key)


def objections(old: Sequence[Row], new: Sequence[Row], today: date) -> Iterator[str]:
    """Why the new rows look wrong."""
    before, after = (Counter(row["provider"] for row in rows) for rows in (old, new))
    for cloud, count in before.items():
        if abs(after[cloud] - count) > count * ROWS_SHARE:
            yield f"{cloud}: {after[cloud]} rows instead of {count}, more than {ROWS_SHARE:.0%} apart"
    known = {_key(row): row for row in old}
    for row in new:
        name, amount = " ".join(filter(None, _key(row))), _amount(row)
        if amount is None or amount <= 0:
            yield f"{name}: the price is {row['price_per_hour'] or 'missing'}"
            continue
        if (reason := _undated(row, known.get(_key(row)), today)) is not None:
            yield f"{name}: {reason}"
        factor = _factor(known.get(_key(row)), row)
        if factor is not None and not 1 / Decimal(TIMES) < factor < TIMES:
            yield f"{name}: the price is {factor:.2f} times the last one"


def describe(old: Sequence[Row], new: Sequence[Row]) -> str:
    """The difference as Markdown; empty if there is none but dates."""
    before, after = ({_key(row): row for row in rows} for rows in (old, new))
    factors = {key: _factor(before.get(key), row) or Decimal(1) for key, row in after.items()}
    moved = sorted((key for key in after if factors[key] != 1), key=lambda key: -abs(factors[key].ln()))
    added, gone = after.keys() - before.keys(), before.keys() - after.keys()
    if not (moved or added or gone):
        return ""
    lines = ["| cloud | paid | rows | moved | new | gone |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    counts = [Counter((key[0], key[4]) for key in keys) for keys in (after, moved, added, gone)]
    for cloud, purchase in sorted({(key[0], key[4]) for key in (*before, *after)}):
        figures = " | ".join(str(count[cloud, purchase]) for count in counts)
        lines.append(f"| {cloud} | {purchase} | {figures} |")
    if moved:
        lines += ["", "| offer | was | is | change |", "| --- | ---: | ---: | ---: |"]
    for key in moved[:SHOWN]:
        was, now = before[key]["price_per_hour"], after[key]["price_per_hour"]
        percent = (factors[key] - 1) * 100
        lines.append(f"| {' '.join(filter(None, key[:5]))} | {was} | {now} {key[5]} | {percent:+.1f} % |")
    if len(moved) > SHOWN:
        lines += ["", f"{len(moved) - SHOWN} more moved less."]
    return "\n".join(lines) + "\n"


def _key(row: Row) -> Key:
    return tuple(
        row[name] for name in ("provider", "region", "zone", "instance_type", "purchase", "currency")
    )


def _place(row: Row) -> Key:
    return row["provider"], row["region"], row["instance_type"], row["purchase"]


def _row(price: Price) -> Row:
    return {
        "provider": price.cloud,
        "region": price.region,
        "zone": price.zone or "",
        "instance_type": price.instance_type,
        "purchase": price.purchase,
        "price_per_hour": f"{price.amount.normalize():f}",
        "currency": price.currency,
        "as_of": price.as_of.isoformat(),
        "source": price.source,
    }


def _amount(row: Row) -> Decimal | None:
    try:
        return Decimal(row["price_per_hour"])
    except InvalidOperation:
        return None


def _factor(old: Row | None, new: Row) -> Decimal | None:
    """How many times the old price the new one is; ``None`` if there is no old one."""
    was, now = _amount(old) if old is not None else None, _amount(new)
    return now / was if was and now else None


def _undated(row: Row, old: Row | None, today: date) -> str | None:
    """What is wrong with a row's date, if anything is."""
    try:
        day = date.fromisoformat(row["as_of"])
    except ValueError:
        return f"the date is {row['as_of'] or 'missing'}"
    if day > today:
        return f"the date {day} is in the future"
    if old is not None and row["as_of"] < old["as_of"]:
        return f"the date {day} is before that of the last price, {old['as_of']}"
    return None


def main(prices_db: Path) -> int:
    """Runs; gives the exit code."""
    with OFFERS.open(encoding="utf-8", newline="") as file:
        old: list[Row] = list(csv.DictReader(file))
    with closing(PriceHistory.open(prices_db)) as history:
        prices = [price for kind in Market.load().types.values() for price in history.current(kind)]
    new = taken(old, prices)
    found = list(objections(old, new, date.today()))  # noqa: DTZ011  (the day here, as in the rows)
    for objection in found:
        print(f"not taken: {objection}", file=sys.stderr)
    if found:
        return 1
    TEXT.parent.mkdir(exist_ok=True)
    TEXT.write_text(describe(old, new) or "Nothing moved; the dates are newer.\n", encoding="utf-8")
    with OFFERS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, old[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(new)
    print(f"{len(prices)} prices were read; the text of the pull request is in {TEXT}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
