"""The nodes of a box over ssh, and their logs: ``client.nodes``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.bring_up.archived_logs import Kept
    from gpucloud.clusters.members import Members
    from gpucloud.journal.records import Box as JournalBox
    from gpucloud.runs.job import Write
    from gpucloud.ssh.client import Target
    from gpucloud.ssh.job import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A command that ended on a box: its exit code and its output, at most 1 MiB of each stream."""

    exit_code: int
    stdout: str
    stderr: str


class Nodes:
    """The nodes of boxes, by the names of the boxes."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def exec(
        self,
        name: str,
        command: Sequence[str] | str,
        *,
        node: int = 0,
        stdin: bytes = b"",
        timeout_s: float = 60.0,
    ) -> Completed:
        """Runs a program on a node; see :meth:`gpucloud.Box.exec`."""
        from gpucloud.ssh.client import run
        from gpucloud.ssh.environment import loading

        target = self.connect(name, node=node)
        argv = _argv(command)
        words = loading(argv) if target.has_environment else argv
        done = run(target, words, stdin=stdin, timeout_s=timeout_s)
        return Completed(
            exit_code=done.code,
            stdout=done.out.decode(errors="replace"),
            stderr=done.err.decode(errors="replace"),
        )

    def exec_all(
        self,
        name: str,
        command: Sequence[str] | str,
        show: Callable[[int, str, bool], None],
        *,
        tell: Callable[[str], object] = lambda _: None,
    ) -> list[int]:
        """Runs a program on every node at the same time; see :meth:`gpucloud.Box.exec_all`."""
        from gpucloud.ssh.nodes import run_on_all

        nodes = range(len(self._session.find(name).nodes))
        return run_on_all([self.connect(name, node=node) for node in nodes], _argv(command), show, tell)

    def start_job(
        self, name: str, command: Sequence[str] | str, *, nodes: Sequence[int] | None = None
    ) -> str:
        """Starts a program on nodes and leaves it running; see :meth:`gpucloud.Box.start_job`."""
        from gpucloud.ssh.environment import loading
        from gpucloud.ssh.job import new_id, script_of, start

        chosen = range(len(self._session.find(name).nodes)) if nodes is None else nodes
        targets = [self.connect(name, node=node) for node in chosen]
        job, argv = new_id(), _argv(command)
        for target in targets:
            words = loading(argv) if target.has_environment else argv
            start(target, script_of(words, {}), job)
        return job

    def jobs(self, name: str, *, node: int = 0) -> list[JobState]:
        """The jobs of a node; see :meth:`gpucloud.Box.jobs`."""
        from gpucloud.ssh.job import jobs

        return jobs(self.connect(name, node=node))

    def run(
        self,
        name: str,
        command: Sequence[str] | str,
        *,
        environment: Mapping[str, str],
        out: Write | None = None,
        err: Write | None = None,
        timeout_s: float | None = None,
    ) -> int:
        """Runs a job on the first node of a box and follows it; see :meth:`gpucloud.Box.run`."""
        from gpucloud.runs.job import Job, discard, follow_job

        target = self.connect(name)
        with self._session.operation() as context:
            job = Job(
                command=command,
                environment=environment,
                out=out or discard,
                err=err or discard,
                timeout_s=timeout_s,
            )
            return follow_job(context, self._session.find(name), [target], job).code

    def sync(self, name: str, source: str, destination: str, *, up: bool, node: int = 0) -> None:
        """Copies files to a node (``up``) or from it; see :meth:`gpucloud.Box.upload`."""
        from gpucloud.bring_up.sending import upload
        from gpucloud.sources.selection import SyncSource, select
        from gpucloud.ssh.files import rsync_down

        if not up:
            rsync_down(self.connect(name, node=node), source, destination)
            return None
        chosen = select(SyncSource(source, source, destination or "."))
        return upload(self.connect(name, node=node), chosen)

    def connect(self, name: str, *, node: int = 0) -> Target:
        """Opens the shared ssh connection to a node; the clouds are asked only if it does not answer.

        Raises:
            UsageError: there is no such box, or it has ended, or has no address yet.
            ConnectionFailedError: it cannot be reached.
        """
        from gpucloud.boxes.connection import target_of
        from gpucloud.bring_up.ingress import reach
        from gpucloud.ssh.client import ConnectionFailedError, ConnectionFailure, connect

        box = self._session.find(name)
        target = target_of(box, node, self._session.state, self._session.proxy_command)
        try:
            connect(target)
        except ConnectionFailedError as error:
            if error.failure is not ConnectionFailure.UNREACHABLE:
                raise
            with self._session.operation() as context:
                reach(context, box, target)
        return target

    def hosts(self, name: str) -> Members:
        """The nodes of a box for other programs; see :meth:`gpucloud.Box.hosts`."""
        from gpucloud.clusters.members import members_of

        return members_of(self._session.find(name), self._session.state, self._session.proxy_command)

    def hosts_text(self, name: str, form: str = "hostfile") -> str:
        """The nodes of a box in the format of another program; see :meth:`gpucloud.Box.hosts_text`."""
        from gpucloud.clusters.formats import FORMATS

        if form not in FORMATS:
            raise UsageError(f"unknown format {form!r}", hint=f"allowed: {', '.join(FORMATS)}")
        return FORMATS[form](self.hosts(name))

    def logs(self, name: str, source: str = "boot", *, node: int = 0, job: str = "run") -> str:
        """A log of a node; see :meth:`gpucloud.Box.logs`."""
        from gpucloud.ssh.client import run
        from gpucloud.ssh.logs import LOGS_TIMEOUT_S, MOST_LOG_BYTES, log_command

        if source == "console":
            return self.console(name, node=node)
        kept = self.kept_log(name, source, node=node, job=job)
        if kept is not None:
            return kept.text
        target, command = self.connect(name, node=node), log_command(source, job=job)
        done = run(target, command, timeout_s=LOGS_TIMEOUT_S, most_bytes=MOST_LOG_BYTES, only_end=True)
        return done.out.decode(errors="replace")

    def uploaded_log(self, name: str, source: str) -> str | None:
        """The URL of a log in the bucket of the checkpoints, where a box uploads it at its end, if it can."""
        from gpucloud.runs.checkpoints import logs_of

        return logs_of(self._session.find(name), source)

    def kept_log(self, name: str, source: str, *, node: int = 0, job: str = "run") -> Kept | None:
        """A log of a box that has ended, as this machine or its bucket kept it; ``None`` for a living box.

        Raises:
            UsageError: the box has ended, and no such log of it was kept.
        """
        from gpucloud.bring_up.archived_logs import kept_log
        from gpucloud.ssh.job import RUN

        box = self._session.find(name)
        if box.ended_at is None:
            return None
        kept = kept_log(self._session.state, box.id, source, node=node) if job == RUN else None
        if kept is None and job == RUN and not node:
            kept = self._stored_log(box, source)
        if kept is None:
            there = self.uploaded_log(name, source) if job == RUN and not node else None
            raise UsageError(
                f"box {box.name!r} has ended ({box.state}), and no {source} log of it was kept here",
                hint=f"if it could, it has uploaded it: {there}"
                if there
                else "a log is kept when a setup fails, and by `run` and `down`, if the box answers then",
            )
        return kept

    def _stored_log(self, box: JournalBox, source: str) -> Kept | None:
        """The log that a box has uploaded to the bucket of its checkpoints; ``None`` if there is none."""
        from gpucloud.bring_up.archived_logs import Kept
        from gpucloud.runs.checkpoints import logs_of, read_log

        if logs_of(box, source) is None:
            return None
        with self._session.operation() as context:
            text = read_log(context, box, source)
        return None if text is None else Kept(text=text, at=box.ended_at or self._session.now())

    def console(self, name: str, *, node: int = 0) -> str:
        """The console log of a node, from its cloud; empty if the cloud keeps none.

        Raises:
            CloudError: the cloud did not answer, or refused.
        """
        from gpucloud.clouds.abilities import ConsoleLog

        box = self._session.find(name)
        with self._session.operation() as context:
            cloud = context.clouds.usable(box.cloud)
            return context.tasks.run(
                lambda: cloud.ask(
                    ConsoleLog, "read the console", lambda log: log.console(box.machine(node)), lacking=""
                )
            )


def _argv(command: Sequence[str] | str) -> Sequence[str]:
    """A program and its arguments; a text is for bash."""
    return ["bash", "-c", command] if isinstance(command, str) else command
