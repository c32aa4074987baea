"""What looks after detached runs and boxes: ``client.tend``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from gpucloud.errors import GpucloudError

if TYPE_CHECKING:
    from gpucloud.api.results import Tending
    from gpucloud.api.session import Session


class Tend:
    """Looks after detached runs, and after boxes that are replaced when their hardware is faulty."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def once(self, *, environment: Mapping[str, str] | None = None) -> Tending:
        """Looks once after all boxes and runs of the owner; does nothing where nothing is to be done.

        Settles what is owed, notices interruptions, restarts detached runs that were lost and may be
        restarted, brings back the files of those whose command has ended, and ends their boxes, and what is
        overdue. Replaces boxes with ``on_unhealthy: replace`` whose guards report faulty hardware. Any number
        of processes may do so at the same time.

        Args:
            environment: values of the variables that the specs of runs name; by default, those of the
                profile.
        """
        from gpucloud.api.tending import tend

        variables = self._session.profile.variables if environment is None else environment
        with self._session.operation() as context:
            return tend(self._session, context, variables)

    def every(self, pause: timedelta, *, environment: Mapping[str, str] | None = None) -> Iterator[Tending]:
        """Does :meth:`once` again and again, with a pause after each look.

        A look that fails as a whole (the journal is locked) has that as its trouble; the next one goes on.

        Raises:
            GpucloudError: the first look failed as a whole.
        """
        from gpucloud.api.results import Tending
        from gpucloud.api.tending import tend
        from gpucloud.runtime.isolation import isolated

        variables = self._session.profile.variables if environment is None else environment
        with self._session.operation() as context:
            done = tend(self._session, context, variables)
        while True:
            yield done
            with self._session.operation() as context:
                context.tasks.pause(pause.total_seconds())
                troubles: list[GpucloudError] = []
                with isolated(troubles, "this look"):
                    done = tend(self._session, context, variables)
                if troubles:
                    done = Tending(runs=(), boxes=(), troubles=tuple(troubles))

    def install(self) -> str:
        """Writes and enables a timer of the user's system that tends every two minutes; returns which it is.

        Raises:
            UsageError: it would lack what is only in this process's variables: secrets of clouds, or values
                that living runs need; or this system has no such timer.
            TimerError: the system did not take it.
        """
        from gpucloud.api.tend_timer import install

        session = self._session
        sandbox = {"GPUCLOUD_SANDBOX": "1"} if session.sandboxed else {}
        variables = {**session.profile.variables, **sandbox}
        return install(session, session.paths, variables, session.clouds(None).names())

    def uninstall(self) -> bool:
        """Takes the timer of :meth:`install` back; returns whether there was one.

        Raises:
            TimerError: the system did not let it go.
        """
        from gpucloud.api.tend_timer import uninstall

        return uninstall(self._session.paths.config)

    @property
    def is_installed(self) -> bool:
        """Whether :meth:`install` has installed a timer for the journal of this configuration."""
        from gpucloud.api.tend_timer import script_of

        return script_of(self._session.paths.config).exists()
