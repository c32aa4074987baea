"""What several instances of a box need: a placement group, interfaces for EFA, and addresses of their own.

Sources: EC2 API reference, CreatePlacementGroup, AllocateAddress and AssociateAddress (none has a client
token), ``InstanceNetworkInterfaceSpecification`` and ``NetworkCardInfo``; EC2 User Guide, "Placement
strategies", "Maximize network bandwidth on Amazon EC2 instances with multiple network cards" and "Get started
with EFA and MPI", read 2026-11-22.
"""

# The stubs call every member of an answer optional; a missing id is caught as a malformed answer.
# pyright: reportTypedDictNotRequiredAccess=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpucloud.clouds.abilities import AddressAssociation
from gpucloud.clouds.provider import Record
from gpucloud.resources import Order, Ref, ResourceKind, Tags
from gpucloud_aws.account import AwsAccount
from gpucloud_aws.errors import (
    ForeignGroupError,
    GoneError,
    NoFabricError,
    NotVisibleError,
    code_of,
    reading,
)
from gpucloud_aws.find import CLOUD, tags_in

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client
    from types_boto3_ec2.type_defs import TagTypeDef

EFA = "efa"


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """What instances of a type can be joined by.

    Attributes:
        clusters: whether they can be in a placement group that keeps them close together.
        efa_cards: the network cards that take an interface of EFA, in order.
        most_efa: how many such interfaces an instance takes.
    """

    clusters: bool
    efa_cards: Sequence[int]
    most_efa: int


def joint_of(order: Order, ec2: EC2Client) -> Joint:
    """What the instances of an order can be joined by, according to AWS.

    Held capacity is where it is: a reservation that was not made in a placement group takes no instance of
    one (EC2 User Guide, "Create Capacity Reservations in cluster placement groups").

    Raises:
        NoFabricError: the order is for EFA, and the type has none.
    """
    name: Any = order.instance_type
    answer = ec2.describe_instance_types(InstanceTypes=[name])
    with reading("DescribeInstanceTypes"):
        (kind,) = answer["InstanceTypes"]
        network: Any = kind["NetworkInfo"]
        strategies: Any = kind.get("PlacementGroupInfo", {}).get("SupportedStrategies", [])
        joint = Joint(
            clusters="cluster" in strategies and not order.purchase.kind.paid_already,
            efa_cards=tuple(
                card["NetworkCardIndex"]
                for card in network.get("NetworkCards", [])
                if EFA in card.get("InterfaceTypes", [EFA])
            ),
            most_efa=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        )
    if order.fabric and not joint.most_efa:
        raise NoFabricError(f"{order.instance_type} has no EFA in {order.region}")
    return joint


# --- interfaces


def interfaces(joint: Joint | None, subnet: str, group: str) -> list[dict[str, Any]]:
    """The interfaces of an instance, as RunInstances takes them; the first is the primary one.

    Without EFA it is the only one, and has a public address. Where a type takes one interface of EFA, that is
    the primary one as well. Otherwise one for EFA alone is on each card, beside the primary one: by such a
    call an instance gets no public address. UNVERIFIED: that the only interface of a card other than the
    first is its device 0 (older examples of AWS have device 1 there).

    Args:
        joint: what the type can be joined by; ``None`` without EFA.
        subnet: the subnet's id.
        group: the security group's id.
    """

    own: dict[str, Any] = {"SubnetId": subnet, "Groups": [group], "DeleteOnTermination": True}
    primary = {"DeviceIndex": 0, **own}
    if joint is None:
        return [{**primary, "AssociatePublicIpAddress": True}]
    if joint.most_efa == 1:
        return [{**primary, "InterfaceType": EFA, "AssociatePublicIpAddress": True}]
    beside = [
        {"NetworkCardIndex": card, "DeviceIndex": 0 if card else 1, "InterfaceType": "efa-only", **own}
        for card in joint.efa_cards[: joint.most_efa]
    ]
    return [{**primary, "NetworkCardIndex": 0}, *beside]


# --- the placement group


def placement_group(order: Order, ec2: EC2Client, record: Record, tags: Sequence[TagTypeDef]) -> str:
    """Creates the box's placement group, or finds the one created before; returns its name.

    Args:
        order: the order; its name is the group's name.
        ec2: a client that sends once.
        record: called before and after the group is created.
        tags: the group's tags.

    Raises:
        ForeignGroupError: the name is taken by a group that is not this box's.
        NotVisibleError: the group exists, but AWS does not list it yet.
    """
    record.making(ResourceKind.PLACEMENT_GROUP, order.name)
    try:
        made = ec2.create_placement_group(
            GroupName=order.name,
            Strategy="cluster",
            TagSpecifications=[{"ResourceType": "placement-group", "Tags": tags}],
        )
        with reading("CreatePlacementGroup"):
            group_id = made["PlacementGroup"]["GroupId"]
    except Exception as error:
        if code_of(error) != "InvalidPlacementGroup.Duplicate":
            raise
        group_id = _named(order, ec2)
    record.made(_ref(order, ResourceKind.PLACEMENT_GROUP, group_id))
    return order.name


def _named(order: Order, ec2: EC2Client) -> str:
    by_name: Any = [{"Name": "group-name", "Values": [order.name]}]
    shown = ec2.describe_placement_groups(Filters=by_name)["PlacementGroups"]
    if not shown:
        raise NotVisibleError(f"placement group {order.name} exists, but is not shown yet")
    tags = tags_in(shown[0].get("Tags", []))
    if not isinstance(tags, Tags) or (tags.owner, tags.box) != (order.tags.owner, order.tags.box):
        raise ForeignGroupError(
            f"placement group {order.name} in {order.region} ({shown[0]['GroupId']}) is something else's"
        )
    return shown[0]["GroupId"]


def delete_placement_group(group_id: str, ec2: EC2Client) -> None:
    """Deletes a placement group, which AWS does by its name only."""
    shown = ec2.describe_placement_groups(GroupIds=[group_id])["PlacementGroups"]
    if not shown:
        raise GoneError(f"AWS shows no placement group {group_id}")
    ec2.delete_placement_group(GroupName=shown[0]["GroupName"])


# --- addresses


def addresses(order: Order, ec2: EC2Client, record: Record, tags: Sequence[TagTypeDef]) -> None:
    """Allocates an address for each instance, unless an earlier try of this attempt has done so.

    Each has a name of the attempt: one of an earlier attempt may be shown a while after its release.

    Args:
        order: the order.
        ec2: a client that sends once.
        record: called before and after each address is allocated.
        tags: the tags of each, but for its name.
    """
    names = [f"{order.name}-{order.key[-8:]}-{number}" for number in range(order.nodes)]
    found = {name: allocation for allocation, name in _allocated(names, ec2).items()}
    for name in names:
        if name not in found:
            record.making(ResourceKind.ADDRESS, name)
            found[name] = _allocate(name, ec2, tags)
        record.made(_ref(order, ResourceKind.ADDRESS, found[name]))
    for allocation in _allocated(names, ec2):
        if allocation not in found.values():  # a call was delivered twice
            ec2.release_address(AllocationId=allocation)


def _allocate(name: str, ec2: EC2Client, tags: Sequence[TagTypeDef]) -> str:
    own: Any = [*(tag for tag in tags if tag.get("Key") != "Name"), {"Key": "Name", "Value": name}]
    made = ec2.allocate_address(Domain="vpc", TagSpecifications=[{"ResourceType": "elastic-ip", "Tags": own}])
    with reading("AllocateAddress"):
        return made["AllocationId"]


def _allocated(names: Sequence[str], ec2: EC2Client) -> dict[str, str]:
    """The names of the addresses that have one of these, by their allocations."""
    by_name: Any = [{"Name": "tag:Name", "Values": names}]
    answer = ec2.describe_addresses(Filters=by_name)
    with reading("DescribeAddresses"):
        return {
            each["AllocationId"]: next(tag["Value"] for tag in each["Tags"] if tag["Key"] == "Name")
            for each in answer["Addresses"]
        }


class AwsAddresses(AddressAssociation):
    """The addresses of instances with several interfaces."""

    def __init__(self, account: AwsAccount) -> None:
        self._account = account

    def give_address(self, machine: Ref, address: Ref, /) -> None:
        """Associates an address with the primary interface of an instance; no error if it has it already.

        An instance with several interfaces cannot be named itself: the interface is.
        """
        ec2 = self._account.clients.ec2_once(machine.region)
        shown = ec2.describe_instances(InstanceIds=[machine.id])
        with reading("DescribeInstances"):
            primary = next(
                interface["NetworkInterfaceId"]
                for interface in shown["Reservations"][0]["Instances"][0]["NetworkInterfaces"]
                for at in [interface["Attachment"]]
                if (at.get("NetworkCardIndex", 0), at["DeviceIndex"]) == (0, 0)
            )
        ec2.associate_address(AllocationId=address.id, NetworkInterfaceId=primary, AllowReassociation=False)


def _ref(order: Order, kind: ResourceKind, id_: str) -> Ref:
    return Ref(cloud=CLOUD, account=order.account, region=order.region, kind=kind, id=id_)
