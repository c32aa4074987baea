"""Asks the clouds what their accounts have paid for already, side by side, and keeps what they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gpucloud.clouds.cloud import Cloud
from gpucloud.clouds.provider import CommitmentInquiry
from gpucloud.errors import CloudError, UsageError, is_absent
from gpucloud.runtime.context import Context
from gpucloud_pricing import Commitment
from gpucloud_pricing.history import PriceHistory
from gpucloud_pricing.places import BadPlaceError, admits, knows

ASKED_AT_ONCE = 16
"""Inquiries to one cloud at a time."""
ASK_TIMEOUT_S = 600.0


@dataclass(slots=True)
class Told:
    """What one cloud told.

    Attributes:
        account: whose commitments they are; ``None`` where not even that was answered.
        answers: by the names of the inquiries.
        failures: what was not answered, and why; what was known of that is as old as before.
        doubts: what empty answers may mean besides that there is nothing.
        absent: why this cloud was left out: it is not set up here.
    """

    account: str | None = None
    answers: dict[str, Sequence[Commitment]] = field(default_factory=dict[str, "Sequence[Commitment]"])
    failures: dict[str, CloudError] = field(default_factory=dict[str, CloudError])
    doubts: list[str] = field(default_factory=list[str])
    absent: str | None = None

    def document(self, cloud: str) -> dict[str, Any]:
        """A cloud of ``gpucloud.commitments/v1``."""
        return {
            "cloud": cloud,
            "account": self.account,
            "inquiries": len(self.answers) + len(self.failures),
            "answered": len(self.answers),
            "failures": failure_documents(self.failures),
            "doubts": self.doubts,
            "left_out": self.absent,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitments:
    """What accounts have paid for already.

    Attributes:
        commitments: those in force, as each cloud told them last.
        told: what each cloud answered now.
    """

    commitments: Sequence[Commitment]
    told: Mapping[str, Told]

    def document(self) -> dict[str, Any]:
        """The fields of ``gpucloud.commitments/v1``."""
        return {
            "commitments": [commitment_document(each) for each in self.commitments],
            "clouds": [told.document(cloud) for cloud, told in self.told.items()],
        }


def commitment_document(commitment: Commitment) -> dict[str, Any]:
    """One commitment for JSON."""
    plan = commitment.plan
    return {
        "cloud": commitment.cloud,
        "kind": commitment.kind,
        "id": commitment.id,
        "region": commitment.region,
        "zone": commitment.zone,
        "instance_type": commitment.instance_type,
        "count": None if plan else commitment.count,
        "savings_plan": plan
        and {
            "per_hour": plan.per_hour.document(),
            "purchase": plan.purchase,
            "terms": plan.terms,
            "family": plan.family,
        },
        "until": commitment.until and commitment.until.isoformat(),
        "as_of": commitment.as_of.isoformat(),
        "source": commitment.source,
    }


def failure_documents(failures: Mapping[str, CloudError]) -> list[dict[str, Any]]:
    """Inquiries that were not answered, and why, for JSON."""
    return [
        {
            "inquiry": inquiry,
            "class": str(error.error_class),
            "message": error.message,
            "code": error.code,
            "request_id": error.request_id,
        }
        for inquiry, error in failures.items()
    ]


def clouds_to_ask(names: Sequence[str], patterns: tuple[str, ...]) -> list[str]:
    """The clouds that patterns allow; all, where there is none.

    Raises:
        UsageError: a pattern names none.
    """
    known = frozenset(names)
    for pattern in patterns:
        if not knows(known, pattern):
            raise UsageError(f"--cloud: {BadPlaceError('clouds', pattern, known)}")
    return [name for name in names if not patterns or admits(patterns, frozenset({name}))]


def ask_commitments(context: Context, history: PriceHistory, clouds: Sequence[str]) -> dict[str, Told]:
    """Asks for every commitment that is in force.

    Args:
        context: the clouds, and where to wait.
        history: where the answers are kept.
        clouds: which ones to ask.

    Returns:
        What came of it, by cloud.

    Raises:
        InterruptedBySignal: what was kept before stays.
    """
    at = context.clock()
    calls = {name: context.tasks.start(partial(_ask, context, name)) for name in clouds}
    found: dict[str, Told] = {name: context.tasks.wait(call, ASK_TIMEOUT_S) for name, call in calls.items()}
    for name, told in found.items():
        if told.account is not None and told.answers:
            history.keep_commitments(name, told.account, told.answers, told.failures, at)
    return found


def _ask(context: Context, name: str) -> Told:
    """Asks one cloud; what cannot be asked is a failure among the results."""
    from multiprocessing.pool import ThreadPool

    told = Told()
    try:
        cloud = context.clouds[name]
        told.account = cloud.account()  # without credentials every region would be asked in vain
        inquiries = cloud.commitment_inquiries()
    except (CloudError, ImportError) as error:
        if isinstance(error, CloudError) and not is_absent(error):
            told.failures["everything"] = error
        else:
            told.absent = str(error)
        return told
    with ThreadPool(min(ASKED_AT_ONCE, max(1, len(inquiries)))) as pool:
        pool.map(partial(_ask_one, cloud, told), inquiries, chunksize=1)
    return told


def _ask_one(cloud: Cloud, told: Told, inquiry: CommitmentInquiry) -> None:
    try:
        answer = told.answers[inquiry.name] = cloud.ask_commitments(inquiry)
    except CloudError as error:
        told.failures[inquiry.name] = error
        return
    if not answer and inquiry.if_empty:
        told.doubts.append(inquiry.if_empty)
