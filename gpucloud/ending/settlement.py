"""One pass over a box's resources: resolves what is open, deletes what is not wanted.

A pass looks at everything that the journal holds of a box, asks
:func:`gpucloud.journal.lifecycle.reconcile` what to do about it, and does it. Deletions are idempotent and
every observation is written, so that a pass may be cut off anywhere and repeated by another process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gpucloud.clouds.audit import about
from gpucloud.clouds.cloud import Cloud
from gpucloud.ending.deletion import delete_what_is_free
from gpucloud.ending.resolution import note_unknown, resolve_intents, resolve_makings
from gpucloud.errors import CloudError, ErrorClass, GpucloudError
from gpucloud.journal.errors import JournalError, StaleWriterError
from gpucloud.journal.records import Holding, Intent, ResourceRow
from gpucloud.resources import Ref, Search
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import CALL_TIMEOUT_S, TimedOutError


def settle_box(
    context: Context, holding: Holding, chosen: Callable[[Ref], bool] | None = None
) -> GpucloudError | None:
    """One pass over everything that a box still has, or over the chosen resources.

    Returns:
        The last trouble that was met, if any.
    """
    with about(box=holding.id):
        return _settle(context, holding, chosen)


def _settle(context: Context, holding: Holding, chosen: Callable[[Ref], bool] | None) -> GpucloudError | None:
    trouble: GpucloudError | None = None
    rows = [row for row in context.journal.resources(holding.id) if chosen is None or chosen(row.ref)]
    intents = context.journal.intents(holding.id, unresolved=True) if chosen is None else []
    places = {(i.cloud, i.account, i.region) for i in intents}
    places |= {(r.ref.cloud, r.ref.account, r.ref.region) for r in rows}
    for number, place in enumerate(sorted(places)):
        try:  # a region that does not answer holds up no other
            with context.tasks.within(context.tasks.left_s / (len(places) - number)):
                trouble = _settle_place(context, holding, place, rows, intents, chosen=chosen) or trouble
        except (JournalError, StaleWriterError):
            raise  # the journal cannot be written: another try is useless
        except TimedOutError as error:
            trouble = GpucloudError(f"{place[0]} {place[2]}: {error}")
        except GpucloudError as error:
            trouble = error
    return trouble


def _settle_place(
    context: Context,
    holding: Holding,
    place: tuple[str, str, str],
    rows: Sequence[ResourceRow],
    intents: Sequence[Intent],
    *,
    chosen: Callable[[Ref], bool] | None,
) -> GpucloudError | None:
    """The pass over a box's resources in one cloud, account and region."""
    cloud_name, account, region = place
    cloud = same_account(context, cloud_name, account)
    mine = [row for row in rows if (row.ref.cloud, row.ref.region) == (cloud_name, region)]
    open_here = [i for i in intents if (i.cloud, i.region) == (cloud_name, region)]
    if open_here or any(row.state == "making" for row in mine):
        search = Search(box=holding.id, regions=(region,))
        found = context.tasks.run(partial(cloud.find, search), CALL_TIMEOUT_S)
        resolve_intents(context, holding, cloud, open_here, found)
        resolve_makings(context, holding, mine, found)
        mine = [
            row
            for row in context.journal.resources(holding.id)
            if (row.ref.cloud, row.ref.region) == (cloud_name, region) and (chosen is None or chosen(row.ref))
        ]
    refused = delete_what_is_free(context, holding, cloud, mine)
    if refused is not None and chosen is None:
        note_unknown(context, cloud, holding, region)
    return refused


def same_account(context: Context, name: str, account: str) -> Cloud:
    """The cloud of a box, if the credentials are for the account of the box.

    Raises:
        CloudError: they are for another one, in which nothing of the box would be found.
    """
    cloud = context.clouds.usable(name)
    now = context.tasks.run(cloud.account, CALL_TIMEOUT_S)
    if now != account:
        raise CloudError(
            f"{name}: the box belongs to account {account}, but the credentials are for {now}",
            error_class=ErrorClass.AUTH,
            cloud=name,
            hint=f"use the credentials of account {account}",
        )
    return cloud
