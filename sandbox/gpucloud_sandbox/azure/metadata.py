"""The metadata service of a virtual machine, and its scheduled events.

Paths and bodies: Azure Instance Metadata Service, "Scheduled Events for Linux VMs".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gpucloud_sandbox.boxes_metadata import Answer, Facts

_EVENTS = "/metadata/scheduledevents"
_TOKEN = "/metadata/identity/oauth2/token"  # noqa: S105  (where one is got)


def answer(
    facts: Facts,
    method: str,
    path: str,
    headers: Mapping[str, str],
    *,
    resource_id: str = "",
    token: Callable[[str], str] | None = None,
) -> Answer:
    """What ``169.254.169.254`` answers; nothing to who was sent by a proxy.

    ``token`` gives the machine's own identity, if it has one, a token for an audience.
    """
    url = urlsplit(path)
    query = parse_qs(url.query)
    known = headers.get("metadata", "").lower() == "true" and "x-forwarded-for" not in headers
    if not known or "api-version" not in query:
        words = "Bad request. Required metadata header or api-version not specified"
        return 400, json.dumps({"error": words})
    place = url.path.rstrip("/")
    if place == _EVENTS and method in {"GET", "POST"}:
        return 200, json.dumps(_events(facts)) if method == "GET" else ""
    if place == _TOKEN and method == "GET":
        return _token(query.get("resource", [""])[0], token)
    if method != "GET":
        return 405, json.dumps({"error": "Method not allowed"})
    steps = place.removeprefix("/metadata/").split("/")
    return _value({"instance": _instance(facts, resource_id)}, steps, text=query.get("format") == ["text"])


def _token(audience: str, token: Callable[[str], str] | None) -> Answer:
    if token is None or not audience:
        return 400, json.dumps({"error": "invalid_request", "error_description": "Identity not found"})
    answer = {"access_token": token(audience), "resource": audience, "token_type": "Bearer"}
    return 200, json.dumps(answer)


def _value(document: Any, steps: list[str], *, text: bool) -> Answer:
    """What lies at a path of the document; a single value as text, where that is asked for."""
    for step in steps:
        try:
            document = document[int(step) if step.isdecimal() else step]
        except (LookupError, ValueError, TypeError):
            return 404, json.dumps({"error": "Not found"})
    return 200, document if text and isinstance(document, str) else json.dumps(document)


def _events(facts: Facts) -> Any:
    if not facts.spot or facts.interruption is None:
        return {"DocumentIncarnation": 1, "Events": []}
    event = {
        "EventId": f"{facts.id}-preempt",
        "EventType": "Preempt",
        "ResourceType": "VirtualMachine",
        "Resources": [facts.hostname],
        "EventStatus": "Scheduled",
        "NotBefore": facts.interruption.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }
    return {"DocumentIncarnation": 2, "Events": [event]}


def _instance(facts: Facts, resource_id: str) -> Any:
    address = {"privateIpAddress": facts.private_ip, "publicIpAddress": facts.public_ip}
    return {
        "compute": {
            "name": facts.hostname,
            "osType": "Linux",
            "provider": "Microsoft.Compute",
            "resourceId": resource_id,
            "vmId": facts.id,
            "priority": "Spot" if facts.spot else "Regular",
            "tags": ";".join(f"{key}:{value}" for key, value in facts.tags.items()),
            "tagsList": [{"name": key, "value": value} for key, value in facts.tags.items()],
        },
        "network": {"interface": [{"ipv4": {"ipAddress": [address]}}]},
    }
