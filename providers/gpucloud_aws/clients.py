"""boto3 clients: one session, and one client per service, region and way of retrying, made on first use."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from gpucloud import __version__
from gpucloud.clouds.abilities import Audit
from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import CallObserver
from gpucloud_aws import audit
from gpucloud_aws.actions import refuse_nonsense, refuse_unlisted
from gpucloud_aws.errors import guarded, reading

if TYPE_CHECKING:
    from boto3.session import Session
    from types_boto3_ec2 import EC2Client
    from types_boto3_sts import STSClient

DEFAULT_REGION = "us-east-1"
READ_ATTEMPTS = 3
CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 60
KEPT_BRIEFLY = 4
"""Clients of EC2 at a time in a refresh, which asks every region."""


def _guard(class_attributes: dict[str, Any], **_: Any) -> None:
    """Handler of botocore's ``creating-client-class`` event: one guarded reader reads every answer.

    Args:
        class_attributes: the members of the class, among them a method for each operation; pages and waiters
            send through the same methods.
    """
    methods = {name: member for name, member in class_attributes.items() if callable(member)}
    class_attributes.update({name: _guarded_method(name, method) for name, method in methods.items()})


def _guarded_method(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def send_and_read(client: Any, *arguments: Any, **parameters: Any) -> Any:
        with reading(client.meta.method_to_api_mapping.get(name, name)):
            return guarded(method(client, *arguments, **parameters))

    return send_and_read


class Clients(Audit):
    """The clients of one set of credentials. Safe to use from several threads.

    Reads may be retried by the SDK; a changing call is sent once, because the engine decides, counts and
    journals its retries (AWS answers a shortage with HTTP 500, which the SDK would retry by itself).

    Args:
        profile: the credentials, endpoints and further settings.
    """

    _lock = threading.Lock()  # per process: no two threads import parts of the SDK at the same time

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._few = threading.BoundedSemaphore(KEPT_BRIEFLY)
        self._session: Session | None = None
        self._observer: CallObserver | None = None
        self._clients: dict[tuple[str, str, int], Any] = {}

    def watch(self, observer: CallObserver, /) -> None:
        """Reports each changing call from now on."""
        self._observer = observer

    @property
    def home_region(self) -> str:
        """The region of the profile or the SDK's configuration, otherwise ``us-east-1``."""
        with self._lock:
            return self._opened().region_name or DEFAULT_REGION

    def credentials_source(self) -> str:
        """Where the SDK found the credentials, in its own terms (``env``, ``shared-credentials-file``)."""
        with self._lock:
            found = self._opened().get_credentials()
        return "" if found is None else str(found.method)

    def partition(self, region: str) -> str:
        """``aws``, ``aws-cn`` or ``aws-us-gov``; ``aws`` for a region newer than the SDK."""
        from botocore.exceptions import UnknownRegionError

        with self._lock:
            try:
                return self._opened().get_partition_for_region(region)
            except UnknownRegionError:
                return "aws"

    def ec2(self, region: str) -> EC2Client:
        """EC2 for reading many regions at the same time, with the SDK's own retries for each."""
        client: EC2Client = self.client("ec2", region, attempts=READ_ATTEMPTS)
        return client

    def ec2_once(self, region: str) -> EC2Client:
        """EC2 for all other calls: every request is sent once, and the engine decides about retries."""
        client: EC2Client = self.client("ec2", region, attempts=1)
        return client

    def sts(self) -> STSClient:
        """STS in the home region."""
        client: STSClient = self.client("sts", self.home_region, attempts=READ_ATTEMPTS)
        return client

    def scheduler(self, region: str) -> Any:
        """EventBridge Scheduler of a region: every request is sent once."""
        return self.client("scheduler", region, attempts=1)

    def client(self, service: str, region: str, *, attempts: int) -> Any:
        """A client that sends only what :data:`gpucloud_aws.actions.ACTIONS` allows.

        Args:
            service: boto3's name of the service.
            region: the region's id.
            attempts: how often the SDK may send one request in all.
        """
        with self._lock:
            key = (service, region, attempts)
            if key not in self._clients:
                self._clients[key] = self._made(service, region, attempts)
            return self._clients[key]

    @contextmanager
    def briefly(self, region: str) -> Generator[EC2Client]:
        """EC2 of a region for one inquiry of many. Each client takes several MB: few are kept."""
        with self._few:
            try:
                yield self.ec2(region)
            finally:
                with self._lock:
                    for key in [key for key in self._clients if key[:2] == ("ec2", region)]:
                        del self._clients[key]

    def _made(self, service: str, region: str, attempts: int) -> Any:
        from botocore.config import Config

        session: Any = self._opened()
        made = session.client(
            service,
            region_name=region,
            config=Config(
                retries={"mode": "standard", "total_max_attempts": attempts},
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=READ_TIMEOUT_S,
                max_pool_connections=32,
                user_agent_extra=f"gpucloud/{__version__}",
            ),
        )
        made.meta.events.register("before-send", refuse_unlisted)
        made.meta.events.register("after-call", refuse_nonsense)
        if self._observer is not None:
            audit.listen(made.meta.events, region, self._observer)
        return made

    def _opened(self) -> Session:
        if self._session is None:
            from boto3.session import Session

            from gpucloud_aws.models import allowed_operations
            from gpucloud_aws.session import ProfileSession

            # At DEBUG the SDK writes whole requests: boot scripts and signatures.
            logging.getLogger("botocore").setLevel(logging.INFO)
            core: Any = ProfileSession(self.profile)
            core.register("creating-client-class", _guard)
            core.register_component("data_loader", allowed_operations(core.get_component("data_loader")))
            self._session = Session(botocore_session=core)
        return self._session
