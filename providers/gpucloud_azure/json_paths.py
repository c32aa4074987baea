"""Reads Azure's answers as JSON, by paths."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

from gpucloud_azure.errors import MalformedAnswerError, reading

Json = Mapping[str, Any]


def plain(model: Any) -> dict[str, Any]:
    """The original JSON of an answer of the SDK.

    The SDK initialises its models at their first use, without a lock; another thread may meanwhile receive
    the JSON itself (its model_base returns what it cannot deserialize: azure-mgmt-network 33.1).
    """
    if isinstance(model, dict):
        return cast("dict[str, Any]", model)
    with reading("a call"):
        whole: dict[str, Any] = model.as_dict()
        return whole


def at(document: Any, *path: str) -> Any:
    """The value at a path of nested objects; ``None`` if a part of the path is missing."""
    found: Any = document
    for name in path:
        found = cast("Json", found).get(name) if isinstance(found, Mapping) else None
    return found


def text_at(document: Any, *path: str) -> str:
    """The same as text; empty if missing."""
    found = at(document, *path)
    return "" if found is None else str(found)


def list_at(document: Any, *path: str) -> list[Any]:
    """The same as a list; empty if missing."""
    found = at(document, *path)
    return list(cast("Iterable[Any]", found)) if isinstance(found, list) else []


def moment(text: Any) -> datetime | None:
    """A time of an answer, in UTC; ``None`` for any other value."""
    if isinstance(text, datetime):
        return text.astimezone(UTC)
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except ValueError:
        return None


def refuse_nonsense(answer: Any) -> None:
    """Refuses a malformed successful answer: an object in JSON, whose ``value``, if any, lists objects.

    A deletion may be answered with nothing, as may an action, what is accepted for later, and the result of
    either (Azure Resource Manager, "Track asynchronous Azure operations": ``Location`` answers in its place).

    Args:
        answer: azure-core's ``HttpResponse``; it is read.

    Raises:
        MalformedAnswerError: the answer is malformed, or is a redirect.
    """
    url = urlsplit(str(answer.request.url))
    asked = f"{answer.request.method} {url.path}"
    if 300 <= answer.status_code < 400:
        raise MalformedAnswerError(f"the answer to {asked} is a redirect, which gpucloud does not follow")
    if answer.status_code >= 400 or "json" not in str(answer.headers.get("Content-Type", "")):
        return
    is_result = "/operationresults/" in url.path.lower() or "monitor=true" in url.query.lower().split("&")
    may_be_empty = (
        is_result or answer.request.method in {"DELETE", "POST"} or answer.status_code in {202, 204}
    )
    try:
        body: Any = json.loads(answer.read() or (b"{}" if may_be_empty else b""))
    except (ValueError, RecursionError) as error:
        raise MalformedAnswerError(f"the answer to {asked} is not JSON: {error}") from error
    listed: Any = cast("Json", body).get("value", []) if isinstance(body, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in list_at(body, "value")):
        raise MalformedAnswerError(f"the answer to {asked} is malformed")
