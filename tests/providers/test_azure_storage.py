"""Rights on a part of a container: what Azure lends, what can be done with it, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import (
    BlobServiceClient,
    ContainerClient,
    ContainerSasPermissions,
    generate_container_sas,
)

from gpucloud.clouds.object_store import StorageGrant, StoreSize
from gpucloud.clouds.profile import Profile
from gpucloud.errors import UsageError
from gpucloud_azure.provider import AzureProvider
from tests.providers.stored_objects import check_objects, store_of
from tests.sandbox.azure_fixtures import azure, running_azure
from tests.sandbox.azure_lab import GROUP, REGION, Azure
from tests.sandbox.running import TAGS

__all__ = ["azure", "running_azure"]

ACCOUNT, PLAIN = "checkpoints", "plainaccount"
RUN, ATTEMPT = "lab/runs/r1", "lab/runs/r1/attempts/2"
OLD = (f"{RUN}/attempts/1/old", f"{RUN}-2/theirs", "lab/other")


@pytest.fixture
def service(azure: Azure) -> Iterator[Any]:
    """The blob service of an account with a hierarchical namespace, for who has its key."""
    azure.make_group()
    body = {"location": REGION, "tags": TAGS, "kind": "StorageV2", "sku": {"name": "Standard_LRS"}}
    accounts = azure.storage.storage_accounts
    accounts.begin_create(GROUP, PLAIN, body).result()
    accounts.begin_create(GROUP, ACCOUNT, {**body, "properties": {"isHnsEnabled": True}}).result()
    key = str(accounts.list_keys(GROUP, ACCOUNT).keys_property[0].value)
    with BlobServiceClient(
        f"{azure.origin}/{ACCOUNT}",
        credential={"account_name": ACCOUNT, "account_key": key},
        connection_verify=azure.authority,
        retry_total=0,
    ) as found:
        container = found.create_container("con")
        for name in OLD:
            container.upload_blob(name, b"old")
        yield found


def provider(azure: Azure) -> AzureProvider:
    return AzureProvider(Profile(azure.endpoint.environ))


def box_of(azure: Azure, options: Any) -> Any:
    """The container for whoever holds the options of rclone."""
    return ContainerClient.from_container_url(
        options["sas_url"], connection_verify=azure.authority, retry_total=0
    )


def code_of(call: Any, *arguments: Any, **options: Any) -> str:
    def whole() -> None:
        answer = call(*arguments, **options)
        if hasattr(answer, "by_page"):
            list(answer)

    with pytest.raises(HttpResponseError) as caught:
        whole()
    error: Any = caught.value
    return str(getattr(error.error_code, "value", error.error_code))


def grant(azure: Azure, **changes: Any) -> StorageGrant:
    place, folder = store_of(provider(azure)).locate(f"{ACCOUNT}/con/lab/runs")
    assert (place.region, folder) == (REGION, "lab/runs")
    return StorageGrant(**{"place": place, "reads": RUN, "writes": ATTEMPT, "name": "r1", **changes})


def test_a_box_writes_its_own_attempt_reads_the_run_and_deletes_nothing(azure: Azure, service: Any) -> None:
    lease = store_of(provider(azure)).lend(grant(azure))
    assert lease.folder == "con"
    with box_of(azure, lease.reading) as reading, box_of(azure, lease.writing) as writing:
        mine = f"{ATTEMPT}/1/model"
        writing.upload_blob(mine, b"one")
        writing.upload_blob(mine, b"two", overwrite=True)
        assert reading.download_blob(mine).readall() == b"two"
        assert reading.download_blob(OLD[0]).readall() == b"old"
        listed = [each.name for each in reading.list_blobs(name_starts_with=f"{RUN}/")]
        assert listed == [OLD[0], mine]
        for name in (*OLD, f"{RUN}/attempts/20/x", f"{RUN}/latest.json"):
            assert code_of(writing.upload_blob, name, b"x", overwrite=True) == "AuthenticationFailed", name
        assert code_of(writing.delete_blob, mine) == "AuthorizationPermissionMismatch"
        for client in (reading, writing):
            assert code_of(client.delete_blob, OLD[0]) in {
                "AuthenticationFailed",
                "AuthorizationPermissionMismatch",
            }
        assert code_of(reading.upload_blob, f"{ATTEMPT}/y", b"x") == "AuthorizationPermissionMismatch"
        for name in OLD[1:]:
            assert code_of(reading.download_blob, name) == "AuthenticationFailed", name
        for prefix in ("", "lab/", RUN):
            assert code_of(reading.list_blobs, name_starts_with=prefix) == "AuthenticationFailed", prefix


def test_objects_are_written_listed_read_and_deleted(azure: Azure, service: Any) -> None:
    check_objects(provider(azure), f"{ACCOUNT}/con")


def test_a_box_that_only_reads_writes_nothing(azure: Azure, service: Any) -> None:
    asked = grant(azure, writes=None)
    lease = store_of(provider(azure)).lend(asked)
    assert lease.writing == lease.reading
    with box_of(azure, lease.writing) as box:
        assert box.download_blob(OLD[0]).readall() == b"old"
        assert code_of(box.upload_blob, f"{RUN}/x", b"x") == "AuthorizationPermissionMismatch"
        assert code_of(box.delete_blob, OLD[0]) == "AuthorizationPermissionMismatch"
        assert code_of(box.download_blob, OLD[1]) == "AuthenticationFailed"
    assert store_of(provider(azure)).measure(asked.place, RUN, 1000) == StoreSize(
        files=1, size_bytes=3, whole=True
    )
    assert store_of(provider(azure)).measure(asked.place, "lab", 1000) == StoreSize(
        files=3, size_bytes=9, whole=True
    )


def test_the_rights_end_after_an_hour(azure: Azure, service: Any) -> None:
    lease = store_of(provider(azure)).lend(grant(azure))
    with box_of(azure, lease.writing) as box:
        box.upload_blob(f"{ATTEMPT}/x", b"x")
        azure.sandbox.clock(advance_s=3610)
        assert code_of(box.upload_blob, f"{ATTEMPT}/y", b"x") == "AuthenticationFailed"
    with box_of(azure, store_of(provider(azure)).lend(grant(azure)).writing) as box:
        box.upload_blob(f"{ATTEMPT}/y", b"x")


def test_the_vendors_sdk_signs_with_a_delegation_key_as_well(azure: Azure, service: Any) -> None:
    """The emulator is held against it: keys, and the members of a signature of the newest version."""
    verify: dict[str, Any] = {"connection_verify": azure.authority, "retry_total": 0}
    now = datetime.now(UTC)
    later = now + timedelta(days=3)
    with BlobServiceClient(f"{azure.origin}/{ACCOUNT}", credential=azure.credential, **verify) as signed_in:
        key = signed_in.get_user_delegation_key(now - timedelta(minutes=5), later)
    signature = generate_container_sas(
        ACCOUNT, "con", user_delegation_key=key, permission=ContainerSasPermissions(list=True), expiry=later
    )
    with ContainerClient.from_container_url(f"{azure.origin}/{ACCOUNT}/con?{signature}", **verify) as client:
        assert [each.name for each in client.list_blobs()] == sorted(OLD)
        assert code_of(client.download_blob, OLD[0]) == "AuthorizationPermissionMismatch"
    forged = signature.replace("sp=l", "sp=rl")
    with ContainerClient.from_container_url(f"{azure.origin}/{ACCOUNT}/con?{forged}", **verify) as client:
        assert code_of(client.list_blobs) == "AuthenticationFailed"


def test_folders_are_listed(azure: Azure, service: Any) -> None:
    azure_cloud = store_of(provider(azure))
    place, _ = azure_cloud.locate(f"{ACCOUNT}/con")
    assert sorted(azure_cloud.names(place, "lab/runs")) == ["r1", "r1-2"]
    assert azure_cloud.names(place, "nowhere") == []


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (f"{ACCOUNT}/none/lab", "there is no container 'none'"),
        ("someoneelses/con", "there is no storage account 'someoneelses' in your Azure subscription"),
        (f"{PLAIN}/con", "no hierarchical namespace"),
        (ACCOUNT, "needs an account and a container"),
    ],
)
def test_a_container_that_cannot_be_used_is_refused(
    azure: Azure, service: Any, address: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        store_of(provider(azure)).locate(address)


def test_who_may_have_no_key_can_lend_nothing(azure: Azure, service: Any) -> None:
    asked = grant(azure)
    azure.sandbox.cloud("azure", "deny", actions=["*/generateUserDelegationKey/action"])
    with pytest.raises(HttpResponseError) as caught:
        store_of(provider(azure)).lend(asked)
    verdict = provider(azure).classify(caught.value)
    assert verdict is not None
    assert verdict.error_class == "auth"


@pytest.mark.parametrize("named", [{"role": "someone"}, {"kms_key": "key"}])
def test_a_role_or_a_key_of_kms_is_not_for_azure(azure: Azure, service: Any, named: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="is not for Azure"):
        store_of(provider(azure)).lend(grant(azure, **named))
