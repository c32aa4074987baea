"""AWS behind gpucloud's provider interface. Each method is in the module of its name."""

# The stubs call every member of an answer optional; a missing id is caught as a malformed answer.
# pyright: reportTypedDictNotRequiredAccess=false

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from gpucloud.clouds.abilities import CommitmentInquiry, DatabaseLogin, Inquiry, Traits
from gpucloud.clouds.kit import Prefetch, checked, first_of, refuse_foreign, together
from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import CallObserver, DeletionGraph, Record, Verdict
from gpucloud.resources import (
    EXPIRES_TAG,
    Bounds,
    CloudPolicy,
    CloudRole,
    End,
    HeldCapacity,
    Identity,
    Machine,
    Order,
    Permission,
    Quota,
    Quote,
    Ref,
    Request,
    Resource,
    ResourceKind,
    Search,
    SearchResult,
    SnapshotOrder,
    VolumeOrder,
    expires_text,
)
from gpucloud_aws import (
    checkup,
    cluster,
    create,
    delete,
    echo,
    errors,
    find,
    images,
    network,
    own_images,
    power,
    prices,
    privileges,
    quotas,
    schedule,
    snapshots,
    storage,
    volumes,
)
from gpucloud_aws.clients import READ_ATTEMPTS, Clients
from gpucloud_pricing.purchases import Purchase

if TYPE_CHECKING:
    from gpucloud_templates import Image, Metadata

_DATABASE = re.compile(r"\.(?P<region>[a-z]{2}(?:-[a-z]+)+-\d+)\.rds\.amazonaws\.com(?:\.cn)?")
"""The end of the name of a database of RDS. Source: RDS User Guide, "Connecting to a DB instance"."""
VPC_VARIABLE = "GPUCLOUD_AWS_VPC_ID"


TRAITS = Traits(lists_machines=True, power_off_ends=True)
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
        self.clients = Clients(profile)
        self._store = storage.S3(self.clients, self.account, lambda: self.identity().who)
        # Caches of values that cannot change; two threads at the same time would only send a call twice.
        self._account: str | None = None
        self._subnets: dict[tuple[str, str | None], Sequence[network.Subnet]] = {}
        self._zone_ids: dict[str, Mapping[str, str]] = {}

    @property
    def name(self) -> str:
        """``aws``."""
        return "aws"

    @property
    def deletion(self) -> DeletionGraph:
        """Spot requests, instances, then the resources that instances depend on."""
        return delete.GRAPH

    @property
    def ending(self) -> str:
        """The guest powers off, which terminates it: ``InstanceInitiatedShutdownBehavior`` (facts of EC2)."""
        return "the box powers itself off, which terminates it and leaves nothing that is billed"

    @property
    def metadata(self) -> Metadata:
        """Version 2 of its service (EC2 User Guide, "Spot Instance interruption notices": two minutes)."""
        from gpucloud_templates import Metadata

        return Metadata(
            url="http://169.254.169.254",
            notice="/latest/meta-data/spot/instance-action",
            notice_s=120,
            token_path="/latest/api/token",  # noqa: S106  (where one is got)
            token_ttl_header="X-aws-ec2-metadata-token-ttl-seconds",  # noqa: S106
            token_header="X-aws-ec2-metadata-token",  # noqa: S106
        )

    def watch(self, witness: CallObserver, /) -> None:
        """Reports each changing call from now on."""
        self.clients.witness = witness

    def boot_image(self, recipe: str, arch: str, instance_type: str, /) -> Image:
        """The image of a recipe on an instance type (``images.toml``)."""
        return images.boot_image(recipe, arch, instance_type)

    def account(self) -> str:
        """The account's number."""
        if self._account is None:
            with errors.reading("GetCallerIdentity"):  # the SDK's parser does not check its members either
                self._account = self.clients.sts().get_caller_identity()["Account"]
        return self._account

    # --- buying

    def check(self, order: Order, /) -> None:
        """Refuses an order that EC2 would refuse later."""
        create.check(order)

    def prepare(self, order: Order, record: Record, /) -> Request:
        """Creates what the instances need, and returns the call of RunInstances.

        That is the box's security group; for several of them a placement group, where the type and the way of
        paying allow one; and an address for each of those with several interfaces.
        """
        self.check(order)
        ec2 = self.clients.ec2_once(order.region)
        image = create.image_of(order, ec2)
        block = order.purchase is Purchase.RESERVED and create.is_block(order, ec2)
        market = create.market_of(order, block=block, currency=self._currency(order.region))
        choice = self._subnets_of(order.region)
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

    def read_ahead(self, region: str, /) -> None:
        """The subnets, which do not change while a command runs."""
        self._subnets_of(region)

    def create(self, request: Request, /) -> Sequence[Machine]:
        """Runs the instances: all or none; AWS recognises a repeated call by its token."""
        region = request["region"]
        return create.create(request, self.clients.ec2_once(region), self._zone_id_in(region))

    def give_address(self, machine: Ref, address: Ref, /) -> None:
        """Associates an address with the primary interface of an instance that runs."""
        cluster.give_address(machine.id, address.id, self.clients.ec2_once(machine.region))

    def ensure_end(
        self,
        machines: Sequence[Machine],
        end: End,
        timers: Sequence[str],  # noqa: ARG002  (the rule is a resource, found by its name)
        note: Callable[[Sequence[str]], None],  # noqa: ARG002
        /,
    ) -> Sequence[Ref]:
        """Creates the schedule that ends the machines, if there is a role; otherwise they end themselves."""
        if end.at is None or end.ttl_role is None:
            return ()
        scheduler = self._scheduler(machines[0].ref.region)
        return (schedule.arm(scheduler, machines, end.at, end.ttl_role),)

    def _scheduler(self, region: str) -> Any:
        return self.clients.client("scheduler", region, attempts=1)

    # --- reading and deleting

    def get(self, ref: Ref, /) -> Resource:
        """One resource by id."""
        return checked(lambda: self._refuse_foreign(ref), lambda: self._shown(ref))

    def _shown(self, ref: Ref) -> Resource:
        if ref.kind is ResourceKind.SCHEDULE:
            return schedule.get(self._scheduler(ref.region), ref)
        return find.get(ref, self.clients.ec2_once(ref.region), self._zone_id_in(ref.region))

    def find(self, search: Search, /) -> SearchResult:
        """All resources with gpucloud's tags, in the regions of the search or in all enabled ones."""
        account = Prefetch(self.account)
        regions = search.regions if search.regions is not None else self._enabled_regions()
        return find.find(search, regions, account.result, self.clients.ec2, self._zone_id_in)

    def delete(self, ref: Ref, /) -> None:
        """Deletes one resource of any kind."""
        self._refuse_foreign(ref)
        if ref.kind is ResourceKind.SCHEDULE:
            schedule.delete(self._scheduler(ref.region), ref.id)
            return
        delete.delete(ref, self.clients.ec2_once(ref.region))

    def classify(self, error: Exception, /) -> Verdict | None:
        """The meaning of an exception; see :mod:`gpucloud_aws.errors`."""
        return errors.classify(error)

    def ability(self, kind: type[A], /) -> A | None:
        """What has an ability."""
        return first_of(kind, (self, self._store, TRAITS))

    # --- volumes

    @property
    def volume_sizes_gib(self) -> tuple[int, int]:
        """The least and the largest size."""
        return volumes.SIZES_GIB

    def prepare_volume(self, order: VolumeOrder, record: Record, /) -> Request:  # noqa: ARG002
        """An EBS volume needs nothing beside itself."""
        return volumes.request_of(order)

    def create_volume(self, request: Request, /) -> Resource:
        """Creates the volume; AWS recognises a repeated call by its token."""
        region = request["region"]
        return volumes.create(request, self.clients.ec2_once(region), self._zone_id_in(region))

    def prepare_snapshot(self, order: SnapshotOrder, record: Record, /) -> Request:  # noqa: ARG002
        """A snapshot needs nothing beside itself."""
        self._refuse_foreign(order.of)
        return snapshots.request_of(order)

    def create_snapshot(self, request: Request, /) -> Resource:
        """Creates the snapshot; a repeated call finds it by its tags."""
        return snapshots.create(request, self.clients.ec2_once(request["region"]))

    def prepare_image(self, order: SnapshotOrder, record: Record, /) -> Request:  # noqa: ARG002
        """An image needs nothing beside itself."""
        self._refuse_foreign(order.of)
        return own_images.request_of(order, self.clients.ec2(order.region))

    def create_image(self, request: Request, /) -> Sequence[Resource]:
        """Creates the image; a repeated call finds it by its tags."""
        return own_images.create(request, self.clients.ec2_once(request["region"]))

    def attach(self, disk: Ref, machine: Ref, number: int, /) -> Sequence[str]:
        """Attaches the volume."""
        self._refuse_foreign(disk)
        return volumes.attach(disk.id, machine.id, number, self.clients.ec2_once(disk.region))

    # --- abilities

    def quotes(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quote]:
        """Today's list prices or spot prices. Held capacity is paid for already and is not quoted."""
        now = datetime.now(UTC)
        currency = self._currency(region)
        match purchase:
            case Purchase.SPOT:
                return prices.spot(
                    self.clients.ec2(region),
                    region,
                    instance_types,
                    currency=currency,
                    now=now,
                    zone_id=self._zone_id_in(region),
                )
            case Purchase.ON_DEMAND:
                priced_in = prices.PRICE_REGIONS.get(self.clients.partition(region))
                if priced_in is None:
                    return ()
                pricing = self.clients.client("pricing", priced_in, attempts=READ_ATTEMPTS)
                return prices.on_demand(pricing, region, instance_types, currency=currency, now=now)
            case Purchase.RESERVED:
                return ()
            case _:
                assert_never(purchase)

    def inquiries(self, instance_types: Sequence[str], regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """List prices type by type, spot prices region by region, savings plans some types at a time."""
        from gpucloud_aws import price_list, spot_advisor

        now = datetime.now(UTC)
        enabled = self._enabled_regions()
        asked = enabled if regions is None else [each for each in enabled if each in regions]
        if not asked:
            return ()
        currency = self._currency(asked[0])
        partition = self.clients.partition(asked[0])
        found = [
            price_list.spot_inquiry(
                self.clients,
                region,
                instance_types,
                currency=currency,
                now=now,
                zone_id=self._zone_id_in(region),
            )
            for region in asked
        ]
        if partition == "aws":
            found.append(spot_advisor.inquiry(self.clients.profile, instance_types, asked, now))
        if (priced_in := prices.PRICE_REGIONS.get(partition)) is not None:
            pricing = self.clients.client("pricing", priced_in, attempts=READ_ATTEMPTS)
            for name in instance_types:
                found.append(price_list.list_inquiry(pricing, name, regions, currency=currency, now=now))
        if partition == "aws":
            plans = self.clients.client("savingsplans", "us-east-1", attempts=READ_ATTEMPTS)
            found += price_list.savings_inquiries(plans, instance_types, regions, currency=currency, now=now)
            if in_blocks := [name for name in instance_types if price_list.sold_in_blocks(name)]:
                found += [
                    price_list.block_inquiry(
                        self.clients,
                        region,
                        in_blocks,
                        currency=currency,
                        now=now,
                        zone_id=self._zone_id_in(region),
                    )
                    for region in asked
                ]
        return found

    def tariff_inquiries(self, regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """Kind by kind; none for a partition without a price list, or without an enabled region of these."""
        from gpucloud_aws import tariffs

        enabled = self._enabled_regions()
        asked = enabled if regions is None else [each for each in enabled if each in regions]
        priced_in = prices.PRICE_REGIONS.get(self.clients.partition(asked[0])) if asked else None
        if priced_in is None:
            return ()
        pricing = self.clients.client("pricing", priced_in, attempts=READ_ATTEMPTS)
        currency = self._currency(asked[0])
        return list(tariffs.inquiries(pricing, regions, currency=currency, now=datetime.now(UTC)))

    def held(self, region: str, instance_types: Sequence[str], /) -> Sequence[HeldCapacity]:
        """Active capacity reservations and blocks."""
        return prices.held(self.clients.ec2(region), region, instance_types, self._zone_id_in(region))

    def commitment_inquiries(self) -> Sequence[CommitmentInquiry]:
        """Reserved instances and held capacity region by region, and the savings plans."""
        from gpucloud_aws import commitments

        account, today = self.account(), datetime.now(UTC).date()
        found: list[CommitmentInquiry] = []
        for region in self._enabled_regions():
            zone_id = self._zone_id_in(region)
            found += commitments.regional_inquiries(self.clients.ec2(region), region, account, zone_id, today)
        if self.clients.partition(self.clients.home_region) == "aws":
            found.append(commitments.plans_inquiry(self.clients, today))
        return found

    def headroom(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quota]:
        """vCPU quotas of the families."""
        if self.clients.partition(region) != "aws" or purchase.kind.paid_already:
            return ()
        asked = self.clients.client("service-quotas", region, attempts=READ_ATTEMPTS)
        return quotas.headroom(asked, lambda: self.clients.ec2(region), region, instance_types, purchase)

    @property
    def credentials_hint(self) -> str:
        """How to get credentials."""
        return checkup.CREDENTIALS_HINT

    @property
    def policy(self) -> str:
        """The least privileges, in IAM's JSON."""
        return checkup.policy()

    def role_policy(self, role: CloudRole, owner: str, /) -> CloudPolicy:
        """The privileges of a role."""
        return privileges.role_policy(role, owner)

    def guardrail(self, bounds: Bounds, /) -> CloudPolicy:
        """A policy that denies everybody what is out of bounds."""
        return privileges.guardrail(bounds)

    def identity(self) -> Identity:
        """The identity of the credentials."""
        return checkup.identity(self.clients)

    def permissions(self, region: str, /) -> Sequence[Permission]:
        """Each action that can be tried without effect."""
        return checkup.permissions(self.clients, region)

    def server_time(self) -> datetime:
        """The cloud's time."""
        return checkup.server_time(self.clients)

    def console(self, ref: Ref, /) -> str:
        """The serial console's text: the newest if the type supports it, otherwise that of the boot."""
        self._refuse_foreign(ref)
        ec2 = self.clients.ec2_once(ref.region)
        try:
            answer = ec2.get_console_output(InstanceId=ref.id, Latest=True)
        except Exception as error:
            if errors.code_of(error) != "UnsupportedOperation":
                raise
            answer = ec2.get_console_output(InstanceId=ref.id)  # types before Nitro
        return answer.get("Output") or ""

    def extend(
        self,
        resources: Sequence[Ref],
        expires_at: datetime | None,
        timers: Sequence[str],  # noqa: ARG002  (EC2 keeps none)
        note: Callable[[Sequence[str]], None],  # noqa: ARG002
        /,
    ) -> Sequence[str]:
        """Moves the schedule, if there is one, and tags all resources; the timer is on the box."""
        for ref in resources:
            self._refuse_foreign(ref)
            if ref.kind is ResourceKind.SCHEDULE:
                schedule.move(self._scheduler(ref.region), ref.id, expires_at)
        tagged = [ref for ref in resources if ref.kind is not ResourceKind.SCHEDULE]
        for region in {ref.region for ref in tagged}:
            self.clients.ec2_once(region).create_tags(
                Resources=[ref.id for ref in tagged if ref.region == region],
                Tags=[{"Key": EXPIRES_TAG, "Value": expires_text(expires_at)}],
            )
        return ()

    @property
    def timer_deletes(self) -> bool:
        """The schedule terminates instances, stopped ones as well."""
        return True

    def why_not_stop(self, machine: Machine, /, *, local_disks: bool) -> str | None:  # noqa: ARG002  (they are lost)
        """A Spot instance of a one-time request cannot be stopped."""
        return power.why_not_stop(machine)

    def stop(self, ref: Ref, /) -> None:
        """Stops an instance: its disks are billed on."""
        self._refuse_foreign(ref)
        power.stop(self.clients.ec2_once(ref.region), ref.id)

    def start(self, ref: Ref, /) -> None:
        """Starts a stopped instance, if its zone has capacity."""
        self._refuse_foreign(ref)
        power.start(self.clients.ec2_once(ref.region), ref.id)

    def database_token(self, login: DatabaseLogin, /) -> str:
        """A request to RDS that is signed here, for 15 minutes; nothing is sent.

        The server takes it from a login with the role ``rds_iam``, if the identity may ``rds-db:connect``.
        Source: RDS User Guide, "IAM database authentication". UNVERIFIED with a real server.
        """
        from botocore.signers import generate_db_auth_token

        found = _DATABASE.search(login.host)
        region = found["region"] if found else self.clients.home_region
        client = self.clients.client("sts", region, attempts=1)  # any client: its signer is what is used
        return str(generate_db_auth_token(client, login.host, login.port, login.user, region))

    def admit(self, group: Ref, cidrs: Sequence[str], ports: Sequence[int], /) -> None:
        """Allows only these sources; the rules among the nodes of one box stay."""
        self._refuse_foreign(group)
        ec2 = self.clients.ec2_once(group.region)
        shown = ec2.describe_security_groups(GroupIds=[group.id])["SecurityGroups"]
        if not shown:
            raise errors.GoneError(f"AWS shows no group {group.id} in {group.region}")
        joined = any(rule.get("UserIdGroupPairs") for rule in shown[0].get("IpPermissions", []))
        wanted = network.wanted_rules(cidrs, ports, members_of=group.id if joined else None)
        network.set_rules(ec2, shown[0], wanted)

    def caller_address(self) -> str:
        """The answer of https://checkip.amazonaws.com."""
        return echo.caller_address(self.clients.profile)

    def remarks(self) -> Sequence[str]:
        """None: boxes of every account are alike."""
        return ()

    @property
    def self_delete(self) -> None:
        """None: the bill ends without an identity of the box."""
        return

    # --- values that do not change while a program runs

    def _refuse_foreign(self, ref: Ref) -> None:
        """Another account would answer "not found", which must never count as "gone"."""
        hint = "use the credentials that it was made with (AWS_PROFILE)"
        refuse_foreign(ref, self.account(), account="AWS account", hint=hint)

    def _currency(self, region: str) -> str:
        return prices.CURRENCIES.get(self.clients.partition(region), "USD")

    def _enabled_regions(self) -> Sequence[str]:
        answer = self.clients.ec2(self.clients.home_region).describe_regions()
        regions = sorted(region["RegionName"] for region in answer["Regions"] if region.get("RegionName"))
        if not regions:  # a search of no region would find nothing
            raise errors.MalformedAnswerError("the answer to DescribeRegions names no region")
        return regions

    def _subnets_of(self, region: str) -> Sequence[network.Subnet]:
        vpc = self.clients.profile.get(VPC_VARIABLE)
        if (region, vpc) not in self._subnets:
            self._subnets[region, vpc] = network.subnets(self.clients.ec2_once(region), region, vpc)
        return self._subnets[region, vpc]

    def _zone_id_in(self, region: str) -> Callable[[str], str]:
        """Returns a function from AZ names to AZ ids; it returns the name itself if AWS does not list it."""

        def zone_id(name: str) -> str:
            if region not in self._zone_ids:
                answer = self.clients.ec2_once(region).describe_availability_zones()
                self._zone_ids[region] = {
                    zone.get("ZoneName", ""): zone.get("ZoneId", "") for zone in answer["AvailabilityZones"]
                }
            return self._zone_ids[region].get(name, name)

        return zone_id
