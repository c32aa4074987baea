"""OSS: checks a bucket, and issues a role's credentials for a part of it.

Sources: OSS developer reference, ListBuckets, ListObjectsV2 and "Accessing OSS with the AWS SDK" (the
S3-compatible service, which rclone uses); OSS user guide, "Authorization syntax and elements"; STS API
reference, AssumeRole; rclone's page of S3, "Alibaba OSS".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, BinaryIO

from gpucloud.clouds.kit import bounded
from gpucloud.clouds.object_store import (
    ObjectStore,
    StorageGrant,
    StorageLease,
    StoredObject,
    StorePlace,
    StoreSize,
)
from gpucloud.errors import UsageError
from gpucloud_alibaba.account import AlibabaAccount
from gpucloud_alibaba.clients import Clients
from gpucloud_alibaba.errors import MalformedAnswerError, code_of, named, reading

LEASE_S = 3600
"""The longest session that every role allows: the least that ``MaxSessionDuration`` may be."""
LONGEST_POLICY = 2048
"""Characters of a session policy. UNVERIFIED; the reference of 2020 says 1024."""
CHUNK = 1 << 20
PAGES = 1000
"""Of 1000 names each; more is a broken or hostile endpoint."""
_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_ROLE = re.compile(r"acs:ram::\d+:role/[A-Za-z0-9.-]{1,64}")
_NO_NAME = re.compile(r"[^A-Za-z0-9.@_-]")
_LONGEST_NAME = 32


class OssStore(ObjectStore):
    """OSS, for this account."""

    def __init__(self, account: AlibabaAccount) -> None:
        self._account = account

    @property
    def store_scheme(self) -> str:
        """``oss``."""
        return "oss"

    def locate(self, address: str, /) -> tuple[StorePlace, str]:
        """A bucket of this account, and the rest of the address."""
        bucket, _, folder = address.partition("/")
        return self._find(self._account.number(), bucket, folder), folder

    def _find(self, account: str, bucket: str, folder: str, /) -> StorePlace:
        """A bucket of the caller's own account, and its region, once a folder of it could be listed.

        Raises:
            UsageError: the account has none of this name; or it is in mainland China, whose buckets accounts
                that are new since March 2025 reach by a domain of their own alone (OSS user guide, "Access
                OSS through a custom domain name").
        """
        if not _BUCKET.fullmatch(bucket):
            raise UsageError(f"{bucket!r} is not a name of a bucket", hint="use oss://BUCKET/PATH")
        # The list has the account's own buckets alone, and the name itself before longer ones.
        answer = self._account.clients.oss(self._account.clients.home_region).ask(
            "ListBuckets", prefix=bucket, max_keys=1
        )
        with reading("ListBuckets"):
            regions = {named(each.name): named(each.region) for each in answer.buckets or ()}
        if bucket not in regions:
            raise UsageError(
                f"there is no bucket {bucket!r} in your Alibaba Cloud account {account}",
                hint=f"create it: aliyun oss mb oss://{bucket}, or use another bucket of this account",
            )
        place = StorePlace(container=bucket, region=regions[bucket], account=account)
        try:
            _page(self._account.clients, place, folder, most=1)
        except Exception as error:
            if code_of(error) != "PublicEndpointForbidden":
                raise
            text = f"OSS gives your account the objects of {bucket!r} through no public address"
            raise UsageError(text, hint="use a bucket in a region outside of mainland China") from error
        return place

    def names(self, place: StorePlace, path: str, /) -> Sequence[str]:
        """The names of the folders and objects in a folder."""
        found: list[str] = []
        token: str | None = None
        for _ in range(PAGES):
            page = _page(self._account.clients, place, path, token=token)
            found += [str(each.prefix).removesuffix("/") for each in page.common_prefixes or ()]
            found += [str(each.key) for each in page.contents or ()]
            token = page.next_continuation_token
            if not token:
                return [each.rpartition("/")[2] for each in found]
        raise MalformedAnswerError(f"the list of {place.container} gave {PAGES} pages and still more")

    def measure(self, place: StorePlace, path: str, most: int, /) -> StoreSize:
        """The objects below a folder; those that stand for folders are not counted."""
        files = size = 0
        token: str | None = None
        for _ in range(PAGES):
            page = _page(self._account.clients, place, path, token=token, deep=True)
            sizes = [int(each.size) for each in page.contents or () if not str(each.key).endswith("/")]
            files, size = files + len(sizes), size + sum(sizes)
            token = page.next_continuation_token
            if not token or files >= most:
                return StoreSize(files=files, size_bytes=size, whole=not token)
        raise MalformedAnswerError(f"the list of {place.container} gave {PAGES} pages and still more")

    def objects(self, place: StorePlace, path: str, most: int, /) -> Sequence[StoredObject]:
        """The objects below a folder; those that stand for folders are left out."""
        found: list[StoredObject] = []
        token: str | None = None
        for _ in range(PAGES):
            page = _page(self._account.clients, place, path, token=token, deep=True)
            found += [
                StoredObject(path=str(each.key), size_bytes=int(each.size))
                for each in page.contents or ()
                if not str(each.key).endswith("/")
            ]
            token = page.next_continuation_token
            if not token or len(found) >= most:
                return found
        raise MalformedAnswerError(f"the list of {place.container} gave {PAGES} pages and still more")

    def get_object(self, place: StorePlace, path: str, target: BinaryIO, most: int, /) -> None:
        """Writes an object to a file.

        Raises:
            LongerError: it has more bytes than that.
        """
        answer = self._account.clients.oss(place.region).ask("GetObject", bucket=place.container, key=path)
        with answer.body as body:
            size = bounded(body.iter_bytes(block_size=CHUNK), target, most)
        if size != answer.content_length:
            raise MalformedAnswerError(f"OSS gave {size} bytes of {answer.content_length} of {path}")

    def put_object(self, place: StorePlace, path: str, source: BinaryIO, kms_key: str | None, /) -> None:
        """Creates or replaces an object."""
        key = (
            {}
            if kms_key is None
            else {"server_side_encryption": "KMS", "server_side_encryption_key_id": kms_key}
        )
        self._account.clients.oss(place.region).ask(
            "PutObject", bucket=place.container, key=path, body=source, **key
        )

    def delete_object(self, place: StorePlace, path: str, /) -> None:
        """Deletes an object; OSS says nothing where there is none."""
        self._account.clients.oss(place.region).ask("DeleteObject", bucket=place.container, key=path)

    def lend(self, grant: StorageGrant, /) -> StorageLease:
        """Keys for an hour, of a session of a role.

        Raises:
            UsageError: no role is named, or one that is not there; or the path is too long for a policy.
        """
        narrowed = json.dumps(policy(grant), separators=(",", ":"))
        if len(narrowed) > LONGEST_POLICY:
            raise UsageError(
                f"a policy for {grant.place.container}/{grant.writes or grant.reads} is longer than the "
                f"{LONGEST_POLICY} characters that Alibaba Cloud takes",
                hint=f"use a shorter path in {'data' if grant.writes is None else 'checkpoint_to'}",
            )
        try:
            answer = self._account.clients.call(
                "sts", self._account.clients.home_region, "AssumeRole", _session(grant, narrowed)
            )["body"]
        except Exception as error:
            if code_of(error) != "EntityNotExist.Role":
                raise
            hint = "create it, with a trust policy that names you: see gpucloud's docs/checkpoints.md"
            raise UsageError(f"there is no role {grant.role}", hint=hint) from error
        with reading("AssumeRole"):
            keys: Mapping[str, Any] = answer["Credentials"]
            ends_at = datetime.fromisoformat(keys["Expiration"])
            options = {
                "type": "s3",
                "provider": "Alibaba",
                "env_auth": "false",
                "access_key_id": named(keys["AccessKeyId"]),
                "secret_access_key": named(keys["AccessKeySecret"]),
                "session_token": named(keys["SecurityToken"]),
                "region": grant.place.region,
                "no_check_bucket": "true",
                **_encryption(grant.kms_key),
                **_service(self._account.clients, grant.place.region),
            }
        folder = grant.place.container
        return StorageLease(ends_at=ends_at, folder=folder, reading=options, writing=options)


def _page(
    clients: Clients,
    place: StorePlace,
    path: str,
    *,
    token: str | None = None,
    most: int = 1000,
    deep: bool = False,
) -> Any:
    """A page of what is in a folder; ``deep`` with what is in the folders below."""
    page = clients.oss(place.region).ask(
        "ListObjectsV2",
        bucket=place.container,
        prefix=f"{path}/" if path else "",
        delimiter=None if deep else "/",
        max_keys=most,
        continuation_token=token,
    )
    if page.name != place.container or bool(page.is_truncated) != bool(page.next_continuation_token):
        # The SDK makes an empty page of an answer that it cannot read: attempts that it hides would be reused
        raise MalformedAnswerError(f"the list of {place.container} is none")
    return page


def _session(grant: StorageGrant, narrowed: str) -> Mapping[str, str | int]:
    """The parameters of AssumeRole.

    Raises:
        UsageError: no role is named, or nothing that is one.
    """
    hint = (
        "name a role that you may assume and that may use the bucket: "
        f"{'--data-role' if grant.writes is None else '--checkpoint-role'} acs:ram::ACCOUNT:role/NAME"
    )
    if grant.role is None:
        raise UsageError("Alibaba Cloud lends rights on a bucket through a role alone", hint=hint)
    if not _ROLE.fullmatch(grant.role):
        raise UsageError(f"{grant.role!r} is not a role of Alibaba Cloud", hint=hint)
    return {
        "RoleArn": grant.role,
        "RoleSessionName": _NO_NAME.sub("-", f"gpucloud-{grant.name}")[:_LONGEST_NAME],
        "DurationSeconds": LEASE_S,
        "Policy": narrowed,
    }


def policy(grant: StorageGrant) -> Mapping[str, Any]:
    """The session policy: reads a folder, writes one inside of it if it may write at all, deletes nothing.

    It opens a key of KMS only if the user names one: RAM cannot limit the use of keys to OSS, and with a
    right on all keys a box could decrypt what has nothing to do with its bucket.
    """
    account = grant.place.account
    bucket = f"acs:oss:*:{account}:{grant.place.container}"
    writing = ["oss:PutObject", "oss:AbortMultipartUpload", "oss:ListParts"]
    statements = [
        *([] if grant.writes is None else [_allow(writing, f"{bucket}/{grant.writes}/*")]),
        _allow(["oss:GetObject"], f"{bucket}/{grant.reads}/*"),
        {
            **_allow(["oss:ListObjects"], bucket),
            "Condition": {"StringLike": {"oss:Prefix": f"{grant.reads}/*"}},
        },
    ]
    if grant.kms_key is not None:
        key = f"acs:kms:*:{account}:key/{grant.kms_key}"
        statements.append(_allow(["kms:Decrypt", *(["kms:GenerateDataKey"] if grant.writes else [])], key))
    return {"Version": "1", "Statement": statements}


def _allow(actions: Sequence[str], resource: str) -> Mapping[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resource}


def _encryption(kms_key: str | None) -> Mapping[str, str]:
    """The encryption of what is written, in S3's words; without a key, the bucket's own."""
    return {} if kms_key is None else {"server_side_encryption": "aws:kms", "sse_kms_key_id": kms_key}


def _service(clients: Clients, region: str) -> Mapping[str, str]:
    """How rclone reaches OSS: its S3-compatible service, or the endpoint that the caller's settings name."""
    own = clients.own_url()
    if own is None:  # OSS refuses paths that begin with the bucket
        return {"endpoint": f"https://s3.oss-{region}.aliyuncs.com", "force_path_style": "false"}
    return {"endpoint": own, "force_path_style": "true"}
