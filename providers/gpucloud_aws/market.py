"""What the market asks of AWS: prices, and the capacity and commitments that the account has already."""

# The stubs call every member of an answer optional; a missing id is caught as a malformed answer.
# pyright: reportTypedDictNotRequiredAccess=false

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, assert_never

from gpucloud.clouds.abilities import CommitmentInquiry, Commitments, Inquiry, Prices, Reservations
from gpucloud.resources import HeldCapacity, Quote
from gpucloud_aws import prices
from gpucloud_aws.account import AwsAccount
from gpucloud_aws.clients import READ_ATTEMPTS
from gpucloud_pricing.purchases import Purchase

PRICE_REGIONS = {"aws": "us-east-1", "aws-cn": "cn-northwest-1"}
"""The regions of the price list. GovCloud has none: its credentials are not valid in the other partition."""


class AwsMarket(Prices, Reservations, Commitments):
    """The questions of the market. What reads whole price lists is imported when it is asked."""

    def __init__(self, account: AwsAccount) -> None:
        self._account = account

    def quotes(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quote]:
        """Today's list prices or spot prices. Held capacity is paid for already and is not quoted."""
        now, currency = datetime.now(UTC), self._account.currency(region)
        match purchase:
            case Purchase.SPOT:
                return prices.spot(
                    self._account.clients.ec2(region),
                    region,
                    instance_types,
                    currency=currency,
                    now=now,
                    zone_id=self._account.zone_id_in(region),
                )
            case Purchase.ON_DEMAND:
                pricing = self._pricing(region)
                if pricing is None:
                    return ()
                return prices.on_demand(pricing, region, instance_types, currency=currency, now=now)
            case Purchase.RESERVED:
                return ()
            case _:
                assert_never(purchase)

    def inquiries(self, instance_types: Sequence[str], regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """List prices type by type, spot prices region by region, savings plans some types at a time."""
        from gpucloud_aws import price_list, spot_advisor

        asked, now = self._enabled(regions), datetime.now(UTC)
        if not asked:
            return ()
        clients, currency = self._account.clients, self._account.currency(asked[0])
        found = [
            price_list.spot_inquiry(
                clients,
                region,
                instance_types,
                currency=currency,
                now=now,
                zone_id=self._account.zone_id_in(region),
            )
            for region in asked
        ]
        commercial = clients.partition(asked[0]) == "aws"
        if commercial:
            found.append(spot_advisor.inquiry(clients.profile, instance_types, asked, now))
        if (pricing := self._pricing(asked[0])) is not None:
            for name in instance_types:
                found.append(price_list.list_inquiry(pricing, name, regions, currency=currency, now=now))
        if not commercial:
            return found
        plans = clients.client("savingsplans", "us-east-1", attempts=READ_ATTEMPTS)
        found += price_list.savings_inquiries(plans, instance_types, regions, currency=currency, now=now)
        if in_blocks := [name for name in instance_types if price_list.sold_in_blocks(name)]:
            found += [
                price_list.block_inquiry(
                    clients,
                    region,
                    in_blocks,
                    currency=currency,
                    now=now,
                    zone_id=self._account.zone_id_in(region),
                )
                for region in asked
            ]
        return found

    def tariff_inquiries(self, regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """Kind by kind; none for a partition without a price list, or without an enabled region of these."""
        from gpucloud_aws import tariffs

        asked = self._enabled(regions)
        pricing = self._pricing(asked[0]) if asked else None
        if pricing is None:
            return ()
        currency = self._account.currency(asked[0])
        return list(tariffs.inquiries(pricing, regions, currency=currency, now=datetime.now(UTC)))

    def held(self, region: str, instance_types: Sequence[str], /) -> Sequence[HeldCapacity]:
        """Active capacity reservations and blocks of these types with free capacity, on shared hardware."""
        if not instance_types:
            return ()
        ec2, zone_id = self._account.clients.ec2(region), self._account.zone_id_in(region)
        pages = ec2.get_paginator("describe_capacity_reservations").paginate(
            Filters=[
                {"Name": "state", "Values": ["active"]},
                {"Name": "instance-type", "Values": list(instance_types)},
            ]
        )
        return [
            HeldCapacity(
                cloud=prices.CLOUD,
                region=region,
                zone=row.get("AvailabilityZoneId") or zone_id(row.get("AvailabilityZone", "")),
                instance_type=row["InstanceType"],
                id=row["CapacityReservationId"],
                free=row["AvailableInstanceCount"],
                purchase="capacity_block"
                if row.get("ReservationType") == "capacity-block"
                else "reservation",
            )
            for page in prices.whole(pages)
            for row in page["CapacityReservations"]
            if row.get("State") == "active"
            and row.get("InstanceType") in instance_types
            and row.get("AvailableInstanceCount", 0) > 0
            and row.get("Tenancy", "default") == "default"
        ]

    def commitment_inquiries(self) -> Sequence[CommitmentInquiry]:
        """Reserved instances and held capacity region by region, and the savings plans."""
        from gpucloud_aws import commitments

        account, today = self._account.number(), datetime.now(UTC).date()
        clients = self._account.clients
        found: list[CommitmentInquiry] = []
        for region in self._account.regions():
            zone_id = self._account.zone_id_in(region)
            found += commitments.regional_inquiries(clients.ec2(region), region, account, zone_id, today)
        if clients.partition(clients.home_region) == "aws":
            found.append(commitments.plans_inquiry(clients, today))
        return found

    def _enabled(self, regions: Sequence[str] | None) -> Sequence[str]:
        """The enabled ones of these regions, or all enabled ones."""
        enabled = self._account.regions()
        return enabled if regions is None else [each for each in enabled if each in regions]

    def _pricing(self, region: str) -> Any:
        """The client of the price list of a region's partition; ``None`` if that has none."""
        priced_in = PRICE_REGIONS.get(self._account.clients.partition(region))
        if priced_in is None:
            return None
        return self._account.clients.client("pricing", priced_in, attempts=READ_ATTEMPTS)
