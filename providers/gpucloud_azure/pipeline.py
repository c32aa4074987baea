"""The policies that every request to Resource Manager passes. Imports the SDK: import it when needed.

Unlike the SDK's own pipeline, this one registers no resource provider by itself (that changes the
subscription), follows no redirect (a token goes to one place only), and repeats nothing but reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azure.core.pipeline.policies import (
    ContentDecodePolicy,
    HeadersPolicy,
    HttpLoggingPolicy,
    RequestIdPolicy,
    RetryPolicy,
    SansIOHTTPPolicy,
    UserAgentPolicy,
)

from gpucloud import __version__
from gpucloud_azure.actions import refuse_unlisted

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

READS = frozenset({"GET", "HEAD"})
READ_RETRIES = 2
THROTTLED = 429


class ReadRetries(RetryPolicy[Any, Any]):
    """Repeats reads a little. What changes anything, and waiting while throttled, is for the engine."""

    def __init__(self) -> None:
        super().__init__(retry_total=READ_RETRIES, retry_backoff_factor=0.2, retry_backoff_max=2)
        self._method_whitelist = READS

    def is_retry(self, settings: dict[str, Any], response: Any) -> bool:
        """Whether an answer is asked for again."""
        answer = response.http_response
        if answer.status_code == THROTTLED or answer.request.method not in READS:
            return False
        return super().is_retry(settings, response)


class AllowList(SansIOHTTPPolicy[Any, Any]):
    """Sends only what :data:`gpucloud_azure.actions.ACTIONS` allows."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    def on_request(self, request: Any) -> None:
        """Refuses, or does nothing."""
        refuse_unlisted(request.http_request.method, request.http_request.url, self._endpoint)


def policies_of(credential: TokenCredential, scope: str, endpoint: str) -> list[Any]:
    """A fresh chain of policies for one client: the SDK links them to each other, so none is shared."""
    from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy

    return [
        RequestIdPolicy(),
        HeadersPolicy(),
        _user_agent(),
        ContentDecodePolicy(),
        ReadRetries(),
        AllowList(endpoint),
        ARMChallengeAuthenticationPolicy(credential, scope),
        HttpLoggingPolicy(),
    ]


def open_policies() -> list[Any]:
    """A chain for what needs no credentials and must be given none: prices, and the console's blob."""
    return [RequestIdPolicy(), HeadersPolicy(), _user_agent(), ContentDecodePolicy(), ReadRetries()]


def _user_agent() -> UserAgentPolicy:
    return UserAgentPolicy(base_user_agent=f"gpucloud/{__version__}")
