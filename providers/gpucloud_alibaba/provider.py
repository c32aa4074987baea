"""Alibaba Cloud behind gpucloud's provider interface: the verbs, and which object has which ability."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TypeVar

from gpucloud.clouds import abilities
from gpucloud.clouds.kit import Prefetch, ability_in, bid, checked
from gpucloud.clouds.object_store import ObjectStore
from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import DeletionGraph, Record, Verdict
from gpucloud.resources import (
    Machine,
    Order,
    Ref,
    Request,
    Resource,
    Search,
    SearchResult,
)
from gpucloud_alibaba import create, delete, errors, find, images, network, placement, prices, zones
from gpucloud_alibaba.account import AlibabaAccount
from gpucloud_alibaba.checkup import AlibabaCheckup
from gpucloud_alibaba.clients import Clients
from gpucloud_alibaba.console import AlibabaConsoleLog
from gpucloud_alibaba.deadlines import AlibabaDeadlines
from gpucloud_alibaba.describe import CLOUD, RegionAccess
from gpucloud_alibaba.market import AlibabaMarket
from gpucloud_alibaba.own_images import AlibabaImages
from gpucloud_alibaba.power import AlibabaPower
from gpucloud_alibaba.preflight import AlibabaPreflight, check_order
from gpucloud_alibaba.privileges import AlibabaAccessPolicies
from gpucloud_alibaba.quotas import AlibabaQuotas
from gpucloud_alibaba.storage import OssStore
from gpucloud_alibaba.volumes import AlibabaSnapshots, AlibabaVolumes

TRAITS = abilities.Traits(lists_machines=True)
"""``DescribeInstances`` answers alike with ids and with tags."""
A = TypeVar("A")


def _now() -> datetime:
    return datetime.now(UTC)


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
        account = AlibabaAccount(Clients(profile), clock, sleep)
        self.own_account = account
        self._proof = find.Proof(account.clients)
        # Caches of values that cannot change; two threads at the same time would only send a call twice.
        self._currency: str | None = None
        self._images: dict[tuple[str, str, str, str, int], images.Found] = {}
        self._ends: dict[str, str | None] = {}
        self._zones: dict[str, str] = {}
        self._erdma: dict[str, placement.Erdma] = {}
        market, snapshots = AlibabaMarket(account), AlibabaSnapshots(account)
        self._abilities: Mapping[type[object], object] = {
            abilities.AccessPolicies: AlibabaAccessPolicies(),
            abilities.Audit: account.clients,
            abilities.Boot: images.AlibabaBoot(),
            abilities.Checkup: AlibabaCheckup(account),
            abilities.Commitments: market,
            abilities.ConsoleLog: AlibabaConsoleLog(account),
            abilities.Deadlines: AlibabaDeadlines(account),
            abilities.Firewall: network.AlibabaFirewall(account),
            abilities.Images: AlibabaImages(account, snapshots, self.get),
            abilities.Power: AlibabaPower(account, self.get),
            abilities.Preflight: AlibabaPreflight(account),
            abilities.Prices: market,
            abilities.Quotas: AlibabaQuotas(account),
            abilities.Reservations: market,
            abilities.Snapshots: snapshots,
            abilities.Traits: TRAITS,
            abilities.Volumes: AlibabaVolumes(account),
            ObjectStore: OssStore(account),
        }

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

    def account(self) -> str:
        """The account's number."""
        return self.own_account.number()

    def ability(self, kind: type[A], /) -> A | None:
        """What has an ability."""
        return ability_in(self._abilities, kind)

    # --- buying

    def prepare(self, order: Order, record: Record, /) -> Request:
        """Creates the box's network, switch, group and deployment set; returns the call of RunInstances."""
        account = self.own_account
        check_order(order)
        if not images.is_own(order.image):
            images.image_for(order.image, order.arch)  # refuses what is not known
        order = self._placed(order)
        image = Prefetch(lambda: self._image_of(order))
        market = create.market_of(order, self._bid(order))
        ends = self._ends.setdefault(order.key, create.release_time(order.deadline, account.clock()))
        erdma = None if order.fabric is None else self._erdma_of(order)
        network_ids = network.prepare_network(
            order, account.clients, record, create.tags_of(order), account.sleep, before=image.result
        )
        return create.request_of(
            order,
            network_ids=network_ids,
            image=image.result(),
            market=market,
            ends=ends,
            placement=placement.prepare_set(order, account.clients, record),
            erdma=erdma,
        )

    def create(self, request: Request, /) -> Sequence[Machine]:
        """Runs the instances: all or none, recognised by the token when repeated."""
        return create.create(request, self.own_account.clients.ecs(request["run_instances"]["RegionId"]))

    # --- looking and ending

    def get(self, ref: Ref, /) -> Resource:
        """One resource by id."""
        return checked(
            lambda: self.own_account.refuse_foreign(ref),
            lambda: find.get(ref, self.own_account.clients, self._proof),
        )

    def find(self, search: Search, /) -> SearchResult:
        """All resources with gpucloud's tags, in the regions of the search or in all of the account."""
        account = self.own_account
        asked = Prefetch(account.number)
        regions = search.regions if search.regions is not None else account.regions()
        number = asked.result()
        places = [RegionAccess(clients=account.clients, account=number, region=region) for region in regions]
        return find.find(search, places, self._proof, account.sleep)

    def delete(self, ref: Ref, /) -> None:
        """Deletes one resource of any kind."""
        self.own_account.refuse_foreign(ref)
        delete.delete(ref, self.own_account.clients)

    def classify(self, error: Exception, /) -> Verdict | None:
        """The meaning of an exception; see :mod:`gpucloud_alibaba.errors`."""
        return errors.classify(error)

    # --- values of an order, which stay what they were when it is sent again

    def _placed(self, order: Order) -> Order:
        """The order with a zone."""
        if order.zone:
            return order
        if order.key not in self._zones:
            self._zones[order.key] = zones.zone_for(order, self.own_account.clients.ecs(order.region))
        return replace(order, zone=self._zones[order.key])

    def _image_of(self, order: Order) -> images.Found:
        key = (order.region, order.image, order.arch, order.instance_type, order.disk_gib)
        if key not in self._images:
            ecs = self.own_account.clients.ecs(order.region)
            if images.is_own(order.image):
                self._images[key] = images.own(ecs, order)
            else:
                self._images[key] = images.newest(images.image_for(order.image, order.arch), ecs, order)
        return self._images[key]

    def _erdma_of(self, order: Order) -> placement.Erdma:
        if order.instance_type not in self._erdma:
            ecs = self.own_account.clients.ecs(order.region)
            self._erdma[order.instance_type] = placement.erdma_of(order.instance_type, ecs)
        return self._erdma[order.instance_type]

    def _bid(self, order: Order) -> float | None:
        """The limit of a spot order in the account's currency; ``None`` for any other."""
        if not order.purchase.kind.price_moves:
            return None
        if self._currency is None:
            ecs = self.own_account.clients.ecs(order.region)
            self._currency = prices.currency_of(ecs, order.region, order.instance_type)
        return float(bid(order, self._currency, create.BID_STEP))
