"""Route tables: each subnet's own or the main one of its VPC, and whether an address can be reached."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, ip_address
from typing import Any

from gpucloud_sandbox.aws.foreign.gateways import vpc_of
from gpucloud_sandbox.aws.parts import find, in_vpc, read_block, still_used
from gpucloud_sandbox.aws.query import Field, page, select
from gpucloud_sandbox.aws.region import ACCOUNT, Region
from gpucloud_sandbox.aws.tags import tags_for
from gpucloud_sandbox.aws.tokens import idempotent
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document

MOST = 200
"""Route tables of a VPC (VPC User Guide, "Amazon VPC quotas")."""

_FILTERS: dict[str, Field] = {
    "association.main": "Associations.Main",
    "association.route-table-association-id": "Associations.RouteTableAssociationId",
    "association.route-table-id": "Associations.RouteTableId",
    "association.subnet-id": "Associations.SubnetId",
    "owner-id": "OwnerId",
    "route-table-id": "RouteTableId",
    "route.destination-cidr-block": "Routes.DestinationCidrBlock",
    "route.gateway-id": "Routes.GatewayId",
    "route.origin": "Routes.Origin",
    "route.state": "Routes.State",
    "vpc-id": "VpcId",
}
_ASSOCIATED = {"State": "associated"}


@idempotent
def create_route_table(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateRouteTable."""
    vpc = find(region, "vpc", parameters["VpcId"])
    if len(in_vpc(region, "route_table", vpc["VpcId"])) >= MOST:
        text = "The maximum number of route tables has been reached."
        raise AwsError("RouteTableLimitExceeded", text)
    tags = tags_for(parameters, "route-table")
    return {"RouteTable": make_table(region, vpc, region.new_id("rtb"), tags)}


def delete_route_table(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteRouteTable: one that no subnet has, and that is not the main one."""
    table = find(region, "route_table", parameters["RouteTableId"])
    if table["Associations"]:
        raise still_used("routeTable", table, "route_table")
    region.drop("route_table", table["RouteTableId"])
    return {}


def describe_route_tables(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeRouteTables. A route to a gateway that is not there any more is a ``blackhole``."""
    ids = parameters.get("RouteTableIds") or region.all("route_table")
    found = [_shown(region, find(region, "route_table", id_)) for id_ in ids]
    shown, token = page(select(found, parameters.get("Filters"), _FILTERS), parameters)
    return {"RouteTables": shown, "NextToken": token}


def create_route(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateRoute, to an internet gateway."""
    table, block = _named(region, parameters)
    gateway = _target(region, table, parameters)
    own = find(region, "vpc", table["VpcId"])["CidrBlock"]
    if _route(table, block) is not None:
        raise AwsError("RouteAlreadyExists", f"The route identified by {block} already exists.")
    if IPv4Network(block).subnet_of(IPv4Network(own)):
        text = (
            f"The destination CIDR block {block} is equal to or more specific than one of this VPC's CIDR "
            "blocks. This route can target only an interface or an instance."
        )
        raise AwsError("InvalidParameterValue", text)
    make_route(region, table, block, gateway)
    return {"Return": True}


def replace_route(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ReplaceRoute."""
    table, block = _named(region, parameters)
    route = _route(table, block)
    if route is None:
        text = f"There is no route defined for '{block}' in the route table. Use CreateRoute instead."
        raise AwsError("InvalidParameterValue", text)
    route["GatewayId"] = _target(region, table, parameters)["InternetGatewayId"]
    region.put("route_table", table)
    return {}


def delete_route(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteRoute."""
    table, block = _named(region, parameters)
    route = _route(table, block)
    if route is None:
        text = f"no route with destination-cidr-block {block} in route table {table['RouteTableId']}"
        raise AwsError("InvalidRoute.NotFound", text)
    if route["GatewayId"] == "local":
        text = f"cannot remove local route {block} in route table {table['RouteTableId']}"
        raise AwsError("InvalidParameterValue", text)
    table["Routes"].remove(route)
    region.put("route_table", table)
    return {}


def associate_route_table(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AssociateRouteTable with a subnet. A subnet that has this very table keeps its association."""
    table = find(region, "route_table", parameters["RouteTableId"])
    if "SubnetId" not in parameters:
        raise AwsError("MissingParameter", "Either 'subnetId' or 'gatewayId' should be provided.")
    subnet = find(region, "subnet", parameters["SubnetId"])
    if subnet["VpcId"] != table["VpcId"]:
        ids = f"Route table {table['RouteTableId']} and subnet {subnet['SubnetId']}"
        text = f"{ids} belong to different networks"
        raise AwsError("InvalidParameterValue", text)
    known = next(
        (
            each
            for other in in_vpc(region, "route_table", table["VpcId"])
            for each in other["Associations"]
            if each.get("SubnetId") == subnet["SubnetId"]
        ),
        None,
    )
    if known is not None and known["RouteTableId"] != table["RouteTableId"]:
        text = (
            f"the specified association for route table {table['RouteTableId']} conflicts with an existing "
            "association"
        )
        raise AwsError("Resource.AlreadyAssociated", text)
    if known is None:
        known = _associate(region, table, SubnetId=subnet["SubnetId"])
    return {"AssociationId": known["RouteTableAssociationId"], "AssociationState": _ASSOCIATED}


def disassociate_route_table(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DisassociateRouteTable: the subnet has the main table again."""
    table, association = _associated(region, parameters["AssociationId"])
    if association["Main"]:
        id_ = association["RouteTableAssociationId"]
        text = f"cannot disassociate the main route table association {id_}"
        raise AwsError("InvalidParameterValue", text)
    table["Associations"].remove(association)
    region.put("route_table", table)
    return {}


def replace_route_table_association(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ReplaceRouteTableAssociation: of a subnet, or which table is the main one."""
    before, association = _associated(region, parameters["AssociationId"])
    table = find(region, "route_table", parameters["RouteTableId"])
    if table["VpcId"] != before["VpcId"]:
        id_ = association["RouteTableAssociationId"]
        text = f"Route table {table['RouteTableId']} and association {id_} belong to different networks"
        raise AwsError("InvalidParameterValue", text)
    before["Associations"].remove(association)
    region.put("route_table", before)
    kept = {key: association[key] for key in ("Main", "SubnetId") if key in association}
    made = _associate(region, table, **kept)
    return {"NewAssociationId": made["RouteTableAssociationId"], "AssociationState": _ASSOCIATED}


def make_table(
    region: Region, vpc: Document, id_: str, tags: list[dict[str, str]], *, main: bool = False
) -> Document:
    """A route table that leads inside its VPC only."""
    table = {
        "RouteTableId": id_,
        "VpcId": vpc["VpcId"],
        "OwnerId": ACCOUNT,
        "Associations": list[Document](),
        "PropagatingVgws": list[Document](),
        "Routes": [
            {
                "DestinationCidrBlock": vpc["CidrBlock"],
                "GatewayId": "local",
                "Origin": "CreateRouteTable",
                "State": "active",
            }
        ],
        "Tags": tags,
    }
    if main:
        _associate(region, table, Main=True)
    return region.put("route_table", table)


def make_route(region: Region, table: Document, block: str, gateway: Document) -> None:
    """Adds a route to a gateway."""
    route = {
        "DestinationCidrBlock": block,
        "GatewayId": gateway["InternetGatewayId"],
        "Origin": "CreateRoute",
        "State": "active",
    }
    table["Routes"].append(route)
    region.put("route_table", table)


def is_main(table: Document) -> bool:
    """Whether a table is the main one of its VPC."""
    return any(each["Main"] for each in table["Associations"])


def forget_subnet(region: Region, subnet_id: str) -> None:
    """A subnet goes: so does its association."""
    for table in list(region.all("route_table").values()):
        kept = [each for each in table["Associations"] if each.get("SubnetId") != subnet_id]
        region.put("route_table", {**table, "Associations": kept})


def leads_out(region: Region, instance: Document, address: str) -> bool:
    """Whether the table of an instance's subnet leads to an address by an attached gateway.

    EC2 gives public addresses in any subnet; without such a route nobody is at the other end (VPC User Guide,
    "Enable internet access for a VPC using an internet gateway").
    """
    tables = [_shown(region, each) for each in in_vpc(region, "route_table", instance["VpcId"])]
    own = [table for table in tables if _is_of(table, instance["SubnetId"])]
    for table in own or [table for table in tables if is_main(table)]:
        blocks = [(IPv4Network(each["DestinationCidrBlock"]), each) for each in table["Routes"]]
        fitting = [(block.prefixlen, each) for block, each in blocks if ip_address(address) in block]
        if fitting:
            _, route = max(fitting, key=lambda each: each[0])
            return bool(route["GatewayId"] != "local" and route["State"] == "active")
    return False


def _is_of(table: Document, subnet_id: str) -> bool:
    return any(each.get("SubnetId") == subnet_id for each in table["Associations"])


def _named(region: Region, parameters: Mapping[str, Any]) -> tuple[Document, str]:
    """The table and the destination of a route."""
    table = find(region, "route_table", parameters["RouteTableId"])
    if "DestinationCidrBlock" not in parameters:
        text = "The request must contain the parameter destinationCidrBlock or destinationIpv6CidrBlock"
        raise AwsError("MissingParameter", text)
    return table, str(read_block(parameters["DestinationCidrBlock"], "destinationCidrBlock"))


def _target(region: Region, table: Document, parameters: Mapping[str, Any]) -> Document:
    id_ = parameters.get("GatewayId")
    if id_ is None:
        text = (
            "The request must contain exactly one of gatewayId, natGatewayId, networkInterfaceId, instanceId"
        )
        raise AwsError("InvalidParameterCombination", text)
    gateway = region.all("gateway").get(id_)
    if gateway is None:
        raise AwsError("InvalidGatewayID.NotFound", f"The gateway ID '{id_}' does not exist")
    if vpc_of(gateway) != table["VpcId"]:
        text = f"route table {table['RouteTableId']} and network gateway {id_} belong to different networks"
        raise AwsError("InvalidParameterValue", text)
    return gateway


def _route(table: Document, block: str) -> Document | None:
    return next((each for each in table["Routes"] if each["DestinationCidrBlock"] == block), None)


def _associate(region: Region, table: Document, **members: Any) -> Document:
    association: Document = {
        "Main": False,
        "RouteTableAssociationId": region.new_id("rtbassoc"),
        "RouteTableId": table["RouteTableId"],
        "AssociationState": _ASSOCIATED,
        **members,
    }
    table["Associations"].append(association)
    region.put("route_table", table)
    return association


def _associated(region: Region, id_: str) -> tuple[Document, Document]:
    """An association by id, with its table."""
    for table in region.all("route_table").values():
        for each in table["Associations"]:
            if each["RouteTableAssociationId"] == id_:
                return table, each
    raise AwsError("InvalidAssociationID.NotFound", f"The association ID '{id_}' does not exist")


def _shown(region: Region, table: Document) -> Document:
    """A table whose routes say whether their gateway is there."""
    there = {id_ for id_, gateway in region.all("gateway").items() if vpc_of(gateway) == table["VpcId"]} | {
        "local"
    }
    routes = [
        {**each, "State": "active" if each["GatewayId"] in there else "blackhole"} for each in table["Routes"]
    ]
    return {**table, "Routes": routes}
