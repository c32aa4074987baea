"""OSS through its own SDK, by a profile's settings. Imports the SDK: import it when needed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any
from xml.etree.ElementTree import ParseError

from requests import Session
from requests.adapters import HTTPAdapter

from gpucloud import __version__
from gpucloud.clouds.kit import observed
from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import ApiCall, CallObserver, Verdict
from gpucloud_alibaba.actions import ACTIONS, Repeat, refuse_unlisted
from gpucloud_alibaba.errors import MalformedAnswerError, classify, reading

sdk: Any = import_module("alibabacloud_oss_v2")
transport: Any = import_module("alibabacloud_oss_v2.transport")

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 60


class _Trusting(HTTPAdapter):
    """Connections that trust an authority of the profile's; the SDK has no setting for it.

    Args:
        ca_bundle: a file or folder of certificates.
    """

    def __init__(self, ca_bundle: str) -> None:
        super().__init__()
        self._ca_bundle = ca_bundle

    def send(self, request: Any, **options: Any) -> Any:  # type: ignore[override]  # a session names them all
        """One request, whatever the SDK says of certificates."""
        options["verify"] = self._ca_bundle
        return super().send(request, **options)


class Oss:
    """OSS in a region. Every request is checked against the list of calls, and sent once.

    Args:
        profile: certificates and proxies.
        credential: the client of the SDK's credentials, which renews them.
        region: where the buckets are.
        endpoint: the URL of a service to use instead of Alibaba Cloud's own.
        observer: called for every changing call.
    """

    def __init__(
        self,
        profile: Profile,
        credential: Any,
        region: str,
        endpoint: str | None,
        observer: CallObserver | None = None,
    ) -> None:
        self._region, self._observer = region, observer
        self.url = endpoint or f"https://oss-{region}.aliyuncs.com"
        self._credential = credential
        session = Session()
        session.trust_env = False  # the settings are the profile's
        if profile.ca_bundle:
            session.mount("https://", _Trusting(profile.ca_bundle))
        sender = transport.RequestsHttpClient(
            session=session,
            connect_timeout=CONNECT_TIMEOUT_S,
            readwrite_timeout=READ_TIMEOUT_S,
            proxy_host=profile.proxies(self.url),
        )
        self._client: Any = sdk.Client(
            sdk.config.Config(
                region=region,
                endpoint=self.url,
                use_path_style=endpoint is not None,
                credentials_provider=sdk.credentials.CredentialsProviderFunc(self._keys),
                retry_max_attempts=1,
                http_client=sender,
                user_agent=f"gpucloud/{__version__}",
            )
        )

    def ask(self, action: str, **members: Any) -> Any:
        """One call, by the members of the SDK's request; returns the SDK's result.

        Raises:
            ActionRefusedError: it is not among the calls that may be sent.
            MalformedAnswerError: the answer could not be read.
            Exception: what the SDK raised within its ``OperationError``, which says less.
        """
        self._keys()  # the SDK would hide why there are none
        protocol, _, host = self.url.partition("://")
        refuse_unlisted(version="oss", action=action, parameters={}, protocol=protocol, host=host)
        request = getattr(sdk, f"{action}Request")(**members)
        method = getattr(self._client, re.sub(r"(?<!^)(?=[A-Z])", "_", action).lower())
        try:
            with self._observed(action, members), reading(action):
                return method(request)
        except ParseError as error:
            raise MalformedAnswerError(f"the answer to {action} is no XML: {error}") from error
        except sdk.exceptions.OperationError as error:
            inner: Exception = error.unwrap()
            inner.gpucloud_operation = action  # type: ignore[attr-defined]
            raise inner from error

    def _observed(self, action: str, members: Mapping[str, Any]) -> AbstractContextManager[None]:
        target = f"{members.get('bucket', '')}/{members.get('key', '')}"
        call = ApiCall(cloud="alibaba", region=self._region, action=f"oss:{action}", target=target)
        changes = ACTIONS["oss", action] is not Repeat.SAFE
        return observed(self._observer if changes else None, call, _told)

    def _keys(self) -> Any:
        found = self._credential.get_credential()
        return sdk.credentials.Credentials(found.access_key_id, found.access_key_secret, found.security_token)


def _told(error: Exception) -> Verdict | None:
    """What an exception says; the SDK's own error of an operation says less than what that has inside."""
    told: Any = error
    return classify(told.unwrap() if isinstance(error, sdk.exceptions.OperationError) else error)
