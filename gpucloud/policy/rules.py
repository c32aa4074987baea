"""Whether the rules of a policy allow an offer, a box, an end, a place for checkpoints. Pure functions.

What they forbid they name in the words of the policy's file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple, Protocol, TypeVar

from gpucloud.costs.spend import per_hour
from gpucloud.errors import PolicyError
from gpucloud.journal.lifecycle import BEGINNING, OVER
from gpucloud.journal.policy import EVERYBODY, Rules
from gpucloud.journal.records import Box, Holding
from gpucloud.spec.fields import format_end
from gpucloud_pricing import Market, format_money
from gpucloud_pricing.places import admits, admits_type, region_names
from gpucloud_pricing.purchases import Purchase
from gpucloud_pricing.values import Offer

T = TypeVar("T")
FLAG = "forbidden"
"""The flag of an offer that the policy forbids."""
NOTHING = "nothing was bought"


class Offered(Protocol):
    """What may be rented, and where."""

    @property
    def cloud(self) -> str:
        """The cloud."""
        ...

    @property
    def region(self) -> str:
        """The region."""
        ...

    @property
    def instance_type(self) -> str:
        """The cloud's name of the type."""
        ...

    @property
    def gpu_model(self) -> str:
        """The model of its GPUs."""
        ...


class Rented(NamedTuple):
    """What is rented already."""

    cloud: str
    region: str
    instance_type: str
    gpu_model: str


def words(rules: Rules, rule: str) -> str:
    """A rule as it stands in a file: ``ttl: 24h``."""
    match rule:
        case "ttl":
            text = format_end(rules.ttl)
        case "max_price":
            text = f"{rules.max_price:f}"
        case "boxes":
            text = _by_owner(rules.boxes)
        case "per_hour":
            text = _by_owner(rules.per_hour)
        case "purchase":
            text = f"[{', '.join(rules.purchase).replace('_', '-')}]"
        case _:
            text = f"[{', '.join(map(_quoted, getattr(rules, rule)))}]"
    return f"{rule}: {text}"


def _by_owner(limits: Mapping[str, int] | Mapping[str, Decimal]) -> str:
    """One limit for everybody, or the limits by owner."""
    if set(limits) == {EVERYBODY}:
        return str(limits[EVERYBODY])
    return f"{{{', '.join(f'{_quoted(owner)}: {most}' for owner, most in limits.items())}}}"


def _quoted(word: str) -> str:
    """A word of YAML: what begins with ``*`` or ``!`` would be read as something else."""
    return f'"{word}"' if word[:1] in {"*", "!"} else word


# --- offers


def against_place(rules: Rules, market: Market, cloud: str, region: str) -> str | None:
    """The rule that a place breaks."""
    known = market.regions.get((cloud, region))
    if not admits(rules.clouds, frozenset({cloud})):
        return "clouds"
    if not admits(rules.regions, region_names(known) if known else frozenset({region})):
        return "regions"
    return None


def against_machine(rules: Rules, market: Market, offer: Offered) -> str | None:
    """The rule that a machine in its place breaks, however it is paid."""
    place = against_place(rules, market, offer.cloud, offer.region)
    if place is not None:
        return place
    if not admits_type(rules.instance_types, offer.instance_type):
        return "instance_types"
    if not admits_type(rules.gpus, offer.gpu_model):
        return "gpus"
    return None


def against_payment(rules: Rules, purchase: str, usd: Decimal | None) -> str | None:
    """The rule that a way of paying, or a price per hour and node, breaks."""
    if rules.purchase and purchase not in rules.purchase:
        return "purchase"
    if rules.max_price is not None and usd is not None and usd > rules.max_price:
        return "max_price"
    return None


def marked(rules: Rules, market: Market, offers: Iterable[Offer]) -> tuple[list[Offer], Counter[str]]:
    """Offers of the market, with a flag on those that the policy forbids, and how many each rule forbids."""
    found: list[Offer] = []
    forbids: Counter[str] = Counter()
    for offer in offers:
        payment = against_payment(rules, offer.purchase, offer.price_usd)
        rule = against_machine(rules, market, offer) or payment
        if rule is not None:
            forbids[words(rules, rule)] += 1
            offer = replace(offer, flags=(*offer.flags, FLAG))  # noqa: PLW2901
        found.append(offer)
    return found, forbids


def removed_text(rules: Rules, removed: Counter[str]) -> list[str]:
    """How many offers each rule has removed: ``3 offers by regions: [eu]``, its words in backquotes."""
    return [
        f"{count} offer{'s' if count > 1 else ''} by `{words(rules, rule)}`"
        for rule, count in removed.most_common()
        if count
    ]


def nothing_left(rules: Rules, removed: Counter[str]) -> PolicyError:
    """The error where the policy forbids every offer."""
    return PolicyError(
        f"the policy forbids every offer that matches: {'; '.join(removed_text(rules, removed))}; {NOTHING}",
        rules=tuple(words(rules, rule) for rule, _ in removed.most_common()),
    )


def forbidden(
    rules: Rules, rule: str, what: str, hint: str | None = None, outcome: str = NOTHING
) -> PolicyError:
    """The error of what one rule forbids; ``outcome`` is what was not done."""
    said = words(rules, rule)
    return PolicyError(f"the policy's `{said}` forbids {what}; {outcome}", rules=(said,), hint=hint)


# --- requests


def refuse_end(rules: Rules, lives: timedelta | None, outcome: str = NOTHING, option: str = "--ttl") -> None:
    """Refuses an end that is further off than the policy allows; ``None`` is no end.

    ``option`` is the one that gives the end.

    Raises:
        PolicyError: it is; the message says the ``outcome``, what was not done.
    """
    if rules.ttl is not None and (lives is None or lives > rules.ttl):
        what = "a box without an end" if lives is None else f"a box that lives {format_end(lives)}"
        hint = f"give it an earlier end: {option} {format_end(rules.ttl)}"
        raise forbidden(rules, "ttl", what, hint, outcome)


def refuse_request(
    rules: Rules, *, lives: timedelta | None, tags: Mapping[str, str], checkpoint_to: str | None
) -> None:
    """Refuses a box for what it is, whatever offer it gets.

    Args:
        rules: the rules.
        lives: how long it is to live; ``None`` for no end.
        tags: its tags; one without a value counts as none.
        checkpoint_to: where its checkpoints are kept, if anywhere.

    Raises:
        PolicyError: a rule forbids it.
    """
    refuse_end(rules, lives)
    missing = sorted(name for name in rules.tags if not tags.get(name, "").strip())
    if missing:
        raise forbidden(
            rules,
            "tags",
            f"a box without a value of the tag {missing[0]}",
            hint=" ".join(f"--tag {name}=VALUE" for name in missing),
        )
    if checkpoint_to and rules.checkpoint_to and not any(_inside(checkpoint_to, rules.checkpoint_to)):
        raise forbidden(rules, "checkpoint_to", f"checkpoints in {checkpoint_to}")


def _inside(url: str, places: Iterable[str]) -> Iterable[bool]:
    """Whether a URL is in a folder or bucket, for each; ``s3://lab`` does not contain ``s3://lab-2``."""
    return (url == place.rstrip("/") or url.startswith(f"{place.rstrip('/')}/") for place in places)


# --- what one person has


def refuse_more(
    rules: Rules, plan: Holding, others: Sequence[Holding], market: Market, *, is_new_box: bool
) -> None:
    """Refuses one more holding of an owner, or a box that is started again.

    Args:
        rules: the rules.
        plan: what is bought; its ceiling is the most that it costs per hour.
        others: the other holdings of all owners.
        market: for exchange rates, and how clouds bill.
        is_new_box: whether it counts as one more box.

    Raises:
        PolicyError: the owner has as many as the policy allows, or they cost as much.
    """
    owner, adds_usd = plan.owner, plan.ceiling.usd_per_hour if plan.ceiling else Decimal(0)
    living = [box for box in others if box.owner == owner and box.state not in OVER]
    most, boxes = _of(rules.boxes, owner), sum(isinstance(box, Box) for box in living)
    if most is not None and is_new_box and boxes >= most:
        raise forbidden(rules, "boxes", f"one more box of {owner!r}, who has {boxes}", hint=_MAKE_ROOM)
    limit, now = _of(rules.per_hour, owner), sum((usd_now(box, market) for box in living), Decimal(0))
    if limit is not None and now + adds_usd > limit:
        adds = format_money(adds_usd)
        what = f"a {plan.kind} at up to {adds} per hour beside {format_money(now)} of {owner!r}"
        raise forbidden(rules, "per_hour", what, hint=_MAKE_ROOM)


_MAKE_ROOM = "end one of the boxes: gpucloud list; the rules are those of gpucloud policy show"


def usd_now(holding: Holding, market: Market) -> Decimal:
    """What a holding costs per hour now; of one that is launched or started, the most that it may.

    Parts without a known price, or rate of exchange, are left out.
    """
    if holding.state in BEGINNING and holding.ceiling is not None:
        return holding.ceiling.usd_per_hour
    known = per_hour(holding, market.billing_of).known
    return sum((market.usd(each.amount, each.currency) or Decimal(0) for each in known), Decimal(0))


def _of(limits: Mapping[str, T], owner: str) -> T | None:
    return limits.get(owner, limits.get(EVERYBODY))


def allowed_purchases(rules: Rules, wanted: Sequence[Purchase]) -> tuple[Purchase, ...]:
    """Of these ways of paying, those that the policy allows."""
    return tuple(each for each in wanted if against_payment(rules, str(each), None) is None)
