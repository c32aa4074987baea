"""The metadata service of an ECS instance in hardened mode: a token by PUT, then text by GET.

Paths: ECS user guide, "Instance metadata" and "Query the interruption events of preemptible instances".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC

from gpucloud.sandbox.boxes_metadata import Answer, Facts, listed

_TOKEN, _TTL = "x-aliyun-ecs-metadata-token", "x-aliyun-ecs-metadata-token-ttl-seconds"


def answer(facts: Facts, method: str, path: str, headers: Mapping[str, str]) -> Answer:
    """What ``100.100.100.200`` answers."""
    if method == "PUT" and path == "/latest/api/token":
        return (200, facts.token) if _TTL in headers else (400, "")
    if method != "GET":
        return 405, ""
    if headers.get(_TOKEN) != facts.token:
        return 403, ""
    return listed(_values(facts), path.removeprefix("/latest/"))


def _values(facts: Facts) -> Mapping[str, str]:
    values = {
        "user-data": facts.user_data,
        "meta-data/instance-id": facts.id,
        "meta-data/hostname": facts.hostname,
        "meta-data/private-ipv4": facts.private_ip,
        "meta-data/eipv4": facts.public_ip,
        **{f"meta-data/tags/instance/{key}": value for key, value in facts.tags.items()},
    }
    if facts.spot and facts.interruption is not None:
        time = facts.interruption.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        values["meta-data/instance/spot/termination-time"] = time
    return values
