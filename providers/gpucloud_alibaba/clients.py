"""The SDK's clients: one per product and region, made on first use, with a check of every request.

ECS is called through its typed client. The few calls to VPC and STS go through the SDK's generic one: the
typed VPC client costs 18 MB and 0.1 s more in every process (measured with 7.2.2).
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gpucloud import __version__
from gpucloud.clouds.abilities import Audit
from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import Answered, ApiCall, CallObserver
from gpucloud.errors import UsageError
from gpucloud_alibaba.actions import ACTIONS, PRODUCTS, Repeat, refuse_unlisted
from gpucloud_alibaba.connections import share_pools
from gpucloud_alibaba.errors import MalformedAnswerError, code_of, reading
from gpucloud_alibaba.models import ecs_models

if TYPE_CHECKING:
    from gpucloud_alibaba.oss import Oss

ENDPOINT_VARIABLE = "GPUCLOUD_ALIBABA_ENDPOINT"
REGION_VARIABLE = "ALIBABA_CLOUD_REGION_ID"
DEFAULT_REGION = "cn-hangzhou"  # answers for accounts of the international site as well
CONNECT_TIMEOUT_MS = 5_000
READ_TIMEOUT_MS = 60_000
CONNECTIONS = 64  # to one host; more than there are threads

VPC_CENTRAL = frozenset(
    {"cn-hangzhou", "cn-shanghai-finance-1", "cn-shenzhen-finance-1", "cn-north-2-gov-1", "cn-beijing-gov-1"}
    | {"cn-beijing-finance-pop", "cn-hangzhou-finance", "cn-hongkong-finance-pop", "cn-fujian", "cn-wuhan"}
)
"""Regions whose VPC answers at ``vpc.aliyuncs.com``; others have an address of their own. Source: the
endpoint map of alibabacloud-vpc20160428 7.2.2."""

_VERSIONS = {product: version for version, product in PRODUCTS.items()}
_TALKATIVE = {
    # Their messages are in the exceptions; each logger has a handler that writes to the terminal.
    "alibabacloud-tea": logging.CRITICAL,
    "credentials": logging.CRITICAL,
    "darabonba-core": logging.CRITICAL,
    # At DEBUG it logs whole URLs with all parameters, among them boot scripts.
    "urllib3.connectionpool": logging.INFO,
}


def _silence() -> None:
    """Keeps the SDK from writing to the terminal by itself, and requests out of every log."""
    for name, level in _TALKATIVE.items():
        logger = logging.getLogger(name)
        logger.setLevel(max(level, logger.level))
        if level is logging.CRITICAL:
            logger.handlers.clear()


_NAMES = (
    *(
        "InstanceId.1",
        "DiskId",
        "NetworkInterfaceId",
        "SecurityGroupId",
        "AllocationId",
        "VSwitchId",
        "VpcId",
    ),
    *("InstanceId", "ResourceId.1", "ClientToken"),
)
"""The parameters with the target of a call, the most specific first. No others are read."""


def _said(error: Exception) -> tuple[str, str | None]:
    """The cloud's code of a failure, or its name, and the request's id."""
    inner: Any = getattr(error, "inner_exception", None) or error
    data: Any = getattr(inner, "data", None)
    request_id: Any = dict(data or {}).get("RequestId")
    return code_of(error) or type(error).__name__, str(request_id) if request_id else None


def _untold(_outcome: str, _request_id: str | None, /) -> None:
    """Ignores the outcome of a call without an observer."""


@cache
def _guarded(kind: Any) -> Any:
    """A client class that checks every request against the list, and notes the call on its errors."""

    class Guarded(kind):  # type: ignore[misc]
        """Sends only what :mod:`gpucloud_alibaba.actions` allows."""

        gpucloud_observer: CallObserver | None = None
        gpucloud_address = ("", "")  # the protocol and the host of its configuration

        def call_api(self, params: Any, request: Any, runtime: Any) -> Any:
            protocol, host = self.gpucloud_address
            refuse_unlisted(
                version=params.version,
                action=params.action,
                parameters=request.query or {},
                protocol=protocol,
                host=host,
            )
            parent: Any = super()
            answered = self.gpucloud_sent(params, request.query or {})
            try:
                answer: Any = parent.call_api(params, request, runtime)
            except Exception as error:
                error.gpucloud_operation = params.action  # type: ignore[attr-defined]
                answered(*_said(error))
                raise
            if not isinstance(answer["body"], dict):
                answered("malformed", None)
                raise MalformedAnswerError(f"the answer to {params.action} is not a JSON object")
            request_id: Any = answer["body"].get("RequestId")
            answered("ok", str(request_id) if request_id else None)
            return answer

        def gpucloud_sent(self, params: Any, parameters: Mapping[str, str]) -> Answered:
            """Reports a changing call to the observer, if there is one."""
            action = (str(PRODUCTS.get(params.version, params.version)), str(params.action))
            harmless = ACTIONS.get(action) in {None, Repeat.SAFE} or "DryRun" in parameters
            if self.gpucloud_observer is None or harmless:
                return _untold
            target = next((parameters[name] for name in _NAMES if parameters.get(name)), "")
            region = parameters.get("RegionId", "")
            call = ApiCall(cloud="alibaba", region=region, action=":".join(action), target=target)
            told: Answered = self.gpucloud_observer(call)
            return told

        async def call_api_async(self, params: Any, request: Any, runtime: Any) -> Any:
            raise NotImplementedError("gpucloud sends nothing asynchronously")

    return Guarded


class GuardedReader:
    """A typed client whose calls refuse an answer that the SDK's models cannot take.

    Args:
        client: the SDK's client.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        """A member of the client; a method is guarded."""
        method: Any = getattr(self._client, name)
        if not callable(method):
            return method

        def call(*arguments: Any) -> Any:
            with reading(name):
                return method(*arguments)

        return call


def send(client: Any, request: Any) -> Any:
    """Sends a typed request by the method of its name: a ``DescribeDisksRequest`` by ``describe_disks``."""
    action = type(request).__name__.removesuffix("Request")
    return getattr(client, re.sub("(?<!^)(?=[A-Z])", "_", action).lower())(request)


def listed(value: Any) -> list[Any]:
    """A list from an answer; the SDK returns ``None`` for a missing member."""
    return list(value or ())


def has_more(rows: int, page: int, page_size: int, total: int | str | None) -> bool:
    """Whether another page follows one with so many rows.

    The rows decide: a total may be missing, or count what it should not. It counts where pages are shorter
    than asked for.
    """
    return rows >= page_size or (rows > 0 and page * page_size < int(total or 0))


class Clients(Audit):
    """The clients of one set of credentials. Safe to use from several threads.

    Every request is sent once: the SDK retries nothing by itself, and the engine decides about retries.

    Args:
        profile: the credentials, endpoints and further settings.
    """

    _lock = threading.RLock()  # per process: no two threads import parts of the SDK at the same time

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._credential: Any = None
        self._clients: dict[tuple[str, str], Any] = {}
        self.observer: CallObserver | None = None

    def watch(self, observer: CallObserver, /) -> None:
        """Reports each changing call from now on."""
        self.observer = observer

    @property
    def home_region(self) -> str:
        """The region for calls that are not regional."""
        return self.profile.get(REGION_VARIABLE) or DEFAULT_REGION

    def ecs(self, region: str) -> Any:
        """The typed client of ECS in a region."""
        return GuardedReader(self._client("ecs", region))

    def vpc(self, region: str, action: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """One call to VPC in a region; returns the answer's body."""
        body: Mapping[str, Any] = self.call("vpc", region, action, {"RegionId": region, **parameters})["body"]
        return body

    def call(
        self, product: str, region: str, action: str, parameters: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """One call without a typed client.

        Returns:
            ``body``, ``headers`` (lower-case names) and ``statusCode``.
        """
        client = self._client(product, region)
        utils: Any = import_module("alibabacloud_tea_openapi.utils").Utils
        kinds: Any = import_module("alibabacloud_tea_openapi.utils_models")
        runtime: Any = import_module("darabonba.runtime")
        asked = kinds.Params(
            action=action,
            version=_VERSIONS[product],
            protocol="HTTPS",
            pathname="/",
            method="POST",
            auth_type="AK",
            style="RPC",
            req_body_type="formData",
            body_type="json",
        )
        given = {name: value for name, value in parameters.items() if value is not None}
        with reading(action):
            answer: Mapping[str, Any] = client.call_api(
                asked, kinds.OpenApiRequest(query=utils.query(given)), runtime.RuntimeOptions()
            )
        return answer

    def oss(self, region: str) -> Oss:
        """OSS in a region."""
        with self._lock:
            key = ("oss", region)
            if key not in self._clients:
                from gpucloud_alibaba.oss import Oss

                self._clients[key] = Oss(
                    self.profile, self.credential(), region, self.own_url(), self.observer
                )
            found: Oss = self._clients[key]
            return found

    def own_url(self) -> str | None:
        """The URL that all products are sent to; ``None`` for Alibaba Cloud's own."""
        host, protocol = own_endpoint(self.profile)
        return None if host is None else f"{protocol}://{host}"

    def credential(self) -> Any:
        """The credentials that sign requests; searched for once."""
        with self._lock:
            if self._credential is None:
                from gpucloud_alibaba.credentials import credential

                self._credential = credential(self.profile)
                _silence()
            return self._credential

    def _client(self, product: str, region: str) -> Any:
        with self._lock:
            key = (product, region)
            if key not in self._clients:
                self._clients[key] = self._made(product, region)
            return self._clients[key]

    def _made(self, product: str, region: str) -> Any:
        package = "alibabacloud_tea_openapi"
        if product == "ecs":
            ecs_models()
            package = "alibabacloud_ecs20140526"
        kind: Any = import_module(f"{package}.client").Client
        kinds: Any = import_module("alibabacloud_tea_openapi.utils_models")
        _silence()
        share_pools()
        endpoint, protocol = own_endpoint(self.profile)
        if endpoint is None and product != "ecs":
            endpoint = _endpoint_of(product, region)
        host = endpoint or _endpoint_of(product, region)
        proxies = self.profile.proxies(f"{protocol}://{host}")
        config = kinds.Config(
            credential=self.credential(),
            region_id=region,
            endpoint=endpoint,
            protocol=protocol,
            connect_timeout=CONNECT_TIMEOUT_MS,
            read_timeout=READ_TIMEOUT_MS,
            max_idle_conns=CONNECTIONS,
            user_agent=f"gpucloud/{__version__}",
            ca=self.profile.ca_bundle,
            http_proxy=proxies.get("http"),
            https_proxy=proxies.get("https"),
        )
        client = _guarded(kind)(config)
        client.gpucloud_observer = self.observer
        client.gpucloud_address = (protocol, host)
        return client


def own_endpoint(profile: Profile) -> tuple[str | None, str]:
    """The host that all products are sent to, and the protocol; ``None`` for the SDK's own endpoints.

    Raises:
        UsageError: ``GPUCLOUD_ALIBABA_ENDPOINT`` is no http or https URL.
    """
    url = profile.get(ENDPOINT_VARIABLE)
    if not url:
        return None, "https"
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise UsageError(f"{ENDPOINT_VARIABLE}={url} is not an http or https URL")
    return parts.netloc, parts.scheme


def _endpoint_of(product: str, region: str) -> str:
    if product == "sts" or region in VPC_CENTRAL:
        return f"{product}.aliyuncs.com"
    return f"{product}.{region}.aliyuncs.com"
