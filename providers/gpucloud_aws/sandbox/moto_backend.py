"""What moto answers for us: calls whose state touches nothing of ours. Loaded when first needed."""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING

from werkzeug.test import EnvironBuilder
from werkzeug.wrappers import Request, Response

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

SERVICES = frozenset({"iam", "events", "monitoring"})
"""Whole services, by signing name. None of them bills anything that the ledger would have to know."""

CALLS = frozenset(
    {
        ("ec2", "CreateKeyPair"),
        ("ec2", "DeleteKeyPair"),
        ("ec2", "DescribeKeyPairs"),
        ("ec2", "ImportKeyPair"),
    }
)


def answers(service: str, action: str) -> bool:
    """Whether a call is moto's."""
    return service in SERVICES or (service, action) in CALLS


def respond(request: Request) -> Response:
    """moto's answer."""
    body = io.BytesIO(request.get_data(cache=True))  # ours has read the one of the connection
    return Response.from_app(_application(), {**request.environ, "wsgi.input": body})


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
