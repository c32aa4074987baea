"""The network of instances: an existing subnet, and one security group for each box."""

# The stubs call every member of an answer optional; a missing id is caught as a malformed answer.
# pyright: reportTypedDictNotRequiredAccess=false

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpucloud.clouds.abilities import Firewall
from gpucloud.clouds.provider import Record
from gpucloud.errors import UsageError
from gpucloud.resources import Order, Ref, ResourceKind, Tags
from gpucloud_aws.account import AwsAccount
from gpucloud_aws.errors import (
    ClosedSubnetError,
    ForeignGroupError,
    GoneError,
    NoNetworkError,
    NoSubnetError,
    NotVisibleError,
    code_of,
)
from gpucloud_aws.find import tags_in

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client
    from types_boto3_ec2.type_defs import (
        FilterTypeDef,
        IpPermissionTypeDef,
        IpPermissionUnionTypeDef,
        RouteTableTypeDef,
        RouteTypeDef,
        SecurityGroupTypeDef,
        SubnetTypeDef,
        TagTypeDef,
    )

SSH_PORT = 22
VPC_VARIABLE = "GPUCLOUD_AWS_VPC_ID"


# --- subnets


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    """A subnet that instances can be put into.

    ``is_closed``: whether nobody reaches a machine in it, because no route leads to an internet gateway.
    """

    id: str
    vpc: str
    zone_id: str
    zone_name: str
    is_closed: bool = False


class Subnets:
    """The subnets of each region that instances can be put into; each region is read once."""

    def __init__(self, account: AwsAccount) -> None:
        self._account = account
        self._known: dict[tuple[str, str | None], Sequence[Subnet]] = {}

    def of(self, region: str) -> Sequence[Subnet]:
        """Those of the VPC of the profile, otherwise of the region's default VPC, public ones first.

        Raises:
            NoNetworkError: there is none.
        """
        vpc = self._account.clients.profile.get(VPC_VARIABLE)
        if (region, vpc) not in self._known:
            self._known[region, vpc] = _subnets(self._account.clients.ec2_once(region), region, vpc)
        return self._known[region, vpc]

    def check(self, region: str) -> str:
        """Which of those subnets a launch would use, for people. Also a default VPC may have lost its routes.

        Raises:
            NoNetworkError: there is none.
            ClosedSubnetError: each is closed.
        """
        subnets = self.of(region)
        vpc = subnets[0].vpc
        closed = _closed(self._account.clients.ec2_once(region), vpc)
        looked = [replace(subnet, is_closed=closed(subnet.id)) for subnet in subnets]
        _open(looked)
        count = sum(not subnet.is_closed for subnet in looked)
        return f"{count} of {len(looked)} subnets of {vpc} in {region} have a route to an internet gateway"


def _subnets(ec2: EC2Client, region: str, vpc: str | None) -> Sequence[Subnet]:
    """The subnets of the given VPC, otherwise those of the region's default VPC, public ones first.

    Default subnets exist in default VPCs only, so that one call finds the VPC as well.

    Raises:
        NoNetworkError: there is none.
    """
    asked: FilterTypeDef = (
        {"Name": "vpc-id", "Values": [vpc]} if vpc else {"Name": "default-for-az", "Values": ["true"]}
    )
    shown: list[SubnetTypeDef] = []
    for page in ec2.get_paginator("describe_subnets").paginate(Filters=[asked]):
        shown += page["Subnets"]
    if not shown:
        raise NoNetworkError(
            f"VPC {vpc} has no subnet in {region}"
            if vpc
            else f"{region} has no default VPC; make one (aws ec2 create-default-vpc), "
            "or name one of yours in GPUCLOUD_AWS_VPC_ID"
        )
    shown.sort(key=lambda subnet: (not subnet.get("MapPublicIpOnLaunch", False), subnet["SubnetId"]))
    closed = _closed(ec2, vpc) if vpc else _never
    return tuple(
        Subnet(
            id=subnet["SubnetId"],
            vpc=subnet["VpcId"],
            zone_id=subnet["AvailabilityZoneId"],
            zone_name=subnet["AvailabilityZone"],
            is_closed=closed(subnet["SubnetId"]),
        )
        for subnet in shown
    )


def _never(_subnet: str) -> bool:
    """A default subnet has its route, unless somebody took it away."""
    return False


def _closed(ec2: EC2Client, vpc: str) -> Callable[[str], bool]:
    """Tells of the subnets of a VPC whether each is closed.

    A subnet that is associated with no table uses the main one. A NAT gateway lets nobody in. Source: Amazon
    VPC User Guide, "Configure route tables" and "Enable internet access for a VPC using an internet gateway".
    """
    tables: list[RouteTableTypeDef] = []
    for page in ec2.get_paginator("describe_route_tables").paginate(
        Filters=[{"Name": "vpc-id", "Values": [vpc]}]
    ):
        tables += page["RouteTables"]
    main, own = True, dict[str, bool]()
    for table in tables:
        is_closed = not any(map(_leads_out, table["Routes"]))
        for association in table["Associations"]:
            if association.get("Main"):
                main = is_closed
            elif "SubnetId" in association:
                own[association["SubnetId"]] = is_closed
    return lambda subnet: own.get(subnet, main)


def _leads_out(route: RouteTypeDef) -> bool:
    """Whether a route may be the way in and out.

    What a prefix list holds only its owner knows; one that leads to an endpoint (of S3, say) is no way out.
    """
    prefixes = "DestinationPrefixListId" in route and not route.get("GatewayId", "").startswith("vpce-")
    everywhere = route.get("DestinationCidrBlock") == "0.0.0.0/0" or prefixes
    return everywhere and route.get("State") == "active" and "NatGatewayId" not in route


def _open(choice: Iterable[Subnet]) -> Subnet:
    """The first subnet that is not closed.

    Raises:
        ClosedSubnetError: each is.
    """
    closed: list[str] = []
    for subnet in choice:
        if not subnet.is_closed:
            return subnet
        closed.append(subnet.id)
    raise ClosedSubnetError(f"no route leads from {', '.join(closed)} to an internet gateway")


def subnet_in(zone: str, choice: Iterable[Subnet]) -> Subnet:
    """The subnet of a zone.

    Args:
        zone: an AZ id (``use1-az1``), or the group of a Local Zone (``us-west-2-lax-1``), whose zones are
            called like it with a letter.
        choice: the subnets, the preferred ones first.

    Raises:
        NoSubnetError: none is in the zone.
        ClosedSubnetError: each that is there is closed.
    """
    there = [subnet for subnet in choice if zone in {subnet.zone_id, subnet.zone_name[:-1]}]
    if not there:
        raise NoSubnetError(f"no subnet in zone {zone}")
    return _open(there)


def subnet_for(instance_type: str, choice: Iterable[Subnet], ec2: EC2Client) -> Subnet:
    """A subnet for an order without a zone: the first in a zone that offers the type, according to AWS.

    Args:
        instance_type: what is bought.
        choice: the subnets, the preferred ones first.
        ec2: a client of the region.

    Raises:
        NoSubnetError: none is in such a zone.
        ClosedSubnetError: each that is there is closed.
    """
    pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone-id", Filters=[{"Name": "instance-type", "Values": [instance_type]}]
    )
    zones = {offering["Location"] for page in pages for offering in page["InstanceTypeOfferings"]}
    there = [subnet for subnet in choice if subnet.zone_id in zones]
    if there:
        return _open(there)
    where = f"the zones that have it: {', '.join(sorted(zones))}" if zones else "no zone has it"
    raise NoSubnetError(f"no subnet for {instance_type}; {where}")


# --- the box's security group


def wanted_rules(
    cidrs: Sequence[str], ports: Sequence[int], *, members_of: str | None
) -> list[IpPermissionTypeDef]:
    """The ingress rules of a box: ssh and its ports from these sources, everything among its nodes.

    Args:
        cidrs: the sources, IPv4 or IPv6.
        ports: TCP ports besides ssh.
        members_of: the group whose members may reach each other, or ``None``.

    Raises:
        UsageError: a source is not a network, or is the whole internet.
    """
    networks = [_network(cidr) for cidr in cidrs]
    v4 = sorted(str(network) for network in networks if network.version == 4)
    v6 = sorted(str(network) for network in networks if network.version == 6)
    rules: list[IpPermissionTypeDef] = []
    for port in sorted({SSH_PORT, *ports}):
        rule: IpPermissionTypeDef = {"IpProtocol": "tcp", "FromPort": port, "ToPort": port}
        if v4:
            rule["IpRanges"] = [{"CidrIp": cidr} for cidr in v4]
        if v6:
            rule["Ipv6Ranges"] = [{"CidrIpv6": cidr} for cidr in v6]
        if v4 or v6:
            rules.append(rule)
    if members_of:
        rules.append({"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": members_of}]})
    return rules


def _network(cidr: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        network = ipaddress.ip_network(cidr)
    except ValueError as error:
        raise UsageError(f"{cidr!r} is not a network: {error}", hint="--allow-from 203.0.113.7/32") from error
    if network.prefixlen == 0:
        raise UsageError(f"{cidr} would let the whole world in", hint="--allow-from 203.0.113.7/32")
    return network


def group(
    order: Order, vpc: str, ec2: EC2Client, record: Record, tags: Sequence[TagTypeDef]
) -> tuple[str, Callable[[], None]]:
    """Creates the box's security group, or finds the one created before.

    Args:
        order: the order; its name is the group's name.
        vpc: the VPC.
        ec2: a client that sends once.
        record: called before and after the group is created.
        tags: the group's tags.

    Returns:
        The group's id, and what gives it exactly the rules of the order: a call for which not all must wait.

    Raises:
        ForeignGroupError: the name is taken by a group that is not this box's.
        NotVisibleError: the group exists, but AWS does not list it yet.
    """

    def made(group_id: str) -> None:
        record.made(
            Ref(cloud="aws", account=order.account, region=order.region, kind=ResourceKind.GROUP, id=group_id)
        )

    wanted_rules(order.allow_from, order.ports, members_of=None)  # refuses before anything is made
    record.making(ResourceKind.GROUP, order.name)
    try:
        group_id = ec2.create_security_group(
            GroupName=order.name,
            Description="gpucloud box; deleted with it",
            VpcId=vpc,
            TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
        )["GroupId"]
    except Exception as error:
        if code_of(error) != "InvalidGroup.Duplicate":
            raise
        found = _named(ec2, order, vpc)
        made(found["GroupId"])
        return found["GroupId"], lambda: set_rules(ec2, found, rules_of(order, found["GroupId"]))
    made(group_id)
    return group_id, lambda: _let_in(ec2, group_id, _atoms(rules_of(order, group_id)).values())


def rules_of(order: Order, group_id: str) -> list[IpPermissionTypeDef]:
    """The ingress rules of an order's group."""
    return wanted_rules(order.allow_from, order.ports, members_of=group_id if order.nodes > 1 else None)


def let_out(group_id: str, ec2: EC2Client) -> None:
    """Allows all traffic from the members of a group to each other, which EFA needs as a rule of its own.

    The rule that a new group has, out to everywhere, is for ordinary traffic alone (EC2 User Guide, "Get
    started with EFA and MPI", "Prepare an EFA-enabled security group", read 2026-11-22).
    """
    rule: IpPermissionTypeDef = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group_id}]}
    try:
        ec2.authorize_security_group_egress(GroupId=group_id, IpPermissions=[rule])
    except Exception as error:
        if code_of(error) != "InvalidPermission.Duplicate":
            raise


def _named(ec2: EC2Client, order: Order, vpc: str) -> SecurityGroupTypeDef:
    shown = ec2.describe_security_groups(
        Filters=[{"Name": "group-name", "Values": [order.name]}, {"Name": "vpc-id", "Values": [vpc]}]
    )["SecurityGroups"]
    if not shown:
        raise NotVisibleError(f"security group {order.name} exists, but is not shown yet")
    tags = tags_in(shown[0].get("Tags", []))
    if not isinstance(tags, Tags) or (tags.owner, tags.box) != (order.tags.owner, order.tags.box):
        raise ForeignGroupError(
            f"security group {order.name} ({shown[0]['GroupId']}) in {order.region} belongs to something else"
        )
    return shown[0]


def set_rules(
    ec2: EC2Client, group: SecurityGroupTypeDef, wanted: Sequence[IpPermissionUnionTypeDef]
) -> None:
    """Makes these rules the group's only ingress rules; adds new ones first, so that access goes on.

    Args:
        ec2: a client that sends once.
        group: the group as AWS shows it now.
        wanted: the rules.
    """
    now, then = _atoms(group["IpPermissions"]), _atoms(wanted)
    _let_in(ec2, group["GroupId"], [rule for key, rule in then.items() if key not in now])
    drop = [rule for key, rule in now.items() if key not in then]
    if drop:
        ec2.revoke_security_group_ingress(GroupId=group["GroupId"], IpPermissions=drop)


def _let_in(ec2: EC2Client, group_id: str, rules: Iterable[IpPermissionTypeDef]) -> None:
    """Adds rules in one call; one by one if some exist already, as EC2 then accepts none."""
    together = list(rules)
    if not together:
        return
    try:
        ec2.authorize_security_group_ingress(GroupId=group_id, IpPermissions=together)
    except Exception as error:
        if code_of(error) != "InvalidPermission.Duplicate":
            raise
        if len(together) > 1:
            for rule in together:
                _let_in(ec2, group_id, [rule])


def _atoms(rules: Iterable[IpPermissionUnionTypeDef]) -> dict[tuple[object, ...], IpPermissionTypeDef]:
    """The rules with one source each, by protocol, ports and source, for comparison."""
    atoms: dict[tuple[object, ...], IpPermissionTypeDef] = {}
    for rule in rules:
        base: IpPermissionTypeDef = {"IpProtocol": rule.get("IpProtocol", "-1")}
        if base["IpProtocol"] != "-1":
            base["FromPort"], base["ToPort"] = rule.get("FromPort", -1), rule.get("ToPort", -1)
        key = (base["IpProtocol"], base.get("FromPort"), base.get("ToPort"))
        for v4 in rule.get("IpRanges", []):
            cidr = v4.get("CidrIp", "")
            atoms[*key, cidr] = {**base, "IpRanges": [{"CidrIp": cidr}]}
        for v6 in rule.get("Ipv6Ranges", []):
            cidr = v6.get("CidrIpv6", "")
            atoms[*key, cidr] = {**base, "Ipv6Ranges": [{"CidrIpv6": cidr}]}
        for pair in rule.get("UserIdGroupPairs", []):
            member = pair.get("GroupId", "")
            atoms[*key, member] = {**base, "UserIdGroupPairs": [{"GroupId": member}]}
        for prefixes in rule.get("PrefixListIds", []):
            listed = prefixes.get("PrefixListId", "")
            atoms[*key, listed] = {**base, "PrefixListIds": [{"PrefixListId": listed}]}
    return atoms


class AwsFirewall(Firewall):
    """The group's rules, changed while the box runs."""

    def __init__(self, account: AwsAccount) -> None:
        self._account = account

    def admit(self, group: Ref, cidrs: Sequence[str], ports: Sequence[int], /) -> None:
        """Allows only these sources; the rules among the nodes of one box stay."""
        self._account.refuse_foreign(group)
        ec2 = self._account.clients.ec2_once(group.region)
        shown = ec2.describe_security_groups(GroupIds=[group.id])["SecurityGroups"]
        if not shown:
            raise GoneError(f"AWS shows no group {group.id} in {group.region}")
        joined = any(rule.get("UserIdGroupPairs") for rule in shown[0].get("IpPermissions", []))
        set_rules(ec2, shown[0], wanted_rules(cidrs, ports, members_of=group.id if joined else None))
