"""The commitments of the account: reservations of virtual machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from gpucloud.clouds.abilities import CommitmentInquiry
from gpucloud_azure.clients import Clients
from gpucloud_azure.errors import MalformedAnswerError
from gpucloud_azure.find import CLOUD
from gpucloud_azure.json_paths import at, list_at, moment, text_at
from gpucloud_pricing import Commitment
from gpucloud_pricing.commitments import last_whole_day

SOURCE = "azure-reservations"
"""The source of commitments: an id of the market's sources."""
API_VERSION = "2022-11-01"
PATH = "/providers/Microsoft.Capacity/reservations"
DOUBT = (
    "the list of reservations is empty. They belong to the tenant, not to a subscription, and reading them "
    "requires the role Reservations Reader there"
)
"""Source: Azure docs, "Permissions to view and manage Azure reservations"."""
_IN_FORCE = ("", "Succeeded", "Expiring")


def inquiry(clients: Clients, today: date) -> CommitmentInquiry:
    """All reservations of the tenant that these credentials may read."""

    def ask() -> Sequence[Commitment]:
        rows = clients.tenant_pages(PATH, api=API_VERSION)
        return [_reservation(row, today) for row in rows if _is_ours(row, clients.subscription())]

    return CommitmentInquiry(name="reservations", ask=ask, if_empty=DOUBT)


def _is_ours(row: Mapping[str, Any], subscription: str) -> bool:
    """Whether a reservation is of machines, in force, and applies to a subscription.

    Shared ones apply to every subscription. Those for a management group are left out, because its members
    are not known; so are those for one resource group, because boxes have groups of their own. Source: Azure
    REST API, "Reservation - List All", ReservationsProperties.
    """
    if text_at(row, "properties", "reservedResourceType") != "VirtualMachines":
        return False
    if text_at(row, "properties", "provisioningState") != "Succeeded":
        return False
    if text_at(row, "properties", "displayProvisioningState") not in _IN_FORCE:
        return False
    scopes = [str(each).lower() for each in list_at(row, "properties", "appliedScopes")]
    kind = text_at(row, "properties", "appliedScopeType")
    return kind == "Shared" or (kind == "Single" and f"/subscriptions/{subscription}".lower() in scopes)


def _reservation(row: Mapping[str, Any], today: date) -> Commitment:
    count = at(row, "properties", "quantity")
    size, region = text_at(row, "sku", "name"), text_at(row, "location").lower()
    end = moment(at(row, "properties", "expiryDateTime") or f"{at(row, 'properties', 'expiryDate')}T00:00Z")
    if not (isinstance(count, int) and size and region and isinstance(end, datetime)):
        raise MalformedAnswerError("a reservation lacks its quantity, size, location or end")
    return Commitment(
        cloud=CLOUD,
        kind="reservation",
        id=text_at(row, "name").rpartition("/")[2],
        region=region,
        instance_type=size,
        count=count,
        until=last_whole_day(end),
        as_of=today,
        source=SOURCE,
    )
