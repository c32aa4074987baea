"""What can be read of the subscription besides its resources: locations, sizes, usages, images, features."""

from __future__ import annotations

from typing import Any

from gpucloud.sandbox.database import Document
from gpucloud_azure.sandbox import access, quotas
from gpucloud_azure.sandbox.entra import TENANT
from gpucloud_azure.sandbox.images import IMAGES
from gpucloud_azure.sandbox.order import offered
from gpucloud_azure.sandbox.subscription import CLOUD, SUBSCRIPTION, TYPES, Subscription
from gpucloud_azure.sandbox.wire import AzureError


def subscription_document() -> Document:
    """The subscription."""
    return {
        "id": f"/subscriptions/{SUBSCRIPTION}",
        "subscriptionId": SUBSCRIPTION,
        "tenantId": TENANT,
        "displayName": "gpucloud sandbox",
        "state": "Enabled",
        "authorizationSource": "RoleBased",
        "subscriptionPolicies": {
            "locationPlacementId": "Public_2014-09-01",
            "quotaId": "PayAsYouGo_2014-09-01",
        },
    }


def tenant_document() -> Document:
    """The tenant."""
    return {
        "id": f"/tenants/{TENANT}",
        "tenantId": TENANT,
        "displayName": "gpucloud sandbox",
        "tenantCategory": "Home",
        "countryCode": "NL",
        "domains": [],
    }


def metadata_document(origin: str) -> Document:
    """``/metadata/endpoints``: how a client finds everything else."""
    return {
        "name": "gpucloud",
        "authentication": {
            "loginEndpoint": origin,
            "audiences": [origin, f"{origin}/"],
            "tenant": TENANT,
            "identityProvider": "AAD",
        },
        "resourceManager": origin,
        "portal": origin,
        "graph": f"{origin}/graph",
        "graphAudience": f"{origin}/graph",
        "gallery": origin,
        "media": origin,
        "batch": origin,
        "vmImageAliasDoc": origin,
        "sqlManagement": origin,
        "activeDirectoryDataLake": origin,
        "suffixes": {
            "storage": "core.sandbox.invalid",
            "keyVaultDns": "vault.sandbox.invalid",
            "sqlServerHostname": "database.sandbox.invalid",
            "acrLoginServer": "acr.sandbox.invalid",
        },
    }


def locations(subscription: Subscription) -> list[Document]:
    """The regions."""
    return [
        {
            "id": f"/subscriptions/{SUBSCRIPTION}/locations/{name}",
            "name": name,
            "type": "Region",
            "displayName": name,
            "regionalDisplayName": name,
            "metadata": {"regionType": "Physical", "regionCategory": "Recommended"},
        }
        for name in known_locations(subscription)
    ]


def known_locations(subscription: Subscription) -> list[str]:
    """The names of the regions."""
    return sorted(subscription.world.market.catalog(CLOUD).zones)


def check_location(subscription: Subscription, name: Any) -> str:
    """A region's name in one word.

    Raises:
        AzureError: there is none, or no such region.
    """
    if not name:
        raise AzureError("LocationRequired", "The location property is required for this definition.")
    location = str(name).replace(" ", "").lower()
    if location not in known_locations(subscription):
        text = f"The provided location '{name}' is not available for this resource type."
        raise AzureError("LocationNotAvailableForResourceType", text)
    return location


def sizes_in(subscription: Subscription, location: str) -> list[str]:
    """The sizes that a region offers."""
    types = subscription.world.market.catalog(CLOUD).types
    return [name for name in types if offered(subscription, location, name) is not None]


def skus(subscription: Subscription, condition: str) -> list[Document]:
    """The sizes of virtual machines, of one region where the condition names it."""
    wanted = condition.partition("location eq '")[2].rstrip("'").replace(" ", "").lower()
    names = [wanted] if wanted else known_locations(subscription)
    types = subscription.world.market.catalog(CLOUD).types
    found: list[Document] = []
    for location in names:
        for name in sizes_in(subscription, location):
            type_ = types[name]
            capabilities = {
                "vCPUs": type_.vcpus,
                "MemoryGB": type_.memory_gib,
                "GPUs": type_.whole_gpus,
                "HyperVGenerations": "V1,V2",
                "CpuArchitectureType": "x64" if type_.arch == "x86_64" else "Arm64",
                "LowPriorityCapable": "True",
                "EncryptionAtHostSupported": "True",
            }
            zones = sorted(offered(subscription, location, name) or ())
            found.append(
                {
                    "resourceType": "virtualMachines",
                    "name": name,
                    "tier": "Standard",
                    "size": name.removeprefix("Standard_"),
                    "family": quotas.family_of(name),
                    "locations": [location],
                    "locationInfo": [{"location": location, "zones": zones, "zoneDetails": []}],
                    "capabilities": [
                        {"name": key, "value": str(value)} for key, value in capabilities.items()
                    ],
                    "restrictions": [],
                }
            )
    return found


def provider_document(subscription: Subscription, namespace: str) -> Document:
    """A resource provider: whether it is registered, and its types.

    Raises:
        AzureError: Azure has no such provider.
    """
    name = next((each for each in access.NAMESPACES if each.lower() == namespace.lower()), None)
    if name is None:
        text = f"The resource namespace '{namespace}' is invalid."
        raise AzureError("InvalidResourceNamespace", text, 404)
    types = [each.partition("/")[2] for each in TYPES if each.startswith(f"{name}/")]
    return {
        "id": f"/subscriptions/{SUBSCRIPTION}/providers/{name}",
        "namespace": name,
        "registrationState": "Registered" if access.is_registered(subscription, name) else "NotRegistered",
        "registrationPolicy": "RegistrationRequired",
        "resourceTypes": [
            {
                "resourceType": each,
                "locations": known_locations(subscription),
                "apiVersions": ["2024-07-01", "2024-05-01", "2021-07-01"],
            }
            for each in types
        ],
    }


def feature(subscription: Subscription, namespace: str, name: str) -> Document:
    """A feature of a resource provider."""
    known = subscription.all("feature").get(name.lower())
    subscription_id = f"/subscriptions/{SUBSCRIPTION}"
    return {
        "id": f"{subscription_id}/providers/Microsoft.Features/providers/{namespace}/features/{name}",
        "name": f"{namespace}/{name}",
        "type": "Microsoft.Features/providers/features",
        "properties": {"state": "Registered" if known else "NotRegistered"},
    }


def images(location: str, path: list[str]) -> list[Document]:
    """Publishers, offers, skus or versions, after the path of their parents.

    Args:
        location: where.
        path: of ``publishers/P/artifacttypes/vmimage/offers/O/skus/S/versions``, the names.
    """
    names = ("publisher", "offer", "sku", "version")
    found = [
        image
        for image in IMAGES
        if all(
            getattr(image, name).lower() == value.lower() for name, value in zip(names, path, strict=False)
        )
    ]
    level = names[len(path)]
    return [
        {
            "name": value,
            "location": location,
            "id": f"/subscriptions/{SUBSCRIPTION}/{'/'.join([*path, value])}",
        }
        for value in sorted({getattr(image, level) for image in found})
    ]
