"""Alibaba Cloud in the sandbox for tests: the SDK, requests signed by hand, what passes a review."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.message import Message
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from xml.etree import ElementTree

import pytest

from gpucloud_sandbox.client import Endpoint, SandboxClient
from tests.sandbox.running import TAGS, HollowBoxes
from tests.waiting import PATIENCE_S

# The SDK has no types: its modules are taken as they are.
Client: Any = import_module("alibabacloud_tea_openapi.client").Client
ClientException: Any = import_module("alibabacloud_tea_openapi.exceptions").ClientException
ServerException: Any = import_module("alibabacloud_tea_openapi.exceptions").ServerException
Utils: Any = import_module("alibabacloud_tea_openapi.utils").Utils
shapes: Any = import_module("alibabacloud_tea_openapi.utils_models")
RuntimeOptions: Any = import_module("darabonba.runtime").RuntimeOptions

REGION = "us-east-1"
ZONE = "us-east-1a"
TYPE = "ecs.gn6i-c4g1.xlarge"
HERE = "198.51.100.7/32"
VERSIONS = {"ecs": "2014-05-26", "vpc": "2016-04-28", "sts": "2015-04-01", "quotas": "2020-05-10"}
TAG = [{"Key": key, "Value": value} for key, value in TAGS.items()]
RULE = {"IpProtocol": "TCP", "PortRange": "22/22", "SourceCidrIp": HERE}
SPOT: dict[str, Any] = {"SpotStrategy": "SpotAsPriceGo", "ZoneId": ZONE}


@dataclass
class Alibaba:
    """An account in the sandbox, as the vendor's SDK reaches it."""

    endpoint: Endpoint
    boxes: HollowBoxes

    @property
    def sandbox(self) -> SandboxClient:
        """Steers the sandbox."""
        return self.endpoint.client

    @property
    def origin(self) -> str:
        """The API's URL."""
        return self.endpoint.endpoints["alibaba"]

    @property
    def key(self) -> str:
        """The access key's id."""
        return self.endpoint.environ["ALIBABA_CLOUD_ACCESS_KEY_ID"]

    @property
    def secret(self) -> str:
        """The access key's secret."""
        return self.endpoint.environ["ALIBABA_CLOUD_ACCESS_KEY_SECRET"]

    def settings(self, **changes: str) -> Any:
        """What the SDK's clients are made with, some of it changed."""
        url = urlsplit(self.origin)
        settings = {
            "access_key_id": self.key,
            "access_key_secret": self.secret,
            "region_id": REGION,
            "endpoint": url.netloc,
            "protocol": url.scheme,
        }
        return shapes.Config(**settings | changes)

    def client(self, **changes: str) -> Any:
        """The SDK's client for every product."""
        return Client(self.settings(**changes))

    def ask(self, action: str, product: str = "ecs", *, client: Any = None, **parameters: Any) -> Any:
        """What a call gives, signed by the SDK (version 3). ``None`` leaves a parameter out."""
        asked = shapes.Params(
            action=action,
            version=VERSIONS[product],
            protocol="HTTP",
            pathname="/",
            method="POST",
            auth_type="AK",
            style="RPC",
            req_body_type="formData",
            body_type="json",
        )
        given = {
            name: value for name, value in {"RegionId": REGION, **parameters}.items() if value is not None
        }
        request = shapes.OpenApiRequest(query=Utils.query(given))
        return (client or self.client()).call_api(asked, request, RuntimeOptions())["body"]

    def refused(self, action: str, product: str = "ecs", **options: Any) -> tuple[str, int]:
        """The code and HTTP status with which a call is refused."""
        with pytest.raises((ClientException, ServerException)) as caught:
            self.ask(action, product, **options)
        error: Any = caught.value
        assert error.data["RequestId"]
        return str(error.code), int(error.status_code)

    def billed(self) -> list[str]:
        """The kinds of what is billed now."""
        return sorted(entry["kind"] for entry in self.sandbox.status()["billing"])

    def in_future(self, **times: float) -> str:
        """A time to come by the clouds' clock, as the API takes it."""
        now = datetime.fromisoformat(self.sandbox.clock()["now"])
        return f"{now + timedelta(**times):%Y-%m-%dT%H:%M:%SZ}"

    # --- making

    def make_network(self, zone: str = ZONE, region: str = REGION) -> Network:
        """A network with a switch, and a group that lets the caller in."""
        about: dict[str, Any] = {"RegionId": region, "Tag": TAG}
        vpc = self.ask("CreateVpc", "vpc", CidrBlock="10.42.0.0/16", **about)["VpcId"]
        switch = {"VpcId": vpc, "ZoneId": zone, "CidrBlock": "10.42.0.0/20"}
        vswitch = self.ask("CreateVSwitch", "vpc", **switch, **about)["VSwitchId"]
        group = self.ask("CreateSecurityGroup", VpcId=vpc, **about)["SecurityGroupId"]
        self.ask("AuthorizeSecurityGroup", RegionId=region, SecurityGroupId=group, Permissions=[RULE])
        return Network(vpc=vpc, vswitch=vswitch, group=group)

    def order(self, network: Network | None = None, **changes: Any) -> dict[str, Any]:
        """A launch that a careful reviewer lets pass, with some parameters changed."""
        network = network or self.make_network()
        return {
            "InstanceType": TYPE,
            "ImageId": self.image(),
            "Amount": 1,
            "InstanceChargeType": "PostPaid",
            "VSwitchId": network.vswitch,
            "SecurityGroupId": network.group,
            "InternetMaxBandwidthOut": 100,
            "SystemDisk": {"Category": "cloud_essd", "Size": "100", "Encrypted": "true"},
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "Tag": TAG,
            **changes,
        }

    def launch(self, network: Network | None = None, **changes: Any) -> str:
        """The id of an instance."""
        made = self.ask("RunInstances", **self.order(network, **changes))
        id_: str = made["InstanceIdSets"]["InstanceIdSet"][0]
        return id_

    def image(self, word: str = "ubuntu_24_04_x64", region: str = REGION) -> str:
        """A public image's id."""
        asked: dict[str, Any] = {"RegionId": region, "ImageOwnerAlias": "system", "PageSize": 100}
        images = self.ask("DescribeImages", **asked)["Images"]["Image"]
        id_: str = next(each["ImageId"] for each in images if each["ImageId"].startswith(word))
        return id_

    def instances(self, **parameters: Any) -> list[Any]:
        """What a list shows."""
        found: list[Any] = self.ask("DescribeInstances", **parameters)["Instances"]["Instance"]
        return found

    def status(self, id_: str) -> str | None:
        """How an instance is; ``None`` once it is shown no more."""
        found = self.instances(InstanceIds=json.dumps([id_]))
        return str(found[0]["Status"]) if found else None


@dataclass(frozen=True)
class Network:
    """What instances stand on."""

    vpc: str
    vswitch: str
    group: str


@dataclass
class Signed:
    """A request that is signed here by the rules of the documentation, to be spoilt before it is sent.

    Source: Alibaba Cloud SDK reference, "Request syntax and signature method V3" and "... V2 (RPC)".
    """

    lab: Alibaba
    action: str = "DescribeInstances"
    product: str = "ecs"
    parameters: Mapping[str, str] = field(default_factory=lambda: {"RegionId": REGION})
    moment: datetime = field(default_factory=lambda: datetime.now(UTC))
    nonce: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def _time(self) -> str:
        return f"{self.moment:%Y-%m-%dT%H:%M:%SZ}"

    def third(self, *, leave_out: str = "", **changes: str) -> Wire:
        """Version 3, in the headers; ``changes`` are made to them after signing (``_`` stands for ``-``)."""
        digest = hashlib.sha256(b"").hexdigest()
        headers = {
            "host": urlsplit(self.lab.origin).netloc,
            "x-acs-action": self.action,
            "x-acs-version": VERSIONS[self.product],
            "x-acs-date": self._time,
            "x-acs-signature-nonce": self.nonce,
            "x-acs-content-sha256": digest,
        }
        names = ";".join(sorted(name for name in headers if name != leave_out))
        lines = "".join(f"{name}:{headers[name]}\n" for name in names.split(";"))
        canonical = f"POST\n/\n{_query(self.parameters)}\n{lines}\n{names}\n{digest}"
        text = f"ACS3-HMAC-SHA256\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.new(self.lab.secret.encode(), text.encode(), hashlib.sha256).hexdigest()
        headers["Authorization"] = (
            f"ACS3-HMAC-SHA256 Credential={self.lab.key},SignedHeaders={names},Signature={signature}"
        )
        headers |= {name.replace("_", "-"): value for name, value in changes.items()}
        return send(f"{self.lab.origin}/?{urlencode(self.parameters)}", "POST", headers)

    def first(self, method: str = "GET", *, form: str | None = "JSON", **changes: str) -> Wire:
        """Version 1, among the parameters; ``changes`` are made to them after signing."""
        values = {
            **self.parameters,
            "AccessKeyId": self.lab.key,
            "Action": self.action,
            **({"Format": form} if form else {}),
            "SignatureMethod": "HMAC-SHA1",
            "SignatureNonce": self.nonce,
            "SignatureVersion": "1.0",
            "Timestamp": self._time,
            "Version": VERSIONS.get(self.product, self.product),
        }
        text = f"{method}&%2F&{quote(_query(values), safe='')}"
        signed = hmac.new(f"{self.lab.secret}&".encode(), text.encode(), hashlib.sha1).digest()
        values |= {"Signature": base64.b64encode(signed).decode()}
        values |= changes
        return send(f"{self.lab.origin}/?{urlencode(values)}", method, {})


def _query(values: Mapping[str, str]) -> str:
    return "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in sorted(values.items()))


@dataclass(frozen=True)
class Wire:
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    body: Any
    """What JSON says, or the root of XML."""


def send(url: str, method: str, headers: Mapping[str, str]) -> Wire:
    """One request without the SDK."""
    request = urllib.request.Request(url, method=method, headers=dict(headers))  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
            return _wire(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return _wire(error.code, error.headers, error.read())


def _wire(status: int, headers: Message, body: bytes) -> Wire:
    xml = headers.get_content_type() == "text/xml"
    return Wire(status, dict(headers), ElementTree.fromstring(body) if xml else json.loads(body))  # noqa: S314
