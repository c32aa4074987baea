"""The network of instances: a VPC, a vSwitch in the order's zone and a security group for each box.

All resources have the order's name and tags, by which existing ones are found. Two calls at the same time
create one resource, by its ClientToken.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpucloud.clouds.abilities import Firewall
from gpucloud.clouds.kit import together
from gpucloud.clouds.provider import Record
from gpucloud.errors import UsageError
from gpucloud.resources import TAG_PREFIX, Order, Ref, ResourceKind
from gpucloud_alibaba.account import AlibabaAccount
from gpucloud_alibaba.clients import Clients, listed
from gpucloud_alibaba.describe import ref_of
from gpucloud_alibaba.errors import AlibabaNotReadyError, named, reading
from gpucloud_alibaba.models import ecs_models

SSH_PORT = 22
VPC_CIDR = "10.42.0.0/16"
DESCRIPTION = "gpucloud box; deleted with it"
RULES_PER_CALL = 100
LOOKS = 30  # with their pauses, most of a minute
LONGEST_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class NetworkIds:
    """The ids for the create call."""

    vswitch: str
    group: str


def token_of(order: Order, part: str) -> str:
    """The ClientToken of one part of an attempt: at most 64 ASCII characters."""
    return hashlib.sha256(f"{order.key}\n{part}".encode()).hexdigest()


def switch_cidr(zone: str) -> str:
    """The CIDR of a zone's switch: zones of a region differ in their last letter."""
    letter = ord(zone[-1].lower()) - ord("a")
    number = letter if 0 <= letter < 26 else 26 + ord(zone[-1]) % 200
    return f"10.42.{number}.0/24"


def refuse_apart(order: Order, what: str) -> None:
    """Refuses to make what the other nodes of a box have, for the one that is to join them.

    Raises:
        AlibabaNotReadyError: it is to join them; theirs is not listed yet.
    """
    if order.vacancy is not None:
        raise AlibabaNotReadyError(f"the {what} of {order.name} in {order.region} is not shown yet")


def prepare_network(
    order: Order,
    clients: Clients,
    record: Record,
    tags: Mapping[str, str],
    sleep: Callable[[float], None],
    *,
    before: Callable[[], object],
) -> NetworkIds:
    """Creates the network and the group of the order's instances, or finds those created before.

    Args:
        order: the order.
        clients: the SDK's clients.
        record: called before and after each resource is created.
        tags: the tags of all resources.
        sleep: waits some seconds.
        before: called before anything is created; an exception of it passes.

    Raises:
        AlibabaNotReadyError: a network is not usable yet.
        UsageError: a source is not a network, or is the whole internet.
    """
    rules = wanted_rules(order.allow_from, order.ports)  # refuses before anything is made
    maker = _Maker(order, clients, record, tags, sleep)
    vpc, new = maker.vpc(before)

    def make_group() -> str:
        group, made = maker.group(vpc, look=not new)
        if made:
            _let_in(clients, order.region, group, rules)
        else:
            set_rules(clients, order.region, group, rules)
        return group

    return NetworkIds(*together(partial(maker.vswitch, vpc, look=not new), make_group))


@dataclass(frozen=True, slots=True, kw_only=True)
class _NetworkKind:
    """How the VPC API lists and creates one kind of resource. ``members`` is the path of the items."""

    shown_by: str
    members: tuple[str, str]
    made_by: str
    id: str
    name: str


_VPC = _NetworkKind(
    shown_by="DescribeVpcs", members=("Vpcs", "Vpc"), made_by="CreateVpc", id="VpcId", name="VpcName"
)
_VSWITCH = _NetworkKind(
    shown_by="DescribeVSwitches",
    members=("VSwitches", "VSwitch"),
    made_by="CreateVSwitch",
    id="VSwitchId",
    name="VSwitchName",
)


@dataclass(frozen=True, slots=True)
class _Maker:
    """Finds or creates the network resources of one order."""

    order: Order
    clients: Clients
    record: Record
    tags: Mapping[str, str]
    sleep: Callable[[float], None]

    def vpc(self, before: Callable[[], object]) -> tuple[str, bool]:
        """The network's id, and whether it was created just now."""
        name = {_VPC.name: self.order.name}
        found = self._shown(_VPC, {**name, **self._mine()})
        before()
        return self._network(_VPC, found, {**name, "CidrBlock": VPC_CIDR}), not found

    def vswitch(self, vpc: str, *, look: bool) -> str:
        """The id of the switch in the order's zone."""
        where = {"VpcId": vpc, "ZoneId": self.order.zone}
        found = self._shown(_VSWITCH, {**where, **self._mine()}) if look else []
        cidr = switch_cidr(self.order.zone)
        return self._network(_VSWITCH, found, {**where, _VSWITCH.name: self.order.name, "CidrBlock": cidr})

    def group(self, vpc: str, *, look: bool) -> tuple[str, bool]:
        """The security group's id, and whether it was created just now. Its members may reach each other."""
        models = ecs_models()

        ecs, region = self.clients.ecs(self.order.region), self.order.region
        if look:
            tag = [
                models.DescribeSecurityGroupsRequestTag(key=t["Key"], value=t["Value"])
                for t in self._mine()["Tag"]
            ]
            body = ecs.describe_security_groups(
                models.DescribeSecurityGroupsRequest(region_id=region, vpc_id=vpc, tag=tag)
            ).body
            with reading("DescribeSecurityGroups"):
                found = [
                    named(group.security_group_id) for group in listed(body.security_groups.security_group)
                ]
            if found:
                self.record.made(ref_of(self.order.account, region, ResourceKind.GROUP, found[0]))
                return found[0], False
        refuse_apart(self.order, "security group")
        self.record.making(ResourceKind.GROUP, self.order.name)
        answer = ecs.create_security_group(
            models.CreateSecurityGroupRequest(
                region_id=region,
                vpc_id=vpc,
                security_group_name=self.order.name,
                description=DESCRIPTION,
                security_group_type="normal",
                client_token=token_of(self.order, "SecurityGroupId"),
                tag=[models.CreateSecurityGroupRequestTag(key=k, value=v) for k, v in self.tags.items()],
            )
        ).body
        with reading("CreateSecurityGroup"):
            group = named(answer.security_group_id)
        self.record.made(ref_of(self.order.account, region, ResourceKind.GROUP, group))
        return group, True

    def _mine(self) -> dict[str, list[dict[str, str]]]:
        """The tags that distinguish this box's resources from others of the same name."""
        tags = self.order.tags
        mine = {f"{TAG_PREFIX}owner": tags.owner, f"{TAG_PREFIX}box": tags.box}
        return {"Tag": [{"Key": key, "Value": value} for key, value in mine.items()]}

    def _shown(self, part: _NetworkKind, asked: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        body = self.clients.vpc(self.order.region, part.shown_by, asked)
        with reading(part.shown_by):
            rows = body[part.members[0]][part.members[1]]
            return [{**row, part.id: named(row[part.id])} for row in rows]

    def _network(
        self, part: _NetworkKind, found: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]
    ) -> str:
        """The id of the found resource, otherwise of a new one, once it can be used."""
        network = found[0][part.id] if found else self._make(part, parameters)
        self.record.made(ref_of(self.order.account, self.order.region, ResourceKind.NETWORK, network))
        if not found or found[0].get("Status") != "Available":
            self._until_available(part, network)
        return network

    def _make(self, part: _NetworkKind, parameters: Mapping[str, Any]) -> str:
        refuse_apart(self.order, part.id.removesuffix("Id"))
        self.record.making(ResourceKind.NETWORK, self.order.name)
        body = self.clients.vpc(
            self.order.region,
            part.made_by,
            {
                **parameters,
                "Description": DESCRIPTION,
                "ClientToken": token_of(self.order, part.id),
                "Tag": [{"Key": key, "Value": value} for key, value in self.tags.items()],
            },
        )
        with reading(part.made_by):
            return named(body[part.id])

    def _until_available(self, part: _NetworkKind, network: str) -> None:
        pause_s = 0.02
        for _ in range(LOOKS):
            found = self._shown(part, {part.id: network})
            if found and found[0].get("Status") == "Available":
                return
            self.sleep(pause_s)
            pause_s = min(pause_s * 1.6, LONGEST_PAUSE_S)
        raise AlibabaNotReadyError(f"{network} in {self.order.region} is not available yet")


# --- the security group's rules


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """An allowed TCP port from a source."""

    port: int
    source: str


def wanted_rules(cidrs: Sequence[str], ports: Sequence[int]) -> list[Rule]:
    """The ingress rules of a box: ssh and its ports from these sources.

    Args:
        cidrs: the sources. IPv6 ones are left out: boxes have IPv4 addresses only.
        ports: TCP ports besides ssh.

    Raises:
        UsageError: a source is not a network, or is the whole internet, or none is IPv4.
    """
    networks = [_network(cidr) for cidr in cidrs]
    sources = sorted({str(network) for network in networks if network.version == 4})
    if networks and not sources:
        raise UsageError(
            f"boxes on Alibaba Cloud have IPv4 addresses only; {', '.join(cidrs)} cannot reach them",
            hint="--allow-from 203.0.113.7/32",
        )
    return [Rule(port, source) for port in sorted({SSH_PORT, *ports}) for source in sources]


def _network(cidr: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        network = ipaddress.ip_network(cidr)
    except ValueError as error:
        raise UsageError(f"{cidr!r} is not a network: {error}", hint="--allow-from 203.0.113.7/32") from error
    if network.prefixlen == 0:
        raise UsageError(f"{cidr} would let the whole world in", hint="--allow-from 203.0.113.7/32")
    return network


def set_rules(clients: Clients, region: str, group: str, wanted: Sequence[Rule]) -> None:
    """Makes these the group's only ingress rules; adds new ones first, so that access goes on."""
    models = ecs_models()

    body = (
        clients.ecs(region)
        .describe_security_group_attribute(
            models.DescribeSecurityGroupAttributeRequest(
                region_id=region, security_group_id=group, direction="ingress"
            )
        )
        .body
    )
    with reading("DescribeSecurityGroupAttribute"):
        shown = listed(body.permissions.permission)
        now = {rule.security_group_rule_id: _rule(rule) for rule in shown}
    _let_in(clients, region, group, [rule for rule in wanted if rule not in now.values()])
    drop = [rule_id for rule_id, rule in now.items() if rule not in wanted]
    for batch in _batches(drop):
        clients.ecs(region).revoke_security_group(
            models.RevokeSecurityGroupRequest(
                region_id=region, security_group_id=group, security_group_rule_id=list(batch)
            )
        )


def _rule(shown: Any) -> Rule | None:
    """A rule of the cloud's answer; ``None`` for one of a form that gpucloud never creates."""
    first, _, last = str(shown.port_range).partition("/")
    source = str(shown.source_cidr_ip or "")
    plain = (str(shown.ip_protocol).upper(), str(shown.policy).lower()) == ("TCP", "accept")
    if not plain or first != last or not source:
        return None
    return Rule(int(first), str(ipaddress.ip_network(source, strict=False)))


def _let_in(clients: Clients, region: str, group: str, rules: Sequence[Rule]) -> None:
    """Adds rules; existing ones are no error."""
    models = ecs_models()

    for batch in _batches(rules):
        clients.ecs(region).authorize_security_group(
            models.AuthorizeSecurityGroupRequest(
                region_id=region,
                security_group_id=group,
                permissions=[
                    models.AuthorizeSecurityGroupRequestPermissions(
                        ip_protocol="TCP",
                        port_range=f"{rule.port}/{rule.port}",
                        source_cidr_ip=rule.source,
                        policy="accept",
                        priority="1",
                    )
                    for rule in batch
                ],
            )
        )


def _batches(items: Sequence[Any]) -> Iterable[Sequence[Any]]:
    for start in range(0, len(items), RULES_PER_CALL):
        yield items[start : start + RULES_PER_CALL]


class AlibabaFirewall(Firewall):
    """The group's rules, changed while the box runs."""

    def __init__(self, account: AlibabaAccount) -> None:
        self._account = account

    def admit(self, group: Ref, cidrs: Sequence[str], ports: Sequence[int], /) -> None:
        """Allows only these sources; traffic among the nodes of one box needs no rule."""
        self._account.refuse_foreign(group)
        set_rules(self._account.clients, group.region, group.id, wanted_rules(cidrs, ports))
