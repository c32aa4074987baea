"""Uploads in parts. Source: OSS developer reference, "Multipart upload operations" and "Limits"."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from xml.etree import ElementTree

from gpucloud_sandbox.alibaba import bills
from gpucloud_sandbox.alibaba.oss.objects import Store, bill, check_encryption, check_object
from gpucloud_sandbox.alibaba.oss.wire import Asked
from gpucloud_sandbox.alibaba.region import Region
from gpucloud_sandbox.alibaba.wire import AlibabaError
from gpucloud_sandbox.database import Document

MOST_PARTS = 10_000
_OF_THE_CALL = {"uploads", "encoding-type"}
LEAST_BYTES = 100 * 1024
"""Of each part but the last."""


@dataclass(frozen=True, slots=True)
class Uploads:
    """The uploads of a store that are not complete."""

    store: Store

    def begin(self, asked: Asked, region: Region) -> Document:
        """A new upload; what it says of the object counts when it is complete."""
        check_object(asked)
        check_encryption(asked, region)
        members = {name: value for name, value in asked.members.items() if name not in _OF_THE_CALL}
        upload: Document = {
            "UploadId": self.store.world.token(32).upper(),
            "Bucket": asked.bucket,
            "Key": asked.key,
            "_bucket": asked.bucket,
            "_members": members,
            "_type": asked.content_type,
            "_parts": {},
        }
        return region.put("upload", upload)

    def find(self, asked: Asked, region: Region) -> Document:
        """The upload of a request.

        Raises:
            AlibabaError: there is none for this object.
        """
        found = region.all("upload").get(asked.members["uploadid"])
        if found is None or (found["Bucket"], found["Key"]) != (asked.bucket, asked.key):
            text = "The specified upload does not exist. The upload ID may be invalid."
            raise AlibabaError("NoSuchUpload", text, 404)
        return found

    def put(self, asked: Asked, region: Region) -> Document:
        """Stores a part in place of one of its number.

        Raises:
            AlibabaError: there is no such upload, or no such number.
        """
        upload, number = self.find(asked, region), str(asked.members.get("partnumber", ""))
        if not number.isdecimal() or not 1 <= int(number) <= MOST_PARTS:
            text = f"Part number must be an integer between 1 and {MOST_PARTS}, inclusive."
            raise AlibabaError("InvalidArgument", text)
        check_object(asked)
        self._drop(upload, number, region)
        part = {
            "ETag": f'"{hashlib.md5(asked.body, usedforsecurity=False).hexdigest().upper()}"',
            "Size": len(asked.body),
            "LastModified": f"{region.now:%Y-%m-%dT%H:%M:%S}.000Z",
            "_file": self.store.write(asked.body),
        }
        region.put("upload", {**upload, "_parts": {**upload["_parts"], number: part}})
        bill(region, "part", _bill_of(upload, number), len(asked.body))
        return part

    def complete(self, asked: Asked, region: Region) -> Document:
        """Makes the object of its parts, in the order of the request.

        Raises:
            AlibabaError: the list of parts is malformed or not of this upload, or as :meth:`Store.put`.
        """
        upload = self.find(asked, region)
        parts = [_listed(each, upload) for each in _asked_parts(asked.body)]
        if any(part["Size"] < LEAST_BYTES for part in parts[:-1]):
            text = "Your proposed upload is smaller than the minimum allowed size."
            raise AlibabaError("EntityTooSmall", text)
        digests = b"".join(bytes.fromhex(part["ETag"].strip('"')) for part in parts)
        whole = hashlib.md5(digests, usedforsecurity=False).hexdigest().upper()
        content = b"".join(self.store.content(part) for part in parts)
        members: Mapping[str, Any] = {**upload["_members"], **asked.members}
        made = self.store.put(
            replace(asked, members=members, body=content, content_type=upload["_type"]),
            region,
            tag=f'"{whole}-{len(parts)}"',
        )
        self.abort(upload, region)
        return made

    def abort(self, upload: Document, region: Region) -> None:
        """Forgets an upload and its parts."""
        for number in upload["_parts"]:
            self._drop(upload, number, region)
        region.drop("upload", upload["UploadId"])

    def _drop(self, upload: Document, number: str, region: Region) -> None:
        known = upload["_parts"].get(number)
        if known is not None:
            self.store.erase(known["_file"])
            bills.end(region, _bill_of(upload, number), "deleted")


def _bill_of(upload: Document, number: str) -> str:
    return f"{upload['Bucket']}/{upload['Key']}?uploadId={upload['UploadId']}&partNumber={number}"


def _asked_parts(body: bytes) -> list[tuple[int, str]]:
    """Number and ETag of each part, in ascending order.

    Raises:
        AlibabaError: they are not, or there are none.
    """
    try:
        root = ElementTree.fromstring(body)  # noqa: S314  (from this machine; expat has limits)
    except ElementTree.ParseError:
        raise _malformed() from None
    parts: list[tuple[int, str]] = []
    for each in root:
        found = {member.tag.rpartition("}")[2]: member.text or "" for member in each}
        if not found.get("PartNumber", "").isdecimal():
            raise _malformed()
        parts.append((int(found["PartNumber"]), found.get("ETag", "")))
    numbers = [number for number, _ in parts]
    if not parts:
        raise _malformed()
    if numbers != sorted(set(numbers)):
        raise AlibabaError("InvalidPartOrder", "The list of parts was not in ascending order.")
    return parts


def _listed(asked: tuple[int, str], upload: Document) -> Document:
    found: Document | None = upload["_parts"].get(str(asked[0]))
    if found is None or found["ETag"].strip('"') != asked[1].strip('"').upper():
        text = "One or more of the specified parts could not be found, or has another entity tag."
        raise AlibabaError("InvalidPart", text)
    return found


def _malformed() -> AlibabaError:
    return AlibabaError("MalformedXML", "The XML you provided was not well-formed.")
