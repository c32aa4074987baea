"""What is left of a box is told with its price per hour, as far as the journal has it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpucloud.ending.pending import price_per_hour
from gpucloud.journal.facts import Price
from gpucloud.resources import ResourceKind
from tests.builders import a_box, a_ref

LISTED = {
    "disk_gb_month": Price(amount=Decimal("0.073"), currency="USD"),
    "public_ip_hour": Price(amount=Decimal("0.005"), currency="USD"),
}


@pytest.mark.parametrize(
    ("cloud", "kind", "amount"),
    [
        ("aws", ResourceKind.INSTANCE, "0.5"),
        ("aws", ResourceKind.DISK, "0.01"),
        ("azure", ResourceKind.DISK, "0.0128"),  # billed as the next larger size, 128 GiB
        ("azure", ResourceKind.ADDRESS, "0.005"),
        ("aws", ResourceKind.SNAPSHOT, None),
    ],
)
def test_what_is_left_has_the_price_of_its_kind(cloud: str, kind: ResourceKind, amount: str | None) -> None:
    box = a_box(
        price=Price(amount=Decimal("0.5"), currency="USD"),
        listed=LISTED,
        disk_gib=100,
    )
    price = price_per_hour(box, a_ref(cloud=cloud, kind=kind))
    assert (price and price.amount) == (Decimal(amount) if amount else None)


@pytest.mark.parametrize("kind", [ResourceKind.INSTANCE, ResourceKind.DISK, ResourceKind.ADDRESS])
def test_a_price_that_was_not_known_at_the_launch_is_unknown(kind: ResourceKind) -> None:
    assert price_per_hour(a_box(disk_gib=100), a_ref(kind=kind)) is None
    assert price_per_hour(a_box(listed=LISTED), a_ref(kind=ResourceKind.DISK)) is None, "of which size?"
