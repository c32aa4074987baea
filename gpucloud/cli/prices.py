"""``gpucloud prices``: what is known, how old it is and where it comes from; its commands."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict

from gpucloud.cli.context import App
from gpucloud.cli.market import rates_document, show_table, today
from gpucloud.cli.prices_history import diff, history
from gpucloud.cli.prices_refresh import refresh
from gpucloud.cli.prices_watch import watch
from gpucloud_pricing import Price


def show(app: App) -> None:
    """Show how many prices are known, how old they are and where they come from. Asks no cloud."""
    market = app.client.catalog.market
    groups: dict[tuple[str, str, str], list[Price]] = defaultdict(list)
    for price in market.prices():
        groups[price.cloud, price.purchase, price.source].append(price)
    rows = [
        {
            "cloud": cloud,
            "purchase": purchase,
            "prices": len(prices),
            "regions": len({price.region for price in prices}),
            "types": len({price.instance_type for price in prices}),
            "currencies": sorted({price.currency for price in prices}),
            "oldest": min(price.as_of for price in prices).isoformat(),
            "newest": max(price.as_of for price in prices).isoformat(),
            "age_days": (today() - max(price.as_of for price in prices)).days,
            "source": source,
        }
        for (cloud, purchase, source), prices in sorted(groups.items())
    ]
    used = {price.source for prices in groups.values() for price in prices} | {
        rate.source for rate in market.rates
    }
    sources = [asdict(market.sources[name]) for name in sorted(used)]
    if app.output.json:
        app.output.document(
            "prices",
            {
                "as_of": max(str(row["newest"]) for row in rows),
                "prices": sum(len(prices) for prices in groups.values()),
                "groups": rows,
                "sources": sources,
                "rates": rates_document(market.rates),
            },
        )
        return
    headings = {
        "CLOUD": "cloud",
        "PAID AS": "purchase",
        "PRICES": "prices",
        "REGIONS": "regions",
        "TYPES": "types",
        "PRICES OF": "newest",
        "DAYS OLD": "age_days",
        "SOURCE": "source",
    }
    columns = {heading: [row[name] for row in rows] for heading, name in headings.items()}
    numbers = ("TYPES", "REGIONS", "DAYS OLD")
    show_table(app.output, columns, right=("PRICES", *numbers), optional=numbers)
    app.output.line("")
    for source in sources:
        app.output.line(f"{source['id']}: {source['repository']} {source['path']} ({source['licence']})")
    for rate in market.rates:
        app.output.line(f"1 {rate.base} = {rate.rate} {rate.quote}, {rate.as_of} ({rate.source})")
    total = sum(len(prices) for prices in groups.values())
    live = sum(len(prices) for (_, _, source), prices in groups.items() if market.sources[source].live)
    app.output.say(
        f"{total} prices, {live} of them asked for here, the rest from this version's snapshot."
        if live
        else f"{total} prices, all from the snapshot in this version of gpucloud."
    )
    if live:
        with app.client.catalog.history() as history:
            aside = Counter(row.reason for rows in history.set_aside().values() for row in rows)
        for reason, count in aside.most_common():
            app.output.say(f"Set aside when they were asked for: {count} × {reason}")
    app.output.say("Next: gpucloud prices refresh")


COMMANDS = {"show": show, "refresh": refresh, "history": history, "diff": diff, "watch": watch}
