"""What moto answers for us: calls whose state touches nothing of ours. Loaded when first needed."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from werkzeug.routing import Rule
from werkzeug.test import EnvironBuilder
from werkzeug.wrappers import Request, Response

from gpucloud_sandbox.aws.region import ACCOUNT
from gpucloud_sandbox.connections import HEADERS
from gpucloud_sandbox.database import Document

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from flask import Flask

SERVICES = frozenset({"iam", "events", "kms", "monitoring"})
"""Whole services, by signing name. What they bill is keys alone, which gpucloud_sandbox.aws.keys enters."""

CALLS = frozenset(
    {
        ("ec2", "CreateKeyPair"),
        ("ec2", "DeleteKeyPair"),
        ("ec2", "DescribeKeyPairs"),
        ("ec2", "ImportKeyPair"),
    }
)


MOST_KEYS = 1000
"""In one page of S3."""
_DISTURBED = "gpucloud_disturbed"
_NAMESPACE = b'"http://ec2.amazonaws.com/doc/2016-11-15"'
"""How moto names EC2's namespace. EC2 itself ends it with a slash, and Apache Libcloud looks at that."""


def answers(service: str, action: str) -> bool:
    """Whether a call is moto's."""
    return service in SERVICES or (service, action) in CALLS


def respond(request: Request, body: bytes) -> Response:
    """moto's answer to a request with this body."""
    changed = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
    response = Response.from_app(_application(), {**request.environ, **changed})
    response.set_data(response.get_data().replace(_NAMESPACE, _NAMESPACE[:-1] + b'/"'))
    return response


def store(request: Request, body: bytes, trailers: Mapping[str, str], *, region: str) -> Response:
    """moto's answer to a call of S3.

    moto gets a plain request, however the client has sent it: the body out of its chunks, the signature in a
    header, and no more keys in a page than S3 lists.
    """
    said = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in trailers.items()}
    scope = f"AWS4-HMAC-SHA256 Credential={ACCOUNT}/20260101/{region}/s3/aws4_request"
    environ = {
        **request.environ,
        **said,
        **_underscored(request),
        "wsgi.input": io.BytesIO(body),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_AUTHORIZATION": f"{scope}, SignedHeaders=host, Signature=verified",
        "HTTP_X_AMZ_CONTENT_SHA256": "UNSIGNED-PAYLOAD",
        "QUERY_STRING": urlencode(_query(request)),
    }
    encoding = request.headers.get("Content-Encoding", "")
    environ["HTTP_CONTENT_ENCODING"] = encoding.removeprefix("aws-chunked").lstrip(", ")
    if not environ["HTTP_CONTENT_ENCODING"]:
        del environ["HTTP_CONTENT_ENCODING"]
    return Response.from_app(_storage(), environ)


def _underscored(request: Request) -> dict[str, Any]:
    """The metadata whose names have an underscore, as moto's own server would hand them on."""
    from moto.core.request import (  # pyright: ignore[reportMissingTypeStubs]
        PRESERVED_HEADER_NAMES_ENVIRON_KEY,
        environ_key_for_header,
    )

    found = {name: value for name, value in request.environ[HEADERS] if "_" in name}
    keys = {environ_key_for_header(name): name for name in found}
    return {
        **{key: found[name] for key, name in keys.items()},
        PRESERVED_HEADER_NAMES_ENVIRON_KEY: keys,
    }


def _query(request: Request) -> dict[str, str]:
    query = {name: value for name, value in request.args.items() if not name.startswith("X-Amz-")}
    if query.get("max-keys", "").isdecimal():
        query["max-keys"] = str(min(int(query["max-keys"]), MOST_KEYS))
    return query


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart upload: its key, its parts, and whether the object was deleted since it began."""

    key_name: str
    parts: Mapping[int, bytes]
    disturbed: bool


def upload(bucket: str, id_: str) -> Upload | None:
    """A multipart upload that is neither complete nor aborted; ``None`` where there is none."""
    found = _bucket(bucket)
    each = None if found is None else found.multiparts.get(id_)
    if each is None:
        return None
    parts = {number: stored.value for number, stored in each.parts.items()}
    return Upload(each.key_name, parts, getattr(each, _DISTURBED, False))


def mark_uploads(bucket: str, key: str) -> None:
    """Notes that an object was deleted while uploads of it were under way."""
    found = _bucket(bucket)
    for each in () if found is None else found.multiparts.values():
        if each.key_name == key:
            setattr(each, _DISTURBED, True)


def bucket_region(bucket: str) -> str | None:
    """The region of a bucket; ``None`` where there is none."""
    found = _bucket(bucket)
    return None if found is None else str(found.region_name)


def etag(bucket: str, key: str) -> str | None:
    """The ETag of an object; ``None`` where there is none."""
    found = _bucket(bucket)
    stored = None if found is None else found.keys.get(key)
    return None if stored is None else str(stored.etag)


def date_object(bucket: str, key: str, at: datetime) -> None:
    """Dates an object by the clouds' clock: moto knows this machine's alone."""
    found = _bucket(bucket)
    if found is not None and key in found.keys:
        found.keys[key].last_modified = at.replace(tzinfo=None)


def stored_bytes(bucket: str) -> int:
    """How much a bucket holds, with the parts of uploads under way; 0 where there is none."""
    found = _bucket(bucket)
    if found is None:
        return 0
    parts = (part for each in found.multiparts.values() for part in each.parts.values())
    return sum(int(each.size) for each in (*found.keys.values(), *parts))


def _bucket(name: str) -> Any:
    if not _storage.cache_info().currsize:
        return None
    from moto.s3.models import s3_backends  # pyright: ignore[reportMissingTypeStubs]

    return s3_backends[ACCOUNT]["aws"].buckets.get(name)


def public_key(region: str, name: str) -> str | None:
    """The public key of a key pair; ``None`` where a region has no such pair."""
    if not _application.cache_info().currsize:  # nobody can have made one
        return None
    from moto.ec2.models import ec2_backends  # pyright: ignore[reportMissingTypeStubs]

    pair = ec2_backends[ACCOUNT][region].key_pairs.get(name)
    return None if pair is None else pair.public_key


def instance_profile(name: str) -> Document | None:
    """An instance profile as instances name it; ``None`` where there is none."""
    if not _application.cache_info().currsize:
        return None
    from moto.iam.models import iam_backends  # pyright: ignore[reportMissingTypeStubs]

    known = iam_backends[ACCOUNT]["aws"].instance_profiles.values()
    return next(({"Arn": each.arn, "Id": each.id} for each in known if each.name == name), None)


def encryption_key(region: str, named: str, *, enabled: bool = True) -> str | None:
    """The ARN of a key of a region, by its id, alias or ARN; ``None`` where no such (enabled) key is."""
    if not _application.cache_info().currsize or (named.startswith("arn:") and f":{region}:" not in named):
        return None
    from moto.kms.models import kms_backends  # pyright: ignore[reportMissingTypeStubs]

    backend = kms_backends[ACCOUNT][region]
    name = backend.get_alias_name(named)
    alias = name.startswith("alias/")
    key = backend.keys.get((backend.get_key_id_from_alias(name) or "") if alias else backend.get_key_id(name))
    return str(key.arn) if key is not None and (key.enabled or not enabled) else None


def role(arn: str) -> Document | None:
    """A role with its trust policy and all its policies, parsed; ``None`` where there is none."""
    if not _application.cache_info().currsize:
        return None
    from moto.iam.models import iam_backends  # pyright: ignore[reportMissingTypeStubs]

    roles = iam_backends[ACCOUNT]["aws"].roles.values()
    found = next((each for each in roles if each.arn == arn), None)
    if found is None:
        return None
    attached = [
        version.document
        for policy in found.managed_policies.values()
        for version in policy.versions
        if version.version_id == policy.default_version_id
    ]
    return {
        "Arn": found.arn,
        "RoleId": found.id,
        "AssumeRolePolicyDocument": json.loads(found.assume_role_policy_document),
        "MaxSessionDuration": int(found.max_session_duration or 3600),
        "_policies": [json.loads(each) for each in (*found.policies.values(), *attached)],
    }


def reset() -> None:
    """Forgets moto's state, if moto was ever loaded."""
    if _application.cache_info().currsize or _storage.cache_info().currsize:
        Response.from_app(_application(), EnvironBuilder("/moto-api/reset", method="POST").get_environ())


@cache
def _storage() -> WSGIApplication:
    """S3 by itself: the dispatcher would take some buckets for other services."""
    from moto.moto_server.werkzeug_app import (  # pyright: ignore[reportMissingTypeStubs]
        create_backend_app,
    )

    application: Flask = create_backend_app("s3")
    [keys] = [rule for rule in application.url_map.iter_rules() if "bucket_name_path" in rule.rule]
    # S3 takes a key with line feeds, which moto's own route does not match.
    application.url_map.add(Rule(keys.rule.replace(".+", r"[\s\S]+"), endpoint=keys.endpoint))
    return application


@cache
def _application() -> WSGIApplication:
    from moto.moto_server.werkzeug_app import (  # pyright: ignore[reportMissingTypeStubs]
        DomainDispatcherApplication,
        create_backend_app,
    )

    application: WSGIApplication = DomainDispatcherApplication(create_backend_app)
    return application
