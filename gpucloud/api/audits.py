"""The record of calls that changed something in a cloud: ``client.audit``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.clouds.audit import AuditRecord, Entry


class Audits:
    """The calls that changed something in a cloud, or tried to."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def calls(
        self, *, box: str | None = None, since: datetime | None = None, most: int | None = None
    ) -> AuditRecord:
        """The newest calls that changed something in a cloud, or tried to.

        Args:
            box: only calls for the box with this name or id. The record outlives the journal, so an id that
                the journal does not know is looked up as well.
            since: leaves out older calls.
            most: the maximum number of calls; by default, all.

        Raises:
            UsageError: there is no box with this name.
        """
        from gpucloud.clouds.audit import calls_on_record

        return calls_on_record(self._session.state, box=box and self._id_of(box), since=since, most=most)

    def follow(self, *, box: str | None = None) -> Iterator[Entry]:
        """The calls from now on, of this and of other processes, until the caller stops iterating.

        Args:
            box: only calls for the box with this name or id.

        Returns:
            Each call as it is about to be sent, and again with its outcome; both have the same ``call``.

        Raises:
            UsageError: there is no box with this name.
        """
        from gpucloud.clouds.audit import FOLLOW_S
        from gpucloud.clouds.audit import follow as follow_calls
        from gpucloud.runtime.tasks import Tasks

        tasks, id_ = self._session.tasks or Tasks(), box and self._id_of(box)
        return follow_calls(
            self._session.state, lambda: tasks.pause(FOLLOW_S), lambda call: id_ in {None, call.get("box")}
        )

    def _id_of(self, box: str) -> str:
        """The id of the box with this name; an id stays, as its box may not be in the journal any more."""
        from gpucloud.journal.lifecycle import id_time
        from gpucloud.journal.records import Holding

        return box if id_time(box) is not None else self._session.find_holding(box, Holding).id
