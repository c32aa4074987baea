"""The metadata service of an ECS instance: a token by PUT, which hardened mode needs, then text by GET.

Paths: ECS user guide, "Instance metadata" and "Query the interruption events of preemptible instances".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC

from gpucloud_sandbox.boxes_metadata import Answer, Facts, listed

_TOKEN, _TTL = "x-aliyun-ecs-metadata-token", "x-aliyun-ecs-metadata-token-ttl-seconds"


def answer(
    facts: Facts,
    method: str,
    path: str,
    headers: Mapping[str, str],
    *,
    hardened: bool = True,
    public_key: str = "",
) -> Answer:
    """What ``100.100.100.200`` answers.

    Args:
        facts: the box's.
        method: of the request.
        path: of the request.
        headers: of the request.
        hardened: whether a token is needed (``HttpTokens``); a wrong one never helps.
        public_key: of the instance's key pair.
    """
    if method == "PUT" and path == "/latest/api/token":
        return (200, facts.token) if _TTL in headers else (400, "")
    if method != "GET":
        return 405, ""
    if headers.get(_TOKEN, "" if hardened else facts.token) != facts.token:
        return 403, ""
    pair = {"meta-data/public-keys/0/openssh-key": public_key} if public_key else {}
    return listed(_values(facts) | pair, path.removeprefix("/latest/"))


def _values(facts: Facts) -> dict[str, str]:
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
