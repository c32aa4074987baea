"""The credentials that sign requests, by a profile's settings. Imports the SDK: import it when needed.

The SDK's own chain reads the process's environment, once, when it is imported; this is the same chain over a
profile.
"""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from alibabacloud_credentials.client import Client
from alibabacloud_credentials.exceptions import CredentialException
from alibabacloud_credentials.provider import (
    CLIProfileCredentialsProvider,
    EcsRamRoleCredentialsProvider,
    OIDCRoleArnCredentialsProvider,
    ProfileCredentialsProvider,
    StaticAKCredentialsProvider,
    StaticSTSCredentialsProvider,
    URLCredentialsProvider,
)

from gpucloud.clouds.profile import Profile

_PREFIX = "ALIBABA_CLOUD_"


def credential(profile: Profile) -> Any:
    """The SDK's client of the first source that has credentials.

    Args:
        profile: the settings, by the names of the variables that the SDK reads.
    """
    chain: Any = _Chain(profile)
    return Client(provider=chain)


class _Chain:
    """Sources of credentials, tried in order; the first that has some is used from then on."""

    def __init__(self, profile: Profile) -> None:
        self._sources = list(_sources(profile))
        self._used: Any = None

    def get_credentials(self) -> Any:
        """Credentials, renewed where they expire.

        Raises:
            CredentialException: no source has any.
        """
        if self._used is not None:
            return self._used.get_credentials()
        failures: list[str] = []
        for source in self._sources:
            try:
                found = source.get_credentials()
            except Exception as error:  # the SDK's sources raise what they like
                failures.append(f"{source.get_provider_name()}: {error}")
            else:
                self._used = source
                return found
        raise CredentialException(f"no source has credentials: {'; '.join(failures)}")

    def get_provider_name(self) -> str:
        """The SDK's name for such a chain."""
        return "default"


def _sources(profile: Profile) -> Iterator[Any]:
    """The variables, OIDC, the command line's profiles, the SDKs' file, the instance's role, a URI."""
    key, secret, token, role, provider, file, uri, name = (
        profile.get(_PREFIX + each)
        for each in (
            *("ACCESS_KEY_ID", "ACCESS_KEY_SECRET", "SECURITY_TOKEN", "ROLE_ARN", "OIDC_PROVIDER_ARN"),
            *("OIDC_TOKEN_FILE", "CREDENTIALS_URI", "PROFILE"),
        )
    )
    if key and secret and token:
        yield StaticSTSCredentialsProvider(access_key_id=key, access_key_secret=secret, security_token=token)
    elif key and secret:
        yield StaticAKCredentialsProvider(access_key_id=key, access_key_secret=secret)
    if role and provider and file:
        yield OIDCRoleArnCredentialsProvider(
            role_arn=role,
            oidc_provider_arn=provider,
            oidc_token_file_path=file,
            role_session_name=profile.get(_PREFIX + "ROLE_SESSION_NAME") or "gpucloud",
            sts_region_id=profile.get(_PREFIX + "STS_REGION") or "",
            enable_vpc=profile.is_on(_PREFIX + "VPC_ENDPOINT_ENABLED"),
        )
    if not profile.is_on(_PREFIX + "CLI_PROFILE_DISABLED"):
        yield CLIProfileCredentialsProvider(
            profile_name=name or "", profile_file=str(profile.home / ".aliyun" / "config.json")
        )
    yield ProfileCredentialsProvider(
        profile_name=name or "default",
        profile_file=profile.get(_PREFIX + "CREDENTIALS_FILE")
        or str(profile.home / ".alibabacloud" / "credentials.ini"),
    )
    instance_role = profile.get(_PREFIX + "ECS_METADATA")
    # Elsewhere the metadata address does not answer, and the SDK waits for it for seconds.
    if (instance_role or _on_an_instance()) and not profile.is_on(_PREFIX + "ECS_METADATA_DISABLED"):
        yield EcsRamRoleCredentialsProvider(
            role_name=instance_role or "", disable_imds_v1=profile.is_on(_PREFIX + "IMDSV1_DISABLED")
        )
    if uri:
        yield URLCredentialsProvider(uri=uri)


def _on_an_instance() -> bool:
    """Whether this machine is an ECS instance, by its firmware."""
    try:
        return "Alibaba" in Path("/sys/class/dmi/id/product_name").read_text(encoding="utf-8")
    except OSError:
        return False
