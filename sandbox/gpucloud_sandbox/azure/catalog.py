"""What can be read of the subscription besides its resources: locations, sizes, usages, images, features."""

from __future__ import annotations

from gpucloud_azure.sizes import accelerates_networking, max_network_interfaces
from gpucloud_sandbox.azure import api_versions, members, permissions, quotas, restrictions
from gpucloud_sandbox.azure.entra import TENANT
from gpucloud_sandbox.azure.images import IMAGES, Image
from gpucloud_sandbox.azure.places import known_locations, offered, sizes_in
from gpucloud_sandbox.azure.subscription import CLOUD, SUBSCRIPTION, TYPES, Subscription
from gpucloud_sandbox.azure.wire import AzureError
from gpucloud_sandbox.database import Document


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
                **({"GPUs": type_.whole_gpus} if type_.whole_gpus else {}),
                "HyperVGenerations": "V1,V2",
                "CpuArchitectureType": "x64" if type_.arch == "x86_64" else "Arm64",
                "LowPriorityCapable": "True",
                "EncryptionAtHostSupported": "True",
                "AcceleratedNetworkingEnabled": accelerates_networking(name),
                "MaxNetworkInterfaces": max_network_interfaces(name),
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
                    "restrictions": restrictions.of_size(subscription, location, name, zones),
                }
            )
    return found


def provider_document(subscription: Subscription, namespace: str) -> Document:
    """A resource provider: whether it is registered, and its types.

    Raises:
        AzureError: Azure has no such provider, or it is one of Microsoft's that is not emulated.
    """
    name = next((each for each in permissions.NAMESPACES if each.lower() == namespace.lower()), None)
    if name is None and namespace.lower().startswith("microsoft."):  # Azure has hundreds
        raise members.not_emulated(namespace)
    if name is None:
        text = f"The resource namespace '{namespace}' is invalid."
        raise AzureError("InvalidResourceNamespace", text, 404)
    types = [each.partition("/")[2] for each in TYPES if each.startswith(f"{name}/")]
    registered = permissions.is_registered(subscription, name)
    return {
        "id": f"/subscriptions/{SUBSCRIPTION}/providers/{name}",
        "namespace": name,
        "registrationState": "Registered" if registered else "NotRegistered",
        "registrationPolicy": "RegistrationRequired",
        "resourceTypes": [
            {
                "resourceType": each,
                "locations": known_locations(subscription),
                "apiVersions": list(api_versions.versions_of(name, each.partition("/")[0])),
            }
            for each in types
        ],
    }


FEATURES = ("Microsoft.Compute/EncryptionAtHost",)


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


def features(subscription: Subscription) -> list[Document]:
    """The features that there are, registered or not."""
    return [feature(subscription, *each.split("/")) for each in FEATURES]


def set_feature(subscription: Subscription, name: str, *, registered: bool) -> None:
    """Registers a feature, or takes that back."""
    if registered:
        subscription.keep("feature", name.lower(), {"name": name})
    else:
        subscription.forget("feature", name.lower())


def images(location: str, path: list[str], *, detailed: bool = False) -> list[Document] | Document:
    """Publishers, offers, skus or versions, after the path of their parents; one version in detail.

    Args:
        location: where.
        path: of ``publishers/P/artifacttypes/vmimage/offers/O/skus/S/versions/V``, the names.
        detailed: whether each version of a list is in detail.

    Raises:
        AzureError: there is nothing of the kind.
    """
    levels = ("publisher", "offer", "sku", "version")
    pairs = list(zip(levels, path, strict=False))
    found = [image for image in IMAGES if all(getattr(image, at).lower() == it.lower() for at, it in pairs)]
    if not found:
        raise AzureError("NotFound", "Artifact: VMImage was not found.", 404)
    head = f"/Subscriptions/{SUBSCRIPTION}/Providers/Microsoft.Compute/Locations/{location}/Publishers"
    steps = ("", "/ArtifactTypes/VMImage/Offers", "/Skus", "/Versions")

    def entry(image: Image, count: int) -> Document:
        names = [str(getattr(image, level)) for level in levels[:count]]
        tails = [f"{step}/{name}" for step, name in zip(steps, names, strict=False)]
        return {"name": names[-1], "location": location, "id": head + "".join(tails)}

    if len(path) == len(levels):
        return {**entry(found[0], len(path)), "properties": _image(found[0])}
    below = {str(each["name"]): each for each in (entry(image, len(path) + 1) for image in found)}
    if detailed and len(path) == len(levels) - 1:
        below = {name: {**each, "properties": _image(found[0])} for name, each in below.items()}
    return [below[name] for name in sorted(below)]


def _image(image: Image) -> Document:
    trusted = {"name": "SecurityType", "value": "TrustedLaunchSupported"}
    return {
        "osDiskImage": {"operatingSystem": "Linux", "sizeInGb": image.disk_gib},
        "dataDiskImages": [],
        "hyperVGeneration": f"V{image.generation}",
        "architecture": image.architecture,
        "features": [trusted] if image.generation == 2 else [],
    }
