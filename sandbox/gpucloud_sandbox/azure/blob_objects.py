"""Block blobs: put whole or in blocks, read in ranges, deleted; each under conditions."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from werkzeug.wrappers import Request, Response

from gpucloud_sandbox.azure import blob_lists, storage
from gpucloud_sandbox.azure.blob_place import Place, done
from gpucloud_sandbox.azure.blob_wire import metadata, not_emulated
from gpucloud_sandbox.azure.storage import BLOB, BLOCKS
from gpucloud_sandbox.azure.wire import AzureError
from gpucloud_sandbox.database import Document

_LISTED = re.compile(r"<(Committed|Uncommitted|Latest)>([^<]*)</")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_CONTENT = {
    "Content-Type": "x-ms-blob-content-type",
    "Content-Encoding": "x-ms-blob-content-encoding",
    "Content-Language": "x-ms-blob-content-language",
    "Content-Disposition": "x-ms-blob-content-disposition",
    "Content-MD5": "x-ms-blob-content-md5",
    "Cache-Control": "x-ms-blob-cache-control",
}
"""The headers of an answer that describe a blob's content, and those of a request that set them."""
_MOST_BLOCKS = 50_000


# --- conditions


def _check_conditions(request: Request, blob: Document | None) -> None:
    """Passes what its conditions let happen.

    Source: learn.microsoft.com, "Specifying conditional headers for Blob service operations".

    Raises:
        AzureError: they do not: 304 for a read of what was not changed, 412 for the rest.
    """
    reads = request.method in {"GET", "HEAD"}
    etag = blob["etag"] if blob else None
    matched, unmatched = request.headers.get("If-Match"), request.headers.get("If-None-Match")
    if matched is not None and (etag is None or matched not in {"*", etag}):
        raise _unmet(412)
    if unmatched == "*" and blob is not None and not reads:
        raise AzureError("BlobAlreadyExists", "The specified blob already exists.", 409)
    if unmatched is not None and etag is not None and unmatched in {"*", etag}:
        raise _unmet(304 if reads else 412)
    if blob is None:
        return
    changed = parsedate_to_datetime(blob["modified"])
    since, until = (_time(request, f"If-{name}-Since") for name in ("Modified", "Unmodified"))
    if since is not None and changed <= since:
        raise _unmet(304 if reads else 412)
    if until is not None and changed > until:
        raise _unmet(412)


def _unmet(status: int) -> AzureError:
    text = "The condition specified using HTTP conditional header(s) is not met."
    return AzureError("ConditionNotMet", text, status)


def _time(request: Request, header: str) -> datetime | None:
    given = request.headers.get(header)
    try:
        return parsedate_to_datetime(given) if given else None
    except ValueError:
        raise AzureError(
            "InvalidHeaderValue", f"The value of {header} is not in the correct format."
        ) from None


# --- writing


def _put(here: Place, request: Request) -> Response:
    _ = here.container
    _check_conditions(request, here.blob)
    data = request.get_data()
    digest = _digest(data)
    for header in ("Content-MD5", "x-ms-blob-content-md5"):
        _check_digest(request, header, digest)
    plain = ("Content-Type", "Content-Encoding", "Content-Language", "Cache-Control")
    said = {name: request.headers[name] for name in plain if name in request.headers}
    content = {**said, **_described_by(request), "Content-MD5": digest}
    answer = _commit(here, request, [["", *here.write(data)]] if data else [], content)
    answer.headers["Content-MD5"] = digest
    return answer


def _digest(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _check_digest(request: Request, header: str, digest: str) -> None:
    given = request.headers.get(header, digest)
    if given == digest:
        return
    try:
        size = len(base64.b64decode(given, validate=True))
    except binascii.Error:
        size = 0
    if size != hashlib.md5(usedforsecurity=False).digest_size:
        text = f"The MD5 value specified in the request is invalid: {header} is no Base64 of 128 bits."
        raise AzureError("InvalidMd5", text)
    text = "The MD5 value specified in the request did not match with that calculated by the server."
    raise AzureError("Md5Mismatch", text)


def _described_by(request: Request) -> dict[str, str]:
    """How a request's own headers describe the content of a blob."""
    return {name: request.headers[given] for name, given in _CONTENT.items() if given in request.headers}


def _commit(here: Place, request: Request, blocks: list[list[Any]], content: dict[str, str]) -> Response:
    """A blob is what these blocks are from now on; blocks that are not among them go."""
    old = here.blob
    made = here.keep(
        BLOB,
        blocks=blocks,
        size=sum(size for _, _, size in blocks),
        metadata=metadata(request),
        content={"Content-Type": "application/octet-stream", **content},
        created=old["created"] if old else here.marks()["modified"],
    )
    here.subscription.forget(BLOCKS, here.key)
    storage.bill(here.subscription, here.account)
    return done(201, made, {"x-ms-request-server-encrypted": "true"})


def _put_block(here: Place, request: Request) -> Response:
    _ = here.container
    id_, data = request.args.get("blockid", ""), request.get_data()
    staged: dict[str, Any] = here.subscription.all(BLOCKS).get(here.key, {}).get("staged", {})
    try:
        named = base64.b64decode(id_, validate=True)
    except binascii.Error:
        named = b""
    if not 0 < len(named) <= 64:  # UNVERIFIED: that it is this one of the documented codes
        raise AzureError("InvalidQueryParameterValue", "Value for blockid is no Base64 of up to 64 bytes.")
    if any(len(each) != len(id_) for each in staged):  # xtdb/xtdb#3516
        raise AzureError("InvalidBlobOrBlock", "The specified blob or block content is invalid.")
    _check_digest(request, "Content-MD5", _digest(data))
    here.keep(BLOCKS, staged={**staged, id_: here.write(data)})
    return Response(status=201, headers={"x-ms-request-server-encrypted": "true"})


def _put_block_list(here: Place, request: Request) -> Response:
    _ = here.container
    _check_conditions(request, here.blob)
    old = here.blob
    committed = {id_: (digest, size) for id_, digest, size in (old["blocks"] if old else ())}
    staged: dict[str, Any] = here.subscription.all(BLOCKS).get(here.key, {}).get("staged", {})
    places = {"Committed": committed, "Uncommitted": staged, "Latest": {**committed, **staged}}
    listed = _LISTED.findall(request.get_data().decode())
    if len(listed) > _MOST_BLOCKS:
        raise AzureError("BlockListTooLong", "The block list may not contain more than 50,000 blocks.")
    if any(id_ not in places[place] for place, id_ in listed):
        raise AzureError("InvalidBlockList", "The specified block list is invalid.")
    blocks = [[id_, *places[place][id_]] for place, id_ in listed]
    return _commit(here, request, blocks, _described_by(request))


def _block_list(here: Place, request: Request) -> Response:
    staged: dict[str, Any] = here.subscription.all(BLOCKS).get(here.key, {}).get("staged", {})
    if not staged:
        _ = here.found
    wanted = request.args.get("blocklisttype", "committed")
    blob = here.blob
    kept = [(id_, size) for id_, _, size in (blob["blocks"] if blob else ()) if id_]
    return blob_lists.blocks(
        kept if wanted in {"all", "committed"} else None,
        [(id_, size) for id_, (_, size) in staged.items()] if wanted in {"all", "uncommitted"} else None,
    )


def _set_metadata(here: Place, request: Request) -> Response:
    blob = here.found
    _check_conditions(request, blob)
    return done(200, here.keep(BLOB, **{**blob, **here.marks(), "metadata": metadata(request)}))


def _delete(here: Place, request: Request) -> Response:
    _check_conditions(request, here.found)
    here.subscription.forget(BLOB, here.key)
    storage.bill(here.subscription, here.account)
    return Response(status=202)


# --- reading


def _described(blob: Document) -> dict[str, str]:
    return {
        **blob["content"],
        "Accept-Ranges": "bytes",
        "x-ms-blob-type": "BlockBlob",
        "x-ms-creation-time": blob["created"],
        "x-ms-access-tier": "Hot",
        "x-ms-access-tier-inferred": "true",
        "x-ms-lease-status": "unlocked",
        "x-ms-lease-state": "available",
        "x-ms-server-encrypted": "true",
    }


def _properties(here: Place, request: Request) -> Response:
    blob = here.found
    _check_conditions(request, blob)
    answer = done(200, blob, _described(blob))
    answer.headers["Content-Length"] = str(blob["size"])
    return answer


def _get(here: Place, request: Request) -> Response:
    blob = here.found
    _check_conditions(request, blob)
    wanted = request.headers.get("x-ms-range") or request.headers.get("Range")
    if not wanted:
        return done(200, blob, _described(blob), here.read(blob))
    asked = _RANGE.fullmatch(wanted)
    if asked is None:  # Azure knows no other form; what it does with one is not known
        raise not_emulated(f"Get Blob: range {wanted}")
    first, size = int(asked[1]), blob["size"]
    if first >= size or (asked[2] and int(asked[2]) < first):
        raise AzureError("InvalidRange", "The range specified is invalid for the current size.", 416)
    last = min(int(asked[2] or size - 1), size - 1)
    where = {"Content-Range": f"bytes {first}-{last}/{size}"}
    return done(206, blob, _described(blob) | where, here.read(blob)[first : last + 1])


HANDLERS: Mapping[str, Callable[[Place, Request], Response]] = {
    "Put Blob": _put,
    "Put Block": _put_block,
    "Put Block List": _put_block_list,
    "Get Block List": _block_list,
    "Set Blob Metadata": _set_metadata,
    "Get Blob": _get,
    "Get Blob Properties": _properties,
    "Delete Blob": _delete,
}
