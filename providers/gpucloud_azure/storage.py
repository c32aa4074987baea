"""Blob storage: checks a container, and issues signed addresses for a part of it.

A user delegation key, which needs no key of the account, signs two addresses: one that reads the directory of
a run, and one that also writes that of an attempt. Signatures of a directory need an account with a
hierarchical namespace. Source: learn.microsoft.com, "Create a user delegation SAS" and "Get User Delegation
Key".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

from gpucloud.clouds.fetch import is_trusted
from gpucloud.clouds.kit import bounded, gone_is_fine, observed
from gpucloud.clouds.object_store import (
    ObjectStore,
    StorageGrant,
    StorageLease,
    StoredObject,
    StorePlace,
    StoreSize,
)
from gpucloud.clouds.provider import ApiCall
from gpucloud.errors import UsageError
from gpucloud_azure.account import AzureAccount
from gpucloud_azure.clients import PAGES, Clients
from gpucloud_azure.errors import ActionRefusedError, MalformedAnswerError, classify, code_of

ACCOUNTS = "/providers/Microsoft.Storage/storageAccounts"
ACCOUNTS_API = "2023-05-01"
VERSION = "2022-11-02"
SCOPE = "https://storage.azure.com/.default"
LEASE = timedelta(hours=1)
EARLIER = timedelta(minutes=5)
"""A signature begins earlier, because clocks differ."""
_BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
_OF_THE_ACCOUNT = "rights and encryption are the storage account's"
READS, WRITES = "rl", "rcwl"
"""Read and list; besides these create and write. Deleting is ``d``."""
_KEY = {
    "skoid": "SignedOid",
    "sktid": "SignedTid",
    "skt": "SignedStart",
    "ske": "SignedExpiry",
    "sks": "SignedService",
    "skv": "SignedVersion",
}


class BlobStorage(ObjectStore):
    """Blob storage, for this subscription."""

    def __init__(self, account: AzureAccount) -> None:
        self._account = account

    @property
    def store_scheme(self) -> str:
        """``az``."""
        return "az"

    def locate(self, address: str, /) -> tuple[StorePlace, str]:
        """``ACCOUNT/CONTAINER`` in this subscription, and the rest of the address."""
        account, _, rest = address.partition("/")
        container, _, folder = rest.partition("/")
        return self._find(account, container), folder

    def _find(self, account: str, container: str, /) -> StorePlace:
        """A container of an account in the caller's subscription.

        Raises:
            UsageError: there is none, or its account has no hierarchical namespace.
        """
        if not account or not container:
            raise UsageError("the address needs an account and a container: az://ACCOUNT/CONTAINER/PATH")
        accounts = self._account.clients.pages(ACCOUNTS, api=ACCOUNTS_API)
        found = next((each for each in accounts if each.get("name") == account), None)
        if found is None:
            raise UsageError(
                f"there is no storage account {account!r} in your Azure subscription "
                f"{self._account.clients.subscription()}",
                hint="use an account of this subscription, or choose another in AZURE_SUBSCRIPTION_ID",
            )
        properties: Mapping[str, Any] = found.get("properties") or {}
        if not properties.get("isHnsEnabled"):
            raise UsageError(
                f"storage account {account!r} has no hierarchical namespace, so that rights on a folder "
                "of it cannot be lent",
                hint="use an account that was made with --enable-hierarchical-namespace",
            )
        place = StorePlace(
            container=f"{account}/{container}",
            region=str(found["location"]),
            account=self._account.clients.subscription(),
            endpoint=_checked(str(properties["primaryEndpoints"]["blob"])),
        )
        try:
            list(_names(self._account.clients, place, ""))
        except Exception as error:
            if code_of(error) != "ContainerNotFound":
                raise
            made = f"create it: az storage container create --account-name {account} --name {container}"
            raise UsageError(f"there is no container {container!r} in {account!r}", hint=made) from error
        return place

    def names(self, place: StorePlace, path: str, /) -> Sequence[str]:
        """The names of the folders and objects in a folder."""
        return [
            each.rstrip("/").rpartition("/")[2] for each in _names(self._account.clients, place, f"{path}/")
        ]

    def measure(self, place: StorePlace, path: str, most: int, /) -> StoreSize:
        """The objects below a folder, without its folders."""
        files = size = 0
        for page in _pages(self._account.clients, place, f"{path}/", {}):
            for each in page.iterfind("Blobs/Blob/Properties"):
                if each.findtext("ResourceType") != "directory":
                    files, size = files + 1, size + int(each.findtext("Content-Length") or 0)
            if files >= most:
                return StoreSize(files=files, size_bytes=size, whole=not page.findtext("NextMarker"))
        return StoreSize(files=files, size_bytes=size, whole=True)

    def objects(self, place: StorePlace, path: str, most: int, /) -> Sequence[StoredObject]:
        """The objects below a folder, without its folders."""
        found: list[StoredObject] = []
        for page in _pages(self._account.clients, place, f"{path}/", {}):
            for each in page.iterfind("Blobs/Blob"):
                if each.findtext("Properties/ResourceType") != "directory":
                    size = int(each.findtext("Properties/Content-Length") or 0)
                    found.append(StoredObject(path=each.findtext("Name") or "", size_bytes=size))
            if len(found) >= most:
                break
        return found

    def get_object(self, place: StorePlace, path: str, target: BinaryIO, most: int, /) -> None:
        """Writes an object to a file.

        Raises:
            LongerError: it has more bytes than that.
        """
        from azure.core.rest import HttpRequest

        asked = HttpRequest(
            "GET", _address(self._account.clients, place, path, "r"), headers={"x-ms-version": VERSION}
        )
        with self._account.clients.anonymous().send_request(asked, stream=True) as answer:
            if answer.status_code >= 400:
                answer.read()
            answer.raise_for_status()
            size, whole = bounded(answer.iter_raw(), target, most), answer.headers.get("Content-Length")
            if str(size) != whole:
                raise MalformedAnswerError(f"the blob service gave {size} bytes of {whole} of {path}")

    def put_object(self, place: StorePlace, path: str, source: BinaryIO, kms_key: str | None, /) -> None:
        """Creates or replaces an object.

        Raises:
            UsageError: a key is named, which Azure has no use for here.
        """
        if kms_key is not None:
            raise UsageError("checkpoint_encryption is not for Azure", hint=_OF_THE_ACCOUNT)
        size = source.seek(0, io.SEEK_END)
        source.seek(0)
        content = source if size else b""  # requests sends an empty file in chunks, which the service refuses
        headers = {"x-ms-blob-type": "BlockBlob"}
        _change(self._account.clients, place, path, ("PUT", "write", "cw"), headers=headers, content=content)

    def delete_object(self, place: StorePlace, path: str, /) -> None:
        """Deletes an object; one that is not there is deleted."""
        with gone_is_fine(classify):
            _change(self._account.clients, place, path, ("DELETE", "delete", "d"), headers={})

    def lend(self, grant: StorageGrant, /) -> StorageLease:
        """Signed addresses for an hour.

        Raises:
            UsageError: a role or a key is named, which Azure has no use for here.
        """
        if grant.role is not None or grant.kms_key is not None:
            role = "data_role" if grant.writes is None else "checkpoint_role"
            named = role if grant.role is not None else "checkpoint_encryption"
            raise UsageError(f"{named} is not for Azure", hint=_OF_THE_ACCOUNT)
        key, now = _delegation_key(self._account.clients, grant.place)
        container = grant.place.container.partition("/")[2]
        place = f"{grant.place.endpoint}{container}"

        def remote(folder: str, rights: str) -> Mapping[str, str]:
            signed = signature(key, f"{grant.place.container}/{folder}", rights, now=now, kind="d")
            return {
                "type": "azureblob",
                "sas_url": f"{place}?{urlencode(signed)}",
                "no_check_container": "true",
            }

        reading = remote(grant.reads, READS)
        writing = reading if grant.writes is None else remote(grant.writes, WRITES)
        return StorageLease(ends_at=now + LEASE, folder=container, reading=reading, writing=writing)


def _change(
    clients: Clients,
    place: StorePlace,
    path: str,
    what: tuple[str, str, str],
    *,
    headers: Mapping[str, str],
    content: Any = None,
) -> None:
    """Changes an object: by a method, with the permission of a role and the right of an address."""
    from azure.core.rest import HttpRequest

    method, permission, rights = what
    url = _address(clients, place, path, rights)
    request = HttpRequest(method, url, headers={"x-ms-version": VERSION, **headers}, content=content)
    call = ApiCall(cloud="azure", region=place.region, action=f"{_BLOBS}/{permission}", target=path)
    with observed(clients.observer, call, classify):
        clients.anonymous().send_request(request).raise_for_status()


def _address(clients: Clients, place: StorePlace, path: str, rights: str) -> str:
    """The address of an object, signed for that alone."""
    key, now = _delegation_key(clients, place)
    signed = signature(key, f"{place.container}/{path}", rights, now=now, kind="b")
    container = place.container.partition("/")[2]
    return f"{place.endpoint}{container}/{quote(path)}?{urlencode(signed)}"


def signature(
    key: Mapping[str, str], resource: str, rights: str, *, now: datetime, kind: str
) -> Mapping[str, str]:
    """The members of an address that may be used for a container, a directory or an object.

    Args:
        key: the user delegation key, by the names of its answer.
        resource: ``ACCOUNT/CONTAINER``, with the path of the directory or object behind it.
        rights: the letters of the permissions, in Azure's order.
        now: the cloud's time.
        kind: ``c``, ``d`` or ``b``: container, directory, object.
    """
    times = {"st": _text(now - EARLIER), "se": _text(now + LEASE)}
    signer = {name: key[member] for name, member in _KEY.items()}
    depth = {"sdd": str(resource.count("/") - 1)} if kind == "d" else {}
    lines = [rights, *times.values(), f"/blob/{resource}", *signer.values()]
    # whom it is for (3), the protocol behind the source's address, and after the kind what is not used (7)
    lines += ["", "", "", "", "https", VERSION, kind, *[""] * 7]
    secret = base64.b64decode(key["Value"])
    made = hmac.digest(secret, "\n".join(lines).encode(), hashlib.sha256)
    return {
        "sv": VERSION,
        "sp": rights,
        **times,
        **signer,
        "spr": "https",
        "sr": kind,
        **depth,
        "sig": base64.b64encode(made).decode(),
    }


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _checked(url: str) -> str:
    """The address of a blob service, with a slash at its end.

    Raises:
        ActionRefusedError: it has no TLS.
    """
    if not is_trusted(url):
        raise ActionRefusedError(f"nothing was sent to {url}, which does not use TLS")
    return f"{url.rstrip('/')}/"


def _delegation_key(clients: Clients, place: StorePlace) -> tuple[Mapping[str, str], datetime]:
    """A key for an hour, and the cloud's time."""
    from azure.core.rest import HttpRequest

    now = parsedate_to_datetime(clients.date()).astimezone(UTC)
    body = f"<KeyInfo><Start>{_text(now - EARLIER)}</Start><Expiry>{_text(now + LEASE)}</Expiry></KeyInfo>"
    token = clients.credential.get_token(SCOPE).token
    request = HttpRequest(
        "POST",
        f"{place.endpoint}?restype=service&comp=userdelegationkey",
        headers={
            "Authorization": f"Bearer {token}",
            "x-ms-version": VERSION,
            "Content-Type": "application/xml",
        },
        content=body,
    )
    answer = _sent(clients, request)
    members = {each.tag: each.text or "" for each in answer}
    if not members.keys() >= {*_KEY.values(), "Value"}:
        raise MalformedAnswerError("the answer to Get User Delegation Key lacks a member")
    return members, now


def _names(clients: Clients, place: StorePlace, prefix: str) -> Iterator[str]:
    """The folders, each with a slash at its end, and the objects below a prefix."""
    for page in _pages(clients, place, prefix, {"delimiter": "/"}):
        for kind in ("BlobPrefix", "Blob"):
            yield from (each.text or "" for each in page.iterfind(f"Blobs/{kind}/Name"))


def _pages(
    clients: Clients, place: StorePlace, prefix: str, options: Mapping[str, str]
) -> Iterator[ElementTree.Element]:
    """The pages of a list of what is below a prefix."""
    from azure.core.rest import HttpRequest

    key, now = _delegation_key(clients, place)
    signed = signature(key, place.container, READS, now=now, kind="c")
    container = place.container.partition("/")[2]
    asked = {"restype": "container", "comp": "list", "prefix": prefix, **options, **signed}
    marker = ""
    for _ in range(PAGES):
        query = urlencode({**asked, **({"marker": marker} if marker else {})})
        url = f"{place.endpoint}{container}?{query}"
        answer = _sent(clients, HttpRequest("GET", url, headers={"x-ms-version": VERSION}))
        yield answer
        marker = answer.findtext("NextMarker") or ""
        if not marker:
            return
    raise MalformedAnswerError(f"the list of {place.container} gave {PAGES} pages and still more")


def _sent(clients: Clients, request: Any) -> ElementTree.Element:
    """The answer of the blob service, which is XML."""
    response = clients.anonymous().send_request(request)
    response.raise_for_status()
    try:  # expat expands no entity without limit
        return ElementTree.fromstring(response.text())  # noqa: S314
    except ElementTree.ParseError as error:
        raise MalformedAnswerError(f"the blob service answered no XML: {error}") from error
