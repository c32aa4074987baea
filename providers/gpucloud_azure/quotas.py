"""How much the subscription may rent in a region: vCPUs of a family, of all families, and of Spot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, assert_never

from gpucloud.clouds.abilities import Quotas
from gpucloud.clouds.kit import together
from gpucloud.resources import Quota
from gpucloud_azure.account import AzureAccount
from gpucloud_azure.errors import reading
from gpucloud_azure.find import CLOUD
from gpucloud_azure.json_paths import plain
from gpucloud_pricing.purchases import Purchase

SKUS_API = "2021-07-01"
SPOT = "lowPriorityCores"
REGIONAL = "cores"
FIX = "https://portal.azure.com/#view/Microsoft_Azure_Capacity/QuotaMenuBlade/~/myQuotas"
REQUEST = (
    "az quota update --resource-name {name} "
    "--scope /subscriptions/{subscription}/providers/Microsoft.Compute/locations/{region} "
    "--limit-object value=LIMIT --resource-type {kind}"
)
"""Source: Azure CLI reference, extension ``quota``; resource name, scope, limit and type are those of REST's
Microsoft.Quota "Create Or Update". The spelling of the options is UNVERIFIED."""


class AzureQuotas(Quotas):
    """vCPUs of the region and of the families, or those of Spot."""

    def __init__(self, account: AzureAccount) -> None:
        self._account = account
        self._families: dict[str, Mapping[str, str]] = {}

    @reading("a list of quotas")
    def headroom(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quota]:
        """The quotas that a launch of these sizes counts against. Held capacity has been counted already."""
        counted_as = _counted_as(purchase)
        if counted_as is None or not instance_types:
            return ()
        by_family, kind = counted_as
        clients = self._account.clients

        def usage() -> list[Mapping[str, Any]]:
            return [plain(each) for each in clients.compute().usage.list(region)]

        def family_of() -> Mapping[str, str]:
            return self._families_in(region) if by_family else {}

        used: Any
        family: Any
        used, family = together(usage, family_of)
        counted: dict[str, list[str]] = {}
        for size in instance_types:
            for name in (REGIONAL, family.get(size)) if by_family else (SPOT,):
                if name:
                    counted.setdefault(name.lower(), []).append(size)
        subscription = clients.subscription()
        return [
            Quota(
                cloud=CLOUD,
                region=region,
                name=str(each["name"]["value"]),
                instance_types=tuple(counted[str(each["name"]["value"]).lower()]),
                unit="vcpus",
                limit=Decimal(each["limit"]),
                used=Decimal(each["currentValue"]),
                fix=FIX,
                request=REQUEST.format(
                    name=each["name"]["value"], subscription=subscription, region=region, kind=kind
                ),
            )
            for each in used
            if str(each["name"]["value"]).lower() in counted
        ]

    def _families_in(self, region: str) -> Mapping[str, str]:
        """To which quota family each size of a region belongs, as Azure's list of sizes says: read once."""
        if region not in self._families:
            listed = self._account.clients.pages(
                "/providers/Microsoft.Compute/skus", api=SKUS_API, **{"$filter": f"location eq '{region}'"}
            )
            self._families[region] = {
                str(sku["name"]): str(sku["family"])
                for sku in listed
                if sku.get("resourceType", "virtualMachines") == "virtualMachines" and sku.get("family")
            }
        return self._families[region]


def _counted_as(purchase: Purchase) -> tuple[bool, str] | None:
    """Whether machines count by family and region, and the type of their quotas; ``None`` for none."""
    match purchase:
        case Purchase.ON_DEMAND:
            return True, "dedicated"
        case Purchase.SPOT:
            return False, "lowPriority"
        case Purchase.RESERVED:
            return None
        case _:
            assert_never(purchase)
