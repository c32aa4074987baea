"""Storage accounts and blobs in the emulated Azure, through the vendor's SDKs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceModifiedError
from azure.core.rest import HttpRequest
from azure.storage.blob import (
    AccountSasPermissions,
    BlobBlock,
    BlobServiceClient,
    ContainerSasPermissions,
    ContentSettings,
    ResourceTypes,
    generate_account_sas,
    generate_blob_sas,
    generate_container_sas,
)

from tests.sandbox.azure_lab import GROUP, REGION, Azure, refused
from tests.sandbox.running import TAGS

NAME = "boxdata"
BODY = {"location": REGION, "tags": TAGS, "kind": "StorageV2", "sku": {"name": "Standard_LRS"}}
SOON = datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture
def accounts(azure: Azure) -> Any:
    """The operations on accounts, with one account."""
    azure.make_group()
    azure.storage.storage_accounts.begin_create(GROUP, NAME, BODY).result()
    return azure.storage.storage_accounts


def key_of(accounts: Any) -> str:
    return str(accounts.list_keys(GROUP, NAME).keys_property[0].value)


def service(azure: Azure, credential: Any) -> Any:
    options: dict[str, Any] = {"connection_verify": azure.authority, "retry_total": 0}
    return BlobServiceClient(f"{azure.origin}/{NAME}", credential=credential, **options)


@pytest.fixture
def blobs(azure: Azure, accounts: Any) -> Iterator[Any]:
    """The blob service, for who has a key, with a container."""
    with service(azure, {"account_name": NAME, "account_key": key_of(accounts)}) as client:
        client.create_container("con")
        yield client


def code_of(call: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[str, int]:
    """The code and HTTP status with which a call is refused."""

    def whole() -> None:
        answer = call(*arguments, **options)
        if hasattr(answer, "by_page"):
            list(answer)

    with pytest.raises(HttpResponseError) as caught:
        whole()
    error: Any = caught.value
    return str(getattr(error.error_code, "value", error.error_code)), int(error.status_code or 0)


def test_what_is_put_is_got_and_billed_until_it_is_deleted(azure: Azure, blobs: Any) -> None:
    assert azure.billed() == []
    blob = blobs.get_blob_client("con", "model weights/ünï+.bin")
    data = bytes(range(256)) * 4096
    blob.upload_blob(data, metadata={"run": "7"})
    assert blob.download_blob().readall() == data
    assert blob.download_blob(offset=1000, length=10).readall() == data[1000:1010]
    seen = blob.get_blob_properties()
    assert (seen.size, seen.metadata, seen.blob_type) == (len(data), {"run": "7"}, "BlockBlob")
    (entry,) = azure.sandbox.status()["billing"]
    assert (entry["kind"], float(entry["price"]["amount"]) > 0) == ("storage", True)
    blob.delete_blob()
    assert azure.billed() == []
    assert code_of(blob.get_blob_properties) == ("BlobNotFound", 404)


def test_a_blob_keeps_how_its_content_is_described(azure: Azure, blobs: Any) -> None:
    settings = ContentSettings(
        content_type="text/csv",
        content_encoding="gzip",
        content_language="de",
        content_disposition="attachment",
        cache_control="no-cache",
    )
    blob = blobs.get_blob_client("con", "b")
    put = blob.upload_blob(b"1", content_settings=settings)
    digest = hashlib.md5(b"1", usedforsecurity=False).digest()
    assert put["content_md5"] == digest
    seen = blob.get_blob_properties().content_settings
    assert {**seen, "content_md5": None} == dict(settings)
    assert seen.content_md5 == digest
    key = blobs.credential.account_key
    sas = generate_blob_sas(NAME, "con", "b", account_key=key, permission="w", expiry=SOON)
    plain = {"x-ms-blob-type": "BlockBlob", "Content-Language": "fr", "Cache-Control": "no-store"}
    assert azure.ask("PUT", f"/{NAME}/con/b?{sas}", token=None, body="1", **plain).status == 201
    seen = blob.get_blob_properties().content_settings
    assert (seen.content_language, seen.cache_control) == ("fr", "no-store")
    assert seen.content_type == "application/x-www-form-urlencoded"


def test_content_that_is_not_what_its_digest_says_is_refused(blobs: Any) -> None:
    blob = blobs.get_blob_client("con", "b")
    other = ContentSettings(content_md5=bytearray(hashlib.md5(b"2", usedforsecurity=False).digest()))
    assert code_of(blob.upload_blob, b"1", content_settings=other) == ("Md5Mismatch", 400)
    short = ContentSettings(content_md5=bytearray(b"2"))
    assert code_of(blob.upload_blob, b"1", content_settings=short) == ("InvalidMd5", 400)
    assert code_of(blob.get_blob_properties) == ("BlobNotFound", 404)


def test_blobs_are_listed_in_pages_and_by_prefix(blobs: Any) -> None:
    container = blobs.get_container_client("con")
    for name in ("a/1", "a/2", "b", "<&>"):
        container.upload_blob(name, b"x")
    pages = container.list_blobs(results_per_page=3).by_page()
    assert [[each.name for each in page] for page in pages] == [["<&>", "a/1", "a/2"], ["b"]]
    assert [each.name for each in container.list_blobs(name_starts_with="a/")] == ["a/1", "a/2"]
    assert [each.name for each in container.walk_blobs()] == ["a/", "<&>", "b"]
    assert [each.name for each in blobs.list_containers()] == ["con"]
    blobs.create_container("other", metadata={"a": "b"})
    listed = blobs.list_containers(include_metadata=True)
    assert [(each.name, each.metadata) for each in listed] == [("con", {}), ("other", {"a": "b"})]


def test_a_blob_is_made_of_the_blocks_of_its_list(blobs: Any) -> None:
    blob = blobs.get_blob_client("con", "b")
    ids = [base64.b64encode(name).decode() for name in (b"1", b"2", b"3")]
    for id_ in ids:
        blob.stage_block(id_, base64.b64decode(id_) * 3)
    committed, waiting = blob.get_block_list("all")
    assert ([each.id for each in committed], sorted(each.id for each in waiting)) == ([], ids)
    assert code_of(blob.get_blob_properties) == ("BlobNotFound", 404)
    blob.commit_block_list([BlobBlock(ids[1]), BlobBlock(ids[0])])
    assert blob.download_blob().readall() == b"222111"
    assert code_of(blob.commit_block_list, [BlobBlock(ids[2])]) == ("InvalidBlockList", 400)
    blob.commit_block_list([BlobBlock(ids[0])])
    assert blob.download_blob().readall() == b"111"


def test_nobody_overwrites_what_they_have_not_seen(blobs: Any) -> None:
    blob = blobs.get_blob_client("con", "b")
    first = blob.upload_blob(b"1", overwrite=False)
    with pytest.raises(ResourceExistsError):
        blob.upload_blob(b"2", overwrite=False)
    unmodified = {"etag": first["etag"], "match_condition": MatchConditions.IfNotModified}
    blob.upload_blob(b"3", overwrite=True, **unmodified)
    with pytest.raises(ResourceModifiedError):
        blob.upload_blob(b"4", overwrite=True, **unmodified)
    with pytest.raises(ResourceModifiedError):
        blob.delete_blob(**unmodified)
    assert code_of(blob.get_blob_properties, if_unmodified_since=datetime(2020, 1, 1, tzinfo=UTC))[1] == 412
    assert blob.download_blob().readall() == b"3"


def test_a_signature_allows_what_it_says_where_it_says(azure: Azure, accounts: Any, blobs: Any) -> None:
    key = key_of(accounts)
    blobs.get_blob_client("con", "b").upload_blob(b"1")
    blobs.create_container("other")
    reads = ContainerSasPermissions(read=True, list=True)
    sas = generate_container_sas(NAME, "con", key, permission=reads, expiry=SOON)
    reader = service(azure, sas)
    assert reader.get_blob_client("con", "b").download_blob().readall() == b"1"
    assert [each.name for each in reader.get_container_client("con").list_blobs()] == ["b"]
    denied = ("AuthorizationPermissionMismatch", 403)
    assert code_of(reader.get_blob_client("con", "new").upload_blob, b"2") == denied
    elsewhere = reader.get_container_client("other").list_blobs
    assert code_of(elsewhere) == ("AuthenticationFailed", 403)
    one = service(azure, generate_blob_sas(NAME, "con", "b", account_key=key, permission="r", expiry=SOON))
    assert one.get_blob_client("con", "b").download_blob().readall() == b"1"
    assert code_of(one.get_blob_client("con", "x").download_blob) == ("AuthenticationFailed", 403)
    creates = service(azure, generate_container_sas(NAME, "con", key, permission="c", expiry=SOON))
    creates.get_blob_client("con", "new").upload_blob(b"2")
    assert code_of(creates.get_blob_client("con", "new").upload_blob, b"3", overwrite=True) == denied


def test_a_signature_ends_and_is_for_one_address(azure: Azure, accounts: Any, blobs: Any) -> None:
    key = key_of(accounts)
    blobs.get_blob_client("con", "b").upload_blob(b"1")

    def reading(expiry: datetime = SOON, **more: Any) -> Any:
        sas = generate_account_sas(
            NAME, key, ResourceTypes(object=True), AccountSasPermissions(read=True), expiry, **more
        )
        return service(azure, sas).get_blob_client("con", "b").download_blob

    assert reading(ip="198.51.100.0-198.51.100.99")().readall() == b"1"
    assert code_of(reading(ip="192.0.2.7")) == ("AuthorizationSourceIPMismatch", 403)
    assert code_of(reading(datetime.now(UTC) - timedelta(minutes=1))) == ("AuthenticationFailed", 403)
    listing = generate_account_sas(
        NAME, key, ResourceTypes(object=True), AccountSasPermissions(list=True), SOON
    )
    call = service(azure, listing).list_containers
    assert code_of(call) == ("AuthorizationResourceTypeMismatch", 403)
    accounts.regenerate_key(GROUP, NAME, {"keyName": "key1"})
    assert code_of(reading()) == ("AuthenticationFailed", 403)


def test_who_signs_nothing_or_wrongly_is_refused(azure: Azure, blobs: Any) -> None:
    wrong = service(azure, {"account_name": NAME, "account_key": base64.b64encode(b"0" * 64).decode()})
    assert code_of(wrong.create_container, "x") == ("AuthenticationFailed", 403)
    entra = service(azure, azure.credential)
    assert code_of(entra.create_container, "x") == ("UnsupportedHeader", 400)
    nobody = service(azure, None).get_blob_client("con", "b")
    assert code_of(nobody.download_blob) == ("NoAuthenticationInformation", 401)


def test_an_account_can_forbid_its_keys(azure: Azure, accounts: Any, blobs: Any) -> None:
    accounts.begin_create(GROUP, NAME, {**BODY, "properties": {"allowSharedKeyAccess": False}}).result()
    refusal = ("KeyBasedAuthenticationNotPermitted", 403)
    assert code_of(blobs.get_blob_client("con", "b").upload_blob, b"1") == refusal


def test_containers_come_and_go(azure: Azure, blobs: Any) -> None:
    assert code_of(blobs.create_container, "con") == ("ContainerAlreadyExists", 409)
    assert code_of(blobs.create_container, "No--Name") == ("InvalidResourceName", 400)
    assert code_of(blobs.get_blob_client("none", "b").upload_blob, b"1") == ("ContainerNotFound", 404)
    blobs.get_blob_client("con", "b").upload_blob(b"1")
    blobs.delete_container("con")
    assert azure.billed() == []
    assert code_of(blobs.create_container, "con") == ("ContainerBeingDeleted", 409)
    azure.sandbox.clock(advance_s=31)
    blobs.create_container("con")
    assert list(blobs.get_container_client("con").list_blobs()) == []


def test_an_account_has_a_name_that_nobody_else_has(azure: Azure, accounts: Any) -> None:
    create = accounts.begin_create
    assert refused(create, GROUP, "Capital", BODY) == ("AccountNameInvalid", 400)
    azure.make_group("other")
    assert refused(create, "other", NAME, BODY) == ("StorageAccountAlreadyTaken", 409)
    assert refused(create, GROUP, "subscriptions", BODY) == ("StorageAccountAlreadyTaken", 409)
    assert refused(create, GROUP, "untagged", {**BODY, "tags": {}}) == ("RequestDisallowedByPolicy", 403)
    assert [each.name for each in accounts.list()] == [NAME]


def test_whether_a_name_is_free_can_be_asked(azure: Azure, accounts: Any) -> None:
    def answer(name: str) -> tuple[bool, str | None]:
        seen = accounts.check_name_availability({"name": name, "type": "Microsoft.Storage/storageAccounts"})
        assert seen.name_available or name in seen.message
        return seen.name_available, seen.reason

    assert answer("other") == (True, None)
    assert answer("CAPS") == (False, "AccountNameInvalid")
    assert answer(NAME) == (False, "AlreadyExists")
    azure.sandbox.cloud("azure", "deny", actions=["Microsoft.Storage/checkNameAvailability/read"])
    assert refused(accounts.check_name_availability, {"name": "other"}) == ("AuthorizationFailed", 403)


def test_an_account_goes_with_all_that_is_in_it(azure: Azure, accounts: Any, blobs: Any) -> None:
    blobs.get_blob_client("con", "b").upload_blob(b"1")
    accounts.delete(GROUP, NAME)
    assert azure.billed() == []
    accounts.begin_create(GROUP, NAME, BODY).result()
    again = service(azure, {"account_name": NAME, "account_key": key_of(accounts)})
    assert list(again.list_containers()) == []


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("snapshot=2026-01-01T00:00:00.0000000Z", "Get Blob: snapshot"),
        ("rsct=text/plain", "Get Blob: rsct"),
        ("Comp=lease", "Get Blob: Comp"),
        ("versionid=", "Get Blob: versionid"),
        ("restype=directory", "GET of a blob with restype=directory"),
    ],
)
def test_an_address_says_nothing_that_is_overlooked(blobs: Any, more: str, named: str) -> None:
    request = HttpRequest("GET", f"{blobs.get_blob_client('con', 'b').url}?{more}")
    answer = blobs._pipeline.run(request).http_response
    assert answer.reason == f"The gpucloud sandbox does not emulate {named}"


@pytest.mark.parametrize("asked", ["bytes=-5", "bytes=0-1,4-5", "lines=1-2"])
def test_a_range_that_azure_does_not_know_is_refused(blobs: Any, asked: str) -> None:
    blob = blobs.get_blob_client("con", "b")
    blob.upload_blob(b"123456789")
    request = HttpRequest("GET", blob.url, headers={"x-ms-range": asked})
    answer = blobs._pipeline.run(request).http_response
    assert (answer.status_code, answer.headers["x-ms-error-code"]) == (400, "UnsupportedHeader")
