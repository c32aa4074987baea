"""The code of a run: what ``--sync`` took at its submission is what every attempt runs.

It is one archive in the folder of the state, and in the run's store where there is one. It goes when the run
is over and its boxes are gone.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

from gpucloud.bring_up.sending import send_frozen
from gpucloud.clouds import stores
from gpucloud.clouds.kit import LongerError
from gpucloud.config import make_private
from gpucloud.errors import CloudError, GpucloudError, UsageError
from gpucloud.journal.lifecycle import OVER
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import RUNS_OVER, Code
from gpucloud.runs.checkpoints import CheckpointSettings, locate
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import TimedOutError
from gpucloud.sources.archive import FOLDER, Frozen, folder_of, freeze, is_whole, path_of, refuse_large
from gpucloud.sources.selection import Selection
from gpucloud.spec.file import load_spec
from gpucloud.ssh.client import Target

FREEZE_S = 3600.0
STORE_S = 3600.0
DRAFT_AGE = timedelta(hours=1)
"""An archive that no run has belongs to one that is just begun, or to a process that died."""


class CodeNotHereError(UsageError):
    """The frozen code of a run is neither here nor in its store: another machine has it."""

    def __init__(self, run_id: str, code: Code) -> None:
        where = f"its code was frozen on {code.machine}, and is not here"
        super().__init__(
            f"run {run_id!r} cannot be restarted from here: {where}",
            hint=f"tend it on {code.machine}; with --checkpoint-to, the code of a run is in its store too",
        )


def freeze_code(
    context: Context, chosen: Sequence[Selection], kept: CheckpointSettings | None
) -> Code | None:
    """Freezes what travels, here and in the run's store; ``None`` where nothing does.

    Raises:
        UsageError: it is too large, or changes while it is read.
    """
    if not chosen:
        return None
    refuse_large(chosen)
    frozen = context.tasks.run(partial(freeze, chosen, _folder(context)), FREEZE_S)
    return Code(
        sha256=frozen.sha256,
        size_bytes=frozen.size_bytes,
        files=frozen.files,
        commit=frozen.commit,
        absolute=frozen.absolute,
        machine=socket.gethostname(),
        stored=_stored(context, frozen, kept),
    )


def _stored(context: Context, frozen: Frozen, kept: CheckpointSettings | None) -> bool:
    """Puts an archive into the run's store; a store that refuses is told, and the run goes on."""
    if kept is None:
        return False
    cloud, path = context.clouds[kept.cloud], _object(kept, frozen.sha256)
    try:
        with path_of(_folder(context), frozen.sha256).open("rb") as source:
            put = partial(stores.put_object, cloud, kept.place, path, source, kms_key=kept.kms_key)
            context.tasks.run(put, STORE_S)
    except (CloudError, TimedOutError) as error:
        text = f"the code of the run is not in its store, so that only this machine can restart it: {error}"
        context.warn("sync", f"warning: {text}")
        return False
    return True


def bring_here(context: Context, run: Run, kept: CheckpointSettings | None) -> Path | None:
    """The archive of a run's code, out of its store if it is not here; ``None`` for a run without.

    Raises:
        CodeNotHereError: it is in neither place.
    """
    code = run.work.code
    if code is None:
        return None
    file = path_of(_folder(context), code.sha256)
    if context.tasks.run(partial(is_whole, file, code.sha256), FREEZE_S):
        return file
    if kept is None or not code.stored:
        raise CodeNotHereError(run.run_id, code)
    context.tell("sync", f"copying the code of the run from {kept.url}")
    make_private(file.parent)
    draft = file.with_name(f".draft-{file.name}")
    cloud = context.clouds[kept.cloud]
    try:
        with draft.open("w+b") as target:
            get = partial(
                stores.get_object, cloud, kept.place, _object(kept, code.sha256), target, code.size_bytes
            )
            context.tasks.run(get, STORE_S)
        if not context.tasks.run(partial(is_whole, draft, code.sha256), FREEZE_S):
            raise CodeNotHereError(run.run_id, code)
        draft.replace(file)
    except (CloudError, LongerError, TimedOutError, OSError) as error:
        raise CodeNotHereError(run.run_id, code) from error
    finally:
        draft.unlink(missing_ok=True)
    return file


def deliver(context: Context, run: Run, archive: Path, box: Box, nodes: Sequence[Target]) -> None:  # noqa: ARG001
    """Puts the code of a run on the nodes of a new box.

    Raises:
        NotCopiedError: it could not be unpacked there.
        ConnectionFailedError: a node could not be reached.
    """
    assert run.work.code is not None  # noqa: S101  (it was brought here)
    for item in run.work.spec.get("sync", ()):
        context.tell("sync", str(item))
    send_frozen(context, nodes, archive, run.work.code)


def forget_code(context: Context, run: Run) -> None:
    """Deletes the code of runs that are over and whose boxes are gone; of this run in its store too.

    What fails changes nothing for the run: the next command deletes what is here.
    """
    with suppress(GpucloudError, TimedOutError):
        run = context.journal.run(run.id)
        code = run.work.code
        if code is not None and code.stored and not _is_needed(context, run):
            _delete_stored(context, run, code)
    with suppress(GpucloudError):
        prune(context)


def _delete_stored(context: Context, run: Run, code: Code) -> None:
    kept = locate(context, load_spec(None, dict(run.work.spec)), run.run_id)
    if kept is not None:
        cloud, path = context.clouds[kept.cloud], _object(kept, code.sha256)
        context.tasks.run(partial(stores.delete_object, cloud, kept.place, path))


def prune(context: Context) -> None:
    """Deletes the archives here that no run needs any more."""
    found = list(_folder(context).glob("*"))
    if not found:
        return
    needed, known = set[str](), set[str]()
    for run in context.journal.runs(owner=context.owner, over=True):
        if run.work.code is not None:
            known.add(run.work.code.sha256)
            if _is_needed(context, run):
                needed.add(run.work.code.sha256)
    for file in found:
        digest = file.name.removesuffix(".tar.gz")
        with suppress(OSError):
            age_s = context.clock().timestamp() - file.stat().st_mtime
            if digest not in needed and (digest in known or age_s > DRAFT_AGE.total_seconds()):
                file.unlink()


def _is_needed(context: Context, run: Run) -> bool:
    """Whether a run, or a box of it, may still want its code."""
    if run.state not in RUNS_OVER:
        return True
    boxes = context.journal.known(Box, {each.box for each in run.attempts if each.box is not None})
    return any(box.state not in OVER for box in boxes)


def _folder(context: Context) -> Path:
    assert context.state is not None  # noqa: S101  (who has runs has a state folder)
    return folder_of(context.state, context.owner)


def _object(kept: CheckpointSettings, sha256: str) -> str:
    return f"{kept.path}/{FOLDER}/{sha256}.tar.gz"
