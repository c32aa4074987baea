"""Azure behind gpucloud's provider interface: the verbs, and which object has which ability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from typing import TypeVar

from gpucloud.clouds import abilities
from gpucloud.clouds.kit import Prefetch, ability_in
from gpucloud.clouds.object_store import ObjectStore
from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import DeletionGraph, Record, Verdict
from gpucloud.resources import (
    Machine,
    Order,
    Ref,
    Request,
    Resource,
    Search,
    SearchResult,
)
from gpucloud_azure import create, delete, errors, find, images, network, own_images
from gpucloud_azure.account import AzureAccount
from gpucloud_azure.checkup import AzureCheckup
from gpucloud_azure.clients import Clients
from gpucloud_azure.console import AzureConsoleLog
from gpucloud_azure.databases import AzureDatabaseLogins
from gpucloud_azure.deadlines import AzureDeadlines, refuse_far
from gpucloud_azure.market import AzureMarket
from gpucloud_azure.power import AzurePower
from gpucloud_azure.preflight import AzurePreflight
from gpucloud_azure.privileges import AzureAccessPolicies
from gpucloud_azure.quotas import AzureQuotas
from gpucloud_azure.storage import BlobStorage
from gpucloud_azure.volumes import AzureSnapshots, AzureVolumes

NEEDED = ("azure-identity", "azure-mgmt-compute", "azure-mgmt-computeschedule", "azure-mgmt-resource")
TRAITS = abilities.Traits(forgets_ended=True)
"""An eviction deletes a machine, like any other end; no call returns it afterwards."""
A = TypeVar("A")


class AzureProvider:
    """Azure virtual machines.

    Args:
        profile: credentials and endpoints, by the variables that azure-identity reads.

    Raises:
        ImportError: the SDK is not installed.
    """

    def __init__(self, profile: Profile) -> None:
        for package in NEEDED:
            try:
                distribution(package)  # cheaper than importing it before it is needed
            except PackageNotFoundError as error:
                raise ImportError(f"Azure needs {package}: pip install 'gpucloud[azure]'") from error
        account = AzureAccount(Clients(profile))
        self.own_account = account
        # Caches of values that cannot change; two threads at the same time would only send a call twice.
        self._addresses = find.InterfaceAddresses()
        self._announced = network.Announced()
        self._key: Prefetch[str] | None = None
        self._preflight = AzurePreflight(account)
        market = AzureMarket(account)
        self._abilities: Mapping[type[object], object] = {
            abilities.AccessPolicies: AzureAccessPolicies(),
            abilities.Audit: account.clients,
            abilities.Boot: images.AzureBoot(account.clients),
            abilities.Checkup: AzureCheckup(account),
            abilities.Commitments: market,
            abilities.ConsoleLog: AzureConsoleLog(account),
            abilities.DatabaseLogins: AzureDatabaseLogins(account),
            abilities.Deadlines: AzureDeadlines(account),
            abilities.Firewall: network.AzureFirewall(account),
            abilities.Images: own_images.AzureImages(account),
            abilities.Power: AzurePower(account),
            abilities.Preflight: self._preflight,
            abilities.Prices: market,
            abilities.Quotas: AzureQuotas(account),
            abilities.Reservations: market,
            abilities.Snapshots: AzureSnapshots(account),
            abilities.Traits: TRAITS,
            abilities.Volumes: AzureVolumes(account),
            ObjectStore: BlobStorage(account),
        }

    @property
    def name(self) -> str:
        """``azure``."""
        return find.CLOUD

    @property
    def deletion(self) -> DeletionGraph:
        """Billed resources after those that depend on them, then the resource group with the rest."""
        return delete.GRAPH

    @property
    def ending(self) -> str:
        """A deallocation by the cloud: a guest that shuts down goes on being billed (states-billing.md)."""
        return (
            "its deallocation is scheduled with the cloud; disk and address are billed until the next "
            "changing gpucloud command or sweep"
        )

    def account(self) -> str:
        """The subscription's id."""
        return self.own_account.clients.subscription()

    def ability(self, kind: type[A], /) -> A | None:
        """What has an ability."""
        return ability_in(self._abilities, kind)

    # --- buying

    def prepare(self, order: Order, record: Record, /) -> Request:
        """Creates resource group, network, firewall, addresses and interfaces; returns the machines' PUTs.

        The addresses are billed from the moment they exist; the record is called before.
        """
        refuse_far(order, datetime.now(UTC))  # a budget may set an end that no plan has seen
        self._preflight.check(order)
        clients = self.own_account.clients
        trusted = partial(own_images.is_trusted, clients=clients)
        image = images.image_for(order.image, order.arch, order.instance_type, trusted)
        self._begin_key()
        host_encryption = Prefetch(self.own_account.has_host_encryption)
        scheduled = Prefetch(lambda: create.schedule_end(order, record, clients))
        nics = network.make(order, record, clients, self._addresses, self._announced)
        scheduled.result()  # before the machines exist
        return create.request_of(order, nics=nics, image=image, host_encryption=host_encryption.result())

    def create(self, request: Request, /) -> Sequence[Machine]:
        """Puts the machines: all or none, recognised by name and request when repeated."""
        clients = self.own_account.clients
        machines = create.create(request, clients, self._begin_key().result)
        return [self._addresses.on(machine, clients) for machine in machines]

    def _begin_key(self) -> Prefetch[str]:
        """All machines of a process share a public key whose private key is discarded."""
        if self._key is None:
            self._key = Prefetch(create.throw_away_key)
        return self._key

    # --- looking and ending

    def get(self, ref: Ref, /) -> Resource:
        """One resource by id."""
        self.own_account.refuse_foreign(ref)
        return find.get(ref, self.own_account.clients, self._addresses)

    def find(self, search: Search, /) -> SearchResult:
        """All resources with gpucloud's tags: one list covers all regions."""
        return find.find(search, self.own_account.clients, _regions)

    def delete(self, ref: Ref, /) -> None:
        """Deletes one resource of any kind."""
        self.own_account.refuse_foreign(ref)
        delete.delete(ref, self.own_account.clients)

    def classify(self, error: Exception, /) -> Verdict | None:
        """The meaning of an exception; see :mod:`gpucloud_azure.errors`."""
        return errors.classify(error)


def _regions() -> Sequence[str]:
    """All regions of the market, for reporting unread ones."""
    from gpucloud_pricing.snapshot import Snapshot

    return sorted(region for cloud, region in Snapshot.read().regions if cloud == find.CLOUD)
