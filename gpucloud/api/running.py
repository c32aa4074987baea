"""A run as one call: settle, buy, run the command, delete the box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpucloud.api.box import Box
from gpucloud.api.launching import Buyer
from gpucloud.api.results import Ran
from gpucloud.api.several import refuse_several
from gpucloud.boxes.provision import Wanted, environment_of, refuse_impossible
from gpucloud.errors import UsageError
from gpucloud.runs.run import RUN_TTL, Attendant, Orders, refuse_live
from gpucloud.runtime.context import Context
from gpucloud.spec.model import Spec
from gpucloud.ssh.keys import find_program

if TYPE_CHECKING:
    from gpucloud.api.client import Client


def refuse_unrunnable(command: Sequence[str] | str, fetch: Sequence[tuple[str, str]]) -> None:
    """Refuses a run that cannot work, before anything is asked or bought.

    Raises:
        UsageError: there is no command, or a program that copies its files is not installed.
    """
    if not command:
        raise UsageError("specify a command, after --", hint="gpucloud run --gpu T4 -- nvidia-smi")
    if fetch:
        find_program("rsync")


def wanted_of_run(
    spec: Spec,
    variables: Mapping[str, str],
    run_id: str,
    *,
    accept_snapshot_price: bool,
    keep_on_failure: bool = False,
) -> Wanted:
    """The box of a run: it belongs to this process, and has a deadline all the same.

    Args:
        spec: the spec of the user.
        variables: values of the variables that the spec names.
        run_id: the id of the run, which the box has as a tag.
        accept_snapshot_price: whether the shipped price may be used if a cloud returns none today.
        keep_on_failure: whether the box is kept if its set-up fails.

    Raises:
        UsageError: the spec cannot work, or names a variable that is not set.
    """
    refuse_several(spec, "launch --count")
    spec = spec if spec.ttl is not None else spec.replaced(ttl=RUN_TTL)
    environment = environment_of(spec, variables)
    refuse_impossible(spec)
    return Wanted(
        spec=spec,
        environment=environment,
        run_id=run_id,
        attended=True,
        accept_snapshot_price=accept_snapshot_price,
        keep_on_failure=keep_on_failure,
    )


def run(client: Client, context: Context, wanted: Wanted, orders: Orders, *, alone: bool) -> Ran:
    """See :meth:`gpucloud.Client.run`."""
    assert wanted.run_id is not None  # noqa: S101  (a run has one)
    context.tasks.clean_up = f"gpucloud down --run-id {wanted.run_id} --yes"
    buyer = Buyer(context, client.catalog, wanted)
    buyer.settle_first()
    if alone:
        refuse_live(context, wanted.run_id)
    context.notice("run", f"Run {wanted.run_id}; from anywhere: {context.tasks.clean_up}")
    attendant = Attendant(context, orders, buyer.buy)
    code = attendant.run()
    assert attendant.box is not None  # noqa: S101  (its command has ended)
    box = Box.read(context.journal.box(attendant.box.id), client, context.clock())
    return Ran(exit_code=code, box=box, not_fetched=tuple(attendant.not_fetched))
