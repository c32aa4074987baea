"""What moto answers for us: calls whose state touches nothing of ours. Loaded when first needed."""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING

from werkzeug.test import EnvironBuilder
from werkzeug.wrappers import Request, Response

from gpucloud.sandbox.database import Document
from gpucloud_aws.sandbox.region import ACCOUNT

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

SERVICES = frozenset({"iam", "events", "kms", "monitoring"})
"""Whole services, by signing name. What they bill is keys alone, which gpucloud_aws.sandbox.keys enters."""

CALLS = frozenset(
    {
        ("ec2", "CreateKeyPair"),
        ("ec2", "DeleteKeyPair"),
        ("ec2", "DescribeKeyPairs"),
        ("ec2", "ImportKeyPair"),
    }
)


_NAMESPACE = b'"http://ec2.amazonaws.com/doc/2016-11-15"'
"""How moto names EC2's namespace. EC2 itself ends it with a slash, and Apache Libcloud looks at that."""


def answers(service: str, action: str) -> bool:
    """Whether a call is moto's."""
    return service in SERVICES or (service, action) in CALLS


def respond(request: Request) -> Response:
    """moto's answer."""
    body = io.BytesIO(request.get_data(cache=True))  # ours has read the one of the connection
    response = Response.from_app(_application(), {**request.environ, "wsgi.input": body})
    response.set_data(response.get_data().replace(_NAMESPACE, _NAMESPACE[:-1] + b'/"'))
    return response


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


def encryption_key(region: str, named: str) -> str | None:
    """The ARN of an enabled key of a region, by its id, alias or ARN; ``None`` where there is none."""
    if not _application.cache_info().currsize or (named.startswith("arn:") and f":{region}:" not in named):
        return None
    from moto.kms.models import kms_backends  # pyright: ignore[reportMissingTypeStubs]

    backend = kms_backends[ACCOUNT][region]
    name = backend.get_alias_name(named)
    alias = name.startswith("alias/")
    key = backend.keys.get((backend.get_key_id_from_alias(name) or "") if alias else backend.get_key_id(name))
    return str(key.arn) if key is not None and key.enabled else None


def reset() -> None:
    """Forgets moto's state, if moto was ever loaded."""
    if _application.cache_info().currsize:
        Response.from_app(_application(), EnvironBuilder("/moto-api/reset", method="POST").get_environ())


@cache
def _application() -> WSGIApplication:
    from moto.moto_server.werkzeug_app import (  # pyright: ignore[reportMissingTypeStubs]
        DomainDispatcherApplication,
        create_backend_app,
    )

    application: WSGIApplication = DomainDispatcherApplication(create_backend_app)
    return application
