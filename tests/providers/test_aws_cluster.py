"""What several instances of a box need on AWS: a placement group, interfaces for EFA, addresses."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpucloud.clouds.abilities import AddressAssociation
from gpucloud.errors import ErrorClass, Scope
from gpucloud.resources import Machine, Ref, ResourceKind, Search, State
from gpucloud_aws import errors
from gpucloud_aws.provider import AwsProvider
from gpucloud_pricing.purchases import Purchase
from gpucloud_sandbox.client import SandboxClient
from tests.profiles import own_profile
from tests.providers.abilities import able
from tests.providers.aws_wire import ACCOUNT, Remembered, order
from tests.providers.test_aws_launch import ec2
from tests.waiting import until

REGION = "us-west-2"
PAIR: dict[str, Any] = {
    "instance_type": "p4d.24xlarge",
    "region": REGION,
    "zone": "",
    "nodes": 2,
    "fabric": "efa",
    "max_price_usd": Decimal(400),
}
OWN = Search(owner="own-1", regions=(REGION,))


@pytest.fixture
def aws(sandbox: SandboxClient) -> AwsProvider:
    return AwsProvider(own_profile())


def launched(aws: AwsProvider, record: Remembered) -> list[Machine]:
    """The machines of an order with EFA once they run."""
    made = aws.create(aws.prepare(order(**PAIR), record))

    def run() -> list[Machine] | None:
        seen = [each for each in map(aws.get, [each.ref for each in made]) if isinstance(each, Machine)]
        return seen if all(each.state is State.RUNNING for each in seen) else None

    found: list[Machine] = until(run)
    return found


# --- placement


def test_several_nodes_are_close_together_and_one_is_anywhere(aws: AwsProvider) -> None:
    record = Remembered()
    call = aws.prepare(order(nodes=2), record)["run_instances"]
    assert call["Placement"] == {"GroupName": order().name}
    assert [what for what, _ in record.told] == ["making", "made"] * 2, "a crash in between loses nothing"
    [group] = ec2().describe_placement_groups()["PlacementGroups"]
    tags = {tag["Key"]: tag["Value"] for tag in group["Tags"]}
    assert (group["Strategy"], tags["gpucloud:box"], tags["gpucloud:owner"]) == ("cluster", "box-1", "own-1")
    assert "Placement" not in aws.prepare(order(), Remembered())["run_instances"]


def test_the_placement_group_of_an_earlier_try_is_found_again(aws: AwsProvider) -> None:
    first, again = Remembered(), Remembered()
    assert aws.prepare(order(nodes=2), first) == aws.prepare(order(nodes=2), again)
    assert first.told == again.told
    assert len(ec2().describe_placement_groups()["PlacementGroups"]) == 1


def test_a_placement_group_of_the_same_name_that_is_somebody_elses_is_left_alone(aws: AwsProvider) -> None:
    tags = [{"Key": f"gpucloud:{name}", "Value": "x"} for name in ("owner", "box", "op", "run")]
    tags.append({"Key": "gpucloud:expires", "Value": "none"})
    tagged = [{"ResourceType": "placement-group", "Tags": tags}]
    ec2().create_placement_group(GroupName=order().name, Strategy="cluster", TagSpecifications=tagged)
    with pytest.raises(errors.ForeignGroupError) as caught:
        aws.prepare(order(nodes=2), Remembered())
    verdict = aws.classify(caught.value)
    assert verdict is not None
    assert verdict.error_class is ErrorClass.CONFLICT


# --- EFA


def shape(interfaces: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    """Card, device and kind of each interface."""
    return [
        (each.get("NetworkCardIndex", 0), each["DeviceIndex"], each.get("InterfaceType", "interface"))
        for each in interfaces
    ]


def beside(first: int, most: int) -> list[tuple[int, int, str]]:
    """Interfaces for EFA alone on these cards."""
    return [(card, 0, "efa-only") for card in range(first, most)]


@pytest.mark.parametrize(
    ("instance_type", "expected"),
    [
        ("g5.8xlarge", [(0, 0, "efa")]),
        ("g6e.24xlarge", [(0, 0, "interface"), (0, 1, "efa-only"), *beside(1, 2)]),
        ("p5.48xlarge", [(0, 0, "interface"), (0, 1, "efa-only"), *beside(1, 32)]),
        ("p6-b300.48xlarge", [(0, 0, "interface"), *beside(1, 17)]),
    ],
)
def test_an_instance_gets_an_interface_of_efa_on_each_card_that_takes_one(
    aws: AwsProvider, instance_type: str, expected: list[tuple[int, int, str]]
) -> None:
    """The emulator holds them against what AWS tells of the type, and refuses all others."""
    wanted = order(**{**PAIR, "instance_type": instance_type, "purchase": Purchase.SPOT})
    request = aws.prepare(wanted, Remembered())
    call = request["run_instances"]
    assert shape(call["NetworkInterfaces"]) == expected
    assert not {"SubnetId", "SecurityGroupIds"} & set(call)
    for each in call["NetworkInterfaces"]:
        assert each["DeleteOnTermination"]
        assert (len(each["Groups"]), bool(each["SubnetId"])) == (1, True)
        assert each.get("AssociatePublicIpAddress", False) == (len(expected) == 1)
    ids = [each.ref.id for each in aws.create(request)]
    for instance in ec2(REGION).describe_instances(InstanceIds=ids)["Reservations"][0]["Instances"]:
        nics = instance["NetworkInterfaces"]
        attached = [{**each["Attachment"], "InterfaceType": each["InterfaceType"]} for each in nics]
        assert shape(attached) == expected


def test_members_of_the_group_may_send_each_other_everything(aws: AwsProvider) -> None:
    for _ in range(2):  # also when an earlier try has made the group
        aws.prepare(order(**PAIR), Remembered())
    [group] = ec2(REGION).describe_security_groups(GroupNames=[order().name])["SecurityGroups"]
    for rules in (group["IpPermissions"], group["IpPermissionsEgress"]):
        [among] = [rule for rule in rules if rule["UserIdGroupPairs"]]
        assert (among["IpProtocol"], among["UserIdGroupPairs"][0]["GroupId"]) == ("-1", group["GroupId"])


def test_a_type_without_efa_is_refused_for_another(aws: AwsProvider) -> None:
    with pytest.raises(errors.NoFabricError) as caught:
        aws.prepare(order(**{**PAIR, "instance_type": "g4dn.xlarge"}), Remembered())
    verdict = aws.classify(caught.value)
    assert verdict is not None
    assert (verdict.error_class, verdict.scope) == (ErrorClass.UNSUPPORTED, Scope.TYPE)


# --- addresses


def at(kind: ResourceKind, id_: str) -> Ref:
    return Ref(cloud="aws", account=ACCOUNT, region=REGION, kind=kind, id=id_)


def made(record: Remembered, prefix: str) -> list[str]:
    """The ids of what was made, by their beginning."""
    return [id_ for what, id_ in record.told if what == "made" and id_.startswith(prefix)]


def addressed(aws: AwsProvider, record: Remembered) -> list[Machine]:
    """Machines with the addresses that were made for them."""
    machines = launched(aws, record)
    assert [each.public_ip for each in machines] == [None, None]
    for machine, id_ in zip(machines, made(record, "eipalloc-"), strict=True):
        able(aws, AddressAssociation).give_address(machine.ref, at(ResourceKind.ADDRESS, id_))
    return machines


def test_instances_with_several_interfaces_get_addresses_of_their_own(aws: AwsProvider) -> None:
    record = Remembered()
    machines = addressed(aws, record)
    given = {each["AllocationId"]: each for each in ec2(REGION).describe_addresses()["Addresses"]}
    for machine, id_ in zip(machines, made(record, "eipalloc-"), strict=True):
        # as after a lost answer
        able(aws, AddressAssociation).give_address(machine.ref, at(ResourceKind.ADDRESS, id_))
        seen = aws.get(machine.ref)
        assert isinstance(seen, Machine)
        assert (seen.public_ip, seen.address_apart) == (given[id_]["PublicIp"], True)
        tags = {tag["Key"]: tag["Value"] for tag in given[id_]["Tags"]}
        assert (tags["gpucloud:box"], tags["gpucloud:expires"]) == ("box-1", order().tags.expires)


def test_the_addresses_of_an_earlier_try_are_found_again(aws: AwsProvider) -> None:
    first, again, other = Remembered(), Remembered(), Remembered()
    aws.prepare(order(**PAIR), first)
    aws.prepare(order(**PAIR), again)
    addresses = made(first, "eipalloc-")
    assert (addresses, len(addresses)) == (made(again, "eipalloc-"), 2)
    aws.prepare(order(**{**PAIR, "key": "gpc-9876543210"}), other)
    assert not set(addresses) & set(made(other, "eipalloc-")), "those of another attempt are being deleted"


def test_the_second_address_of_a_call_that_was_delivered_twice_is_released(
    aws: AwsProvider, sandbox: SandboxClient
) -> None:
    sandbox.fault(effect="repeat", cloud="aws", action="AllocateAddress", times=1)
    record = Remembered()
    aws.prepare(order(**PAIR), record)
    kept = {each["AllocationId"] for each in ec2(REGION).describe_addresses()["Addresses"]}
    assert kept == set(made(record, "eipalloc-"))


def test_everything_of_a_cluster_is_found_by_its_tags_and_deleted_in_the_declared_order(
    aws: AwsProvider, sandbox: SandboxClient
) -> None:
    record = Remembered()
    machines = addressed(aws, record)
    there = {each.ref.id for each in aws.find(OWN).resources}
    assert there >= {*made(record, ""), *(each.ref.id for each in machines)}
    [near] = made(record, "pg-")
    with pytest.raises(ClientError) as caught:
        aws.delete(at(ResourceKind.PLACEMENT_GROUP, near))
    verdict = aws.classify(caught.value)
    assert verdict is not None
    assert verdict.error_class is ErrorClass.EVENTUAL, "its instances are to be deleted first"
    for kind in aws.deletion.order:
        for ref in left(aws, kind):
            aws.delete(ref)
        until(partial(gone, aws, kind))
    assert sandbox.status()["billing"] == []
    aws.delete(at(ResourceKind.PLACEMENT_GROUP, near))  # gone already: fine


def gone(aws: AwsProvider, kind: ResourceKind) -> bool:
    return not left(aws, kind)


def left(aws: AwsProvider, kind: ResourceKind) -> list[Ref]:
    found = aws.find(OWN).resources
    return [each.ref for each in found if each.ref.kind is kind and each.state is not State.GONE]
