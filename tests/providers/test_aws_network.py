"""Subnets of the user's own VPC, by routes that the sandbox cannot have."""

from __future__ import annotations

import pytest

from gpucloud_aws.account import AwsAccount
from gpucloud_aws.clients import Clients
from gpucloud_aws.errors import ClosedSubnetError
from gpucloud_aws.network import Subnets, subnet_in
from tests.profiles import own_profile
from tests.providers.aws_wire import Wire, answer

SUBNET = (
    "<subnetSet><item><subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId><availabilityZoneId>use1-az1"
    "</availabilityZoneId><availabilityZone>us-east-1d</availabilityZone></item></subnetSet>"
)
MAIN = "<main>true</main>"
OWN = "<main>false</main><subnetId>subnet-1</subnetId>"
LOCAL = ("destinationCidrBlock>10.9.0.0/16", "gatewayId>local")
INTERNET = ("destinationCidrBlock>0.0.0.0/0", "gatewayId>igw-1")
NAT = ("destinationCidrBlock>0.0.0.0/0", "natGatewayId>nat-1")
OBJECTS = ("destinationPrefixListId>pl-1", "gatewayId>vpce-1")
LISTED = ("destinationPrefixListId>pl-2", "gatewayId>igw-1")
FIREWALL = ("destinationCidrBlock>0.0.0.0/0", "gatewayId>vpce-2")
Route = tuple[str, str]


def table(association: str, *routes: Route, state: str = "active") -> str:
    """A table of routes, associated with the subnet or as the main one."""
    shown = ""
    for route in routes:
        members = "".join(f"<{member}</{member.partition('>')[0]}>" for member in route)
        shown += f"<item>{members}<state>{state}</state></item>"
    associations = f"<associationSet><item>{association}</item></associationSet>"
    return f"<item>{associations}<routeSet>{shown}</routeSet></item>"


@pytest.mark.parametrize(
    ("tables", "is_open"),
    [
        ([table(MAIN, LOCAL, INTERNET)], True),
        ([table(MAIN, LOCAL)], False),
        ([table(MAIN, LOCAL, INTERNET, state="blackhole")], False),
        ([table(MAIN, LOCAL, NAT, OBJECTS)], False),
        ([table(MAIN, LOCAL, LISTED)], True),
        ([table(MAIN, LOCAL, FIREWALL)], True),
        ([table(MAIN, LOCAL, INTERNET), table(OWN, LOCAL, NAT)], False),
        ([table(OWN, LOCAL, INTERNET), table(MAIN, LOCAL)], True),
    ],
    ids=[
        *("internet gateway", "none", "deleted gateway", "nat and s3", "prefix list", "firewall"),
        *("its own table closes", "its own table opens"),
    ],
)
def test_a_box_is_put_only_where_a_route_lets_somebody_in(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, tables: list[str], is_open: bool
) -> None:
    monkeypatch.setenv("GPUCLOUD_AWS_VPC_ID", "vpc-1")
    wire.say("DescribeSubnets", answer("DescribeSubnets", SUBNET))
    shown = answer("DescribeRouteTables", f"<routeTableSet>{''.join(tables)}</routeTableSet>")
    wire.say("DescribeRouteTables", shown)
    choice = Subnets(AwsAccount(Clients(own_profile()))).of("us-east-1")
    if is_open:
        assert subnet_in("use1-az1", choice).id == "subnet-1"
    else:
        with pytest.raises(ClosedSubnetError, match="subnet-1"):
            subnet_in("use1-az1", choice)
