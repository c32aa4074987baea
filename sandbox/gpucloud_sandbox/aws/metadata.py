"""The metadata service of an EC2 instance, version 2: a token by PUT, then text by GET.

Paths and bodies: EC2 User Guide, "Instance metadata categories" and "Spot Instance interruption notices".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from gpucloud_sandbox.boxes_metadata import Answer, Answerer, Facts, listed


def service(options: Mapping[str, Any]) -> Answerer:
    """The metadata service of an instance with these ``MetadataOptions``."""
    optional = options["HttpTokens"] == "optional"
    with_tags = options["InstanceMetadataTags"] == "enabled"

    def answer(facts: Facts, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        if method == "PUT" and path == "/latest/api/token":
            known = "x-aws-ec2-metadata-token-ttl-seconds" in headers
            return (200, facts.token) if known else (400, "")
        if method != "GET":
            return 405, ""
        token = headers.get("x-aws-ec2-metadata-token")
        if token != facts.token and not (optional and token is None):
            return 401, ""
        return listed(_values(facts, with_tags=with_tags), path.removeprefix("/latest/"))

    return answer


def _values(facts: Facts, *, with_tags: bool) -> Mapping[str, str]:
    tags = facts.tags if with_tags else dict[str, str]()
    values = {
        "user-data": facts.user_data,
        "meta-data/instance-id": facts.id,
        "meta-data/hostname": facts.hostname,
        "meta-data/local-hostname": facts.hostname,
        "meta-data/public-ipv4": facts.public_ip,
        "meta-data/local-ipv4": facts.private_ip,
        "meta-data/instance-life-cycle": "spot" if facts.spot else "on-demand",
        **{f"meta-data/tags/instance/{key}": value for key, value in tags.items()},
    }
    if facts.spot and facts.interruption is not None:
        time = facts.interruption.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        values["meta-data/spot/instance-action"] = json.dumps({"action": "terminate", "time": time})
        values["meta-data/spot/termination-time"] = time
    return values
