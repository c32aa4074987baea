"""The policies of every request to Resource Manager. Imports the SDK: import it when needed.

Unlike the SDK's own pipeline, this one registers no resource provider by itself (that changes the
subscription), follows no redirect (a token goes to one host only), and retries only reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from azure.core.pipeline.policies import (
    ContentDecodePolicy,
    HeadersPolicy,
    HttpLoggingPolicy,
    HTTPPolicy,
    RequestIdPolicy,
    RetryPolicy,
    SansIOHTTPPolicy,
    UserAgentPolicy,
)

from gpucloud import __version__
from gpucloud.clouds.fetch import is_trusted
from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import ApiCall, CallObserver
from gpucloud_azure.actions import changing, refuse_unlisted, region_in
from gpucloud_azure.errors import ActionRefusedError
from gpucloud_azure.json_paths import refuse_nonsense

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

READS = frozenset({"GET", "HEAD"})
READ_RETRIES = 2
THROTTLED = 429


class ReadRetries(RetryPolicy[Any, Any]):
    """Retries reads a few times. The engine retries changing and throttled calls."""

    def __init__(self) -> None:
        super().__init__(retry_total=READ_RETRIES, retry_backoff_factor=0.2, retry_backoff_max=2)

    def is_retry(self, settings: dict[str, Any], response: Any) -> bool:
        """Whether an answer calls for a repetition."""
        return response.http_response.status_code != THROTTLED and super().is_retry(settings, response)

    def increment(
        self, settings: dict[str, Any], response: Any = None, error: Exception | None = None
    ) -> bool:
        """Whether a request is sent again, after an answer or a failure; the SDK asks before each repetition.

        Args:
            settings: the SDK's counters.
            response: the answer, or the request that has none.
            error: the failure.
        """
        if response.http_request.method not in READS:
            return False
        return super().increment(settings, response=response, error=error)


class Proxies(SansIOHTTPPolicy[Any, Any]):
    """Sends each request through the profile's proxies for its URL."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def on_request(self, request: Any) -> None:
        """Sets the transport's option."""
        request.context.options["proxies"] = self._profile.proxies(str(request.http_request.url))


class AllowList(SansIOHTTPPolicy[Any, Any]):
    """Sends only what :data:`gpucloud_azure.actions.ACTIONS` allows."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    def on_request(self, request: Any) -> None:
        """Refuses, or does nothing."""
        refuse_unlisted(request.http_request.method, request.http_request.url, self._endpoint)


class TrustedOnly(SansIOHTTPPolicy[Any, Any]):
    """Asks only addresses with TLS, or of this machine: some come from answers."""

    def on_request(self, request: Any) -> None:
        """Refuses, or does nothing."""
        url = urlsplit(str(request.http_request.url))
        if not is_trusted(url.geturl()):
            raise ActionRefusedError(
                f"{url.scheme}://{url.netloc} was not asked: it has no TLS, or is no host"
            )


class Sense(SansIOHTTPPolicy[Any, Any]):
    """Refuses malformed answers: the SDK would read them partially."""

    def on_response(self, request: Any, response: Any) -> None:  # noqa: ARG002  (the SDK's signature)
        """Refuses, or does nothing."""
        refuse_nonsense(response.http_response)


class AuditPolicy(HTTPPolicy[Any, Any]):
    """Reports every changing call, before it is sent and with its outcome."""

    def __init__(self, observer: CallObserver) -> None:
        super().__init__()
        self._observer = observer

    def send(self, request: Any) -> Any:
        """Passes the request on."""
        path = str(urlsplit(str(request.http_request.url)).path)
        action = changing(request.http_request.method, path)
        if action is None:
            return self.next.send(request)
        call = ApiCall(cloud="azure", region=region_in(path), action=action.permission, target=path)
        answered = self._observer(call)
        try:
            response = self.next.send(request)
        except Exception as error:
            answered(type(error).__name__, None)
            raise
        answer = response.http_response
        refused = answer.status_code >= 400
        outcome = answer.headers.get("x-ms-error-code") or str(answer.status_code) if refused else "ok"
        answered(outcome, answer.headers.get("x-ms-request-id"))
        return response


def policies_of(
    profile: Profile, credential: TokenCredential, scope: str, endpoint: str, observer: CallObserver | None
) -> list[Any]:
    """A new chain of policies for one client: the SDK links them to each other, so none is shared."""
    from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy

    return [
        RequestIdPolicy(),
        HeadersPolicy(),
        _user_agent(),
        ContentDecodePolicy(),
        Sense(),  # sees an answer before the SDK decodes it
        ReadRetries(),
        Proxies(profile),
        AllowList(endpoint),
        *([AuditPolicy(observer)] if observer is not None else []),
        ARMChallengeAuthenticationPolicy(credential, scope),
        HttpLoggingPolicy(),
    ]


def open_policies(profile: Profile) -> list[Any]:
    """A chain for requests that must have no credentials: prices, and the console's blob. None is decoded."""
    return [
        RequestIdPolicy(),
        HeadersPolicy(),
        _user_agent(),
        ReadRetries(),
        Proxies(profile),
        TrustedOnly(),
    ]


def _user_agent() -> UserAgentPolicy:
    return UserAgentPolicy(base_user_agent=f"gpucloud/{__version__}")
