"""Fetches the results of a command from the store, also when its box is gone."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from secrets import token_hex

from gpucloud.clouds import stores
from gpucloud.clouds.kit import LongerError
from gpucloud.errors import CloudError, ErrorClass, InterruptedBySignal, UsageError
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import Exited, Failure, Work
from gpucloud.runs.checkpoints import CheckpointSettings, attempts_in, folder_name, locate
from gpucloud.runs.exit_record import (
    ENDED,
    MOST_BYTES,
    MOST_FILES,
    RESULTS,
    DamagedRecordError,
    ExitRecord,
    StoredFile,
    StoredResult,
    missing_from,
    placed,
    read_record,
    selected,
)
from gpucloud.runs.record import MOST_OF_MESSAGE
from gpucloud.runs.results import NotFetchedError
from gpucloud.runs.rules import timed_out
from gpucloud.runs.saved import STEP
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import TimedOutError
from gpucloud.spec.file import load_spec
from gpucloud.spec.model import Spec
from gpucloud.ssh.files import LinksLeftOut, NotCopiedError, NotThereError

LIST_S = 600.0
COPY_S = 1e8
AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Stored:
    """The results of an attempt in the store, by the record of the end of its command."""

    context: Context
    settings: CheckpointSettings
    record: ExitRecord

    @property
    def folder(self) -> str:
        """The folder of the attempt in the container."""
        return f"{self.settings.attempts}/{self.record.attempt}"

    def how(self, work: Work) -> Exited:
        """How the command of a run ended."""
        if self.record.timed_out and work.timeout_s is not None:
            return timed_out(work.timeout_s)
        return Exited(self.record.exit_code)

    @property
    def paths(self) -> Sequence[str]:
        """The paths that were to be brought home."""
        return list(dict.fromkeys(each.asked for each in self.record.results))

    @property
    def url(self) -> str:
        """Where the results are, for people."""
        return f"{self.settings.url}/attempts/{self.record.attempt}/{RESULTS}"

    def fetch(self, files: Sequence[tuple[str, str]], box: Box, *, within_s: float = COPY_S) -> list[str]:
        """Copies files of a run to this machine.

        Args:
            files: (path on the box, path here).
            box: the box of the command, which is gone.
            within_s: how long that may take.

        Returns:
            What the store does not have either, in words.

        Raises:
            NotFetchedError: some could not be copied now; the store has them.
        """
        lost: list[str] = []
        try:
            with self.context.tasks.within(within_s):
                for source, here in files:
                    try:
                        self.bring(source, here)
                    except NotThereError as error:
                        lost.append(f"{source!r} was not fetched: {error.message}")
        except (NotCopiedError, TimedOutError, InterruptedBySignal) as error:
            raise self.not_fetched(str(error), box) from error
        return lost

    def not_fetched(self, why: str, box: Box) -> NotFetchedError:
        """The failure of results that are not here, and wait in the store."""
        code = self.record.exit_code
        return NotFetchedError(
            f"the command ended with exit code {code}; {why}; its results are in {self.url}",
            box=box,
            command_code=code,
            hint=f"fetch them from there: gpucloud runs fetch {self.settings.run_id}",
        )

    def is_all_there(self) -> bool:
        """Whether the store shows all that the command wrote, in its sizes.

        Raises:
            CloudError: the store did not answer.
        """
        if not self.record.is_all:
            return False
        return not self.record.objects or not self._missing()

    def _missing(self) -> Sequence[str]:
        cloud, folder = self.context.clouds[self.settings.cloud], self.folder
        call = partial(stores.objects, cloud, self.settings.place, f"{folder}/{RESULTS}", MOST_FILES)
        found = self.context.tasks.run(call, LIST_S)
        there = {each.path.removeprefix(f"{folder}/"): each.size_bytes for each in found}
        return missing_from(self.record, there)

    def bring(self, source: str, here: str) -> None:
        """Copies what a path of the box means to this machine. What is here already is not copied again.

        Raises:
            NotThereError: the store has nothing of that path, or other things than its box has recorded.
            NotCopiedError: it cannot be read or written.
            InterruptedBySignal: a signal came.
        """
        found = selected(self.record, source)
        if not found:
            raise NotThereError(f"there is no {source!r} in {self.url}")
        self.context.tell("fetch", f"{source} from {self.url}")
        is_folder = here.endswith(("/", "/.")) or Path(here).is_dir() or len(found) > 1
        try:
            for result in found:
                self._bring(result, Path(placed(result, source, here, is_folder=is_folder)))
        except (LongerError, DamagedRecordError) as error:
            raise NotThereError(f"{self.url} is damaged: {error.message}") from error
        except CloudError as error:
            missing = error.error_class is ErrorClass.NOT_FOUND
            raise (NotThereError if missing else NotCopiedError)(f"{source!r}: {error.message}") from error
        except OSError as error:
            raise NotCopiedError(f"{error.filename or here}: {error.strerror}") from error
        left_out = LinksLeftOut()
        for name, target in (link for result in found for link in result.outside.items()):
            left_out.add(name, target)
        if left_out.text:
            self.context.warn("fetch", f"warning: {source!r}: {left_out.text}")

    def _bring(self, result: StoredResult, at: Path) -> None:
        if not result.is_folder:
            self._copy([(result.files[0], at)])
            return
        at.mkdir(parents=True, exist_ok=True)
        self._copy([(file, at / file.name) for file in result.files], below=at)
        for name, target in result.links.items():
            _make_folders(at, name)
            _make_link(at / name, target)

    def _copy(self, files: Sequence[tuple[StoredFile, Path]], below: Path | None = None) -> None:
        """Copies files, some at the same time."""
        left = [each for each in files if not _is_here(*each)]
        for first in range(0, len(left), AT_ONCE):
            some = left[first : first + AT_ONCE]
            for file, path in some:
                if below is None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                else:
                    _make_folders(below, file.name)
            calls = [partial(self._copy_one, file, path) for file, path in some]
            for call in self.context.tasks.run_all(calls, COPY_S):
                if not call.done:
                    raise TimedOutError("there is too much for one look")
                call.value()

    def _copy_one(self, file: StoredFile, path: Path) -> None:
        """Copies a file all at once: a reader finds the old one or the whole new one."""
        cloud, draft = self.context.clouds[self.settings.cloud], path.parent / f".gpucloud-{token_hex(8)}"
        try:
            with draft.open("xb") as target:
                stores.get_object(
                    cloud, self.settings.place, f"{self.folder}/{file.object}", target, file.size_bytes
                )
                size = target.tell()
            if size != file.size_bytes:
                raise DamagedRecordError(f"{file.name!r} has {size:,} bytes, not {file.size_bytes:,}")
            os.utime(draft, ns=(file.changed_ns, file.changed_ns))
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def _is_here(file: StoredFile, path: Path) -> bool:
    """Whether a file was copied before."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (file.size_bytes, file.changed_ns)


def _make_folders(below: Path, name: str) -> None:
    """Makes the folders of a path inside of another one, and passes through no link.

    Raises:
        OSError: one is a link, or no folder.
    """
    at = below
    for part in PurePosixPath(name).parent.parts:
        at /= part
        if at.is_symlink():
            raise OSError(errno.ELOOP, "it is a link", str(at))
        at.mkdir(exist_ok=True)


def _make_link(at: Path, target: str) -> None:
    """Makes a link, in place of an older one."""
    if at.is_symlink():
        at.unlink()
    at.symlink_to(target)


def stored_of(context: Context, run: Run, box: Box) -> Stored | None:
    """What the store has of the end of a run's command on a box; ``None`` without a record of it.

    The record is of the first node: it says nothing of a command that others run as well.

    Raises:
        UsageError: the bucket cannot be used any more.
        CloudError: the store did not answer.
    """
    if box.checkpoints is None or (len(box.nodes) > 1 and not run.work.first_node_only):
        return None
    settings = locate(context, load_spec(None, dict(run.work.spec)), run.run_id)
    record = None if settings is None else find_record(context, settings, box.checkpoints)
    return None if settings is None or record is None else Stored(context, settings, record)


def newest_stored(context: Context, run: Run) -> Stored | None:
    """What the store has of the newest attempt of a run whose command has ended; ``None`` without one.

    Raises:
        UsageError: the bucket cannot be used any more.
        CloudError: the store did not answer.
    """
    ids = [each.box for each in reversed(run.attempts) if each.box is not None]
    boxes = {box.id: box for box in context.journal.known(Box, set(ids))}
    found = (stored_of(context, run, boxes[each]) for each in ids if each in boxes)
    return next((stored for stored in found if stored is not None), None)


def with_lost(how: Exited, lost: Sequence[str]) -> Exited:
    """How a command ended; a failure if it succeeded, and results of it are lost."""
    if not lost or how.code:
        return how
    text = "; ".join((f"the command ended with exit code {how.code}", *lost))[:MOST_OF_MESSAGE]
    return Exited(how.code, Failure(error_class=NotFetchedError.error_class, message=text))


def find_record(context: Context, settings: CheckpointSettings, attempt: int) -> ExitRecord | None:
    """The record of the end of an attempt's command; ``None`` without one that can be believed.

    Raises:
        CloudError: the store did not answer.
    """
    cloud = context.clouds[settings.cloud]
    path = f"{settings.attempts}/{attempt}/{ENDED}"
    try:
        text = context.tasks.run(partial(stores.read_object, cloud, settings.place, path, MOST_BYTES))
        return None if text is None else read_record(text, folder_name(settings.run_id), attempt)
    except (LongerError, DamagedRecordError) as error:
        context.warn(STEP, f"warning: {ENDED} of attempt {attempt} in {settings.url}: {error.message}")
        return None


def stored_at(context: Context, url: str, run_id: str) -> Stored:
    """What a folder of a store has of a run that no journal of this machine knows: of its newest attempt.

    Raises:
        UsageError: there is no such bucket, or nothing of a command of that run that has ended.
        CloudError: the store did not answer.
    """
    settings = locate(context, Spec(checkpoint_to=url), run_id)
    assert settings is not None  # noqa: S101  (it has an address)
    for attempt in sorted(attempts_in(context, settings), reverse=True):
        record = find_record(context, settings, attempt)
        if record is not None:
            return Stored(context, settings, record)
    hint = f"it is stored when the command of a run has ended; see what is there: {settings.url}"
    raise UsageError(f"there are no results of run {run_id!r} in {url}", hint=hint)
