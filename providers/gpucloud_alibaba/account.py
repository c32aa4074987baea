"""The account of the credentials: its clients, and what does not change while a program runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from gpucloud.clouds.kit import refuse_foreign
from gpucloud.resources import Ref
from gpucloud_alibaba.clients import Clients
from gpucloud_alibaba.errors import MalformedAnswerError, reading
from gpucloud_alibaba.models import ecs_models


class AlibabaAccount:
    """What the verbs and the abilities of the provider share. Safe to use from several threads.

    Two threads at the same time would only send a call twice.

    Args:
        clients: the clients of the account.
        clock: returns the time in UTC.
        sleep: waits some seconds.
    """

    def __init__(
        self,
        clients: Clients,
        clock: Callable[[], datetime],
        sleep: Callable[[float], None],
    ) -> None:
        self.clients = clients
        self.clock = clock
        self.sleep = sleep
        self._number: str | None = None

    def caller(self) -> Mapping[str, Any]:
        """The answer of STS about the caller: ``body`` and ``headers``."""
        return self.clients.call("sts", self.clients.home_region, "GetCallerIdentity", {})

    def number(self) -> str:
        """The account's number."""
        if self._number is None:
            body = self.caller()["body"]
            with reading("GetCallerIdentity"):
                self._number = str(body["AccountId"])
        return self._number

    def refuse_foreign(self, ref: Ref) -> None:
        """Refuses a resource of another account, which would return nothing: never to count as "gone".

        Raises:
            UsageError: the resource belongs to another account.
        """
        hint = "use the credentials that it was made with (ALIBABA_CLOUD_PROFILE)"
        refuse_foreign(ref, self.number(), account="Alibaba Cloud account", hint=hint)

    def regions(self) -> Sequence[str]:
        """The regions of the account, sorted.

        Raises:
            MalformedAnswerError: the cloud names none: a search of no region would find nothing.
        """
        models = ecs_models()
        ecs = self.clients.ecs(self.clients.home_region)
        body = ecs.describe_regions(models.DescribeRegionsRequest()).body
        with reading("DescribeRegions"):
            regions = sorted(str(region.region_id) for region in body.regions.region)
        if not regions:
            raise MalformedAnswerError("the answer to DescribeRegions names no region")
        return regions
