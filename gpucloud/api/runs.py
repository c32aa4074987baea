"""Runs: ``client.runs``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from gpucloud.rendering.tabular import Listing

if TYPE_CHECKING:
    from gpucloud.api.run import Run
    from gpucloud.api.session import Session
    from gpucloud.api.stored import RunStore
    from gpucloud.journal.records import Run as JournalRun
    from gpucloud.spec.model import Spec


class Runs:
    """Work that outlives a box: a command with its attempts, checkpoints and files."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def start(
        self,
        spec: Spec,
        command: Sequence[str] | str,
        *,
        environment: Mapping[str, str] | None = None,
        run_id: str | None = None,
        alone: bool = False,
        timeout_s: float | None = None,
        restarts: int | None = None,
        retry_on: Collection[str] = (),
        wait: timedelta | None = None,
        fetch: Sequence[tuple[str, str]] = (),
        fetch_from_all: bool = False,
        keep_results_s: float | None = None,
        accept_snapshot_price: bool = False,
        first_node_only: bool = False,
    ) -> Run:
        """Launches a box for one command, and returns once the command runs.

        :meth:`Tend.once` does the rest: it copies the files back and deletes the box when the command has
        ended, and restarts it after a loss. Without it nothing more is bought, and the box lives until its
        deadline.

        Args and errors are as of :meth:`Client.run`.
        """
        from gpucloud.api.given import refuse_other
        from gpucloud.api.running import refuse_unrunnable, start_run, wanted_of_run, work_of
        from gpucloud.runs.detached import from_anywhere
        from gpucloud.spec.model import Spec

        refuse_other("runs.start", spec, Spec)
        refuse_unrunnable(command, fetch, nodes=spec.nodes if fetch_from_all else None)
        variables = self._session.profile.variables if environment is None else environment
        there, brought = from_anywhere(spec, fetch, str(Path.cwd()))
        wanted = wanted_of_run(
            there,
            variables,
            run_id or self._session.new_run_id(),
            accept_snapshot_price=accept_snapshot_price,
        )
        work = work_of(
            wanted.spec,
            command,
            restarts=restarts,
            retry_on=retry_on,
            wait=wait,
            timeout_s=timeout_s,
            fetch=brought,
            accept_snapshot_price=accept_snapshot_price,
            first_node_only=first_node_only,
            fetch_from_all=fetch_from_all,
            keep_results_s=keep_results_s,
        )
        with self._session.operation() as context:
            return start_run(self._session, context, wanted, work, alone=alone)

    def read(self, run: JournalRun, now: datetime) -> Run:
        """A run from a record of the journal, at a moment."""
        from gpucloud.api.run import Run

        return Run.read(run, self._session, now)

    def new_id(self) -> str:
        """A new, unique run id."""
        return self._session.new_run_id()

    def list(self, *, over: bool = False, since: datetime | None = None) -> Listing[Run]:
        """The owner's runs as the journal has them, oldest first.

        Args:
            over: adds those that are over.
            since: of these, only those that ended since then.
        """
        from gpucloud.api.run import Run

        now = self._session.now()
        found = self._session.journal.runs(owner=self._session.owner, over=over, since=since)
        return Listing(Run.read(run, self._session, now) for run in found)

    def get(self, run_id: str) -> Run:
        """The run with this id; of several, the newest.

        Raises:
            UsageError: there is none.
        """
        from gpucloud.api.run import Run, find_run

        return Run.read(find_run(self._session, run_id), self._session, self._session.now())

    def follow(
        self,
        run_id: str,
        out: Callable[[int, str], None],
        *,
        tell: Callable[[str], None] | None = None,
        node: int = 0,
    ) -> int:
        """Follows the output of a run over interruptions and restarts, until it ends.

        Nothing is bought or restarted by this: the process of the run does that, or :meth:`Tend.once`.

        Args:
            run_id: its id.
            out: takes each line, with the number of its attempt, from 1.
            tell: takes what is waited for, in words.
            node: the node whose output it is.

        Returns:
            The exit code of its command.

        Raises:
            UsageError: there is no such run, or nobody goes on with it.
            GpucloudError: it ended without an exit code.
        """
        from gpucloud.api.run_logs import Following

        return Following(self._session, run_id, node, out, tell or (lambda _: None)).until_it_ends()

    def cancel(self, run_id: str, *, confirm: Callable[[Run], bool] | None = None) -> Run:
        """Ends a run and its box, also one that another process works on; one that is over stays as it is.

        Args:
            run_id: its id.
            confirm: is called before anything is ended; by default, nothing is confirmed.

        Raises:
            CleanupIncompleteError: something may still be billed; the next changing call continues.
            UsageError: there is no such run, or ``confirm`` returned ``False``.
        """
        from gpucloud.api.ending import cancel_run

        with self._session.operation() as context:
            return cancel_run(self._session, context, run_id, confirm)

    def fetch(self, run_id: str, *, files: Sequence[tuple[str, str]] = ()) -> Run:
        """Copies the files of a run that could not be copied when its command had ended, and ends its box.

        With ``checkpoint_to`` out of the store, where the box is gone or does not answer; also later.

        Args:
            run_id: its id.
            files: (path on the box, local path); by default, those that the run was to copy.

        Raises:
            NotFetchedError: some could not be copied; the box stays until its deadline.
            UsageError: no files of such a run are waiting or stored, or another process works on it.
            CleanupIncompleteError: something may still be billed; the next changing call continues.
        """
        from gpucloud.api.fetching import fetch_run
        from gpucloud.runs.detached import here

        with self._session.operation() as context:
            return fetch_run(self._session, context, run_id, here(files, str(Path.cwd())))

    def fetch_from_store(self, run_id: str, url: str, *, files: Sequence[tuple[str, str]] = ()) -> str:
        """Copies the results of a run that this journal does not know out of its store; returns their place.

        Args:
            run_id: its id.
            url: the address of the store, as the run had it in ``checkpoint_to``.
            files: (path on the box, local path); by default, what it was to bring home, into this folder.

        Raises:
            NotThereError: the store does not have such a file.
            NotCopiedError: one could not be copied.
            UsageError: there are no results of such a run, or no place for them.
        """
        from gpucloud.api.fetching import fetch_results
        from gpucloud.runs.detached import here

        with self._session.operation() as context:
            return fetch_results(context, run_id, url, here(files, str(Path.cwd())))

    def store(self, run_id: str) -> RunStore | None:
        """What the store of a run holds and costs; ``None`` if it has none.

        Raises:
            UsageError: there is no such run, or its bucket cannot be used any more.
            CloudError: the store did not answer.
        """
        from gpucloud.api.stored import store_of_run

        with self._session.operation() as context:
            return store_of_run(self._session, context, run_id)

    def stores(self, *, run_id: str | None = None) -> Sequence[RunStore]:
        """What the stores of the owner's runs hold and cost, those that hold something; or of one run.

        Raises:
            UsageError: a bucket cannot be used any more.
            CloudError: a store did not answer.
        """
        from gpucloud.api.stored import stores

        with self._session.operation() as context:
            return stores(self._session, context, run_id)

    def delete_store(self, run_id: str, *, confirm: Callable[[RunStore], bool] | None = None) -> RunStore:
        """Deletes the checkpoints, logs and results of a run that is over from its store.

        What gpucloud has not written there stays.

        Args:
            run_id: its id.
            confirm: is called before anything is deleted; by default, nothing is confirmed.

        Raises:
            UsageError: there is no such run, it is not over, has no store, or ``confirm`` returned ``False``.
            CloudError: the store refused, or did not answer; what is left goes the next time.
        """
        from gpucloud.api.stored import delete_store_of_run

        with self._session.operation() as context:
            return delete_store_of_run(self._session, context, run_id, confirm)
