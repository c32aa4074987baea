"""What the market asks of Alibaba Cloud: prices, and what the account holds and has committed to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, assert_never

from gpucloud.clouds.abilities import CommitmentInquiry, Commitments, Inquiry, Prices, Reservations
from gpucloud.clouds.kit import in_threads
from gpucloud.resources import HeldCapacity, Quote
from gpucloud_alibaba import prices
from gpucloud_alibaba.account import AlibabaAccount
from gpucloud_alibaba.clients import listed
from gpucloud_alibaba.describe import CLOUD
from gpucloud_alibaba.errors import named, reading
from gpucloud_alibaba.models import ecs_models
from gpucloud_pricing.purchases import Purchase


class AlibabaMarket(Prices, Reservations, Commitments):
    """The questions of the market. What reads whole price lists is imported when it is asked."""

    def __init__(self, account: AlibabaAccount) -> None:
        self._account = account

    def quotes(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quote]:
        """Today's prices; types that are not sold in the region are left out.

        Held capacity is paid for already and is not quoted.
        """
        ask = _asker(purchase)
        if ask is None:
            return ()
        ecs, now = self._account.clients.ecs(region), self._account.clock()

        def of_type(instance_type: str) -> list[Quote]:
            return prices.if_sold(lambda: ask(ecs, region, instance_type, now))

        return [quote for found in in_threads(of_type, instance_types) for quote in found]

    def inquiries(self, instance_types: Sequence[str], regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """The types that each region sells, then the prices type by type."""
        from gpucloud_alibaba import price_list

        now = self._account.clock()
        return [
            price_list.region_inquiry(self._account.clients.ecs(region), region, instance_types, now)
            for region in self._account.regions()
            if regions is None or region in regions
        ]

    def tariff_inquiries(self, regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """Disks and data transfer, region by region."""
        from gpucloud_alibaba import tariffs

        now = self._account.clock()
        return [
            each
            for region in self._account.regions()
            if regions is None or region in regions
            for each in tariffs.inquiries(self._account.clients.ecs(region), region, now)
        ]

    def held(self, region: str, instance_types: Sequence[str], /) -> Sequence[HeldCapacity]:
        """Private pools of these types with free capacity: reservations and elasticity assurances."""
        if not instance_types:
            return ()
        ecs = self._account.clients.ecs(region)
        return [
            HeldCapacity(
                cloud=CLOUD,
                region=region,
                zone=share.zone_id,
                instance_type=share.instance_type,
                id=pool,
                free=int(share.available_amount),
                purchase="reservation",
            )
            for pool, shares in (*_reservations(ecs, region), *_assurances(ecs, region))
            for share in shares
            if share.instance_type in instance_types
            and share.zone_id
            and int(share.available_amount or 0) > 0
        ]

    def commitment_inquiries(self) -> Sequence[CommitmentInquiry]:
        """Reserved instances region by region."""
        from gpucloud_alibaba import commitments

        account, today = self._account, self._account.clock().date()
        return [
            commitments.inquiry(account.clients.ecs(region), region, today) for region in account.regions()
        ]


def _asker(purchase: Purchase) -> Callable[[Any, str, str, datetime], Iterable[Quote]] | None:
    """What asks for the price of a type; ``None`` for held capacity, which is paid for already."""
    match purchase:
        case Purchase.ON_DEMAND:
            return prices.on_demand
        case Purchase.SPOT:
            return prices.spot
        case Purchase.RESERVED:
            return None
        case _:
            assert_never(purchase)


def _reservations(ecs: Any, region: str) -> Iterator[tuple[str, Sequence[Any]]]:
    models = ecs_models()

    token: str | None = None
    for _ in range(prices.PAGES):
        asked = models.DescribeCapacityReservationsRequest(
            region_id=region, status="Active", max_results=100, next_token=token
        )
        body = ecs.describe_capacity_reservations(asked).body
        with reading("DescribeCapacityReservations"):
            for item in listed(body.capacity_reservation_set.capacity_reservation_item):
                yield named(item.private_pool_options_id), listed(item.allocated_resources.allocated_resource)
            token = body.next_token
        if not token:
            return


def _assurances(ecs: Any, region: str) -> Iterator[tuple[str, Sequence[Any]]]:
    models = ecs_models()

    token: str | None = None
    for _ in range(prices.PAGES):
        asked = models.DescribeElasticityAssurancesRequest(
            region_id=region, status="Active", max_results=100, next_token=token
        )
        body = ecs.describe_elasticity_assurances(asked).body
        with reading("DescribeElasticityAssurances"):
            for item in listed(body.elasticity_assurance_set.elasticity_assurance_item):
                yield named(item.private_pool_options_id), listed(item.allocated_resources.allocated_resource)
            token = body.next_token
        if not token:
            return
