"""Repeats the set-up of a box that was kept after its set-up failed, or of one that is ready."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from gpucloud.boxes.failed_box import SETUP_FAILURES, failure_facts, setup_failed
from gpucloud.boxes.look import holding
from gpucloud.bring_up.bring_up import bring_up, hand_over, targets
from gpucloud.bring_up.datasets import bring
from gpucloud.bring_up.ingress import reach
from gpucloud.bring_up.sending import send_frozen
from gpucloud.bring_up.setup import copy_files, end_setup, set_up
from gpucloud.errors import UsageError
from gpucloud.journal.events import Seen
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.journal.runs import Code
from gpucloud.planning.data_sets import located
from gpucloud.runtime.context import Context
from gpucloud.sources.archive import folder_of, path_of
from gpucloud.spec.file import load_spec
from gpucloud.spec.model import Spec
from gpucloud.ssh.boot import boot_again
from gpucloud.ssh.environment import LOAD
from gpucloud.ssh.job import script_of, start
from gpucloud.ssh.keys import key_folder

UNFINISHED = "the setup was repeated, and has not ended"
"""What the journal says of a box while its set-up is repeated, and after a command that died meanwhile."""


def repeat_setup(context: Context, box: Box) -> Box:
    """Runs every step of a box's set-up again, as its launch did, and makes the box ready.

    The files of ``sync`` are copied, and the command of ``run`` is started, only if the box was not ready.
    The variables are those of the launch, which are on the box.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box.

    Returns:
        The box in state ``ready``.

    Raises:
        SetupFailedError: a step failed again; the box stays as it is until its deadline.
        UsageError: there is no set-up to repeat, or another process holds the box; nothing was changed.
        ConnectionFailedError: a node cannot be reached.
        BoxLostError: the box ended meanwhile.
    """
    context = context.about(box.name)
    assert context.state is not None  # noqa: S101  (the keys are there)
    spec = _spec_of(context, box)
    with holding(context, box) as seen:
        _spec_of(context, seen)
        for node in targets(seen, key_folder(context.state, seen.id), context.proxy_command):
            reach(context, seen, node)
        context.journal.write(seen, Seen(facts=Facts(setup_error=UNFINISHED)))
        try:
            return _set_up_again(context, seen, spec, key_folder(context.state, seen.id))
        except SETUP_FAILURES as error:
            context.journal.write(seen, Seen(facts=failure_facts(error)))
            raise setup_failed(context, context.journal.held(seen), error) from error


def _set_up_again(context: Context, box: Box, spec: Spec, keys: Path) -> Box:
    nodes, was_ready = targets(box, keys, context.proxy_command), not box.setup_error
    context.tell("setup", "repeating the steps of the first boot")
    for node in nodes:
        context.tasks.run(partial(boot_again, node, box.boot.steps))
    measured = bring_up(context, box, keys)
    end_setup(context, nodes)
    code = _code_of(context, box)
    if code is not None and not was_ready:
        send_frozen(context, nodes, _archive_of(context, code), code)
    else:
        copy_files(context, nodes, spec.replaced(sync=()) if was_ready else spec)
    bring(context, nodes, located(context, spec))
    set_up(context, box, nodes, spec.setup)
    ready = hand_over(context, box, keys, Facts(measured=measured, setup_error=""))
    if spec.run and not was_ready:
        context.tell("job", spec.run.splitlines()[0])
        context.tasks.run(partial(start, nodes[0], script_of(f"{LOAD}\n{spec.run}", {})))
    return ready


def _spec_of(context: Context, box: Box) -> Spec:
    """The spec of a box whose set-up can be repeated.

    Raises:
        UsageError: it cannot.
    """
    over = box.expires_at is not None and box.expires_at < context.clock()
    if box.state is not BoxState.READY or over:
        state = "past its end" if box.state is BoxState.READY else str(box.state)
        raise UsageError(
            f"the setup of {box.name!r} cannot be repeated: its state is {state}",
            hint=f"see its state: gpucloud show {box.name} --live",
        )
    if box.recovered:
        raise UsageError(
            f"{box.name!r} was recovered by its tags, which do not hold its setup",
            hint=f"run the commands yourself: gpucloud ssh {box.name}",
        )
    spec = load_spec(None, dict(box.wanted.spec))
    if (code := _code_of(context, box)) is not None and box.setup_error:
        _archive_of(context, code)
        return spec
    missing = [local for item in spec.sync if not Path(local := item.partition(":")[0]).exists()]
    if missing and box.setup_error:
        raise UsageError(
            f"--sync: {missing[0]} does not exist here", hint="repeat the setup in the folder of the launch"
        )
    return spec


def _code_of(context: Context, box: Box) -> Code | None:
    """The frozen code of the run that a box is an attempt of."""
    runs = context.journal.runs_named(box.owner, box.run_id) if box.run_id is not None else []
    return next((run.work.code for run in runs if box.id in {each.box for each in run.attempts}), None)


def _archive_of(context: Context, code: Code) -> Path:
    """The archive of a run's code.

    Raises:
        UsageError: it is not here.
    """
    assert context.state is not None  # noqa: S101  (the keys are there)
    file = path_of(folder_of(context.state, context.owner), code.sha256)
    if not file.exists():
        raise UsageError(
            f"the code of the run was frozen on {code.machine}, and is not here",
            hint=f"repeat the setup on {code.machine}",
        )
    return file
