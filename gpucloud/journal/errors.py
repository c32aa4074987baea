"""What can go wrong with the journal."""

from __future__ import annotations

from typing import NoReturn

from gpucloud.errors import GpucloudError, UsageError


class JournalError(UsageError):
    """The journal cannot be read or written: a full disk, a damaged file, a writer that does not end."""


class UnreachableError(JournalError):
    """The server of a team's journal does not answer."""


class PendingError(UnreachableError):
    """The server does not answer, and what a cloud has done is kept on this machine until it does."""

    exit_code = 8
    error_class = "owed"


class OlderError(JournalError):
    """The journal has lost what this process wrote into it: an older copy of it is in use.

    Args:
        id: of the box or run.
        where: the journal.
    """

    def __init__(self, id: str, where: object) -> None:  # noqa: A002  (the field's own name)
        super().__init__(
            f"the journal {where} has lost what was written of {id}: an older copy of it is in use",
            hint="what runs is found by its tags, and taken in again: gpucloud recover",
        )


class ForbiddenError(GpucloudError):
    """A team's journal does not let this login do it. What it may not write of, it must not delete either."""

    exit_code = 4
    error_class = "auth"


class NameTakenError(UsageError):
    """A living box of this owner has the name already."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"a box named {name!r} exists already",
            hint=f"choose another --name, or delete it: gpucloud down {name}",
        )


class RunTakenError(UsageError):
    """A living box of this owner belongs to the run already."""

    def __init__(self, run_id: str, box: str) -> None:
        super().__init__(
            f"run {run_id!r} exists already: it has the box {box!r}",
            hint=f"choose another --run-id, or delete it: gpucloud down --run-id {run_id}",
        )


class RunLivesError(UsageError):
    """A run of this owner that is not over has the id already."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"run {run_id!r} exists already",
            hint=f"choose another --run-id, or end it: gpucloud down --run-id {run_id}",
        )


class StaleWriterError(GpucloudError):
    """Another process has taken this over; nothing of this process may be written of it any more.

    Args:
        name: the name of the box, or the id of the run.
        kind: ``box`` or ``run``.
    """

    error_class = "taken_over"

    def __init__(self, name: str, kind: str = "box") -> None:
        super().__init__(
            f"{kind} {name!r} was taken over by another gpucloud", hint="see its state: gpucloud list"
        )


_KINDS = {"real": "real clouds", "sandbox": "the sandbox"}


def refuse_kind(journal: str, wanted: str, *, hint: str) -> NoReturn:
    """Refuses a journal that is marked as of the other kind.

    Args:
        journal: which, as a message begins: ``the journal …``.
        wanted: the kind of the boxes that are meant: ``real`` or ``sandbox``.
        hint: what to do.

    Raises:
        UsageError: always.
    """
    other = "sandbox" if wanted == "real" else "real"
    raise UsageError(f"{journal} is for {_KINDS[other]}, not for {_KINDS[wanted]}", hint=hint)
