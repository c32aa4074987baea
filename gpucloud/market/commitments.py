"""Asks the clouds for their accounts' commitments, all at the same time, and stores the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from gpucloud.clouds import abilities
from gpucloud.clouds.cloud import Cloud
from gpucloud.errors import CloudError, UsageError, absence, is_absent
from gpucloud.runtime.context import Context
from gpucloud_pricing import Commitment
from gpucloud_pricing.history import PriceHistory
from gpucloud_pricing.places import BadPlaceError, admits, knows
from gpucloud_pricing.values import SavingsPlan

if TYPE_CHECKING:
    from gpucloud.market.documents import (
        CommitmentAnswersDocument,
        CommitmentDocument,
        CommitmentsDocument,
        InquiryFailureDocument,
        SavingsPlanDocument,
    )

ASKED_AT_ONCE = 16
"""The most inquiries to one cloud at a time."""
ASK_TIMEOUT_S = 600.0


@dataclass(slots=True)
class CloudAnswers:
    """The answers of one cloud.

    Attributes:
        account: the account of the commitments; ``None`` if even that call failed.
        answers: commitments by the name of the inquiry.
        failures: errors by the name of the inquiry; its earlier answer stays as it was.
        doubts: what else than "there is none" empty answers may mean.
        absent: why this cloud was left out: it is not set up here.
    """

    account: str | None = None
    answers: dict[str, Sequence[Commitment]] = field(default_factory=dict[str, "Sequence[Commitment]"])
    failures: dict[str, CloudError] = field(default_factory=dict[str, CloudError])
    doubts: list[str] = field(default_factory=list[str])
    absent: str | None = None

    def document(self, cloud: str) -> CommitmentAnswersDocument:
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
    """The commitments of accounts.

    Attributes:
        commitments: those in force, by each cloud's last answer.
        by_cloud: the present answers, by cloud.
    """

    commitments: Sequence[Commitment]
    by_cloud: Mapping[str, CloudAnswers]

    def document(self) -> CommitmentsDocument:
        """The fields of ``gpucloud.commitments/v1``."""
        return {
            "commitments": [commitment_document(each) for each in self.commitments],
            "clouds": [answers.document(cloud) for cloud, answers in self.by_cloud.items()],
        }


def commitment_document(commitment: Commitment) -> CommitmentDocument:
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
        "savings_plan": None if plan is None else _plan_document(plan),
        "until": commitment.until.isoformat() if commitment.until else None,
        "as_of": commitment.as_of.isoformat(),
        "source": commitment.source,
    }


def _plan_document(plan: SavingsPlan) -> SavingsPlanDocument:
    return {
        "per_hour": plan.per_hour.document(),
        "purchase": plan.purchase,
        "terms": plan.terms,
        "family": plan.family,
    }


def failure_documents(failures: Mapping[str, CloudError]) -> list[InquiryFailureDocument]:
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
    """The clouds that patterns allow; all, without a pattern.

    Raises:
        UsageError: a pattern matches no cloud.
    """
    known = frozenset(names)
    for pattern in patterns:
        if not knows(known, pattern):
            error = BadPlaceError("clouds", pattern, known, {name: (name,) for name in names})
            raise UsageError(f"--cloud: {error}", hint=error.existing)
    return [name for name in names if not patterns or admits(patterns, frozenset({name}))]


def ask_commitments(
    context: Context, history: PriceHistory, clouds: Sequence[str]
) -> dict[str, CloudAnswers]:
    """Asks for every commitment that is in force.

    Args:
        context: clouds, journal, clock and progress of this call.
        history: stores the answers.
        clouds: the clouds to ask.

    Returns:
        The answers, by cloud.

    Raises:
        InterruptedBySignal: a signal came; earlier answers stay.
    """
    at = context.clock()
    calls = {name: context.tasks.start(partial(_ask, context, name)) for name in clouds}
    found: dict[str, CloudAnswers] = {
        name: context.tasks.wait(call, ASK_TIMEOUT_S) for name, call in calls.items()
    }
    for name, each in found.items():
        if each.account is not None and each.answers:
            history.keep_commitments(name, each.account, each.answers, each.failures, at)
    return found


def _ask(context: Context, name: str) -> CloudAnswers:
    """Asks one cloud; an inquiry that fails is a failure in the result."""
    from multiprocessing.pool import ThreadPool

    found = CloudAnswers()
    try:
        cloud = context.clouds[name]
        found.account = cloud.account()  # without credentials the calls in every region would fail
        inquiries = cloud.ask(
            abilities.Commitments,
            "list the commitment queries",
            lambda source: source.commitment_inquiries(),
            lacking=(),
        )
    except (CloudError, ImportError) as error:
        if isinstance(error, CloudError) and not is_absent(error):
            found.failures["everything"] = error
        else:
            found.absent = absence(error)
        return found
    with ThreadPool(min(ASKED_AT_ONCE, max(1, len(inquiries)))) as pool:
        pool.map(partial(_ask_one, cloud, found), inquiries, chunksize=1)
    return found


def _ask_one(cloud: Cloud, found: CloudAnswers, inquiry: abilities.CommitmentInquiry) -> None:
    try:
        answer = found.answers[inquiry.name] = cloud.call(f"ask for {inquiry.name}", inquiry.ask)
    except CloudError as error:
        found.failures[inquiry.name] = error
        return
    if not answer and inquiry.if_empty:
        found.doubts.append(inquiry.if_empty)
