"""Reads one resource by id, or all with gpucloud's tags, in their present state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from gpucloud.clouds.kit import Prefetch
from gpucloud.errors import ErrorClass, UsageError
from gpucloud.resources import (
    MARKS,
    TAG_PREFIX,
    Machine,
    Ref,
    Resource,
    ResourceKind,
    Search,
    SearchResult,
    State,
    UnreadableRegion,
)
from gpucloud_alibaba.clients import Clients, listed
from gpucloud_alibaba.describe import CLOUD, SHELVES, ListFilter, Look, RegionAccess, moment, ref_of
from gpucloud_alibaba.errors import (
    DRY_RUN_PASSED,
    GoneError,
    MalformedAnswerError,
    UnprovenError,
    classify,
    code_of,
    named,
    reading,
)
from gpucloud_alibaba.models import ecs_models
from gpucloud_pricing.purchases import Purchase

TOKEN_TAG = f"{TAG_PREFIX}key"
"""The tag with the create call's ClientToken: the API has no filter by the token itself."""

THREADS = 96  # one call for each region, kind and tag that marks: some 600 calls
READ_ATTEMPTS = 3
PAGES = 1000  # more is not an account, it is a broken or hostile endpoint

VANISHED = "SystemFailure.Delete"
"""The event of an instance that was accepted and then removed for lack of stock."""
INTERRUPTED = "InstanceExpiration.Delete"
"""The event of a spot instance that was interrupted. UNVERIFIED: no page names the event in the history."""


def _read(look: Look, place: RegionAccess, asked: ListFilter) -> Iterator[Resource]:
    token: str | None = None
    for _ in range(PAGES):
        with reading("a list call"):
            shown, token = look(place, asked, token)
        yield from shown
        if not token:
            return
    raise MalformedAnswerError(f"{place.region} gave {PAGES} pages and still more")


# --- proof of the read permission


class Proof:
    """Proves in which regions the caller may read, so that an empty list is conclusive.

    ``DescribeInstances`` returns an empty list, not an error, to a RAM user who may not read (SDK's
    reference).
    """

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._proven: set[str] = set()

    def demand(self, region: str) -> None:
        """Checks that the caller may read a region; called once per region.

        Raises:
            UnprovenError: the cloud did not confirm it.
        """
        if region in self._proven:
            return
        models = ecs_models()

        try:
            self._clients.ecs(region).describe_instances(
                models.DescribeInstancesRequest(region_id=region, dry_run=True)
            )
        except Exception as error:
            if code_of(error) not in DRY_RUN_PASSED:
                raise
            self._proven.add(region)
            return
        raise UnprovenError(f"{region} did not say whether instances may be listed")


# --- one resource


def get(ref: Ref, clients: Clients, proof: Proof) -> Resource:
    """One resource by its id; a running machine with its disks.

    Raises:
        GoneError: the id does not exist, and the caller may read.
        UsageError: Alibaba Cloud has no such kind.
    """
    place = RegionAccess(clients=clients, account=ref.account, region=ref.region)
    disks = Prefetch(lambda: _disks_of(ref, clients))
    for resource in _read(_look_for(ref), place, ListFilter(tags={}, id=ref.id)):
        if resource.ref.id == ref.id:
            if isinstance(resource, Machine) and resource.state is State.RUNNING:
                return replace(resource, parts=(*disks.result(), *resource.parts))
            return resource
    ended = Prefetch(lambda: _ended(ref, clients) if ref.kind is ResourceKind.INSTANCE else None)
    proof.demand(ref.region)
    machine = ended.result()
    if machine is not None:
        return machine
    raise GoneError(f"Alibaba Cloud shows no {ref.kind} {ref.id} in {ref.region}")


def _look_for(ref: Ref) -> Look:
    for kind, prefix, look in SHELVES:
        if kind is ref.kind and ref.id.startswith(prefix):
            return look
    raise UsageError(f"Alibaba Cloud has no resources of kind {ref.kind} with an id like {ref.id}")


def _disks_of(ref: Ref, clients: Clients) -> Sequence[Ref]:
    """The disks of an instance that go with it; empty for any other kind."""
    if ref.kind is not ResourceKind.INSTANCE:
        return ()
    models = ecs_models()

    asked = models.DescribeDisksRequest(region_id=ref.region, instance_id=ref.id)
    body = clients.ecs(ref.region).describe_disks(asked).body
    with reading("DescribeDisks"):
        return [
            ref_of(ref.account, ref.region, ResourceKind.DISK, named(disk.disk_id))
            for disk in listed(body.disks.disk)
            if disk.delete_with_instance is not False  # a volume outlives it
        ]


def _ended(ref: Ref, clients: Clients) -> Machine | None:
    """An instance that the cloud itself removed, by its history; ``None`` for any other.

    Completed events are kept for 30 days (API reference, ``DescribeInstanceHistoryEvents``, read 2026-11-23).
    UNVERIFIED: that ``EventFinishTime`` of such an event is when billing ended, and that a spot interruption
    is in the history as :data:`INTERRUPTED`.
    """
    models = ecs_models()

    asked = models.DescribeInstanceHistoryEventsRequest(
        region_id=ref.region,
        instance_id=ref.id,
        instance_event_type=[VANISHED, INTERRUPTED],
        instance_event_cycle_status=["Scheduled", "Executing", "Executed"],
    )
    body = clients.ecs(ref.region).describe_instance_history_events(asked).body
    with reading("DescribeInstanceHistoryEvents"):
        events = listed(body.instance_system_event_set.instance_system_event_type)
        for event in events:
            if event.instance_id == ref.id and event.event_type.name in {VANISHED, INTERRUPTED}:
                return Machine(
                    ref=ref,
                    state=State.GONE,
                    tags=None,
                    zone="",
                    instance_type="",
                    purchase=Purchase.ON_DEMAND,
                    reason=event.event_type.name,
                    preempted=event.event_type.name == INTERRUPTED,
                    billed=False,
                    ended_at=moment(event.event_finish_time),
                )
    return None


# --- all resources


def tags_for(search: Search) -> list[dict[str, str | None]]:
    """The tags that are asked for, per list: the tags of one list must all be there.

    A search without tags asks for any resource of gpucloud, by each of the tags that mark one.
    """
    tags: dict[str, str | None] = {f"{TAG_PREFIX}{name}": value for name, value in search.asked.items()}
    if search.token:
        tags[TOKEN_TAG] = search.token
    return [tags] if tags else [{f"{TAG_PREFIX}{name}": None} for name in MARKS]


def find(
    search: Search, places: Sequence[RegionAccess], proof: Proof, sleep: Callable[[float], None]
) -> SearchResult:
    """All matching resources in these places; the cloud does not list deleted ones.

    A region without instances counts as read only once it is proven that they may be listed. With a token,
    only instances are searched: other resources do not have it.

    Args:
        search: the resources to search for.
        places: the places.
        proof: the proof of the read permission.
        sleep: waits some seconds.
    """
    from multiprocessing.pool import ThreadPool  # its threads are daemons: they never hold up an exit

    asked = [ListFilter(tags=tags) for tags in tags_for(search)]
    narrow = search.token or search.machines_only
    shelves = [(kind, look) for kind, _, look in SHELVES if kind is ResourceKind.INSTANCE or not narrow]

    def once(place: RegionAccess, kind: ResourceKind, look: Look, tags: ListFilter) -> list[Resource]:
        decisive = kind is ResourceKind.INSTANCE and tags is asked[0]  # one proof is enough for a region
        proven = Prefetch(partial(proof.demand, place.region)) if decisive else None
        resources = list(_read(look, place, tags))
        if proven is not None and not resources:
            proven.result()
        return [resource for resource in resources if search.admits(resource.tags)]

    def patiently(
        where: tuple[RegionAccess, tuple[ResourceKind, Look], ListFilter],
    ) -> list[Resource] | UnreadableRegion:
        place, (kind, look), tags = where
        attempt = 0
        while True:
            try:
                return once(place, kind, look, tags)
            except Exception as error:
                verdict = classify(error)
                if verdict is None:
                    raise
                attempt += 1
                if verdict.error_class is not ErrorClass.SERVER or attempt == READ_ATTEMPTS:
                    said = f"{verdict.code}: {verdict.message}"
                    return UnreadableRegion(cloud=CLOUD, region=place.region, error=said)
                sleep(0.1 * 2**attempt)

    if not places:
        return SearchResult(resources=())
    questions = list(product(places, shelves, asked))
    with ThreadPool(min(THREADS, len(questions))) as pool:
        seen = pool.map(patiently, questions, chunksize=1)
    unread = {answer.region: answer for answer in seen if isinstance(answer, UnreadableRegion)}
    listed = (resource for answer in seen if isinstance(answer, list) for resource in answer)
    return SearchResult(
        resources=tuple({resource.ref: resource for resource in listed}.values()),  # some have both tags
        unread=tuple(unread.values()),
    )
