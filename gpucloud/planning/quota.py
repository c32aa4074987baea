"""Quotas before buying: offers that exceed a quota are not tried."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from gpucloud.clouds import abilities
from gpucloud.clouds.cloud import Cloud
from gpucloud.errors import CloudError, ErrorClass
from gpucloud.planning.plan import Candidate, Key
from gpucloud.resources import Quota
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import TimedOutError
from gpucloud_pricing.purchases import Purchase

QUOTA_TIMEOUT_S = 20.0
FRESH_FOR = timedelta(minutes=15)

Place = tuple[str, str, Purchase]
"""A cloud, a region and a way of paying: the scope of one call."""


# --- quotas that are too small


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A quota that a candidate exceeds."""

    quota: Quota
    needed: Decimal

    @property
    def text(self) -> str:
        """For people: the quota, and by how much it is too small."""
        used = "" if self.quota.used is None else f", {self.quota.used.normalize():f} in use"
        return (
            f"quota {self.quota.name} in {self.quota.region}: {self.quota.limit.normalize():f} "
            f"{self.quota.unit}{used}, {self.needed.normalize():f} needed"
        )

    @property
    def fix(self) -> str:
        """How to ask for more: the console's page, and the command."""
        return self.quota.more(self.needed)

    @property
    def passes(self) -> bool:
        """Whether the quota would do if nothing else used it."""
        return self.needed <= self.quota.limit


def shortfall(candidate: Candidate, nodes: int, quotas: Iterable[Quota]) -> Shortfall | None:
    """The first quota that a launch of this candidate would exceed; ``None`` if it exceeds none."""
    for quota in quotas:
        same_place = (quota.cloud, quota.region) == (candidate.cloud, candidate.region)
        if not same_place or candidate.instance_type not in quota.instance_types:
            continue
        needed = _needed(candidate, nodes, quota)
        if (quota.used or Decimal(0)) + needed > quota.limit:
            return Shortfall(quota=quota, needed=needed)
    return None


def _needed(candidate: Candidate, nodes: int, quota: Quota) -> Decimal:
    return Decimal(candidate.vcpus if quota.unit == "vcpus" else 1) * nodes


def refusal(short: Shortfall) -> CloudError:
    """The error when quotas exclude every candidate."""
    refused = CloudError(
        f"{short.quota.cloud}: not enough quota: {short.text}",
        error_class=ErrorClass.QUOTA,
        cloud=short.quota.cloud,
        code=short.quota.name,
        hint=short.fix,
    )
    refused.passes = short.passes
    return refused


# --- asking


def headroom(cloud: Cloud, region: str, names: Sequence[str], purchase: Purchase) -> Sequence[Quota]:
    """The quotas that instance types count against; empty if the cloud has no such call."""
    return cloud.ask(
        abilities.Quotas,
        f"ask for quotas in {region}",
        lambda quotas: quotas.headroom(region, names, purchase),
        lacking=(),
    )


def advise(context: Context, refused: CloudError, candidate: Candidate, nodes: int) -> None:
    """Adds to a refusal for quota how to ask for more, and whether it passes, where the cloud says so.

    Args:
        context: clouds and progress of this call.
        refused: the refusal.
        candidate: what was refused.
        nodes: how many machines were asked for.
    """
    cloud = context.clouds[candidate.cloud]
    ask = partial(headroom, cloud, candidate.region, [candidate.instance_type], candidate.purchase)
    try:
        quotas: Sequence[Quota] = context.tasks.wait(context.tasks.start(ask), QUOTA_TIMEOUT_S)
    except (CloudError, TimedOutError):
        return
    short = shortfall(candidate, nodes, quotas)
    if short is not None:
        refused.hint, refused.passes = short.fix, short.passes
    elif quotas:
        refused.hint = quotas[0].more(_needed(candidate, nodes, quotas[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAnswer:
    """The answer of a cloud for a place: the quotas of these types, of an account, at a time."""

    account: str
    at: datetime
    types: frozenset[str]
    quotas: tuple[Quota, ...]


class QuotaCache:
    """The quotas of the clouds, cached for a while for each account.

    A cached quota alone never excludes a candidate: it is asked for again first. A call without an answer
    excludes none either.

    Args:
        context: clouds, journal, clock and progress of this call.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._memory = context.state / "quotas.json" if context.state else None
        self._accounts: dict[str, str] = {}
        self._fresh: dict[Place, QuotaAnswer] = {}
        self._old = _read(self._memory, context.clock()) if self._memory else {}

    def shortfalls(self, candidates: Sequence[Candidate], nodes: int) -> Mapping[Key, Shortfall]:
        """The candidates that exceed a quota, by their keys."""
        types: dict[Place, set[str]] = {}
        for each in candidates:
            if not each.purchase.kind.paid_already:
                types.setdefault((each.cloud, each.region, each.purchase), set()).add(each.instance_type)
        self._ask_accounts({place[0] for place in types})
        self._ask({place: names for place, names in types.items() if not self._knows(place, names)})
        found = self._compare(candidates, nodes)
        doubtful = {
            (c.cloud, c.region, c.purchase) for c in candidates if c.key in found
        } - self._fresh.keys()
        if doubtful:
            self._ask({place: types[place] for place in doubtful})
            found = self._compare(candidates, nodes)
        return found

    def _known(self, place: Place) -> QuotaAnswer | None:
        return self._fresh.get(place) or self._old.get((self._accounts.get(place[0], ""), place))

    def _knows(self, place: Place, names: set[str]) -> bool:
        known = self._known(place)
        return known is not None and known.types >= names

    def _compare(self, candidates: Iterable[Candidate], nodes: int) -> dict[Key, Shortfall]:
        found: dict[Key, Shortfall] = {}
        for each in candidates:
            known = self._known((each.cloud, each.region, each.purchase))
            short = shortfall(each, nodes, known.quotas) if known else None
            if short is not None:
                found[each.key] = short
        return found

    def _ask_accounts(self, clouds: Iterable[str]) -> None:
        """Asks for the accounts of the quotas. Nothing is cached for a cloud that does not answer."""
        calls = {
            cloud: self._context.tasks.start(self._context.clouds[cloud].account)
            for cloud in clouds
            if cloud not in self._accounts
        }
        for cloud, call in calls.items():
            with suppress(CloudError, TimedOutError):
                self._accounts[cloud] = self._context.tasks.wait(call, QUOTA_TIMEOUT_S)

    def _ask(self, places: Mapping[Place, set[str]]) -> None:
        calls = {
            place: self._context.tasks.start(
                partial(headroom, self._context.clouds[place[0]], place[1], sorted(names), place[2])
            )
            for place, names in places.items()
        }
        for place, call in calls.items():
            try:
                told: Sequence[Quota] = self._context.tasks.wait(call, QUOTA_TIMEOUT_S)
            except (CloudError, TimedOutError) as error:
                self._context.tell("quota", f"no answer: {error}")
                told = ()
            self._fresh[place] = QuotaAnswer(
                account=self._accounts.get(place[0], ""),
                at=self._context.clock(),
                types=frozenset(places[place]),
                quotas=tuple(told),
            )
        if calls and self._memory:
            fresh = {(answered.account, place): answered for place, answered in self._fresh.items()}
            _write(self._memory, {**self._old, **fresh})


def _read(file: Path, now: datetime) -> dict[tuple[str, Place], QuotaAnswer]:
    """The cached quotas that are still fresh; empty if the file is missing or damaged."""
    try:
        document: Any = json.loads(file.read_text(encoding="utf-8"))
        remembered = {
            (each["account"], (each["cloud"], each["region"], Purchase(each["purchase"]))): QuotaAnswer(
                account=each["account"],
                at=datetime.fromisoformat(each["at"]),
                types=frozenset(each["types"]),
                quotas=tuple(map(_quota, each["quotas"])),
            )
            for each in document["places"]
        }
        return {
            key: answered
            for key, answered in remembered.items()
            if timedelta() <= now - answered.at <= FRESH_FOR
        }
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
        return {}


def _quota(values: Mapping[str, Any]) -> Quota:
    used: str | None = values["used"]
    return Quota(
        cloud=values["cloud"],
        region=values["region"],
        name=values["name"],
        instance_types=tuple(values["instance_types"]),
        unit=values["unit"],
        limit=Decimal(values["limit"]),
        used=None if used is None else Decimal(used),
        fix=values["fix"],
        request=values["request"],
    )


def _write(file: Path, known: Mapping[tuple[str, Place], QuotaAnswer]) -> None:
    document = {
        "places": [
            {
                "account": account,
                "at": answered.at.astimezone(UTC).isoformat(),
                "cloud": cloud,
                "region": region,
                "purchase": str(purchase),
                "types": sorted(answered.types),
                "quotas": [
                    {**asdict(q), "limit": str(q.limit), "used": None if q.used is None else str(q.used)}
                    for q in answered.quotas
                ],
            }
            for (account, (cloud, region, purchase)), answered in known.items()
            if account
        ],
    }
    descriptor, draft = mkstemp(dir=file.parent, prefix=f"{file.stem}.")  # another thread writes its own
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(document, stream)
    Path(draft).replace(file)
