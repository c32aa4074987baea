"""Resource Manager's wire format: answers, refusals, and what a request is about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, cast

from werkzeug.wrappers import Request, Response

Json = dict[str, Any]


class AzureError(Exception):
    """A refusal: Azure's code, its words, an HTTP status; details where Azure gives them."""

    details: Sequence[Json] = ()

    def __init__(self, code: str, message: str, status: int = 400, **headers: str) -> None:
        super().__init__(code, message)
        self.code, self.message, self.status, self.headers = code, message, status, headers


class HiddenError(AzureError):
    """Something is there, but a read does not see it yet. That it looked counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a call: a JSON ``body``, or ``text`` as it is."""

    status: int = 200
    body: Any = None
    text: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def body_of(request: Request) -> Json:
    """A request's JSON object.

    Raises:
        AzureError: it is none.
    """
    text = request.get_data(cache=True)
    try:
        body: Any = json.loads(text) if text else {}
    except ValueError as error:
        raise AzureError("InvalidRequestContent", f"The request content was invalid: {error}") from None
    if not isinstance(body, dict):
        raise AzureError("InvalidRequestContent", "The request content was invalid: it is no object.")
    return cast("Json", body)


def respond(answer: Answer, request_id: str, now: datetime) -> Response:
    """An answer on the wire, dated by the clouds' clock."""
    if answer.text is not None:
        response = Response(answer.text, answer.status, content_type="text/plain; charset=utf-8")
    else:
        text = "" if answer.body is None else json.dumps(answer.body)
        response = Response(text, answer.status, content_type="application/json; charset=utf-8")
    response.headers.update(answer.headers)
    response.headers["x-ms-request-id"] = request_id
    response.headers["x-ms-correlation-request-id"] = request_id
    response.headers["Date"] = format_datetime(now.astimezone(UTC), usegmt=True)
    return response


def error_body(failure: AzureError) -> Json:
    """A refusal's body."""
    more = {"details": list(failure.details)} if failure.details else {}
    return {"error": {"code": failure.code, "message": failure.message, **more}}


def refuse(failure: AzureError, request_id: str, now: datetime) -> Response:
    """A refusal on the wire."""
    body = error_body(failure)
    return respond(Answer(status=failure.status, body=body, headers=failure.headers), request_id, now)
