"""What the vendor's SDK can say in a request to the blob service is supported, or refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.rest import HttpRequest
from azure.storage.blob import BlobServiceClient

from gpucloud_sandbox.azure.blob_wire import HONOURED, OPERATIONS
from tests.sandbox.azure_blob_model import Member, builders
from tests.sandbox.azure_lab import GROUP, REGION, Azure
from tests.sandbox.running import TAGS

NAME = "boxdata"
PATHS = ("", "/con", "/con/b")
"""An account, a container and a blob, as addresses end."""
NEEDED: dict[str, Member] = {
    "Put Blob": Member("headers", "x-ms-blob-type", "BlockBlob"),
    "Put Block": Member("params", "blockid", "MQ=="),
}
"""What a request must have, so that a test's own member alone is wrong with it."""
STANDARD = {"range"}
"""Headers of the protocol that the SDK does not send, as it has another for the same."""
EMULATED = [each for each in builders() if each.key in OPERATIONS]
OTHERS = [each for each in builders() if each.key not in OPERATIONS]


@pytest.fixture
def service(azure: Azure) -> Iterator[Any]:
    """The SDK's client of an account, which sends every request once."""
    azure.make_group()
    accounts = azure.storage.storage_accounts
    body = {"location": REGION, "tags": TAGS, "kind": "StorageV2", "sku": {"name": "Standard_LRS"}}
    accounts.begin_create(GROUP, NAME, body).result()
    key = accounts.list_keys(GROUP, NAME).keys_property[0].value
    credential = {"account_name": NAME, "account_key": key}
    url = f"{azure.origin}/{NAME}"
    options: dict[str, Any] = {"connection_verify": azure.authority, "retry_total": 0}
    client: Any = BlobServiceClient(url, credential=credential, **options)
    with client:
        client.create_container("con").upload_blob("b", b"1")
        yield client


def answer_to(service: Any, request: HttpRequest) -> Any:
    """The answer to a request, signed by the SDK."""
    return service._pipeline.run(request).http_response


def reason_of(service: Any, request: HttpRequest) -> str:
    """Why a request is refused as not emulated; the code is one of the service's own."""
    answer = answer_to(service, request)
    code = answer.headers.get("x-ms-error-code")
    assert code in {"UnsupportedHeader", "UnsupportedQueryParameter", "UnsupportedHttpVerb"}, answer.reason
    assert request.method == "HEAD" or f"<Code>{code}</Code>" in answer.body().decode()
    return str(answer.reason)


def members_of(operation: str) -> set[Member]:
    """What the SDK's requests for an operation have."""
    own = [each for each in EMULATED if OPERATIONS[each.key][0] == operation]
    return {member for each in own for member in each.members()}


def unsupported(operation: str) -> list[tuple[Member, str]]:
    """What an operation does not support, and how a refusal names it."""
    row = HONOURED[operation]
    found: list[tuple[Member, str]] = []
    for member in sorted(members_of(operation), key=str):
        name = member.name.lower() if member.place == "headers" else member.name
        if not row.supports(name, member.value):
            shown = f"{name}={member.value.lower()}" if name in row.valued else name
            found.append((member, shown))
    return found


def request_with(service: Any, key: tuple[str, int, str], *members: Member | None) -> HttpRequest:
    """A request for an operation with these members."""
    method, depth, comp = key
    headers: dict[str, str] = {}
    params = ({"comp": comp} if comp else {}) | ({"restype": "container"} if depth == 1 else {})
    for member in filter(None, members):
        (headers if member.place == "headers" else params)[member.name] = member.value
    url = service.url.rstrip("/") + PATHS[depth]
    return HttpRequest(method, url, headers=headers, params=params)


@pytest.mark.parametrize("key", OPERATIONS, ids=str)
def test_every_member_is_supported_or_refused_by_name(service: Any, key: tuple[str, int, str]) -> None:
    operation, _ = OPERATIONS[key]
    for member, shown in unsupported(operation):
        reason = reason_of(service, request_with(service, key, NEEDED.get(operation), member))
        assert reason == f"The gpucloud sandbox does not emulate {operation}: {shown}"


def test_every_other_operation_is_refused_by_name(service: Any) -> None:
    for other in OTHERS:
        plain = other.plain
        headers = {name: value for name, value in plain.headers.items() if name != "Content-Length"}
        url = f"{service.url.rstrip('/')}{PATHS[other.depth]}{plain.url}"
        reason = reason_of(service, HttpRequest(plain.method, url, headers=headers))
        assert f"does not emulate {plain.method} of " in reason, other.name


def test_every_row_is_of_an_operation_and_in_the_sdks_model() -> None:
    assert {name for name, _ in OPERATIONS.values()} == HONOURED.keys()
    for operation, row in HONOURED.items():
        known = {member.name.lower() for member in members_of(operation)}
        rows = {*row.paths, *row.valued, *(each.rstrip(".") for each in row.opened)}
        assert rows <= known | STANDARD, operation
