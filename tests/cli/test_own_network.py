"""``GPUCLOUD_AWS_VPC_ID``: boxes in a network of the user's own."""

from __future__ import annotations

from typing import Any

from tests.shell import Shell

REGION = "us-east-1"
IS_DEFAULT = {"Name": "is-default", "Values": ["true"]}
LAUNCH = (
    "launch",
    "--gpu",
    "T4",
    "--cloud",
    "aws",
    "--region",
    REGION,
    "--name",
    "x",
    "--ttl",
    "1h",
    "--yes",
)


def a_vpc(ec2: Any) -> tuple[str, str]:
    """A network with a subnet, and neither gateway nor route: its id and the subnet's."""
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    made = ec2.create_subnet(VpcId=vpc, CidrBlock="10.9.1.0/24", AvailabilityZoneId="use1-az1")
    return vpc, made["Subnet"]["SubnetId"]


def open_up(ec2: Any, vpc: str, subnet: str) -> None:
    """Gives the subnet a table of its own, with a route to a gateway."""
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)


def test_nothing_is_bought_where_nobody_could_reach_it(cli: Shell) -> None:
    """It would be billed until the wait for ssh is over: ten minutes."""
    ec2 = cli.ec2(REGION)
    vpc, subnet = a_vpc(ec2)
    for where in ((), ("--zone", "use1-az1")):
        refused = cli(*LAUNCH, *where, GPUCLOUD_AWS_VPC_ID=vpc)
        assert refused.code == 5
        assert f"no route leads from {subnet} to an internet gateway" in refused.err
    assert "hint: Nobody would reach a box there: give the subnet a route" in refused.err
    assert "RunInstances" not in cli.changes_asked()
    open_up(ec2, vpc, subnet)
    launched = cli(*LAUNCH, GPUCLOUD_AWS_VPC_ID=vpc)
    assert launched.code == 0, launched.err
    [reservation] = ec2.describe_instances(Filters=[{"Name": "subnet-id", "Values": [subnet]}])[
        "Reservations"
    ]
    assert len(reservation["Instances"]) == 1
    assert cli("down", "x", "--yes").code == 0


def test_check_says_before_a_launch_that_nobody_could_reach_a_box(cli: Shell) -> None:
    """And what to do; a default network may have lost its route, too."""
    ec2 = cli.ec2(REGION)
    look = ("check", "--cloud", "aws", "--gpu", "T4", "--region", REGION)
    vpc, subnet = a_vpc(ec2)
    closed = cli(*look, GPUCLOUD_AWS_VPC_ID=vpc)
    assert closed.code == 4, closed.out
    assert f"no route leads from {subnet} to an internet gateway" in closed.out
    assert "create-route" in closed.out
    open_up(ec2, vpc, subnet)
    assert f"1 of 1 subnets of {vpc}" in cli(*look, GPUCLOUD_AWS_VPC_ID=vpc).out
    of_vpc = {"Name": "vpc-id", "Values": [ec2.describe_vpcs(Filters=[IS_DEFAULT])["Vpcs"][0]["VpcId"]]}
    [main] = ec2.describe_route_tables(Filters=[of_vpc])["RouteTables"]
    ec2.delete_route(RouteTableId=main["RouteTableId"], DestinationCidrBlock="0.0.0.0/0")
    lost = cli(*look)
    assert (lost.code, "to an internet gateway" in lost.out) == (4, True), lost.out
