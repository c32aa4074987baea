"""The metadata service of a virtual machine, and its scheduled events.

Paths and bodies: Azure Instance Metadata Service, "Scheduled Events for Linux VMs".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC
from typing import Any
from urllib.parse import urlsplit

from gpucloud.sandbox.boxes_metadata import Answer, Facts


def answer(facts: Facts, method: str, path: str, headers: Mapping[str, str]) -> Answer:
    """What ``169.254.169.254`` answers."""
    url = urlsplit(path)
    if headers.get("metadata", "").lower() != "true" or "api-version=" not in url.query:
        return 400, json.dumps(
            {"error": "Bad request. Required metadata header or api-version not specified"}
        )
    match method, url.path.rstrip("/"):
        case "POST", "/metadata/scheduledevents":
            return 200, ""
        case "GET", "/metadata/scheduledevents":
            return 200, json.dumps(_events(facts))
        case "GET", "/metadata/instance":
            return 200, json.dumps(_instance(facts))
        case _:
            return (404 if method == "GET" else 405), ""


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


def _instance(facts: Facts) -> Any:
    address = {"privateIpAddress": facts.private_ip, "publicIpAddress": facts.public_ip}
    return {
        "compute": {
            "name": facts.hostname,
            "vmId": facts.id,
            "priority": "Spot" if facts.spot else "Regular",
            "tagsList": [{"name": key, "value": value} for key, value in facts.tags.items()],
        },
        "network": {"interface": [{"ipv4": {"ipAddress": [address]}}]},
    }
