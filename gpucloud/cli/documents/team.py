"""The documents of budgets, the policy and the journal."""

from __future__ import annotations

from typing import TypedDict

from gpucloud.costs.documents import BudgetDocument, UnusualDayDocument
from gpucloud_pricing.documents import MoneyDocument, Time


class BudgetListDocument(TypedDict):
    """``budget list``: the budgets of the journal.

    Attributes:
        unusual_days: days on which boxes of all owners have cost more than is usual.
    """

    budgets: list[BudgetDocument]
    unusual_days: list[UnusualDayDocument]


class BudgetShowDocument(TypedDict):
    """``budget show``: one budget."""

    budget: BudgetDocument


class BudgetSetDocument(TypedDict):
    """``budget set``: the budget as it is now; ``null`` if it was removed."""

    name: str
    budget: BudgetDocument | None


class BoxesRuleDocument(TypedDict):
    """How many boxes of an owner may live; ``*`` is everybody who is not named."""

    owner: str
    most: int


class PerHourRuleDocument(TypedDict):
    """What the holdings of an owner may cost per hour; ``*`` is everybody who is not named."""

    owner: str
    most: MoneyDocument


class PolicyDocument(TypedDict):
    """What may be launched; an empty list, or ``null``, is no rule.

    Attributes:
        clouds: names, globs, ``!x`` to leave out.
        regions: as ``clouds``, with geo groups.
        instance_types: as ``clouds``.
        gpus: models, as ``clouds``.
        purchase: ways of paying.
        max_price: per hour and node, compute only.
        boxes: living boxes; those that are stopped count.
        tags: names of tags that a box must have.
        ttl_s: how far off the end of a box may be, in seconds.
        checkpoint_to: where checkpoints may be kept: the beginnings of URLs.
        by: the owner ID of who applied it.
    """

    clouds: list[str]
    regions: list[str]
    instance_types: list[str]
    gpus: list[str]
    purchase: list[str]
    max_price: MoneyDocument | None
    boxes: list[BoxesRuleDocument]
    per_hour: list[PerHourRuleDocument]
    tags: list[str]
    ttl_s: int | None
    checkpoint_to: list[str]
    by: str
    at: Time


class PolicyShowDocument(TypedDict):
    """``policy show``: the policy in force; ``null`` if none was ever applied."""

    policy: PolicyDocument | None


class PolicyApplyDocument(TypedDict):
    """``policy apply``: the policy that is in force now."""

    policy: PolicyDocument


class JournalMigrateDocument(TypedDict):
    """The tables of a team's journal.

    Attributes:
        journal: where it is, without a password.
        before: the version of its tables before; 0 if there were none.
        version: their version now.
    """

    journal: str
    before: int
    version: int


class JournalCopyDocument(TypedDict):
    """A copy of a journal.

    Attributes:
        events: how many events the journal that was copied to did not have.
        owner: the owner ID of your boxes in it.
    """

    events: int
    owner: str


class JournalUsersDocument(TypedDict):
    """The users of a team's journal.

    Attributes:
        changes: a line for each login that was made, and each role that was given or taken.
    """

    changes: list[str]


class JournalVerifyDocument(TypedDict):
    """A replay of a journal.

    Attributes:
        events: how many events it has.
        differences: a line for each box or run whose rows are not what the replay gives.
    """

    events: int
    differences: list[str]
