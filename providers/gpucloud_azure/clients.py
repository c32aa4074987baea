"""The SDK's clients: one credential, one connection pool, and one client per service, made on first use."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpucloud.clouds.abilities import Audit
from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import CallObserver
from gpucloud_azure.errors import MalformedAnswerError, NoSubscriptionError, reading

if TYPE_CHECKING:
    from azure.core import PipelineClient
    from azure.core.credentials import TokenCredential
    from azure.core.rest import HttpRequest
    from azure.mgmt.compute import ComputeManagementClient
    from azure.mgmt.computeschedule import ComputeScheduleMgmtClient
    from azure.mgmt.resource.resources import ResourceManagementClient

PUBLIC_ENDPOINT = "https://management.azure.com"
CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 60
PAGES = 1000  # more is not an account, it is a broken or hostile endpoint
SUBSCRIPTIONS_API = "2022-12-01"
CORE = ("azure.core", "azure.core.rest", "azure.core.pipeline.transport", "azure.core.exceptions")
"""Modules that several threads import at their first use."""
LOUD = ("azure", "msal", "urllib3")
"""At DEBUG these log whole requests: boot scripts, signed URLs, credentials."""


class Clients(Audit):
    """The clients of one set of credentials and one subscription. Safe to use from several threads.

    Network resources are created, read and deleted by id with the resource client: azure-mgmt-network would
    take a third of the memory that a launch may use (27 MB, 0.15 s) for the same calls.

    Args:
        profile: the credentials, endpoints and further settings.
    """

    # Held during imports of the SDK: threads that import at the same time, also those of another client in
    # the process, would see incomplete modules.
    _lock = threading.RLock()

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._made: dict[str, Any] = {}
        self._confirming = threading.Lock()
        self._confirmed: str | None = None
        self.observer: CallObserver | None = None

    def watch(self, observer: CallObserver, /) -> None:
        """Reports each changing call from now on."""
        self.observer = observer

    @property
    def endpoint(self) -> str:
        """Resource Manager's URL, without a slash at its end."""
        return (self.profile.get("GPUCLOUD_AZURE_ENDPOINT") or PUBLIC_ENDPOINT).rstrip("/")

    @property
    def scope(self) -> str:
        """The scope of a token."""
        return f"{self.endpoint}/.default"

    @property
    def credential(self) -> TokenCredential:
        """A service principal, a workload's or machine's identity, or a signed-in command-line tool."""
        made: TokenCredential = self._once("credential", self._credential)
        return made

    def subscription(self) -> str:
        """The id of the subscription in use, as Azure confirms it.

        Raises:
            NoSubscriptionError: the credentials have access to none or several, and none was chosen.
        """
        with self._confirming:
            if self._confirmed is None:
                self._confirmed = self._subscription()
            return self._confirmed

    def compute(self) -> ComputeManagementClient:
        """Machines, quotas, held capacity."""
        subscription = self.subscription()  # asked for before the lock is taken

        def make() -> ComputeManagementClient:
            from azure.mgmt.compute import ComputeManagementClient

            return ComputeManagementClient(self.credential, subscription, **self._options())

        client: ComputeManagementClient = self._once("compute", make)
        return client

    def resources(self) -> ResourceManagementClient:
        """Resource groups, and other resources by their ids."""
        subscription = self.subscription()  # asked for before the lock is taken

        def make() -> ResourceManagementClient:
            return self._resource_client(subscription)

        client: ResourceManagementClient = self._once("resources", make)
        return client

    def schedules(self) -> ComputeScheduleMgmtClient:
        """Scheduled actions."""
        subscription = self.subscription()  # asked for before the lock is taken

        def make() -> ComputeScheduleMgmtClient:
            from azure.mgmt.computeschedule import ComputeScheduleMgmtClient

            return ComputeScheduleMgmtClient(self.credential, subscription, **self._options())

        client: ComputeScheduleMgmtClient = self._once("schedules", make)
        return client

    def anonymous(self) -> PipelineClient[Any, Any]:
        """A client without credentials."""

        def make() -> PipelineClient[Any, Any]:
            from azure.core import PipelineClient

            from gpucloud_azure.pipeline import open_policies

            return PipelineClient("", policies=open_policies(self.profile), transport=self._transport())

        client: PipelineClient[Any, Any] = self._once("anonymous", make)
        return client

    def ask(self, path: str, *, api: str, **query: str) -> Mapping[str, Any]:
        """The answer to a GET under the subscription for which the SDK has no method.

        Args:
            path: below ``/subscriptions/{id}``, from its first slash.
            api: the API version.
            query: further parameters.
        """
        return self._get(self.resources(), self._in_subscription(path), api, query)[0]

    def pages(self, path: str, *, api: str, **query: str) -> Iterator[Mapping[str, Any]]:
        """The elements of a list for which the SDK has no method, or only one that reads too much."""
        return self.tenant_pages(self._in_subscription(path), api=api, **query)

    def tenant_pages(self, path: str, *, api: str, **query: str) -> Iterator[Mapping[str, Any]]:
        """The same for a path that is not below the subscription."""
        client = self.resources()
        from azure.core.rest import HttpRequest

        page = self._get(client, path, api, query)[0]
        for _ in range(PAGES):
            yield from page.get("value", [])
            following = page.get("nextLink")
            if not following:
                return
            page = self._sent(client, HttpRequest("GET", str(following)))[0]
        raise MalformedAnswerError(f"{path} gave {PAGES} pages and still more")

    def date(self) -> str:
        """The ``Date`` of an answer to a call without a subscription, which may not be known yet."""
        return self._get(self._directory(), "/subscriptions", SUBSCRIPTIONS_API, {})[1]

    def _in_subscription(self, path: str) -> str:
        return f"/subscriptions/{self.subscription()}{path}"

    # --- made once

    def _once(self, name: str, make: Any) -> Any:
        with self._lock:
            for module in CORE:
                import_module(module)
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]

    def _subscription(self) -> str:
        chosen = (self.profile.get("AZURE_SUBSCRIPTION_ID") or "").strip()
        client = self._directory()
        # Its import takes as long as the first answers do.
        load = partial(self._once, "sdk", partial(import_module, "azure.mgmt.compute"))
        threading.Thread(target=load, daemon=True).start()
        if chosen:
            answer, _ = self._get(client, f"/subscriptions/{chosen}", SUBSCRIPTIONS_API, {})
            return str(answer.get("subscriptionId") or chosen)
        answer, _ = self._get(client, "/subscriptions", SUBSCRIPTIONS_API, {})
        seen = [str(each["subscriptionId"]) for each in answer.get("value", []) if each.get("subscriptionId")]
        if len(seen) != 1:
            names = ", ".join(seen) if seen else "none"
            raise NoSubscriptionError(
                f"the credentials see {len(seen)} subscriptions ({names}): "
                "choose one in AZURE_SUBSCRIPTION_ID"
            )
        return seen[0]

    def _get(
        self, client: ResourceManagementClient, path: str, api: str, query: Mapping[str, str]
    ) -> tuple[Mapping[str, Any], str]:
        from azure.core.rest import HttpRequest

        return self._sent(
            client, HttpRequest("GET", self.endpoint + path, params={"api-version": api, **query})
        )

    def _sent(self, client: ResourceManagementClient, request: HttpRequest) -> tuple[Mapping[str, Any], str]:
        response = client.send_request(request)
        response.raise_for_status()
        with reading("a GET"):
            return response.json(), response.headers.get("Date", "")

    def _directory(self) -> ResourceManagementClient:
        """The client for calls without a subscription."""
        client: ResourceManagementClient = self._once("directory", lambda: self._resource_client("none"))
        return client

    def _resource_client(self, subscription: str) -> ResourceManagementClient:
        from azure.mgmt.resource.resources import ResourceManagementClient

        return ResourceManagementClient(self.credential, subscription, **self._options())

    def _options(self) -> dict[str, Any]:
        from gpucloud_azure.pipeline import policies_of

        return {
            "base_url": self.endpoint,
            "credential_scopes": [self.scope],
            "policies": policies_of(self.profile, self.credential, self.scope, self.endpoint, self.observer),
            "transport": self._transport(),
        }

    def _transport(self) -> Any:
        return self._once("transport", self._new_transport)

    def _new_transport(self) -> Any:
        from gpucloud_azure.transport import ssl_context, transport

        for name in LOUD:
            logging.getLogger(name).setLevel(logging.INFO)
        logging.getLogger("azure.identity").setLevel(logging.ERROR)  # its warnings are in its errors too
        context = self._once("ssl_context", partial(ssl_context, self.profile.ca_bundle))
        return transport(context, connect_s=CONNECT_TIMEOUT_S, read_s=READ_TIMEOUT_S)

    def _credential(self) -> TokenCredential:
        from gpucloud_azure.credentials import credential

        return credential(self.profile, self._new_transport)
