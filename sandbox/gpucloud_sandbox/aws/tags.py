"""Tags: with the create calls, and on their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.aws.query import Field, page, select
from gpucloud_sandbox.aws.region import ID_KEYS, Region, tags_of
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document

TAGGABLE = {
    "i-": ("instance", "instance"),
    "vol-": ("volume", "volume"),
    "snap-": ("snapshot", "snapshot"),
    "ami-": ("image", "image"),
    "eni-": ("interface", "network-interface"),
    "sg-": ("group", "security-group"),
    "sir-": ("spot", "spot-instances-request"),
    "cr-": ("reservation", "capacity-reservation"),
    "eipalloc-": ("address", "elastic-ip"),
    "lt-": ("template", "launch-template"),
    "pg-": ("placement", "placement-group"),
    "vpc-": ("vpc", "vpc"),
    "subnet-": ("subnet", "subnet"),
    "igw-": ("gateway", "internet-gateway"),
    "rtb-": ("route_table", "route-table"),
}
"""What can be tagged, by the beginning of its id: the kind here, and AWS's name of the resource type."""

_SYSTEM = "aws:"

_NOT_FOUND = {
    "instance": "InvalidInstanceID.NotFound",
    "volume": "InvalidVolume.NotFound",
    "snapshot": "InvalidSnapshot.NotFound",
    "image": "InvalidAMIID.NotFound",
}


def tags_for(parameters: Mapping[str, Any], resource_type: str) -> list[dict[str, str]]:
    """The tags of a create call for a type of resource.

    Raises:
        AwsError: they are not valid.
    """
    tags: dict[str, str] = {}
    for each in parameters.get("TagSpecifications") or ():
        if each.get("ResourceType") == resource_type:
            for tag in each.get("Tags") or ():
                if tag["Key"] in tags:
                    raise AwsError("InvalidParameterValue", f"Duplicate tag key '{tag['Key']}' specified.")
                tags[tag["Key"]] = tag.get("Value", "")
    return _checked(tags)


def tags_of_made(parameters: Mapping[str, Any], *types: str) -> list[dict[str, str]]:
    """The tags of a create call for the first of the types of resource that it makes.

    Raises:
        AwsError: they are not valid, or are for another type.
    """
    for each in parameters.get("TagSpecifications") or ():
        if each.get("ResourceType") not in types:
            text = f"'{each.get('ResourceType')}' is not a valid taggable resource type for this operation."
            raise AwsError("InvalidParameterValue", text)
    return tags_for(parameters, types[0])


def create_tags(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateTags."""
    found = [_find(region, id_) for id_ in parameters["Resources"]]
    new = {tag["Key"]: tag.get("Value", "") for tag in parameters["Tags"]}
    _checked(new)
    for kind, thing in found:
        _retag(region, kind, thing, {**tags_of(thing), **new})
    return {}


def delete_tags(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteTags."""
    found = [_find(region, id_) for id_ in parameters["Resources"]]
    for kind, thing in found:
        tags = tags_of(thing)
        for tag in parameters.get("Tags") or [{"Key": key} for key in list(tags)]:
            if "Value" not in tag or tags.get(tag["Key"]) == tag["Value"]:
                tags.pop(tag["Key"], None)
        _retag(region, kind, thing, tags)
    return {}


def describe_tags(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeTags."""
    rows = [
        {"ResourceId": thing[ID_KEYS[kind]], "ResourceType": name, "Key": key, "Value": value}
        for kind, name in TAGGABLE.values()
        for thing in region.all(kind).values()
        for key, value in tags_of(thing).items()
    ]
    fields: dict[str, Field] = {
        "key": "Key",
        "value": "Value",
        "resource-id": "ResourceId",
        "resource-type": "ResourceType",
    }
    shown, token = page(select(rows, parameters.get("Filters"), fields), parameters)
    return {"Tags": shown, "NextToken": token}


def _retag(region: Region, kind: str, thing: Document, tags: Mapping[str, str]) -> None:
    """Gives a resource other tags. Those of AWS itself stay, and do not count."""
    own = [{"Key": key, "Value": value} for key, value in tags_of(thing).items() if key.startswith(_SYSTEM)]
    others = _checked({key: value for key, value in tags.items() if not key.startswith(_SYSTEM)})
    thing[_field(kind)] = [*own, *others]
    region.put(kind, thing)


def _checked(tags: Mapping[str, str]) -> list[dict[str, str]]:
    if len(tags) > 50:
        raise AwsError("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
    for key, value in tags.items():
        if key.startswith(_SYSTEM):
            text = f"Invalid tag key: '{key}'. The aws: prefix is reserved for system tags"
            raise AwsError("InvalidParameterValue", text)
        if not 1 <= len(key) <= 128 or len(value) > 256:
            raise AwsError("InvalidParameterValue", f"Tag key or value is too long or empty: '{key[:20]}'")
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _field(kind: str) -> str:
    return "TagSet" if kind == "interface" else "Tags"


def _find(region: Region, id_: str) -> tuple[str, Document]:
    kind = next((kind for prefix, (kind, _) in TAGGABLE.items() if id_.startswith(prefix)), None)
    if kind is None:
        raise AwsError("InvalidID", f"The ID '{id_}' is not valid")
    thing = region.all(kind).get(id_)
    if thing is None:
        raise AwsError(_NOT_FOUND.get(kind, "InvalidID.NotFound"), f"The ID '{id_}' does not exist")
    return kind, thing
