"""OSS in the sandbox: buckets and objects, in its own protocol and in S3's, by paths (``use_path_style``).

OSS itself takes only requests whose host names the bucket; hosts of buckets are not emulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from urllib.parse import unquote

from werkzeug.wrappers import Request, Response

from gpucloud_sandbox.alibaba import permissions
from gpucloud_sandbox.alibaba.oss import listing
from gpucloud_sandbox.alibaba.oss.objects import KMS_KEY, Store, check_digest, crc64, find_object
from gpucloud_sandbox.alibaba.oss.signature import verify
from gpucloud_sandbox.alibaba.oss.uploads import Uploads
from gpucloud_sandbox.alibaba.oss.wire import (
    SERVICE,
    Asked,
    answer,
    check_emulated,
    error,
    in_dialect,
    is_oss,
    read,
)
from gpucloud_sandbox.alibaba.region import ACCOUNT, Region, shown
from gpucloud_sandbox.alibaba.signature import Credential
from gpucloud_sandbox.alibaba.wire import AlibabaError
from gpucloud_sandbox.database import Document, Shelf
from gpucloud_sandbox.emulator import World

__all__ = ["SERVICE", "EmulatedOss", "error", "in_dialect", "is_oss", "read"]

_RIGHTS = {
    "CompleteMultipartUpload": "PutObject",
    "CopyObject": "PutObject",
    "HeadObject": "GetObject",
    "InitiateMultipartUpload": "PutObject",
    "ListObjectsV2": "ListObjects",
    "UploadPart": "PutObject",
}
"""Operations that need a right of another name. Source: OSS developer reference, "RAM policies"."""


class EmulatedOss:
    """The emulated OSS.

    Args:
        world: the shared parts of the sandbox.
        shelf: Alibaba Cloud's resources.
        home: the region of requests that name none.
    """

    def __init__(self, world: World, shelf: Shelf, home: str) -> None:
        self._world = world
        self._store = Store(world, shelf)
        self._uploads = Uploads(self._store)
        self._home = home
        self._operations: Mapping[str, Callable[[Asked, str], Response]] = {
            "ListBuckets": self._list_buckets,
            "PutBucket": self._put_bucket,
            "DeleteBucket": self._delete_bucket,
            "ListObjectsV2": self._list_objects,
            "PutObject": self._put_object,
            "GetObject": self._get_object,
            "HeadObject": self._head_object,
            "DeleteObject": self._delete_object,
            "CopyObject": self._copy_object,
            "InitiateMultipartUpload": self._begin_upload,
            "UploadPart": self._put_part,
            "ListParts": self._list_parts,
            "CompleteMultipartUpload": self._complete_upload,
            "AbortMultipartUpload": self._abort_upload,
        }

    def answer(self, request: Request, credentials: Mapping[str, Credential], request_id: str) -> Response:
        """Checks the signature, does what the request asks, and answers.

        Raises:
            AlibabaError: OSS, or the sandbox, refuses.
        """
        clock = self._world.clock
        region, caller = verify(request, credentials, now=clock.now(), unmoved=clock.unmoved())
        asked = read(request)
        check_emulated(asked)
        check_digest(asked)
        self._check_rights(asked, caller)
        with self._world.database.transaction():
            response = self._operations[asked.operation](asked, region)
        response.headers["x-oss-request-id"] = request_id
        return response

    def forget(self) -> None:
        """Deletes the contents of all objects."""
        self._store.forget()

    def _check_rights(self, asked: Asked, caller: Credential) -> None:
        keys = {f"oss:{name.title()}": asked.members.get(name, "") for name in ("prefix", "delimiter")}
        try:
            for product, action, resource in _demands(asked):
                permissions.check(
                    self._region(""), product, action, {}, grants=caller.grants, resource=resource, keys=keys
                )
        except AlibabaError as denied:
            raise AlibabaError("AccessDenied", denied.message, 403) from None

    def _region(self, name: str) -> Region:
        return Region(self._world, self._store.shelf, name or self._home)

    # --- buckets

    def _list_buckets(self, asked: Asked, region: str) -> Response:
        return answer("ListAllMyBucketsResult", listing.buckets(self._store.shelf, asked))

    def _put_bucket(self, asked: Asked, region: str) -> Response:
        self._store.make_bucket(asked.bucket, self._region(region))
        response = Response()
        response.headers["Location"] = f"/{asked.bucket}"
        response.autocorrect_location_header = False
        return response

    def _delete_bucket(self, asked: Asked, region: str) -> Response:
        place, _ = self._store.find(asked.bucket, region)
        self._store.drop_bucket(asked.bucket, place)
        return _empty(204)

    def _list_objects(self, asked: Asked, region: str) -> Response:
        place, _ = self._store.find(asked.bucket, region)
        return answer("ListBucketResult", listing.objects(place, asked))

    # --- objects

    def _put_object(self, asked: Asked, region: str) -> Response:
        place, _ = self._store.find(asked.bucket, region)
        made = self._store.put(asked, place)
        response = _empty(200)
        response.headers["ETag"] = made["ETag"]
        response.headers["x-oss-hash-crc64ecma"] = made["_crc"]
        return response

    def _get_object(self, asked: Asked, region: str) -> Response:
        found = self._object(asked, region)
        response, content = _shown(found, asked.members), self._store.content(found)
        first, last = _range(asked.members.get("range", ""), len(content))
        if (first, last) != (0, len(content) - 1):
            response.status_code = 206
            response.headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        response.set_data(content[first : last + 1])
        for name, value in asked.members.items():
            if name.startswith("response-"):
                response.headers[name.removeprefix("response-")] = value
        return response

    def _head_object(self, asked: Asked, region: str) -> Response:
        return _shown(self._object(asked, region), asked.members)

    def _copy_object(self, asked: Asked, region: str) -> Response:
        place, _ = self._store.find(asked.bucket, region)
        bucket, key = _source(asked)
        there = self._store.find(bucket, region)[0]
        source = find_object(there, replace(asked, bucket=bucket, key=key))
        made = self._store.copy(asked, source, place)
        return answer("CopyObjectResult", {"ETag": made["ETag"], "LastModified": made["LastModified"]})

    # --- uploads in parts

    def _begin_upload(self, asked: Asked, region: str) -> Response:
        upload = self._uploads.begin(asked, self._store.find(asked.bucket, region)[0])
        told = {**shown(upload), "Key": listing.encoding(asked)(asked.key)}
        return answer("InitiateMultipartUploadResult", told)

    def _put_part(self, asked: Asked, region: str) -> Response:
        part = self._uploads.put(asked, self._store.find(asked.bucket, region)[0])
        response = _empty(200)
        response.headers["ETag"] = part["ETag"]
        response.headers["x-oss-hash-crc64ecma"] = str(crc64(asked.body))
        return response

    def _list_parts(self, asked: Asked, region: str) -> Response:
        upload = self._uploads.find(asked, self._store.find(asked.bucket, region)[0])
        return answer("ListPartsResult", listing.parts(upload, asked))

    def _complete_upload(self, asked: Asked, region: str) -> Response:
        made = self._uploads.complete(asked, self._store.find(asked.bucket, region)[0])
        told = {"Bucket": asked.bucket, "Key": listing.encoding(asked)(asked.key), "ETag": made["ETag"]}
        response = answer("CompleteMultipartUploadResult", told)
        response.headers["x-oss-hash-crc64ecma"] = made["_crc"]
        return response

    def _abort_upload(self, asked: Asked, region: str) -> Response:
        place, _ = self._store.find(asked.bucket, region)
        self._uploads.abort(self._uploads.find(asked, place), place)
        return _empty(204)

    def _object(self, asked: Asked, region: str) -> Document:
        return find_object(self._store.find(asked.bucket, region)[0], asked)

    def _delete_object(self, asked: Asked, region: str) -> Response:
        place, _ = self._store.find(asked.bucket, region)
        found = place.all("object").get(f"{asked.bucket}/{asked.key}")
        if found is not None:  # what is not there is no error
            self._store.drop(found, place)
        return _empty(204)


def _demands(asked: Asked) -> Iterator[tuple[str, str, str]]:
    """What RAM is asked: product, action, resource."""
    own = f"acs:{SERVICE}:*:{ACCOUNT}"
    path = f"{asked.bucket}/{asked.key}" if asked.key else asked.bucket or "*"
    yield SERVICE, _RIGHTS.get(asked.operation, asked.operation), f"{own}:{path}"
    if asked.operation == "CopyObject":
        yield SERVICE, "GetObject", f"{own}:{'/'.join(_source(asked))}"
    if KMS_KEY in asked.members:
        yield "kms", "GenerateDataKey", f"acs:kms:*:{ACCOUNT}:key/{asked.members[KMS_KEY]}"


def _source(asked: Asked) -> tuple[str, str]:
    """Bucket and name of the object that is copied."""
    bucket, _, key = unquote(asked.members["x-oss-copy-source"]).removeprefix("/").partition("/")
    return bucket, key


def _shown(found: Document, members: Mapping[str, str]) -> Response:
    """What is told of an object, if the caller's conditions hold."""
    _check_conditions(members, found["ETag"], parsedate_to_datetime(found["_at"]))
    response = Response()
    response.headers.update(found["_headers"])
    response.headers["ETag"] = found["ETag"]
    response.headers["Last-Modified"] = found["_at"]
    response.headers["Accept-Ranges"] = "bytes"
    response.headers["Content-Length"] = str(found["Size"])
    response.headers["x-oss-hash-crc64ecma"] = found["_crc"]
    response.headers["x-oss-object-type"] = found["Type"]
    response.headers["x-oss-storage-class"] = found["StorageClass"]
    return response


def _empty(status: int) -> Response:
    response = Response()
    response.status_code = status
    return response


def _check_conditions(members: Mapping[str, str], tag: str, changed: datetime) -> None:
    """Refuses where an ``If-`` header does not hold.

    Raises:
        AlibabaError: 412 where the object is another one, 304 where it is the caller's.
    """

    def moment(name: str) -> datetime | None:
        try:
            return parsedate_to_datetime(members[name]) if name in members else None
        except ValueError:
            raise AlibabaError("InvalidArgument", f"The header {name} is no time.") from None

    unmodified, modified = moment("if-unmodified-since"), moment("if-modified-since")
    another = "if-match" in members and members["if-match"].strip('"') != tag.strip('"')
    if another or (unmodified is not None and changed > unmodified):
        text = "At least one of the pre-conditions you specified did not hold."
        raise AlibabaError("PreconditionFailed", text, 412)
    own = members.get("if-none-match", "").strip('"') == tag.strip('"')
    if own or (modified is not None and changed <= modified):
        raise AlibabaError("NotModified", "Not Modified", 304)


def _range(header: str, size: int) -> tuple[int, int]:
    """The first and last byte that are asked for; a range that is malformed or out of bounds asks for all."""
    first, dash, last = header.removeprefix("bytes=").partition("-")
    if not (header.startswith("bytes=") and dash and (first + last).isdecimal()):
        return 0, size - 1
    if not first:
        return max(0, size - int(last)), size - 1
    if int(first) >= size or (last and int(last) < int(first)):
        return 0, size - 1
    return int(first), min(int(last or size), size - 1)
