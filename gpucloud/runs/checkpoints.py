"""Checkpoints of a run in the user's own bucket, so that its next attempt goes on where the last one ended.

A run has a folder in the bucket, and each attempt a folder of its own in it, ``attempts/N/``. A box gets a
lease on them over ssh: it reads the run, writes its attempt and deletes nothing. The lease is valid for an
hour at most, and is renewed over ssh by the process that attends the run, or by whoever tends it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from gpucloud.clouds import stores
from gpucloud.clouds.cloud import Cloud
from gpucloud.clouds.object_store import StorageGrant, StorageLease, StorePlace
from gpucloud.errors import CloudError, GpucloudError, UsageError
from gpucloud.journal.events import Seen
from gpucloud.journal.facts import Facts
from gpucloud.journal.records import Box
from gpucloud.journal.runs import Exited
from gpucloud.planning.data_sets import MOST_COUNTED
from gpucloud.planning.object_store import store_of
from gpucloud.runs.job import Job, follow_job
from gpucloud.runs.retention import KEPT
from gpucloud.runs.saved import STEP, Noted
from gpucloud.runs.stored_sets import prune
from gpucloud.runtime.context import Context
from gpucloud.spec.model import Spec
from gpucloud.ssh import checkpoints as on_box
from gpucloud.ssh.client import Target
from gpucloud.ssh.job import FOLDER as JOBS
from gpucloud.ssh.job import RUN
from gpucloud.ssh.logs import LOGS, MOST_LOG_BYTES
from gpucloud.ssh.rclone import INSTALL_S

FOLDER = "checkpoints"
"""The folder on the box by default."""
EVERY = timedelta(minutes=30)
"""The time between two checkpoints by default."""
RENEWED_AFTER_S = 1800.0
"""Half of a lease: an upload that begins just before has as long for its end."""
RENEWED_AGAIN_S = 10.0
"""After an upload that failed, which the lease may be the reason of."""
LOOK_S = 60.0
PRUNE_S = 600.0
"""How long deleting superseded sets may take; what is left goes the next time."""
MARKER = "latest.json"
"""The object that is written last in the folder of an attempt."""
LONGEST_NAME = 23


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """Where the checkpoints of a run go, once the bucket was looked at.

    Attributes:
        folder: the folder on the box.
        every_s: the seconds between two checkpoints.
        marker: the pattern of the files that say that one is whole; ``None`` without.
        cloud: the cloud of the bucket.
        url: the run's folder, for people and for its command.
        place: the bucket.
        path: the run's folder in it.
        run_id: the run.
        keep: how many whole sets of an attempt are kept; ``None`` for all.
        role: the role whose rights are lent; ``None`` for the caller's own.
        kms_key: the key that encrypts them; ``None`` for the bucket's default.
    """

    folder: str
    every_s: int
    marker: str | None
    cloud: str
    url: str
    place: StorePlace
    path: str
    run_id: str
    keep: int | None
    role: str | None
    kms_key: str | None

    @property
    def attempts(self) -> str:
        """The folder of the attempts."""
        return f"{self.path}/attempts"


def refuse_launch(spec: Spec) -> None:
    """Refuses checkpoints of a box that no command of ours attends: nobody would renew its lease.

    Raises:
        UsageError: the spec has them.
    """
    if spec.checkpoint_to is not None:
        raise UsageError("checkpoint_to needs a run", hint="use gpucloud run, or omit checkpoint_to")


def settle(context: Context, spec: Spec, run_id: str) -> CheckpointSettings | None:
    """Looks at the bucket, and lends rights on it once, before anything is bought; ``None`` without one.

    Raises:
        UsageError: there is no such bucket, it belongs to somebody else, or its rights cannot be lent.
        CloudError: the cloud refused to lend them.
    """
    settings = locate(context, spec, run_id)
    if settings is not None:
        context.tasks.run(partial(stores.lend, context.clouds[settings.cloud], _grant(settings, 1)))
    return settings


def locate(context: Context, spec: Spec, run_id: str) -> CheckpointSettings | None:
    """Looks at the bucket of a run; ``None`` without one.

    Raises:
        UsageError: there is no such bucket, or it belongs to somebody else.
        CloudError: the cloud did not answer.
    """
    if spec.checkpoint_to is None:
        return None
    scheme, _, address = spec.checkpoint_to.partition("://")
    cloud = store_of(context, scheme, "checkpoint_to")
    place, folder = context.tasks.run(partial(stores.locate, cloud, address))
    run_folder = folder_name(run_id)
    return CheckpointSettings(
        folder=spec.checkpoint_dir or FOLDER,
        every_s=int((spec.checkpoint_every or EVERY).total_seconds()),
        marker=spec.checkpoint_marker,
        cloud=cloud.name,
        url=f"{spec.checkpoint_to}/{run_folder}",
        place=place,
        path="/".join(filter(None, (folder, run_folder))),
        run_id=run_id,
        keep=None if spec.checkpoint_keep == "all" else spec.checkpoint_keep or KEPT,
        role=spec.checkpoint_role,
        kms_key=spec.checkpoint_encryption and spec.checkpoint_encryption.removeprefix("kms:"),
    )


def logs_of(box: Box, kind: str) -> str | None:
    """Where the log of a box is that it has uploaded at its end, if it could; ``None`` without a bucket."""
    place = box.wanted.spec.get("checkpoint_to")
    if not place or box.run_id is None or box.checkpoints is None:
        return None
    return f"{place}/{folder_name(box.run_id)}/attempts/{box.checkpoints}/logs/{kind}.log"


def read_log(context: Context, box: Box, kind: str) -> str | None:
    """The log that a box has uploaded at its end; ``None`` if there is none.

    Raises:
        UsageError: its bucket is not there, or belongs to somebody else.
        CloudError: the cloud did not answer, or refused.
        LongerError: it is longer than any ordinary log.
    """
    url = logs_of(box, kind)
    if url is None:
        return None
    scheme, _, address = url.partition("://")
    folder, _, name = address.rpartition("/")
    cloud = store_of(context, scheme, "checkpoint_to")
    place, path = context.tasks.run(partial(stores.locate, cloud, folder))
    found = context.tasks.run(partial(stores.read_object, cloud, place, f"{path}/{name}", MOST_LOG_BYTES))
    return None if found is None else found.decode(errors="replace")


def folder_name(run_id: str) -> str:
    """The folder of a run: no two runs have the same, and no id leads out of it."""
    return re.sub(r"[^A-Za-z0-9._-]|^\.", lambda found: f"={ord(found[0]):02x}", run_id)


def follow_with_checkpoints(
    context: Context,
    box: Box,
    nodes: Sequence[Target],
    job: Job,
    settings: CheckpointSettings | None,
    *,
    attempt: int,
    results: Sequence[str],
) -> Exited:
    """Follows a job as :func:`follow_job` does, with its checkpoints restored before and uploaded meanwhile.

    They are those of the first node, which also stores the results, paths on it, when the command has ended.

    Raises:
        CheckpointFailedError: they could not be restored; or the last one could not be uploaded, and the
            command succeeded.
        GpucloudError: as :func:`follow_job`.
    """
    if settings is None:
        return follow_job(context, box, nodes, job)
    kept = begin(context, box, nodes[0], settings, attempt=attempt, results=results)
    context.journal.write(box, Seen(facts=Facts(checkpoints=kept.number)))
    context.tasks.start(partial(kept.held.keep, min(LOOK_S, settings.every_s)))
    try:
        how = follow_job(
            context, box, nodes, replace(job, environment={**job.environment, **kept.environment})
        )
        try:
            kept.finish()
        except on_box.CheckpointFailedError as error:
            if not how.code:
                raise
            context.warn(STEP, f"warning: the last checkpoint was not uploaded: {error.message}")
        return how
    finally:
        kept.close()


def begin(
    context: Context,
    box: Box,
    target: Target,
    settings: CheckpointSettings,
    *,
    attempt: int,
    results: Sequence[str],
    ends_itself: bool = False,
) -> Checkpoints:
    """Restores the newest checkpoint of the run on a box, which uploads from then on while it has a lease.

    Args:
        context: clouds and progress of this call.
        box: the box.
        target: its node.
        settings: those of the run.
        attempt: the attempt; a higher number is used if the bucket has it already.
        results: the paths on the box that it stores when the command has ended.
        ends_itself: whether it ends itself then.

    Raises:
        CheckpointFailedError: what is there could not be restored; the command must not begin anew.
        ConnectionFailedError: the box could not be reached.
        CloudError: the cloud refused to lend the rights.
    """
    cloud = context.clouds[settings.cloud]
    taken = attempts_in(context, settings)
    number = max(attempt, *(each + 1 for each in taken)) if taken else attempt
    held = Held(context, target, cloud, _grant(settings, number), Noted(context, box), keeps=settings.keep)
    context.tell(STEP, "installing rclone")
    context.tasks.run(partial(on_box.install, target), INSTALL_S)
    lease = context.tasks.run(held.renew)
    context.tell(STEP, f"restoring from {settings.url}")
    run_folder = f"{lease.folder}/{settings.path}"
    at_end = on_box.AtEnd(job=f"{JOBS}/{RUN}", results=results, ends_itself=ends_itself)
    call = partial(
        on_box.begin,
        target,
        settings.folder,
        run_folder,
        number,
        logs=LOGS,
        at_end=at_end,
        marker=settings.marker,
    )
    begun = context.tasks.run(call, on_box.TRANSFER_S)
    for words in begun.damaged:
        context.warn(STEP, f"warning: a checkpoint could not be used: {words}")
    context.tell(STEP, _restored(begun.restored))
    context.tasks.run(partial(on_box.watch, target, settings.every_s))
    context.tasks.run(partial(on_box.wait, target))
    return Checkpoints(held, begun.folder, settings.url, number)


def resume(context: Context, box: Box, target: Target, settings: CheckpointSettings, number: int) -> Held:
    """The lease of a box that another process has begun; ``number`` is that of its attempt in the bucket.

    The box is asked for neither: it could name an older attempt, and would be lent the right to replace it.
    """
    return Held(
        context,
        target,
        context.clouds[settings.cloud],
        _grant(settings, number),
        Noted(context, box),
        keeps=settings.keep,
    )


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest whole checkpoint of a run: the number of its attempt, and about its size, if known."""

    attempt: str
    size_bytes: int | None


def newest(context: Context, settings: CheckpointSettings) -> Newest | None:
    """The newest whole checkpoint of a run; ``None`` without one, or if the store does not answer."""
    cloud = context.clouds[settings.cloud]
    try:
        for number in sorted(attempts_in(context, settings), reverse=True):
            path = f"{settings.attempts}/{number}"
            names = context.tasks.run(partial(stores.names, cloud, settings.place, path))
            if MARKER in names:
                return Newest(str(number), _size(context, settings, path, names))
    except CloudError as error:
        context.warn(STEP, f"warning: whether there is a newer checkpoint is not known: {error.message}")
    return None


def _size(context: Context, settings: CheckpointSettings, path: str, names: Sequence[str]) -> int | None:
    """About how large the newest checkpoint of an attempt is; ``None`` if the store does not say.

    Its first one is whole, each later one holds what has changed: the larger one of the first and the last.
    """
    cloud, numbers = context.clouds[settings.cloud], sorted(map(int, filter(str.isdecimal, names)))
    folders = [f"{path}/{number}" for number in {*numbers[:1], *numbers[-1:]}]
    try:
        sizes = [
            context.tasks.run(partial(stores.measure, cloud, settings.place, folder, MOST_COUNTED))
            for folder in folders
        ]
    except CloudError as error:
        context.warn(STEP, f"warning: the size of the newest checkpoint is not known: {error.message}")
        return None
    known = [size.size_bytes for size in sizes if size.whole]
    return max(known) if known and len(known) == len(sizes) else None


def attempts_in(context: Context, settings: CheckpointSettings) -> list[int]:
    """The numbers of the attempts that the bucket has."""
    cloud = context.clouds[settings.cloud]
    known = context.tasks.run(partial(stores.names, cloud, settings.place, settings.attempts))
    return [int(name) for name in known if name.isdecimal() and len(name) < 10]


@dataclass(slots=True)
class Held:
    """A lease on a box, renewed in a thread of its own."""

    context: Context
    target: Target
    cloud: Cloud
    grant: StorageGrant
    noted: Noted
    keeps: int | None = None
    closed: threading.Event = field(default_factory=threading.Event)
    _renewed_at: float = 0.0
    _failure: tuple[int, str] | None = None
    _not_pruned: str | None = None

    def renew(self) -> StorageLease:
        """Puts a new lease on the box."""
        asked_at = time.monotonic()
        lease = stores.lend(self.cloud, self.grant)
        on_box.send_credentials(self.target, lease.reading, lease.writing)
        self._renewed_at = asked_at
        return lease

    def keep(self, look_s: float) -> None:
        """Renews the lease until it is closed: when half of it is over, and when an upload has failed."""
        while not self.closed.wait(look_s):
            try:
                self._look()
            except GpucloudError as error:  # the box, or the cloud, may answer again
                if not self.closed.is_set():
                    self.context.tell(STEP, f"the lease was not renewed: {error.message}")

    def _look(self) -> None:
        age_s = time.monotonic() - self._renewed_at
        before = self._failure
        failure = self._observe()
        failed = failure is not None and failure != before
        if failure is not None and (before is None or failure[1] != before[1]):
            self.context.warn(STEP, f"warning: a checkpoint was not uploaded: {failure[1]}")
        if age_s >= RENEWED_AFTER_S or (failed and age_s >= RENEWED_AGAIN_S):
            self.renew()
        self.prune()

    def prune(self) -> None:
        """Deletes what only superseded sets have, with the caller's own rights; a failure is told once."""
        folder = self.grant.writes
        if self.keeps is None or folder is None:
            return
        try:
            done = prune(self.cloud, self.grant.place, folder, self.keeps)
        except CloudError as error:
            if error.code != self._not_pruned:
                self._not_pruned = error.code
                self.context.warn(STEP, f"warning: superseded sets were not deleted: {error.message}")
            return
        if done.objects:
            size = f"{done.objects} objects, {done.size_bytes:,} bytes"
            self.context.tell(STEP, f"deleted what only superseded sets have: {size}")

    def look_once(self) -> None:
        """Renews the lease if half of it is over, or an upload has failed, by what the box says.

        Raises:
            CheckpointFailedError: the lease could not be written to the box.
            ConnectionFailedError: the box could not be reached.
            CloudError: the cloud refused to lend the rights.
        """
        age_s = on_box.lease_age_s(self.target)
        failure = self._observe()
        if failure is not None:
            self.context.warn(STEP, f"warning: a checkpoint was not uploaded: {failure[1]}")
        if age_s >= (RENEWED_AFTER_S if failure is None else RENEWED_AGAIN_S):
            self.renew()
        self.context.tasks.run(self.prune, PRUNE_S)

    def _observe(self, *, at_once: bool = False) -> tuple[int, str] | None:
        """Notes what the box says of its checkpoints; its last failure.

        Raises:
            ConnectionFailedError: the box could not be reached.
        """
        said = on_box.status(self.target)
        self.noted.note(said, at_once=at_once)
        self._failure = said.failure
        return said.failure

    def finish(self, url: str) -> None:
        """Uploads the last checkpoint, with a whole hour for it if the cloud answers, and stops.

        Raises:
            CheckpointFailedError: it was not uploaded.
            ConnectionFailedError: the box could not be reached.
        """
        tasks = self.context.tasks
        self.context.tell(STEP, f"uploading the last one to {url}")
        try:
            tasks.run(self.renew)
        except CloudError as error:
            self.context.warn(STEP, f"warning: the lease was not renewed: {error.message}")
        last = tasks.run(partial(on_box.upload, self.target), on_box.TRANSFER_S)
        self.context.tell(STEP, f"{last.files} files, {last.size_bytes:,} bytes in {url}")
        with suppress(GpucloudError):  # it is there, and only not told
            tasks.run(partial(self._observe, at_once=True))
        tasks.run(partial(on_box.stop, self.target))
        tasks.run(self.prune, PRUNE_S)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of a box whose command runs."""

    held: Held
    folder: str
    url: str
    number: int
    """That of its attempt in the bucket."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What the command is told."""
        return {"GPUCLOUD_CHECKPOINT_DIR": self.folder, "GPUCLOUD_CHECKPOINT_URL": self.url}

    def finish(self) -> None:
        """As :meth:`Held.finish`."""
        self.held.finish(self.url)

    def close(self) -> None:
        """Renews the lease no more; the box uploads on as long as it has one."""
        self.held.closed.set()


def _grant(settings: CheckpointSettings, attempt: int) -> StorageGrant:
    return StorageGrant(
        place=settings.place,
        reads=settings.path,
        writes=f"{settings.attempts}/{attempt}",
        name=settings.run_id[:LONGEST_NAME],
        role=settings.role,
        kms_key=settings.kms_key,
    )


def _restored(checkpoint: on_box.Checkpoint | None) -> str:
    if checkpoint is None:
        return "none yet: the command begins anew"
    size = f"{checkpoint.files} files, {checkpoint.size_bytes:,} bytes"
    return f"restored number {checkpoint.number} of attempt {checkpoint.attempt}: {size}"
