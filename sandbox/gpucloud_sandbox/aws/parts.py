"""The parts of networks: finding one by its id, describing them, and reading ranges of addresses."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Any

from gpucloud_sandbox.aws.query import Field, page, select
from gpucloud_sandbox.aws.region import ID_KEYS, Region
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document

_NOT_FOUND = {
    "gateway": ("InvalidInternetGatewayID.NotFound", "The internetGateway ID '{}' does not exist"),
    "interface": ("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '{}' does not exist"),
    "route_table": ("InvalidRouteTableID.NotFound", "The routeTable ID '{}' does not exist"),
    "subnet": ("InvalidSubnetID.NotFound", "The subnet ID '{}' does not exist"),
    "vpc": ("InvalidVpcID.NotFound", "The vpc ID '{}' does not exist"),
}
"""By kind: EC2's code and message for an id that it does not know."""


def find(region: Region, kind: str, id_: str) -> Document:
    """A part by id.

    Raises:
        AwsError: there is none.
    """
    part = region.all(kind).get(id_)
    if part is None:
        code, text = _NOT_FOUND[kind]
        raise AwsError(code, text.format(id_))
    return part


def shown_parts(
    region: Region,
    kind: str,
    ids: list[str] | None,
    parameters: Mapping[str, Any],
    fields: Mapping[str, Field],
) -> tuple[list[Document], str | None]:
    """One page of the parts of a kind, those with ``ids`` or all, that pass the filters; and the next token.

    Raises:
        AwsError: an id is not there, or a filter is wrong.
    """
    found = [find(region, kind, id_) for id_ in ids or region.all(kind)]
    return page(select(found, parameters.get("Filters"), fields), parameters)


def in_vpc(region: Region, kind: str, vpc_id: str) -> list[Document]:
    """The parts of a kind that are in a VPC."""
    return [each for each in region.all(kind).values() if each["VpcId"] == vpc_id]


def default_vpc(region: Region) -> Document:
    """The default VPC.

    Raises:
        AwsError: it was deleted.
    """
    for vpc in region.all("vpc").values():
        if vpc["IsDefault"]:
            return vpc
    raise AwsError("VPCIdNotSpecified", "No default VPC for this user")


def still_used(name: str, part: Document, kind: str) -> AwsError:
    """The refusal to delete a part that others need, by EC2's ``name`` for its kind."""
    text = f"The {name} '{part[ID_KEYS[kind]]}' has dependencies and cannot be deleted."
    return AwsError("DependencyViolation", text)


def read_block(text: str, parameter: str) -> IPv4Network:
    """A range of addresses. As EC2 does, it takes ``100.68.0.18/18`` for ``100.68.0.0/18`` (CreateVpc).

    Raises:
        AwsError: it is none.
    """
    try:
        if "/" not in text:
            raise ValueError
        return IPv4Network(text, strict=False)
    except ValueError:
        message = f"Value ({text}) for parameter {parameter} is invalid. This is not a valid CIDR block."
        raise AwsError("InvalidParameterValue", message) from None
