"""Deletes a box while the journal cannot be written: above all on a full disk."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gpucloud.clouds.cloud import Cloud
from gpucloud.ending.deletion import ask_to_delete, is_held
from gpucloud.ending.pending import pending_refs
from gpucloud.ending.settlement import same_account
from gpucloud.ending.teardown import until_gone
from gpucloud.errors import GpucloudError
from gpucloud.journal.lifecycle import PendingDeletion
from gpucloud.journal.records import Holding
from gpucloud.resources import Ref, Resource, ResourceKind, Search, State
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import CALL_TIMEOUT_S, TimedOutError


def end_unrecorded(context: Context, holding: Holding, *, budget_s: float) -> None:
    """Deletes everything that carries a box's tag while the journal cannot be written.

    Nothing is journalled. A later command finds that the resources are gone.

    Raises:
        CleanupIncompleteError: something may still be billed.
        JournalError: not even where the box is can be read.
    """
    intents = context.journal.intents(holding.id)
    places = sorted({(intent.cloud, intent.account, intent.region) for intent in intents})
    # A call with an unknown outcome may have created what lists do not show yet.
    still_open = {(each.cloud, each.account, each.region) for each in intents if each.status == "open"}

    def end() -> tuple[list[PendingDeletion], GpucloudError | None]:
        left: list[PendingDeletion] = []
        trouble: GpucloudError | None = None
        for number, place in enumerate(places):
            with context.tasks.within(context.tasks.left_s / (len(places) - number)):
                found, failed = _end_in(context, holding, place)
            if found:
                still_open.discard(place)
            trouble = failed or trouble
            if found != [] or place in still_open:
                left += _owed_in(holding, place, found)
        return left, trouble

    with context.tasks.within(budget_s):
        until_gone(context, holding, end)


def _owed_in(
    holding: Holding, place: tuple[str, str, str], left: Sequence[Resource] | None
) -> list[PendingDeletion]:
    """What may still be billed in a region that the journal does not mention."""
    cloud, account, region = place
    unknown = Ref(cloud=cloud, account=account, region=region, kind=ResourceKind.INSTANCE, id="")
    return pending_refs(holding, [resource.ref for resource in left or ()] or [unknown])


def _end_in(
    context: Context, holding: Holding, place: tuple[str, str, str]
) -> tuple[list[Resource] | None, GpucloudError | None]:
    """Requests the deletion of what is found of a box; returns what may still be billed, or an error."""
    name, account, region = place
    try:
        cloud = same_account(context, name, account)
        return _end_found(context, cloud, Search(box=holding.id, regions=(region,))), None
    except TimedOutError as error:
        return None, GpucloudError(f"{name} {region}: {error}")
    except GpucloudError as error:
        return None, error


def _end_found(context: Context, cloud: Cloud, search: Search) -> list[Resource]:
    """Requests the deletion of what is found; returns what may still be billed of it."""
    found = context.tasks.run(partial(cloud.find, search), CALL_TIMEOUT_S)
    if found.unread:
        raise GpucloudError(f"{cloud.name} {found.unread[0].region}: {found.unread[0].error}")
    living = [resource for resource in found.resources if resource.state is not State.GONE]
    refs = [resource.ref for resource in living]
    ask_to_delete(context, cloud, [ref for ref in refs if not is_held(cloud.deletion, ref, refs, refs)])
    return [resource for resource in living if resource.ref.kind.billable]
