"""AWS behind gpucloud's provider interface: the verbs, and which object has which ability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TypeVar

from gpucloud.clouds import abilities
from gpucloud.clouds.kit import Prefetch, ability_in, checked, together
from gpucloud.clouds.object_store import ObjectStore
from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import DeletionGraph, Record, Verdict
from gpucloud.resources import (
    Machine,
    Order,
    Ref,
    Request,
    Resource,
    ResourceKind,
    Search,
    SearchResult,
)
from gpucloud_aws import cluster, create, delete, errors, find, network, schedule
from gpucloud_aws.account import AwsAccount
from gpucloud_aws.checkup import AwsCheckup
from gpucloud_aws.clients import Clients
from gpucloud_aws.console import AwsConsoleLog
from gpucloud_aws.databases import AwsDatabaseLogins
from gpucloud_aws.images import AwsBoot
from gpucloud_aws.market import AwsMarket
from gpucloud_aws.own_images import AwsImages
from gpucloud_aws.power import AwsPower
from gpucloud_aws.preflight import AwsPreflight
from gpucloud_aws.privileges import AwsAccessPolicies
from gpucloud_aws.quotas import AwsQuotas
from gpucloud_aws.snapshots import AwsSnapshots
from gpucloud_aws.storage import S3
from gpucloud_aws.volumes import AwsVolumes
from gpucloud_pricing.purchases import Purchase

TRAITS = abilities.Traits(lists_machines=True, power_off_ends=True)
"""``DescribeInstances`` answers alike with ids and with filters. ``InstanceInitiatedShutdownBehavior`` is
``terminate`` (facts of EC2), also for spot instances."""
A = TypeVar("A")


class AwsProvider:
    """Elastic Compute Cloud.

    Args:
        profile: credentials, regions and endpoints, by the variables that boto3 reads.

    Raises:
        ImportError: boto3 is not installed.
    """

    def __init__(self, profile: Profile) -> None:
        if find_spec("boto3") is None:  # cheaper than importing it before it is needed
            raise ImportError("AWS needs boto3: pip install 'gpucloud[aws]'")
        account = AwsAccount(Clients(profile))
        self.own_account = account
        self._subnets = network.Subnets(account)
        self._preflight = AwsPreflight(self._subnets)
        checkup, market = AwsCheckup(account), AwsMarket(account)
        self._abilities: Mapping[type[object], object] = {
            abilities.AccessPolicies: AwsAccessPolicies(),
            abilities.AddressAssociation: cluster.AwsAddresses(account),
            abilities.Audit: account.clients,
            abilities.Boot: AwsBoot(),
            abilities.Checkup: checkup,
            abilities.NetworkCheck: checkup,
            abilities.Commitments: market,
            abilities.ConsoleLog: AwsConsoleLog(account),
            abilities.DatabaseLogins: AwsDatabaseLogins(account),
            abilities.Deadlines: schedule.AwsDeadlines(account),
            abilities.Firewall: network.AwsFirewall(account),
            abilities.Images: AwsImages(account),
            abilities.Power: AwsPower(account),
            abilities.Preflight: self._preflight,
            abilities.Prices: market,
            abilities.Quotas: AwsQuotas(account),
            abilities.Reservations: market,
            abilities.Snapshots: AwsSnapshots(account),
            abilities.Traits: TRAITS,
            abilities.Volumes: AwsVolumes(account),
            ObjectStore: S3(account, checkup.identity),
        }

    @property
    def name(self) -> str:
        """``aws``."""
        return find.CLOUD

    @property
    def deletion(self) -> DeletionGraph:
        """Spot requests, instances, then the resources that instances depend on."""
        return delete.GRAPH

    @property
    def ending(self) -> str:
        """The guest powers off, which terminates it: ``InstanceInitiatedShutdownBehavior`` (facts of EC2)."""
        return "the box powers itself off, which terminates it and leaves nothing that is billed"

    def account(self) -> str:
        """The account's number."""
        return self.own_account.number()

    def ability(self, kind: type[A], /) -> A | None:
        """What has an ability."""
        return ability_in(self._abilities, kind)

    # --- buying

    def prepare(self, order: Order, record: Record, /) -> Request:
        """Creates what the instances need, and returns the call of RunInstances.

        That is the box's security group; for several of them a placement group, where the type and the way of
        paying allow one; and an address for each of those with several interfaces.
        """
        self._preflight.check(order)
        ec2 = self.own_account.clients.ec2_once(order.region)
        image = create.image_of(order, ec2)
        block = order.purchase is Purchase.RESERVED and create.is_block(order, ec2)
        market = create.market_of(order, block=block, currency=self.own_account.currency(order.region))
        choice = self._subnets.of(order.region)
        subnet = (
            network.subnet_in(order.zone, choice)
            if order.zone
            else network.subnet_for(order.instance_type, choice, ec2)
        )
        joint = Prefetch(lambda: cluster.joint_of(order, ec2)) if order.nodes > 1 else None
        fabric = joint.result() if joint and order.fabric else None  # refuses before anything is made
        tags = create.tags_of(order)
        group, let_in = network.group(order, subnet.vpc, ec2, record, tags)
        if joint is None:
            let_in()
            placement_group = None
        else:  # what only several nodes need is asked and made while the rest is: they take no longer

            def keep_close() -> str | None:
                clusters = joint.result().clusters
                return cluster.placement_group(order, ec2, record, tags) if clusters else None

            _, placement_group = together(let_in, keep_close)
        if order.fabric:
            network.let_out(group, ec2)
        interfaces = cluster.interfaces(fabric, subnet.id, group)
        if len(interfaces) > 1 and order.vacancy is None:  # else it gets the one of the node before it
            cluster.addresses(order, ec2, record, tags)
        return create.request_of(
            order, interfaces=interfaces, placement_group=placement_group, image=image, market=market
        )

    def create(self, request: Request, /) -> Sequence[Machine]:
        """Runs the instances: all or none; AWS recognises a repeated call by its token."""
        account, region = self.own_account, request["region"]
        return create.create(request, account.clients.ec2_once(region), account.zone_id_in(region))

    # --- reading and deleting

    def get(self, ref: Ref, /) -> Resource:
        """One resource by id."""
        return checked(lambda: self.own_account.refuse_foreign(ref), lambda: self._shown(ref))

    def _shown(self, ref: Ref) -> Resource:
        account, region = self.own_account, ref.region
        if ref.kind is ResourceKind.SCHEDULE:
            return schedule.get(account.clients.scheduler(region), ref)
        return find.get(ref, account.clients.ec2_once(region), account.zone_id_in(region))

    def find(self, search: Search, /) -> SearchResult:
        """All resources with gpucloud's tags, in the regions of the search or in all enabled ones."""
        account = self.own_account
        number = Prefetch(account.number)
        regions = search.regions if search.regions is not None else account.regions()
        return find.find(search, regions, number.result, account.clients.ec2, account.zone_id_in)

    def delete(self, ref: Ref, /) -> None:
        """Deletes one resource of any kind."""
        self.own_account.refuse_foreign(ref)
        if ref.kind is ResourceKind.SCHEDULE:
            schedule.delete(self.own_account.clients.scheduler(ref.region), ref.id)
            return
        delete.delete(ref, self.own_account.clients.ec2_once(ref.region))

    def classify(self, error: Exception, /) -> Verdict | None:
        """The meaning of an exception; see :mod:`gpucloud_aws.errors`."""
        return errors.classify(error)
