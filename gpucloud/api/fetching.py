"""Files of a run that could not be copied when its command had ended: copied now, and its box ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpucloud.api.runs import Run, find_run
from gpucloud.boxes.ingress import reach
from gpucloud.boxes.kept_logs import keep_logs
from gpucloud.costs.spend import per_hour
from gpucloud.errors import UsageError
from gpucloud.inventory.holding import holding
from gpucloud.journal.events import RunEnded
from gpucloud.journal.lifecycle import OVER
from gpucloud.journal.runs import RUNS_OVER, RunState
from gpucloud.runs.code import forget_code
from gpucloud.runs.detached import working_nodes
from gpucloud.runs.results import NotFetchedError, Results
from gpucloud.runs.tend import end_boxes
from gpucloud.runtime.context import Context
from gpucloud.ssh.files import make_target
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.api.client import Client


def fetch_run(client: Client, context: Context, run_id: str, files: Sequence[tuple[str, str]]) -> Run:
    """See :meth:`gpucloud.Client.fetch_run`."""
    run = find_run(client, run_id)
    if run.state is not RunState.FETCHING:
        state = "is over" if run.state in RUNS_OVER else "has not ended"
        hint = f"see its state: gpucloud runs show {run_id}"
        raise UsageError(f"no files of run {run_id!r} are waiting: its command {state}", hint=hint)
    for _, here in files or run.work.fetch:
        make_target(here)
    assert run.box is not None  # noqa: S101  (its command has run there)
    assert run.exit_code is not None  # noqa: S101
    taken = context.take_run(run)
    if taken is None:
        raise UsageError(f"another process works on run {run_id!r}", hint="try again when it has ended")
    try:
        box = context.journal.box(run.box)
        if box.state in OVER:
            gone = f"box {box.name!r} of run {run_id!r} is gone, with its files"
            raise NotFetchedError(gone, box=box, command_code=run.exit_code)
        with holding(context, box) as held:
            nodes = working_nodes(context, held, run.work)
            reach(context, held, nodes[0])
            results = Results(context=context, run_id=run_id, box=held, nodes=nodes, code=run.exit_code)
            results.fetch(files or run.work.fetch, try_for_s=0)
            keep_logs(context, nodes)
        context.journal.write(taken, RunEnded(state=RunState.ENDED, exit_code=run.exit_code))
        end_boxes(context, [context.journal.box(run.box)])
        forget_code(context, run)
    except NotFetchedError as error:
        raise priced(error, client) from error.__cause__
    finally:
        context.journal.release(taken)
    return Run.read(context.journal.run(run.id), client, context.clock())


def priced(error: NotFetchedError, client: Client) -> NotFetchedError:
    """The failure, with what its box costs meanwhile."""
    total = per_hour(error.box, client.billing_of).total
    if total is not None and error.box.state not in OVER:
        error.message = f"{error.message}, for {format_money(total.amount, total.currency)} per hour"
    return error
