"""A session of the SDK that takes its settings from a profile. Imports the SDK: import it when needed.

The SDK's own session reads the process's environment in a dozen places. This replaces those that decide
about the account and its endpoints: settings, credentials, endpoints, proxies, certificates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.config import Config
from botocore.configprovider import (
    BOTOCORE_DEFAUT_SESSION_VARIABLES,
    ConfigChainFactory,
    ConfiguredEndpointProvider,
)
from botocore.credentials import (
    AssumeRoleProvider,
    AssumeRoleWithWebIdentityProvider,
    CanonicalNameCredentialSourcer,
    ContainerProvider,
    CredentialResolver,
    EnvProvider,
    InstanceMetadataProvider,
    ProfileProviderBuilder,
)
from botocore.session import Session as BotocoreSession
from botocore.utils import InstanceMetadataFetcher, resolve_imds_endpoint_mode

from gpucloud.clouds.profile import Profile

_FILES = {"config_file": "config", "credentials_file": "credentials"}
_WEB_IDENTITY = {
    "web_identity_token_file": "AWS_WEB_IDENTITY_TOKEN_FILE",
    "role_arn": "AWS_ROLE_ARN",
    "role_session_name": "AWS_ROLE_SESSION_NAME",
}


class ProfileSession(BotocoreSession):
    """The SDK's session for one profile.

    Args:
        profile: the settings.
    """

    def __init__(self, profile: Profile) -> None:
        super().__init__()
        self._gpucloud_profile = profile
        _read_settings(self, profile)
        self.lazy_register_component("credential_provider", lambda: _resolver(self, profile))

    def create_client(  # type: ignore[override]  # both boto3 and botocore name all that follows the region
        self, service_name: Any, region_name: Any = None, **options: Any
    ) -> Any:
        """A client with the profile's endpoints and proxies, also for the SDK's own calls for roles."""
        profile = self._gpucloud_profile
        endpoint = options.pop("endpoint_url", None) or self._endpoint(service_name)
        verify = options.pop("verify", None) or self.get_config_variable("ca_bundle") or profile.ca_bundle
        url = endpoint or f"https://{service_name}.{region_name}.amazonaws.com"
        settings: dict[str, Any] = {"ignore_configured_endpoint_urls": True, "proxies": profile.proxies(url)}
        settled, config = Config(**settings), options.pop("config", None)
        return super().create_client(
            service_name,
            region_name,
            endpoint_url=endpoint,
            verify=True if verify is None else verify,
            config=settled if config is None else config.merge(settled),
            **options,
        )

    def _endpoint(self, service: str) -> str | None:
        """The endpoint that the settings or the configuration file name for a service, if they do."""
        if self.get_config_variable("ignore_configured_endpoint_urls"):
            return None
        configured: Any = ConfiguredEndpointProvider(
            full_config=self.full_config,
            scoped_config=self.get_scoped_config(),
            client_name=service,
            environ=self._gpucloud_profile.variables,
        )
        found: str | None = configured.provide()
        return found


def _read_settings(session: Any, profile: Profile) -> None:
    """Lets a session take each setting that an environment variable can name from the profile."""
    chains: Any = ConfigChainFactory(session=session, environ=profile.variables)
    store = session.get_component("config_store")
    for name, (in_file, variables, default, convert) in BOTOCORE_DEFAUT_SESSION_VARIABLES.items():
        file = _FILES.get(name)
        chain = chains.create_config_chain(
            instance_name=name,
            env_var_names=variables,
            config_property_names=in_file,
            default=str(profile.home / ".aws" / file) if file else default,
            conversion_func=convert,
        )
        store.set_config_provider(name, chain)


def _resolver(session: Any, profile: Profile) -> Any:
    """The SDK's chain of credentials (``create_credential_resolver``, botocore 1.44), over a profile."""
    variables = dict(profile.variables)
    name = session.get_config_variable("profile") or "default"
    cache: dict[str, Any] = {}

    def client_of(service: str, **options: Any) -> Any:
        region = session.get_config_variable("region") or "us-east-1"
        return session.create_client(service, **{"region_name": region, **options})

    environment = EnvProvider(environ=variables)
    container = ContainerProvider(environ=variables)
    instance = InstanceMetadataProvider(
        iam_role_fetcher=InstanceMetadataFetcher(
            timeout=session.get_config_variable("metadata_service_timeout"),
            num_attempts=session.get_config_variable("metadata_service_num_attempts"),
            user_agent=session.user_agent(),
            env=variables,
            config={
                "ec2_metadata_service_endpoint": session.get_config_variable("ec2_metadata_service_endpoint"),
                "ec2_metadata_service_endpoint_mode": resolve_imds_endpoint_mode(session),
                "ec2_metadata_v1_disabled": session.get_config_variable("ec2_metadata_v1_disabled"),
            },
        )
    )
    from_files: Any = ProfileProviderBuilder(session, cache=cache)
    return CredentialResolver(
        providers=[
            environment,
            AssumeRoleProvider(
                load_config=lambda: session.full_config,
                client_creator=client_of,
                cache=cache,
                profile_name=name,
                credential_sourcer=CanonicalNameCredentialSourcer([environment, container, instance]),
                profile_provider_builder=from_files,
            ),
            AssumeRoleWithWebIdentityProvider(
                load_config=lambda: {"profiles": {name: _web_identity(variables)}},
                client_creator=client_of,
                profile_name=name,
                cache=cache,
                disable_env_vars=True,
            ),
            *from_files.providers(profile_name=name, disable_env_vars=True),
            container,
            instance,
        ]
    )


def _web_identity(variables: Mapping[str, str]) -> dict[str, str]:
    return {key: variables[name] for key, name in _WEB_IDENTITY.items() if variables.get(name)}
