"""Lists of buckets and objects, page by page."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from gpucloud_sandbox.alibaba.oss.objects import objects_of
from gpucloud_sandbox.alibaba.oss.wire import Asked
from gpucloud_sandbox.alibaba.region import ACCOUNT, Region, shown
from gpucloud_sandbox.alibaba.wire import AlibabaError, true
from gpucloud_sandbox.database import Document, Shelf

_OWNER = {"ID": ACCOUNT, "DisplayName": ACCOUNT}
_MOST = 1000


def buckets(shelf: Shelf, asked: Asked) -> Document:
    """ListBuckets: the members of ``ListAllMyBucketsResult``."""
    prefix, marker = asked.members.get("prefix", ""), asked.members.get("marker", "")
    known = sorted(shelf.everywhere("bucket"), key=lambda pair: str(pair[1]["Name"]))
    found = [pair for pair in known if pair[1]["Name"].startswith(prefix) and pair[1]["Name"] > marker]
    size = _max_keys(asked.members, 100)
    page = [_bucket(region, bucket) for region, bucket in found[:size]]
    more: Document = {"NextMarker": page[-1]["Name"]} if len(found) > size else {}
    return {
        "Owner": _OWNER,
        "Prefix": prefix,
        "Marker": marker,
        "MaxKeys": size,
        "IsTruncated": len(found) > size,
        **more,
        "Buckets": {"Bucket": page},
    }


def _bucket(region: str, bucket: Document) -> Document:
    return {
        **bucket,
        "Location": f"oss-{region}",
        "Region": region,
        "StorageClass": "Standard",
        "ExtranetEndpoint": f"oss-{region}.aliyuncs.com",
        "IntranetEndpoint": f"oss-{region}-internal.aliyuncs.com",
    }


def objects(region: Region, asked: Asked) -> Document:
    """ListObjectsV2: the members of ``ListBucketResult``."""
    members = asked.members
    prefix, delimiter = members.get("prefix", ""), members.get("delimiter", "")
    after = max(members.get("start-after", ""), _continued(members), key=str.encode)
    size = _max_keys(members, 100)
    rows = _rows(objects_of(region, asked.bucket), prefix, delimiter, after)
    page, more = rows[:size], rows[size:]
    encode = encoding(asked)
    contents = [
        {
            **shown(each),
            "Key": encode(name),
            **({"Owner": _OWNER} if true(members.get("fetch-owner")) else {}),
        }
        for name, each in page
        if each is not None
    ]
    following = base64.b64encode(page[-1][0].encode()).decode() if more and page else ""
    return {
        "Name": asked.bucket,
        "Prefix": encode(prefix),
        "StartAfter": encode(members.get("start-after", "")),
        "MaxKeys": size,
        "Delimiter": encode(delimiter),
        "IsTruncated": bool(more),
        "KeyCount": len(page),
        **({"ContinuationToken": members["continuation-token"]} if "continuation-token" in members else {}),
        **({"NextContinuationToken": following} if following else {}),
        **({"EncodingType": "url"} if members.get("encoding-type") else {}),
        "Contents": contents,
        "CommonPrefixes": [{"Prefix": encode(name)} for name, each in page if each is None],
    }


def encoding(asked: Asked) -> Callable[[str], str]:
    """How names are written in the answer."""
    return quote if asked.members.get("encoding-type") else str


def parts(upload: Document, asked: Asked) -> Document:
    """ListParts: the members of ``ListPartsResult``, all on one page."""
    known = sorted(upload["_parts"].items(), key=lambda pair: int(pair[0]))
    rows = [{"PartNumber": int(number), **shown(part)} for number, part in known]
    return {
        **shown(upload),
        "Key": encoding(asked)(upload["Key"]),
        "MaxParts": len(rows),
        "IsTruncated": False,
        "Part": rows,
    }


def _rows(
    found: list[Document], prefix: str, delimiter: str, after: str
) -> list[tuple[str, Document | None]]:
    """Names with their objects, in order; a common beginning of names stands for them, without an object."""
    rows: dict[str, Document | None] = {}
    for each in found:
        name: str = each["Key"]
        if not name.startswith(prefix):
            continue
        inside, cut, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
        row = f"{prefix}{inside}{cut}" if cut else name
        if row.encode() > after.encode():
            rows[row] = None if cut else each
    return list(rows.items())


def _continued(members: Mapping[str, Any]) -> str:
    try:
        return base64.b64decode(members.get("continuation-token", ""), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise AlibabaError("InvalidArgument", "The continuation token provided is incorrect.") from None


def _max_keys(members: Mapping[str, Any], usual: int) -> int:
    given = str(members.get("max-keys", usual))
    if not given.isdecimal() or not 1 <= int(given) <= _MOST:
        raise AlibabaError("InvalidArgument", f"Argument max-keys must be an integer between 1 and {_MOST}.")
    return int(given)
