"""Alibaba Cloud behind gpucloud's provider interface. Each method is in the module of its name."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from gpucloud.clouds.abilities import CommitmentInquiry, Inquiry, Traits
from gpucloud.clouds.kit import Prefetch, bid, checked, first_of, refuse_foreign
from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import CallObserver, DeletionGraph, Record, Verdict
from gpucloud.resources import (
    Bounds,
    CloudPolicy,
    CloudRole,
    End,
    HeldCapacity,
    Identity,
    Machine,
    Order,
    Permission,
    Quota,
    Quote,
    Ref,
    Request,
    Resource,
    Search,
    SearchResult,
    SnapshotOrder,
    VolumeOrder,
)
from gpucloud_alibaba import (
    checkup,
    create,
    delete,
    errors,
    extend,
    find,
    images,
    network,
    own_images,
    placement,
    power,
    prices,
    privileges,
    quotas,
    storage,
    volumes,
    zones,
)
from gpucloud_alibaba.clients import Clients
from gpucloud_alibaba.describe import CLOUD, Place
from gpucloud_alibaba.errors import MalformedAnswerError, reading
from gpucloud_alibaba.models import ecs_models
from gpucloud_pricing.purchases import Purchase

if TYPE_CHECKING:
    from gpucloud_templates import Image, Metadata


def _now() -> datetime:
    return datetime.now(UTC)


TRAITS = Traits(lists_machines=True)
"""``DescribeInstances`` answers alike with ids and with tags."""
A = TypeVar("A")


class AlibabaProvider:
    """Elastic Compute Service.

    Args:
        profile: credentials and endpoints, by the variables that the SDK reads.
        clock: returns the time in UTC.
        sleep: waits some seconds.

    Raises:
        ImportError: the SDK is not installed.
    """

    def __init__(
        self,
        profile: Profile,
        clock: Callable[[], datetime] = _now,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if find_spec("alibabacloud_ecs20140526") is None:  # cheaper than importing it before it is needed
            raise ImportError("Alibaba Cloud needs its SDK: pip install 'gpucloud[alibaba]'")
        self.clients = Clients(profile)
        self._clock = clock
        self._sleep = sleep
        self._proof = find.Proof(self.clients)
        self._store = storage.Oss(self.clients, self.account)
        # Caches of values that cannot change; two threads at the same time would only send a call twice.
        self._account: str | None = None
        self._currency: str | None = None
        self._images: dict[tuple[str, str, str, str, int], images.Found] = {}
        self._ends: dict[str, str | None] = {}
        self._zones: dict[str, str] = {}
        self._erdma: dict[str, placement.Erdma] = {}

    @property
    def name(self) -> str:
        """``alibaba``."""
        return CLOUD

    @property
    def deletion(self) -> DeletionGraph:
        """Instances, then the resources that they depend on, the network last."""
        return delete.GRAPH

    @property
    def ending(self) -> str:
        """``AutoReleaseTime`` is the cloud's own timer, at least half an hour ahead (facts of ECS)."""
        return (
            "the cloud itself releases the box at its deadline and leaves nothing that is billed; "
            "a box with less than 32 minutes powers itself off in time, but is paid for until the 32nd minute"
        )

    @property
    def metadata(self) -> Metadata:
        """The metadata service in hardened mode (ECS user guide, "Query the interruption events ...").

        The notice comes five minutes before.
        """
        from gpucloud_templates import Metadata

        return Metadata(
            url="http://100.100.100.200",
            notice="/latest/meta-data/instance/spot/termination-time",
            notice_s=300,
            token_path="/latest/api/token",  # noqa: S106  (where one is got)
            token_ttl_header="X-aliyun-ecs-metadata-token-ttl-seconds",  # noqa: S106
            token_header="X-aliyun-ecs-metadata-token",  # noqa: S106
        )

    def watch(self, witness: CallObserver, /) -> None:
        """Reports each changing call from now on."""
        self.clients.witness = witness

    def boot_image(self, recipe: str, arch: str, instance_type: str, /) -> Image:  # noqa: ARG002  (images fit every type)
        """The image of a recipe on an instance type (``images.toml``)."""
        return images.boot_image(recipe, arch)

    def account(self) -> str:
        """The account's number."""
        if self._account is None:
            body = checkup.caller(self.clients)["body"]
            with reading("GetCallerIdentity"):
                self._account = str(body["AccountId"])
        return self._account

    # --- buying

    def check(self, order: Order, /) -> None:
        """Refuses an order that Alibaba Cloud would refuse later."""
        create.check(order)
        create.release_time(order.deadline, self._clock())

    def prepare(self, order: Order, record: Record, /) -> Request:
        """Creates the box's network, switch, group and deployment set; returns the call of RunInstances."""
        create.check(order)
        if not images.is_own(order.image):
            images.image_for(order.image, order.arch)  # refuses what is not known
        order = self._placed(order)
        image = Prefetch(lambda: self._image_of(order))
        market = create.market_of(order, self._bid(order))
        ends = self._ends.setdefault(order.key, create.release_time(order.deadline, self._clock()))
        erdma = None if order.fabric is None else self._erdma_of(order)
        network_ids = network.prepare_network(
            order, self.clients, record, create.tags_of(order), self._sleep, before=image.result
        )
        return create.request_of(
            order,
            network_ids=network_ids,
            image=image.result(),
            market=market,
            ends=ends,
            placement=placement.prepare_set(order, self.clients, record),
            erdma=erdma,
        )

    def create(self, request: Request, /) -> Sequence[Machine]:
        """Runs the instances: all or none, recognised by the token when repeated."""
        return create.create(request, self.clients.ecs(request["run_instances"]["RegionId"]))

    # --- looking and ending

    def get(self, ref: Ref, /) -> Resource:
        """One resource by id."""
        return checked(lambda: self._refuse_foreign(ref), lambda: find.get(ref, self.clients, self._proof))

    def find(self, search: Search, /) -> SearchResult:
        """All resources with gpucloud's tags, in the regions of the search or in all of the account."""
        asked = Prefetch(self.account)
        regions = search.regions if search.regions is not None else self._regions()
        account = asked.result()
        places = [Place(clients=self.clients, account=account, region=region) for region in regions]
        return find.find(search, places, self._proof, self._sleep)

    def delete(self, ref: Ref, /) -> None:
        """Deletes one resource of any kind."""
        self._refuse_foreign(ref)
        delete.delete(ref, self.clients)

    def classify(self, error: Exception, /) -> Verdict | None:
        """The meaning of an exception; see :mod:`gpucloud_alibaba.errors`."""
        return errors.classify(error)

    def ability(self, kind: type[A], /) -> A | None:
        """What has an ability."""
        return first_of(kind, (self, self._store, TRAITS))

    # --- volumes

    @property
    def volume_sizes_gib(self) -> tuple[int, int]:
        """The least and the largest size."""
        return volumes.SIZES_GIB

    def prepare_volume(self, order: VolumeOrder, record: Record, /) -> Request:  # noqa: ARG002
        """A disk needs nothing beside itself."""
        return volumes.request_of(order)

    def create_volume(self, request: Request, /) -> Resource:
        """Creates the disk; the cloud recognises a repeated call by its token."""
        return volumes.create(request, self.clients)

    def prepare_snapshot(self, order: SnapshotOrder, record: Record, /) -> Request:  # noqa: ARG002
        """A snapshot needs nothing beside itself."""
        return volumes.snapshot_request_of(order)

    def create_snapshot(self, request: Request, /) -> Resource:
        """Creates the snapshot; Alibaba Cloud recognises a repeated call by its token."""
        return volumes.create_snapshot(request, self.clients)

    def prepare_image(self, order: SnapshotOrder, record: Record, /) -> Request:
        """Takes the snapshot of the system disk that the image is made of."""
        self._refuse_foreign(order.of)
        return own_images.prepare(order, record, self.clients, lambda ref: self.get(ref).state, self._sleep)

    def create_image(self, request: Request, /) -> Sequence[Resource]:
        """Creates the image; Alibaba Cloud recognises a repeated call by its token."""
        return own_images.create(request, self.clients)

    def attach(self, disk: Ref, machine: Ref, number: int, /) -> Sequence[str]:  # noqa: ARG002
        """Attaches the disk."""
        self._refuse_foreign(disk)
        return volumes.attach(disk, machine.id, self.clients)

    # --- abilities

    def quotes(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quote]:
        """Today's prices. Held capacity is paid for already and is not quoted."""
        return prices.quotes(self.clients.ecs(region), region, instance_types, purchase, now=self._clock())

    def inquiries(self, instance_types: Sequence[str], regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """The types that each region sells, then the prices type by type."""
        from gpucloud_alibaba import price_list

        now = self._clock()
        return [
            price_list.region_inquiry(self.clients.ecs(region), region, instance_types, now)
            for region in self._regions()
            if regions is None or region in regions
        ]

    def tariff_inquiries(self, regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """Disks and data transfer, region by region."""
        from gpucloud_alibaba import tariffs

        asked = [region for region in self._regions() if regions is None or region in regions]
        return [
            each
            for region in asked
            for each in tariffs.inquiries(self.clients.ecs(region), region, self._clock())
        ]

    def held(self, region: str, instance_types: Sequence[str], /) -> Sequence[HeldCapacity]:
        """Private pools with free capacity."""
        return prices.held(self.clients.ecs(region), region, instance_types)

    def commitment_inquiries(self) -> Sequence[CommitmentInquiry]:
        """Reserved instances region by region."""
        from gpucloud_alibaba import commitments

        today = self._clock().date()
        return [commitments.inquiry(self.clients.ecs(region), region, today) for region in self._regions()]

    def headroom(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quota]:
        """The region's vCPU quota."""
        return quotas.headroom(self.clients.ecs(region), region, instance_types, purchase)

    def console(self, ref: Ref, /) -> str:
        """The console output of the machine."""
        self._refuse_foreign(ref)
        models = ecs_models()

        asked = models.GetInstanceConsoleOutputRequest(region_id=ref.region, instance_id=ref.id)
        answer = self.clients.ecs(ref.region).get_instance_console_output(asked)
        with reading("GetInstanceConsoleOutput"):
            text = str(answer.body.console_output or "")
        try:
            return base64.b64decode(text, validate=True).decode(errors="replace")
        except (binascii.Error, ValueError):
            return text

    def admit(self, group: Ref, cidrs: Sequence[str], ports: Sequence[int], /) -> None:
        """Allows only these sources; traffic among the nodes of one box needs no rule."""
        self._refuse_foreign(group)
        wanted = network.wanted_rules(cidrs, ports)
        network.set_rules(self.clients, group.region, group.id, wanted)

    def extend(
        self,
        resources: Sequence[Ref],
        expires_at: datetime | None,
        timers: Sequence[str],  # noqa: ARG002  (the timer is the instance's own)
        note: Callable[[Sequence[str]], None],  # noqa: ARG002
        /,
    ) -> Sequence[str]:
        """Moves the release time of the instances, never nearer than 32 minutes, and tags all resources."""
        for ref in resources:
            self._refuse_foreign(ref)
        extend.extend(self.clients, resources, expires_at, self._clock())
        return ()

    @property
    def timer_deletes(self) -> bool:
        """The release time of an instance releases it with its disks."""
        return True

    def why_not_stop(self, machine: Machine, /, *, local_disks: bool) -> str | None:  # noqa: ARG002
        """Types with local disks have no economical mode."""
        return power.why_not_stop(local_disks=local_disks)

    def stop(self, ref: Ref, /) -> None:
        """Stops an instance in economical mode. Whether it is billed on shows only when it is read."""
        self._refuse_foreign(ref)
        power.stop(self.clients, ref, lambda: self.get(ref).state)

    def start(self, ref: Ref, /) -> None:
        """Starts a stopped instance, if its zone has capacity."""
        self._refuse_foreign(ref)
        power.start(self.clients, ref, lambda: self.get(ref).state)

    @property
    def credentials_hint(self) -> str:
        """Where to get credentials."""
        return checkup.CREDENTIALS_HINT

    @property
    def policy(self) -> str:
        """The least privileges, in RAM's JSON."""
        return checkup.policy()

    def role_policy(self, role: CloudRole, owner: str, /) -> CloudPolicy:
        """The privileges of a role."""
        return privileges.role_policy(role, owner)

    def guardrail(self, bounds: Bounds, /) -> CloudPolicy:
        """A policy that denies everybody what is out of bounds."""
        return privileges.guardrail(bounds)

    def identity(self) -> Identity:
        """The identity of the credentials."""
        return checkup.identity(self.clients)

    def permissions(self, region: str, /) -> Sequence[Permission]:
        """Each action that can be tried without effect."""
        return checkup.permissions(self.clients, region)

    def server_time(self) -> datetime:
        """The cloud's time."""
        return checkup.server_time(self.clients)

    def read_ahead(self, region: str, /) -> None:
        """Nothing: what a launch reads depends on its type as well."""

    def remarks(self) -> Sequence[str]:
        """None: boxes of every account are alike."""
        return ()

    def ensure_end(
        self,
        machines: Sequence[Machine],  # noqa: ARG002
        end: End,  # noqa: ARG002
        timers: Sequence[str],  # noqa: ARG002
        note: Callable[[Sequence[str]], None],  # noqa: ARG002
        /,
    ) -> Sequence[Ref]:
        """Nothing: the release time is part of the create call."""
        return ()

    @property
    def self_delete(self) -> None:
        """None: the bill ends without an identity of the box."""
        return

    # --- values that do not change while a program runs

    def _refuse_foreign(self, ref: Ref) -> None:
        """Another account would return nothing, which must never count as "gone"."""
        hint = "use the credentials that it was made with (ALIBABA_CLOUD_PROFILE)"
        refuse_foreign(ref, self.account(), account="Alibaba Cloud account", hint=hint)

    def _regions(self) -> Sequence[str]:
        models = ecs_models()

        ecs = self.clients.ecs(self.clients.home_region)
        body = ecs.describe_regions(models.DescribeRegionsRequest()).body
        with reading("DescribeRegions"):
            regions = sorted(str(region.region_id) for region in body.regions.region)
        if not regions:  # a search of no region would find nothing
            raise MalformedAnswerError("the answer to DescribeRegions names no region")
        return regions

    def _placed(self, order: Order) -> Order:
        """The order with a zone."""
        if order.zone:
            return order
        if order.key not in self._zones:
            self._zones[order.key] = zones.zone_for(order, self.clients.ecs(order.region))
        return replace(order, zone=self._zones[order.key])

    def _image_of(self, order: Order) -> images.Found:
        key = (order.region, order.image, order.arch, order.instance_type, order.disk_gib)
        if key not in self._images:
            ecs = self.clients.ecs(order.region)
            if images.is_own(order.image):
                self._images[key] = images.own(ecs, order)
            else:
                self._images[key] = images.newest(images.image_for(order.image, order.arch), ecs, order)
        return self._images[key]

    def _erdma_of(self, order: Order) -> placement.Erdma:
        if order.instance_type not in self._erdma:
            ecs = self.clients.ecs(order.region)
            self._erdma[order.instance_type] = placement.erdma_of(order.instance_type, ecs)
        return self._erdma[order.instance_type]

    def _bid(self, order: Order) -> float | None:
        """The limit of a spot order in the account's currency; ``None`` for any other."""
        if not order.purchase.kind.price_moves:
            return None
        if self._currency is None:
            ecs = self.clients.ecs(order.region)
            self._currency = prices.currency_of(ecs, order.region, order.instance_type)
        return float(bid(order, self._currency, create.BID_STEP))
