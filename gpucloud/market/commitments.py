"""Asks the clouds what their accounts have paid for already, side by side, and keeps what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from gpucloud.clouds.cloud import Cloud
from gpucloud.clouds.provider import CommitmentInquiry
from gpucloud.errors import CloudError, is_absent
from gpucloud.runtime.context import Context
from gpucloud_pricing import Commitment
from gpucloud_pricing.history import PriceHistory

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


def ask_commitments(context: Context, history: PriceHistory, clouds: Sequence[str]) -> dict[str, Told]:
    """Asks for every commitment that is in force.

    Args:
        world: the clouds, and where to wait.
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
