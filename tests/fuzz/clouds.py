"""The readers of clouds' answers: providers with the vendors' SDKs, whose connections end in this process.

The first line of an input has a reader (``tests.providers.readers``) and a call; the rest is the answer to
that call. All other calls have whole answers, made from the vendors' models.
"""

from __future__ import annotations

import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import urllib3
from azure.core.credentials import AccessToken

from gpucloud.clouds.profile import Profile
from gpucloud_alibaba import actions as alibaba_actions
from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_aws import actions as aws_actions
from gpucloud_aws.provider import AwsProvider
from gpucloud_azure.provider import AzureProvider
from tests.providers import alibaba_wire, aws_wire, azure_wire
from tests.providers.answers import Damage, alibaba_answer, aws_answer, azure_answer
from tests.providers.readers import AT, READERS, read

MOST_CALLS = 60
"""Of one input: a call beyond is not answered. An answer may ask for another page again and again."""
READS = (
    *("get", "find", "quotes", "headroom", "held", "prices", "tariffs", "commitments"),
    *("console", "identity", "permissions"),
)
"""The readers that change nothing, and so wait for nothing."""
WHOLE = Damage(0, 0.0)
_SERVICES = {operation: service for service, operation in aws_actions.ACTIONS}
_PRODUCTS = {action: product for product, action in alibaba_actions.ACTIONS}


@dataclass
class Wire:
    """Answers requests in this process.

    Attributes:
        call: the call whose answer is ``answer``.
        asked: every call that was answered, with its answer.
    """

    whole: Callable[[str], str | None]
    call: str = ""
    answer: bytes = b""
    asked: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])

    def urlopen(self, method: str, url: str, body: Any = None, headers: Any = None, **_: Any) -> Any:
        """As urllib3's pools of connections have it: all three SDKs send by one."""
        call = _call_of(method, url, body, headers or {})
        given = self.answer if self.call and self.call == call else None
        if given is None:
            text = self.whole(call) if len(self.asked) < MOST_CALLS else None
            given = None if text is None else text.encode()
        self.asked.append((call, given or b""))
        return urllib3.HTTPResponse(
            body=io.BytesIO(b"{}" if given is None else given),
            status=404 if given is None else 200,
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
    made.clients._made["credential"] = _Token()
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


@cache
def _clients(cloud: str) -> Any:
    """The SDK's clients, which take long to make."""
    return CLOUDS[cloud][0]().clients


@contextmanager
def connected(cloud: str, call: str = "", answer: bytes = b"") -> Iterator[tuple[Any, Wire]]:
    """A provider whose connections end here, with one answer of its own."""
    make, whole = CLOUDS[cloud]
    wire = Wire(cache(whole), call, answer)
    with mock.patch.object(urllib3.HTTPConnectionPool, "urlopen", _bound(wire)):
        provider = make()
        provider.clients = _clients(cloud)
        yield provider, wire


def _bound(wire: Wire) -> Callable[..., Any]:
    return lambda _pool, *args, **options: wire.urlopen(*args, **options)


def cloud_answer(cloud: str, data: bytes) -> None:
    """A reader returns, or refuses the answer with a class."""
    head, _, answer = data.partition(b"\n")
    name, _, call = head.decode(errors="replace").partition(" ")
    if name not in READS:
        name = READS[zlib.crc32(head) % len(READS)]
    with connected(cloud, call, answer) as (provider, _wire):
        for question in READERS[name](provider, AT[cloud]):
            read(provider, question)


def whole_answers(cloud: str) -> Iterator[tuple[str, bytes]]:
    """An input for each call of each reader, with the whole answer; a name for each."""
    seen = set[str]()
    for name in READS:
        with connected(cloud) as (provider, wire):
            for question in READERS[name](provider, AT[cloud]):
                read(provider, question)
            for call, answer in list(wire.asked):
                if answer and call not in seen:
                    seen.add(call)
                    plain = re.sub(r"[^A-Za-z]+", "-", call.rpartition("/providers/")[2]).strip("-")
                    yield f"{name}-{plain}"[:60], f"{name} {call}\n".encode() + answer
