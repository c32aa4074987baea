"""Tags of resources that exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.alibaba.region import (
    ID_KEYS,
    Region,
    asked_tags,
    ecs_tags,
    has_tags,
    page,
    tags_of,
    vpc_tags,
)
from gpucloud_sandbox.alibaba.stock import alive
from gpucloud_sandbox.alibaba.wire import AlibabaError, true
from gpucloud_sandbox.database import Document

TAGGABLE = {
    "instance": "instance",
    "disk": "disk",
    "eni": "nic",
    "securitygroup": "group",
    "snapshot": "snapshot",
    "image": "image",
    "keypair": "keypair",
    "vpc": "vpc",
    "vswitch": "vswitch",
    "eip": "eip",
}
"""What can be tagged, by the cloud's name of its type: the kind here."""


def tag_resources(region: Region, parameters: Mapping[str, Any]) -> Document:
    """TagResources."""
    _change(region, parameters, add=asked_tags(parameters), drop=())
    return {}


def untag_resources(region: Region, parameters: Mapping[str, Any]) -> Document:
    """UntagResources."""
    _change(region, parameters, add={}, drop=parameters.get("TagKey") or (), all_=true(parameters.get("All")))
    return {}


def list_tag_resources(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ListTagResources."""
    kind = _kind(parameters)
    ids = parameters.get("ResourceId")
    rows = [
        {"ResourceType": parameters["ResourceType"], "ResourceId": id_, "TagKey": key, "TagValue": value}
        for id_, document in _existing(region, kind).items()
        if (ids is None or id_ in ids) and has_tags(document, parameters)
        for key, value in tags_of(document).items()
    ]
    shown, about = page(rows, {"MaxResults": 100, **parameters})
    return {"TagResources": {"TagResource": shown}, "NextToken": about["NextToken"]}


def _change(
    region: Region, parameters: Mapping[str, Any], *, add: Mapping[str, str], drop: Any, all_: bool = False
) -> None:
    kind = _kind(parameters)
    existing = _existing(region, kind)
    for id_ in parameters.get("ResourceId") or ():
        document = existing.get(id_)
        if document is None:
            raise AlibabaError(
                "InvalidResourceId.NotFound", f"The specified ResourceId {id_} is not found.", 404
            )
        kept = {} if all_ else {key: value for key, value in tags_of(document).items() if key not in drop}
        written = vpc_tags if kind in {"vpc", "vswitch", "eip"} else ecs_tags
        region.put(kind, {**document, "Tags": written({**kept, **add})})


def _existing(region: Region, kind: str) -> Mapping[str, Document]:
    """The resources of a kind, by id, without the instances that were released."""
    found = region.all(kind)
    return {id_: each for id_, each in found.items() if alive(each)} if kind == "instance" else found


def _kind(parameters: Mapping[str, Any]) -> str:
    kind = TAGGABLE.get(str(parameters["ResourceType"]).lower())
    if kind is None or kind not in ID_KEYS:
        raise AlibabaError("InvalidResourceType.NotFound", "The ResourceType provided does not exist.", 404)
    return kind
