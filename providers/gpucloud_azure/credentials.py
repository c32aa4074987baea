"""The credentials by a profile's settings. Imports the SDK: import it when needed.

The SDK's ``DefaultAzureCredential`` reads the process's environment; these are the same sources in the same
order, each with its settings passed. For the identity of a machine, and for the command-line tools, the SDK
itself reads the process's environment: they belong to the machine and its user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from azure.identity import (
    AzureCliCredential,
    AzureDeveloperCliCredential,
    AzurePowerShellCredential,
    CertificateCredential,
    ChainedTokenCredential,
    ClientSecretCredential,
    CredentialUnavailableError,
    ManagedIdentityCredential,
    WorkloadIdentityCredential,
)

from gpucloud.clouds.profile import Profile

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

AUTHORITY = "https://login.microsoftonline.com"
AUTHORITIES = ("login.microsoftonline.com", "login.chinacloudapi.cn", "login.microsoftonline.us")
"""The sign-in services of Microsoft's own clouds, whose hosts the SDK need not verify."""
RETRIES = 2
CHOICE = "AZURE_TOKEN_CREDENTIALS"

Way = Callable[[Profile, dict[str, Any]], "Iterator[TokenCredential]"]


def credential(profile: Profile, transport: Callable[[], Any]) -> TokenCredential:
    """The first source of credentials that the profile has settings for and that succeeds.

    Args:
        profile: the settings, by the names of the variables that azure-identity reads.
        transport: makes a transport, one for each source.

    Raises:
        CredentialUnavailableError: the profile has settings for no source.
    """
    made = [each for name in _chosen(profile) for each in WAYS[name](profile, _options(profile, transport))]
    if not made:
        raise CredentialUnavailableError(
            message=f"the settings of {CHOICE}={profile.get(CHOICE)} are missing"
        )
    return ChainedTokenCredential(*made)


def _chosen(profile: Profile) -> Sequence[str]:
    """The sources to try. By default without those that take seconds to fail."""
    choice = (profile.get(CHOICE) or "").lower()
    if not choice:
        identified = ("managedidentitycredential",) if profile.get("IDENTITY_ENDPOINT") else ()
        signed_in = ("azureclicredential", "azuredeveloperclicredential")
        return ("environmentcredential", "workloadidentitycredential", *identified, *signed_in)
    groups = {"prod": tuple(WAYS)[:3], "dev": tuple(WAYS)[3:]} | {name: (name,) for name in WAYS}
    if choice not in groups:
        raise CredentialUnavailableError(
            message=f"{CHOICE}={profile.get(CHOICE)} is unknown; known are {', '.join(groups)}"
        )
    return groups[choice]


def _options(profile: Profile, transport: Callable[[], Any]) -> dict[str, Any]:
    authority = profile.get("AZURE_AUTHORITY_HOST") or AUTHORITY
    return {
        "authority": authority,
        "disable_instance_discovery": not any(host in authority for host in AUTHORITIES),
        "proxies": profile.proxies(authority if "://" in authority else f"https://{authority}"),
        "retry_total": RETRIES,
        "transport": transport(),
    }


def _service_principal(profile: Profile, options: dict[str, Any]) -> Iterator[TokenCredential]:
    tenant, client = profile.get("AZURE_TENANT_ID"), profile.get("AZURE_CLIENT_ID")
    secret, certificate = profile.get("AZURE_CLIENT_SECRET"), profile.get("AZURE_CLIENT_CERTIFICATE_PATH")
    if tenant and client and secret:
        yield ClientSecretCredential(tenant, client, secret, **options)
    elif tenant and client and certificate:
        yield CertificateCredential(
            tenant,
            client,
            certificate,
            password=profile.get("AZURE_CLIENT_CERTIFICATE_PASSWORD"),
            send_certificate_chain=bool(profile.get("AZURE_CLIENT_SEND_CERTIFICATE_CHAIN")),
            **options,
        )


def _workload(profile: Profile, options: dict[str, Any]) -> Iterator[TokenCredential]:
    tenant, client = profile.get("AZURE_TENANT_ID"), profile.get("AZURE_CLIENT_ID")
    file = profile.get("AZURE_FEDERATED_TOKEN_FILE")
    if tenant and client and file:
        yield WorkloadIdentityCredential(tenant_id=tenant, client_id=client, token_file_path=file, **options)


def _machine(profile: Profile, options: dict[str, Any]) -> Iterator[TokenCredential]:
    yield ManagedIdentityCredential(
        client_id=profile.get("AZURE_CLIENT_ID"),
        retry_total=options["retry_total"],
        transport=options["transport"],
    )


def _signed_in(kind: Callable[[], TokenCredential]) -> Way:
    return lambda _profile, _options: iter((kind(),))


WAYS: dict[str, Way] = {
    "environmentcredential": _service_principal,
    "workloadidentitycredential": _workload,
    "managedidentitycredential": _machine,
    "azureclicredential": _signed_in(AzureCliCredential),
    "azurepowershellcredential": _signed_in(AzurePowerShellCredential),
    "azuredeveloperclicredential": _signed_in(AzureDeveloperCliCredential),
}
"""The ways to sign in by azure-identity's names, in its order: three for programs, three for developers."""
