"""Buckets and objects: what they may be called, what they hold, and what an object costs.

An object's content is a file of its own in the sandbox's folder; what is told of it is a document.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import crcmod

from gpucloud_sandbox.alibaba import bills
from gpucloud_sandbox.alibaba.oss.wire import Asked
from gpucloud_sandbox.alibaba.region import Region
from gpucloud_sandbox.alibaba.wire import AlibabaError, true
from gpucloud_sandbox.database import Document, Shelf
from gpucloud_sandbox.emulator import World
from gpucloud_sandbox.market import HOURS_PER_MONTH, Price

BUCKETS = 100
"""Buckets of an account in a region. Source: OSS user guide, "Limits"."""

MOST_BYTES = 5 * 1024**3
"""The most that one PutObject takes. Source: as above."""

CNY_PER_GIB_MONTH = Decimal("0.12")
"""Standard storage in one zone, the mainland's list price, taken for every region; UNVERIFIED."""

_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
KMS_KEY = "x-oss-server-side-encryption-key-id"
MOST_BYTES_OF_PARTS = 48 * 1024**4
"""The most that an object of parts has. Source: as :data:`MOST_BYTES`."""
_KEPT = ("cache-control", "content-disposition", "content-encoding", "expires")
"""Headers that an object gives back as they came."""
_ENCRYPTION = ("x-oss-server-side-encryption", KMS_KEY)
crc64 = crcmod.mkCrcFun(0x142F0E1EBA9EA3693, initCrc=0, rev=True, xorOut=0xFFFF_FFFF_FFFF_FFFF)
"""The CRC-64 that OSS tells of an object, of ECMA-182. The vendor's SDK computes it in the same way."""


@dataclass(frozen=True, slots=True)
class Store:
    """The account's buckets, in whichever region they are."""

    world: World
    shelf: Shelf

    # --- buckets

    def find(self, name: str, region: str) -> tuple[Region, Document]:
        """A bucket and its region.

        Args:
            name: the bucket's.
            region: the one that the request was signed for, if it names one.

        Raises:
            AlibabaError: there is none, or it is in another region.
        """
        for place, bucket in self.shelf.everywhere("bucket"):
            if bucket["Name"] == name:
                if region not in {"", place}:
                    text = "The bucket must be addressed using the specified endpoint."
                    raise AlibabaError("AccessDenied", text, 403)
                return Region(self.world, self.shelf, place), bucket
        raise AlibabaError("NoSuchBucket", "The specified bucket does not exist.", 404)

    def make_bucket(self, name: str, region: Region) -> None:
        """A new bucket; one's own in the same region is no error.

        Raises:
            AlibabaError: it cannot be called so, or there is one elsewhere, or there are too many.
        """
        if not _BUCKET_NAME.fullmatch(name):
            raise AlibabaError("InvalidBucketName", "The specified bucket is not valid.")
        known = {bucket["Name"]: place for place, bucket in self.shelf.everywhere("bucket")}
        if known.get(name) == region.name:
            return
        if name in known:
            text = "The requested bucket name is not available."
            raise AlibabaError("BucketAlreadyExists", text, 409)
        if len(region.all("bucket")) >= BUCKETS:
            raise AlibabaError("TooManyBuckets", "You have attempted to create more buckets than allowed.")
        region.put("bucket", {"Name": name, "CreationDate": _milliseconds(region)})

    def drop_bucket(self, name: str, region: Region) -> None:
        """Deletes an empty bucket.

        Raises:
            AlibabaError: it is not empty.
        """
        if objects_of(region, name) or any(each["_bucket"] == name for each in region.all("upload").values()):
            raise AlibabaError("BucketNotEmpty", "The bucket you tried to delete is not empty.", 409)
        region.drop("bucket", name)

    # --- objects

    def put(self, asked: Asked, region: Region, *, tag: str | None = None) -> Document:
        """Stores an object in place of one of its name, unless that is forbidden.

        Args:
            asked: what it is called, and what it holds.
            region: the bucket's.
            tag: the ETag of one that was uploaded in parts.

        Raises:
            AlibabaError: it cannot be called so, is too large, or there is one.
        """
        check_object(asked, most_bytes=MOST_BYTES if tag is None else MOST_BYTES_OF_PARTS)
        check_encryption(asked, region)
        before = region.all("object").get(f"{asked.bucket}/{asked.key}")
        if before is not None and true(asked.members.get("x-oss-forbid-overwrite")):
            text = "The object you specified already exists and can not be overwritten."
            raise AlibabaError("FileAlreadyExists", text, 409)
        if before is not None:
            self.drop(before, region)
        parts = {} if tag is None else {"ETag": tag, "Type": "Multipart"}
        made = region.put("object", {**_document(asked, region), **parts, "_file": self.write(asked.body)})
        bill(region, "object", made["_path"], made["Size"])
        return made

    def copy(self, asked: Asked, source: Document, region: Region) -> Document:
        """Stores what another object holds, with its headers unless the caller replaces them.

        Raises:
            AlibabaError: as :meth:`put`; or it is the same object, and nothing of it would change.
        """
        replaced = asked.members.get("x-oss-metadata-directive", "COPY").upper() == "REPLACE"
        if source["_path"] == f"{asked.bucket}/{asked.key}" and not replaced:
            text = "The request is an illegal copy request: nothing of the object would change."
            raise AlibabaError("InvalidRequest", text)
        made = self.put(replace(asked, body=self.content(source)), region)
        if replaced:
            return made
        return region.put("object", {**made, "_headers": source["_headers"]})

    def write(self, content: bytes) -> str:
        """Keeps bytes in a new file; its name."""
        file = self._files() / self.world.token(32)
        file.write_bytes(content)
        return file.name

    def erase(self, name: str) -> None:
        """Deletes a file."""
        (self._files() / name).unlink(missing_ok=True)

    def content(self, found: Document) -> bytes:
        """What an object holds."""
        name: str = found["_file"]
        return (self._files() / name).read_bytes()

    def drop(self, found: Document, region: Region) -> None:
        """Deletes an object; its bill ends."""
        region.drop("object", found["_path"])
        self.erase(found["_file"])
        bills.end(region, found["_path"], "deleted")

    def forget(self) -> None:
        """Deletes the contents of all objects."""
        shutil.rmtree(self._files())

    def _files(self) -> Path:
        folder = self.world.folder / "oss"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder


def bill(region: Region, kind: str, id_: str, size_bytes: int) -> None:
    """The bill of what is stored begins; a price that is nothing is no bill."""
    if size_bytes:
        amount = CNY_PER_GIB_MONTH * size_bytes / 1024**3 / HOURS_PER_MONTH
        price = Price(amount=amount.quantize(Decimal("1e-15")), currency="CNY", as_of=region.second)
        bills.begin(region, kind, id_, price, tags={})


def objects_of(region: Region, bucket: str) -> list[Document]:
    """The objects of a bucket, in the order of their names."""
    found = (each for each in region.all("object").values() if each["_bucket"] == bucket)
    return sorted(found, key=lambda each: str(each["Key"]).encode())


def find_object(region: Region, asked: Asked) -> Document:
    """An object by name.

    Raises:
        AlibabaError: there is none.
    """
    found = region.all("object").get(f"{asked.bucket}/{asked.key}")
    if found is None:
        raise AlibabaError("NoSuchKey", "The specified key does not exist.", 404)
    return found


def check_object(asked: Asked, *, most_bytes: int = MOST_BYTES) -> None:
    """Refuses an object that OSS does not take.

    Raises:
        AlibabaError: it cannot be called so, or is too large.
    """
    if asked.key.startswith(("/", "\\")) or len(asked.key.encode()) > 1023:
        raise AlibabaError("InvalidObjectName", "The specified object is not valid.")
    if len(asked.body) > most_bytes:
        raise AlibabaError("EntityTooLarge", "Your proposed upload exceeds the maximum allowed size.")


def check_encryption(asked: Asked, region: Region) -> None:
    """Refuses a key of KMS that is not there. UNVERIFIED: the code and the text.

    Raises:
        AlibabaError: it is not in the bucket's region.
    """
    key = asked.members.get(KMS_KEY)
    if key is not None and key not in region.all("key"):
        raise AlibabaError("InvalidArgument", f"The specified KMS master key {key} does not exist.")


def check_digest(asked: Asked) -> None:
    """Refuses a body that was damaged on its way.

    Raises:
        AlibabaError: it is not what the request says.
    """
    if asked.content_md5 and asked.content_md5 != base64.b64encode(_md5(asked.body)).decode():
        raise AlibabaError("InvalidDigest", "The Content-MD5 you specified was invalid.")


def _document(asked: Asked, region: Region) -> Document:
    meta: Mapping[str, str] = asked.members.get("x-oss-meta", {})
    headers = {name: asked.members[name] for name in _KEPT if name in asked.members}
    encryption = {name: asked.members[name] for name in _ENCRYPTION if name in asked.members}
    return {
        "Key": asked.key,
        "LastModified": _milliseconds(region),
        "ETag": f'"{_md5(asked.body).hex().upper()}"',
        "Type": "Normal",
        "Size": len(asked.body),
        "StorageClass": "Standard",
        "_path": f"{asked.bucket}/{asked.key}",
        "_bucket": asked.bucket,
        "_at": f"{region.now:%a, %d %b %Y %H:%M:%S GMT}",
        "_crc": str(crc64(asked.body)),
        "_headers": {
            **headers,
            "Content-Type": asked.content_type or "application/octet-stream",
            **{f"x-oss-meta-{name}": value for name, value in meta.items()},
            **encryption,
        },
    }


def _milliseconds(region: Region) -> str:
    return f"{region.now:%Y-%m-%dT%H:%M:%S}.000Z"


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()
