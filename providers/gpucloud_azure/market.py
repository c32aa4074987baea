"""What the market asks of Azure: prices, and the capacity and commitments that the account has already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gpucloud.clouds.abilities import CommitmentInquiry, Commitments, Inquiry, Prices, Reservations
from gpucloud.clouds.kit import in_threads
from gpucloud.resources import HeldCapacity, Quote
from gpucloud_azure.account import AzureAccount
from gpucloud_azure.errors import reading
from gpucloud_azure.find import CLOUD
from gpucloud_azure.ids import parts_of
from gpucloud_azure.json_paths import at, list_at, plain, text_at
from gpucloud_azure.prices import SIZES_PER_CALL, condition_for, price_of, rows_where
from gpucloud_pricing.purchases import Purchase


class AzureMarket(Prices, Reservations, Commitments):
    """The questions of the market. What reads whole price lists is imported when it is asked."""

    def __init__(self, account: AzureAccount) -> None:
        self._account = account

    def quotes(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quote]:
        """Today's list prices or spot prices, for the whole region; Azure has none of its own for a zone.

        Held capacity is paid for already and is not quoted.
        """
        if purchase.kind.paid_already or not instance_types:
            return ()
        clients, now, sizes = self._account.clients, datetime.now(UTC), instance_types
        chunks = [sizes[start : start + SIZES_PER_CALL] for start in range(0, len(sizes), SIZES_PER_CALL)]
        pages = in_threads(lambda chunk: list(rows_where(clients, condition_for(region, chunk))), chunks)
        rows = [row for page in pages for row in page]
        currency = next((str(row["currencyCode"]) for row in rows if row.get("currencyCode")), "USD")
        found: list[Quote] = []
        for size in dict.fromkeys(sizes):
            amount = price_of(rows, region, size, purchase)
            if amount is not None:
                found.append(
                    Quote(
                        cloud=CLOUD,
                        region=region,
                        zone=None,
                        instance_type=size,
                        purchase=purchase,
                        price_per_hour=amount,
                        currency=currency,
                        as_of=now,
                        source="Azure Retail Prices",
                    )
                )
        return found

    def inquiries(self, instance_types: Sequence[str], regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """Size by size; anybody may ask, also without credentials."""
        from gpucloud_azure import price_list

        now = datetime.now(UTC)
        return [price_list.inquiry(self._account.clients, size, regions, now) for size in instance_types]

    def tariff_inquiries(self, regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """Kind by kind; anybody may ask, also without credentials."""
        from gpucloud_azure import tariffs

        return list(tariffs.inquiries(self._account.clients, regions, datetime.now(UTC)))

    @reading("a list of capacity reservations")
    def held(self, region: str, instance_types: Sequence[str], /) -> Sequence[HeldCapacity]:
        """Capacity reservations of these sizes with free capacity, by the ids of their groups."""
        if not instance_types:
            return ()
        compute = self._account.clients.compute()
        groups = [plain(group) for group in compute.capacity_reservation_groups.list_by_subscription()]
        found: list[HeldCapacity] = []
        for group in groups:
            parts = parts_of(str(group["id"]))
            if parts is None or str(group.get("location", "")).lower() != region:
                continue
            reservations = compute.capacity_reservations
            listed = reservations.list_by_capacity_reservation_group(parts.group, parts.name)
            for reservation in listed:
                name = str(reservation.name)
                shown = plain(reservations.get(parts.group, parts.name, name, expand="instanceView"))
                each = _held(shown, region, str(group["id"]))
                if each.instance_type in instance_types and each.free > 0:
                    found.append(each)
        return found

    def commitment_inquiries(self) -> Sequence[CommitmentInquiry]:
        """The tenant's reservations."""
        from gpucloud_azure import commitments

        return [commitments.inquiry(self._account.clients, datetime.now(UTC).date())]


def _held(reservation: Mapping[str, Any], region: str, group: str) -> HeldCapacity:
    use = at(reservation, "properties", "instanceView", "utilizationInfo")
    capacity = at(use, "currentCapacity") or at(reservation, "sku", "capacity") or 0
    return HeldCapacity(
        cloud=CLOUD,
        region=region,
        zone=next(iter(reservation.get("zones") or ()), ""),
        instance_type=text_at(reservation, "sku", "name"),
        id=group,
        free=int(capacity) - len(list_at(use, "virtualMachinesAllocated")),
        purchase="reservation",
    )
