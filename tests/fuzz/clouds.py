"""The readers of clouds' answers: providers with the vendors' SDKs, whose connections end in this process.

The first line of an input has a reader (``tests.providers.readers``) and a call, and before them an HTTP
status where it is not 200; the rest is the answer to that call. All other calls have whole answers, made from
the vendors' models. What a reader asks of its cloud without that call is left out, and nothing waits, so that
an input takes milliseconds.
"""

from __future__ import annotations

import io
import json
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

import urllib3
from azure.core.credentials import AccessToken

from gpucloud.clouds.cloud import Backoff, Cloud
from gpucloud.clouds.profile import Profile
from gpucloud.errors import GpucloudError
from gpucloud.resources import Quote
from gpucloud_alibaba import actions as alibaba_actions
from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_aws import actions as aws_actions
from gpucloud_aws.provider import AwsProvider
from gpucloud_azure.provider import AzureProvider
from tests.fuzz.shown import is_shown
from tests.providers import alibaba_wire, aws_wire, azure_wire
from tests.providers.answers import Damage, alibaba_answer, aws_answer, azure_answer
from tests.providers.readers import AT, READERS, read

MOST_CALLS = 60
"""Of one input: a call beyond is not answered."""
MOST_PAGES = 3
"""The answer of an input may ask for another page again and again; after so many, it is the whole one."""
READS = (
    *("get", "find", "quotes", "headroom", "held", "prices", "tariffs", "commitments"),
    *("console", "identity", "permissions"),
)
"""The readers that change nothing."""
CHANGES = ("launch", "admit", "extend", "ensure_end")
"""The others."""
APART = frozenset({"get", "find", "quotes", "headroom", "launch"})
"""The readers that ask several things, none of which follows from what another is answered: one is asked."""
WHOLE = Damage(0, 0.0)
CONFIRMED = f"GET /subscriptions/{azure_wire.SUBSCRIPTION}"
"""A call that clients of Azure make once."""
_STATUS = re.compile(r"([345]\d\d) ")
_SERVICES = {operation: service for service, operation in aws_actions.ACTIONS}
_PRODUCTS = {action: product for product, action in alibaba_actions.ACTIONS}


@dataclass
class Wire:
    """Answers requests in this process.

    Attributes:
        call: the call whose answer is ``answer``, with this ``status`` of HTTP.
        asked: every call that was made.
    """

    whole: Callable[[str], str | None]
    call: str = ""
    answer: bytes = b""
    status: int = 200
    asked: list[str] = field(default_factory=list[str])

    def is_own(self, call: str) -> bool:
        """Whether a call has this input's answer, the next time that it is made."""
        return call == self.call and self.asked.count(call) < MOST_PAGES

    def urlopen(self, method: str, url: str, body: Any = None, headers: Any = None, **_: Any) -> Any:
        """As urllib3's pools of connections have it: all three SDKs send by one."""
        call = _call_of(method, url, body, headers or {})
        status, given = self.status, self.answer
        if not self.is_own(call):
            text = self.whole(call) if len(self.asked) < MOST_CALLS else None
            status, given = (404, b"{}") if text is None else (200, text.encode())
        self.asked.append(call)
        return urllib3.HTTPResponse(
            body=io.BytesIO(given),
            status=status,
            headers={
                "Content-Type": "application/json",
                "Date": "Thu, 26 Nov 2026 12:00:00 GMT",
                "x-ms-request-id": "req-1",
            },
            preload_content=False,
            request_method=method,
        )


def _call_of(method: str, url: str, body: Any, headers: Mapping[str, Any]) -> str:
    """The action of AWS or Alibaba Cloud, or method and path for Azure."""
    told = {str(name).lower(): _plain(value) for name, value in headers.items()}
    form = parse_qs(_plain(body)) if isinstance(body, str | bytes) else {}
    named = told.get("x-acs-action") or (form.get("Action") or [""])[0]
    named = named or told.get("x-amz-target", "").rpartition(".")[2]
    path = urlsplit(url).path
    if "x-amz-date" in told and not named:
        return path.rpartition("/")[2]
    return named or f"{method} {path}"


def _plain(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


class _Token:
    """Azure's credentials without a sign-in."""

    def get_token(self, *_scopes: str, **_options: Any) -> AccessToken:
        return AccessToken("e30.e30.e30", 4_000_000_000)


def _aws_whole(call: str) -> str | None:
    if call == "GetCallerIdentity":
        return aws_wire.IDENTITY
    asked = "GetSchedule" if call.startswith("gpucloud-i-") else call
    return aws_answer(_SERVICES[asked], asked, WHOLE) if asked in _SERVICES else None


def _alibaba_whole(call: str) -> str | None:
    if call == "GetCallerIdentity":
        return json.dumps(alibaba_wire.IDENTITY)
    return json.dumps(alibaba_answer(_PRODUCTS[call], call, WHOLE)) if call in _PRODUCTS else None


def _azure_whole(call: str) -> str | None:
    method, _, path = call.partition(" ")
    answer = azure_answer(method, path, WHOLE)
    return None if answer is None else json.dumps(answer)


def _aws() -> AwsProvider:
    return AwsProvider(
        Profile(
            {
                "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
                "AWS_SECRET_ACCESS_KEY": "not-a-secret",
                "AWS_REGION": "us-east-1",
                "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
                "GPUCLOUD_AWS_SPOT_ADVISOR_URL": "http://[",  # it is read by another way
            }
        )
    )


def _azure() -> AzureProvider:
    made = AzureProvider(
        Profile(
            {
                "AZURE_SUBSCRIPTION_ID": azure_wire.SUBSCRIPTION,
                "GPUCLOUD_AZURE_ENDPOINT": "https://127.0.0.1:9",
            }
        )
    )
    made.own_account.clients._made["credential"] = _Token()
    return made


def _alibaba() -> AlibabaProvider:
    profile = Profile(
        {
            "ALIBABA_CLOUD_ACCESS_KEY_ID": "LTAI5tExample",
            "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "not-a-secret",
            "ALIBABA_CLOUD_ECS_METADATA_DISABLED": "true",
            "GPUCLOUD_ALIBABA_ENDPOINT": "http://127.0.0.1:9",
        }
    )
    return AlibabaProvider(profile, sleep=lambda _seconds: None)


CLOUDS: Mapping[str, tuple[Callable[[], Any], Callable[[str], str | None]]] = {
    "aws": (_aws, _aws_whole),
    "azure": (_azure, _azure_whole),
    "alibaba": (_alibaba, _alibaba_whole),
}


# --- one input


@dataclass
class _Sdk:
    """The SDK's clients of a cloud, which take long to make, and the wire that they end at.

    Attributes:
        parsed: whole answers of AWS, as botocore has read them.
    """

    clients: Any
    wire: Wire
    parsed: dict[str, Any] = field(default_factory=dict[str, Any])

    def own(self) -> Any:
        """Clients of one input: those that it has made, for regions that it names, are not kept."""
        mine = copy(self.clients)
        for name, value in vars(mine).items():
            if isinstance(value, dict):
                setattr(mine, name, dict(value))
        if self.wire.call == CONFIRMED:
            mine._confirmed = None
        return mine

    def known(self, model: Any, **_: Any) -> Any:
        """What botocore is told before a call: the whole answer, if it has read it already."""
        call = model.name
        if call not in self.parsed or self.wire.call in {call, "gpucloud-i-1"}:
            return None
        if len(self.wire.asked) >= MOST_CALLS:
            return None
        self.wire.asked.append(call)
        return (self.parsed[call][0], deepcopy(self.parsed[call][1]))

    def learn(self, http_response: Any, parsed: Any, model: Any, **_: Any) -> None:
        """What botocore tells after a call."""
        if not self.wire.call:
            self.parsed[model.name] = (http_response, deepcopy(parsed))


@cache
def _sdk(cloud: str) -> _Sdk:
    sdk = _Sdk(CLOUDS[cloud][0]().own_account.clients, Wire(cache(CLOUDS[cloud][1])))
    if cloud == "aws":
        events = sdk.clients._opened().events
        events.register("before-call", sdk.known)
        events.register("after-call", sdk.learn)
    return sdk


@contextmanager
def connected(cloud: str, **given: Any) -> Iterator[tuple[Any, Wire]]:
    """A provider whose connections end here at once, with one answer of its own (see :class:`Wire`)."""
    sdk = _sdk(cloud)
    sdk.wire = Wire(sdk.wire.whole, **given)
    provider = CLOUDS[cloud][0]()
    provider.own_account.clients = sdk.own() if given else sdk.clients
    pool: Any = urllib3.HTTPConnectionPool
    real, sleep = pool.urlopen, time.sleep
    try:  # by hand: `mock` takes a hundred times as long
        pool.urlopen = lambda _pool, *args, **options: sdk.wire.urlopen(*args, **options)
        time.sleep = lambda _seconds: None
        yield provider, sdk.wire
    finally:
        pool.urlopen, time.sleep = real, sleep


@cache
def calls_of(cloud: str, names: Sequence[str]) -> Mapping[str, Sequence[frozenset[str]]]:
    """The calls of each question of these readers where all answers are whole; only of readers that call."""
    found: dict[str, list[frozenset[str]]] = {}
    for name in names:
        with connected(cloud) as (provider, wire):
            for question in READERS[name](provider, AT[cloud]):
                before = len(wire.asked)
                read(provider, question)
                found.setdefault(name, []).append(frozenset(wire.asked[before:]))
    return {name: calls for name, calls in found.items() if any(calls)}


def asked_by(cloud: str, names: Sequence[str], data: bytes) -> tuple[str, int, str, bytes]:
    """The reader, the status, the call and its answer of an input; a head of nonsense stands for any."""
    head, _, answer = data.partition(b"\n")
    text, any_number, readers = head.decode(errors="replace"), zlib.crc32(head), calls_of(cloud, names)
    refused = _STATUS.match(text)
    name, _, call = (text[refused.end() :] if refused else text).partition(" ")
    if name not in readers:
        name = sorted(readers)[any_number % len(readers)]
    calls = sorted(frozenset[str]().union(*readers[name]))
    if call not in calls:
        call = calls[any_number % len(calls)]
    return name, int(refused[1]) if refused else 200, call, answer


def cloud_answer(cloud: str, names: Sequence[str], data: bytes) -> None:
    """One of these readers returns, or refuses the answer with an error that is fit to be shown."""
    name, status, call, answer = asked_by(cloud, names, data)
    with connected(cloud, call=call, status=status, answer=answer) as (provider, _wire):
        asks = Cloud(provider=provider, backoff=Backoff(budget_s=0)).call
        fitting = [number for number, calls in enumerate(calls_of(cloud, names)[name]) if call in calls]
        chosen = fitting[zlib.crc32(data) % len(fitting)] if name in APART else None
        for number, question in enumerate(READERS[name](provider, AT[cloud])):
            if chosen not in {None, number}:
                continue
            try:
                _holds(asks("read the answer", question))
            except GpucloudError as error:
                is_shown(error)


def _holds(found: Any) -> None:
    """A price is one that somebody pays."""
    for each in found if isinstance(found, list | tuple) else ():
        assert not isinstance(each, Quote) or 0 < each.price_per_hour < Decimal("Infinity")
