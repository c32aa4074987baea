"""The documents of ``run``, ``runs`` and ``tend``."""

from __future__ import annotations

from typing import TypedDict

from gpucloud.api.documents import BoxDocument, RunFailureDocument, RunRecordDocument
from gpucloud.cli.documents.boxes import StepDocument
from gpucloud.costs.documents import RunStoreDocument
from gpucloud_pricing.documents import MoneyDocument


class RunDocument(TypedDict):
    """A run that has ended.

    Attributes:
        box: the box of the run, which is deleted unless it was kept.
        exit_code: of the command.
        failure: why it ended, where it did not by itself: ``timeout``; ``null`` if it did.
        not_fetched: the files of ``--fetch`` that were not copied back.
        cost_so_far: what all boxes of the run have cost, by currency.
        timeline: the steps.
    """

    box: BoxDocument
    exit_code: int
    failure: RunFailureDocument | None
    not_fetched: list[str]
    cost_so_far: list[MoneyDocument]
    timeline: list[StepDocument]


class RunDetachedDocument(TypedDict):
    """``run --detach``: a run whose command was left running."""

    run: RunRecordDocument
    timeline: list[StepDocument]


class TendedDocument(TypedDict):
    """What was done for a run.

    Attributes:
        did: ``left`` (nothing was to be done), ``lost`` (its box was; another attempt is due later),
            ``restarted`` or ``ended``.
        message: why, in words.
    """

    run_id: str
    did: str
    message: str


class TroubleDocument(TypedDict):
    """What could not be done.

    Attributes:
        owed_command: the command that ends what may still be billed.
    """

    message: str
    hint: str | None
    owed_command: str | None


class TendedBoxDocument(TypedDict):
    """What was done about a box of a launch with ``on_unhealthy: replace``, and why.

    Attributes:
        did: ``left``, ``replaced``, or ``ended``: it had been replaced before.
        replaced_by: the name of the box that has replaced it.
    """

    id: str
    name: str
    did: str
    message: str
    replaced_by: str | None


class TendDocument(TypedDict):
    """One look after everything.

    Attributes:
        runs: those that were not over.
        boxes: those that are to be replaced once their hardware is faulty.
        troubles: what could not be done; the next look goes on with it.
    """

    runs: list[TendedDocument]
    boxes: list[TendedBoxDocument]
    troubles: list[TroubleDocument]


class RunsListDocument(TypedDict):
    """``runs list``: runs, oldest first."""

    runs: list[RunRecordDocument]


class RunsShowDocument(TypedDict):
    """``runs show``: one run.

    Attributes:
        store: what its store holds; ``null`` without one, or if it did not answer.
    """

    run: RunRecordDocument
    store: RunStoreDocument | None


class RunsCancelDocument(TypedDict):
    """``runs cancel``: a run that is over now."""

    run: RunRecordDocument


class RunsDeleteDocument(TypedDict):
    """``runs delete``: what its store held, and holds no more.

    Attributes:
        deleted: without ``others``, which stay.
    """

    run_id: str
    deleted: RunStoreDocument


class RunsFetchDocument(TypedDict):
    """``runs fetch``: a run whose files are here now.

    Attributes:
        run: the run; ``null`` with ``--from``: this journal does not know it.
    """

    run: RunRecordDocument | None
