"""S3: checks a bucket, and issues credentials for a part of it, within the caller's own rights.

Sources: STS API Reference, AssumeRole and GetFederationToken; IAM User Guide, "Session policies"; S3 User
Guide, "Actions, resources, and condition keys" and "Verifying bucket ownership"; rclone's page of S3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
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
from gpucloud.resources import Identity
from gpucloud_aws.account import AwsAccount
from gpucloud_aws.clients import READ_ATTEMPTS, Clients
from gpucloud_aws.errors import MalformedAnswerError, code_of

LEASE_S = 3600
"""The longest session of a role that a session of a role may ask for, as those of single sign-on are."""
OLD_NAMES = {None: "us-east-1", "EU": "eu-west-1"}
"""How GetBucketLocation names the oldest regions (S3 API Reference)."""
PAGE = 1000
"""The most objects on a page (S3 API Reference, ListObjectsV2)."""
CHUNK = 1 << 20
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_NO_NAME = re.compile(r"[^\w=,.@-]", re.ASCII)
_LONGEST_NAME = 32


class S3(ObjectStore):
    """S3, for this account.

    Args:
        account: the account.
        identity: tells who the caller is.
    """

    def __init__(self, account: AwsAccount, identity: Callable[[], Identity]) -> None:
        self._account = account
        self._identity = identity

    @property
    def store_scheme(self) -> str:
        """``s3``."""
        return "s3"

    def locate(self, address: str, /) -> tuple[StorePlace, str]:
        """A bucket of this account, and the rest of the address."""
        bucket, _, folder = address.partition("/")
        return self._find(self._account.number(), bucket), folder

    def _find(self, account: str, bucket: str, /) -> StorePlace:
        """A bucket of the caller's own account, and its region.

        Raises:
            UsageError: there is none of this name, or it belongs to another account, or is not readable.
        """
        if not _BUCKET.fullmatch(bucket):
            raise UsageError(f"{bucket!r} is not a name of a bucket", hint="use s3://BUCKET/PATH")
        s3 = self._account.clients.client("s3", self._account.clients.home_region, attempts=READ_ATTEMPTS)
        try:
            answer = s3.get_bucket_location(Bucket=bucket, ExpectedBucketOwner=account)
        except Exception as error:
            match code_of(error):
                case "NoSuchBucket":
                    made = f"create it: aws s3 mb s3://{bucket}"
                    raise UsageError(f"there is no bucket {bucket!r} on AWS", hint=made) from error
                case "AccessDenied":
                    text = f"bucket {bucket!r} belongs to another AWS account, or you may not look at it"
                    hint = f"use a bucket of account {account}, with the right s3:GetBucketLocation on it"
                    raise UsageError(text, hint=hint) from error
                case _:
                    raise
        named = answer.get("LocationConstraint")
        return StorePlace(container=bucket, region=OLD_NAMES.get(named) or str(named), account=account)

    def names(self, place: StorePlace, path: str, /) -> Sequence[str]:
        """The names of the folders and objects in a folder."""
        s3 = self._account.clients.client("s3", place.region, attempts=READ_ATTEMPTS)
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=place.container, Prefix=f"{path}/", Delimiter="/"
        )
        found: list[str] = []
        for page in pages:
            found += [each["Prefix"].removesuffix("/") for each in page.get("CommonPrefixes", ())]
            found += [each["Key"] for each in page.get("Contents", ())]
        return [each.rpartition("/")[2] for each in found]

    def measure(self, place: StorePlace, path: str, most: int, /) -> StoreSize:
        """The objects below a folder; those that stand for folders are not counted."""
        s3 = self._account.clients.client("s3", place.region, attempts=READ_ATTEMPTS)
        files = size = 0
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=place.container, Prefix=f"{path}/", PaginationConfig={"PageSize": min(most, PAGE)}
        )
        for page in pages:
            sizes = [int(each["Size"]) for each in page.get("Contents", ()) if not each["Key"].endswith("/")]
            files, size = files + len(sizes), size + sum(sizes)
            if files >= most:
                return StoreSize(files=files, size_bytes=size, whole=not page["IsTruncated"])
        return StoreSize(files=files, size_bytes=size, whole=True)

    def objects(self, place: StorePlace, path: str, most: int, /) -> Sequence[StoredObject]:
        """The objects below a folder; those that stand for folders are left out."""
        s3 = self._account.clients.client("s3", place.region, attempts=READ_ATTEMPTS)
        found: list[StoredObject] = []
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=place.container, Prefix=f"{path}/", PaginationConfig={"PageSize": min(most, PAGE)}
        )
        for page in pages:
            found += [
                StoredObject(path=each["Key"], size_bytes=int(each["Size"]))
                for each in page.get("Contents", ())
                if not each["Key"].endswith("/")
            ]
            if len(found) >= most:
                break
        return found

    def get_object(self, place: StorePlace, path: str, target: BinaryIO, most: int, /) -> None:
        """Writes an object to a file.

        Raises:
            LongerError: it has more bytes than that.
        """
        s3 = self._account.clients.client("s3", place.region, attempts=READ_ATTEMPTS)
        answer = s3.get_object(Bucket=place.container, Key=path, ExpectedBucketOwner=place.account)
        with closing(answer["Body"]) as body:
            size = bounded(body.iter_chunks(CHUNK), target, most)
        if size != answer["ContentLength"]:
            raise MalformedAnswerError(f"S3 gave {size} bytes of {answer['ContentLength']} of {path}")

    def put_object(self, place: StorePlace, path: str, source: BinaryIO, kms_key: str | None, /) -> None:
        """Creates or replaces an object."""
        key = {} if kms_key is None else {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key}
        self._account.clients.client("s3", place.region, attempts=1).put_object(
            Bucket=place.container, Key=path, Body=source, ExpectedBucketOwner=place.account, **key
        )

    def delete_object(self, place: StorePlace, path: str, /) -> None:
        """Deletes an object; S3 says nothing where there is none."""
        self._account.clients.client("s3", place.region, attempts=1).delete_object(
            Bucket=place.container, Key=path, ExpectedBucketOwner=place.account
        )

    def lend(self, grant: StorageGrant, /) -> StorageLease:
        """Keys for an hour: of a session of a role, or of a federated user without one.

        Raises:
            UsageError: the caller is a session, which needs a role for it.
        """
        caller, name = self._identity().who, _NO_NAME.sub("-", f"gpucloud-{grant.name}")[:_LONGEST_NAME]
        answer: Any
        clients = self._account.clients
        narrowed = policy(grant, clients.partition(grant.place.region))
        asked: dict[str, Any] = {"DurationSeconds": LEASE_S, "Policy": json.dumps(narrowed)}
        if grant.role is not None:
            answer = clients.sts().assume_role(RoleArn=grant.role, RoleSessionName=name, **asked)
        elif ":assumed-role/" in caller or ":federated-user/" in caller:
            raise UsageError(
                f"a session ({caller}) cannot lend rights on a bucket without a role",
                hint=f"name a role that you may assume and that may use the bucket: {_flag(grant)} ARN",
            )
        else:
            answer = clients.sts().get_federation_token(Name=name, **asked)
        keys = answer["Credentials"]
        options = {
            "type": "s3",
            "env_auth": "false",
            "access_key_id": keys["AccessKeyId"],
            "secret_access_key": keys["SecretAccessKey"],
            "session_token": keys["SessionToken"],
            "region": grant.place.region,
            "no_check_bucket": "true",
            **_encryption(grant.kms_key),
            **_service(clients, grant.place.region),
        }
        folder = grant.place.container
        return StorageLease(ends_at=keys["Expiration"], folder=folder, reading=options, writing=options)


def policy(grant: StorageGrant, partition: str) -> Mapping[str, Any]:
    """The session policy: reads a folder, writes one inside of it if it may write at all, deletes nothing.

    Keys of KMS are used through S3 alone, for buckets that encrypt with them by default; the caller's own
    rights on the key are not widened.
    """
    bucket, region = f"arn:{partition}:s3:::{grant.place.container}", grant.place.region
    own = {"aws:ResourceAccount": grant.place.account}
    return {
        "Version": "2012-10-17",
        "Statement": [
            *_writing(grant, bucket, own),
            {
                "Effect": "Allow",
                "Action": "s3:GetObject",
                "Resource": f"{bucket}/{grant.reads}/*",
                "Condition": {"StringEquals": own},
            },
            {
                "Effect": "Allow",
                "Action": "s3:ListBucket",
                "Resource": bucket,
                "Condition": {"StringEquals": own, "StringLike": {"s3:prefix": f"{grant.reads}/*"}},
            },
            {
                "Effect": "Allow",
                "Action": ["kms:Decrypt", *(["kms:GenerateDataKey"] if grant.writes else [])],
                "Resource": "*",
                "Condition": {"StringLike": {"kms:ViaService": f"s3.{region}.amazonaws.com*"}},
            },
        ],
    }


def _writing(grant: StorageGrant, bucket: str, own: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    """The statement that lets it write; none for a grant that only reads."""
    if grant.writes is None:
        return ()
    return (
        {
            "Effect": "Allow",
            "Action": ["s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"],
            "Resource": f"{bucket}/{grant.writes}/*",
            "Condition": {"StringEquals": own},
        },
    )


def _flag(grant: StorageGrant) -> str:
    """The flag that names the role of a grant."""
    return "--data-role" if grant.writes is None else "--checkpoint-role"


def _encryption(kms_key: str | None) -> Mapping[str, str]:
    """The encryption of what is written; without a key, the bucket's own."""
    return {} if kms_key is None else {"server_side_encryption": "aws:kms", "sse_kms_key_id": kms_key}


def _service(clients: Clients, region: str) -> Mapping[str, str]:
    """How rclone reaches S3: AWS itself, or the endpoint that the caller's settings name."""
    url: str = clients.client("s3", region, attempts=READ_ATTEMPTS).meta.endpoint_url
    if ".amazonaws.com" in url:
        return {"provider": "AWS"}
    # A service that is compatible: rclone would address its buckets as hosts, and list by an older call.
    return {"provider": "Other", "endpoint": url, "force_path_style": "true", "list_version": "2"}
