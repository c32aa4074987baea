"""Azure behind gpucloud's provider interface. Each method is in the module of its name."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING, TypeVar

from gpucloud.clouds.abilities import CommitmentInquiry, DatabaseLogin, Inquiry, Traits
from gpucloud.clouds.kit import Prefetch, first_of, refuse_foreign
from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import CallObserver, DeletionGraph, Record, Verdict
from gpucloud.errors import ErrorClass
from gpucloud.resources import (
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
    Search,
    SearchResult,
    SnapshotOrder,
    VolumeOrder,
)
from gpucloud_azure import (
    checkup,
    create,
    delete,
    errors,
    extend,
    find,
    identity,
    ids,
    images,
    network,
    own_images,
    power,
    prices,
    privileges,
    quotas,
    storage,
    volumes,
)
from gpucloud_azure.clients import Clients
from gpucloud_azure.json_paths import plain
from gpucloud_pricing.purchases import Purchase

if TYPE_CHECKING:
    from gpucloud_templates import Image, Metadata, SelfDelete

DATABASES = "https://ossrdbms-aad.database.windows.net/.default"
"""The scope of tokens for databases, in the public cloud."""
MOST_OF_A_BLOB = 4 * 1024 * 1024
"""Bytes of a console: more is not one."""
NEEDED = ("azure-identity", "azure-mgmt-compute", "azure-mgmt-computeschedule", "azure-mgmt-resource")


TRAITS = Traits(forgets_ended=True)
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
        self.clients = Clients(profile)
        self._store = storage.BlobStorage(self.clients)
        # Caches of values that cannot change; two threads at the same time would only send a call twice.
        self._addresses = find.Addresses()
        self._announced = network.Announced()
        self._families = quotas.Families()
        self._host_encryption: bool | None = None
        self._key: Prefetch[str] | None = None

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

    @property
    def metadata(self) -> Metadata:
        """Scheduled Events of the instance metadata service (azure-compute-docs, scheduled-events.md).

        Its notice comes up to 30 seconds before (spot-vms.md).
        """
        from gpucloud_templates import Metadata

        return Metadata(
            url="http://169.254.169.254",
            notice="/metadata/scheduledevents?api-version=2020-07-01",
            notice_s=30,
            headers={"Metadata": "true"},
        )

    @property
    def self_delete(self) -> SelfDelete:
        """By Resource Manager, with the machine's own identity."""
        return identity.self_delete(self.clients.endpoint)

    def watch(self, witness: CallObserver, /) -> None:
        """Reports each changing call from now on."""
        self.clients.witness = witness

    def boot_image(self, recipe: str, arch: str, instance_type: str, /) -> Image:
        """The image of a recipe on an instance type (``images.toml``)."""
        return images.boot_image(recipe, arch, instance_type)

    def account(self) -> str:
        """The subscription's id."""
        return self.clients.subscription()

    # --- buying

    def check(self, order: Order, /) -> None:
        """Refuses an order that Azure would refuse later."""
        create.check(order)

    def prepare(self, order: Order, record: Record, /) -> Request:
        """Creates resource group, network, firewall, addresses and interfaces; returns the machines' PUTs.

        The addresses are billed from the moment they exist; the record is called before.
        """
        self.check(order)
        trusted = partial(own_images.is_trusted, clients=self.clients)
        image = images.image_for(order.image, order.arch, order.instance_type, trusted)
        self._begin_key()
        host_encryption = Prefetch(self._has_host_encryption)
        scheduled = Prefetch(lambda: create.schedule_end(order, record, self.clients))
        nics = network.make(order, record, self.clients, self._addresses, self._announced)
        scheduled.result()  # before the machines exist
        return create.request_of(order, nics=nics, image=image, host_encryption=host_encryption.result())

    def create(self, request: Request, /) -> Sequence[Machine]:
        """Puts the machines: all or none, recognised by name and request when repeated."""
        machines = create.create(request, self.clients, self._begin_key().result)
        return [self._addresses.on(machine, self.clients) for machine in machines]

    def ensure_end(
        self,
        machines: Sequence[Machine],
        end: End,
        timers: Sequence[str],
        note: Callable[[Sequence[str]], None],
        /,
    ) -> Sequence[Ref]:
        """Schedules the deallocation of machines, and assigns the role with which they delete themselves."""
        for machine in machines:
            self._refuse_foreign(machine.ref)
        extend.ensure_end(self.clients, machines, end, timers, note)
        return ()

    # --- looking and ending

    def get(self, ref: Ref, /) -> Resource:
        """One resource by id."""
        self._refuse_foreign(ref)
        return find.get(ref, self.clients, self._addresses)

    def find(self, search: Search, /) -> SearchResult:
        """All resources with gpucloud's tags: one list covers all regions."""
        return find.find(search, self.clients, _regions)

    def delete(self, ref: Ref, /) -> None:
        """Deletes one resource of any kind."""
        self._refuse_foreign(ref)
        delete.delete(ref, self.clients)

    def classify(self, error: Exception, /) -> Verdict | None:
        """The meaning of an exception; see :mod:`gpucloud_azure.errors`."""
        return errors.classify(error)

    def ability(self, kind: type[A], /) -> A | None:
        """What has an ability."""
        return first_of(kind, (self, self._store, TRAITS))

    # --- volumes

    @property
    def volume_sizes_gib(self) -> tuple[int, int]:
        """The least and the largest size."""
        return volumes.SIZES_GIB

    def prepare_volume(self, order: VolumeOrder, record: Record, /) -> Request:
        """Creates the resource group of the volume."""
        return volumes.prepare(order, record, self.clients)

    def create_volume(self, request: Request, /) -> Resource:
        """Puts the disk, recognised by its name when repeated."""
        return volumes.create(request, self.clients)

    def prepare_snapshot(self, order: SnapshotOrder, record: Record, /) -> Request:
        """Creates the resource group of the snapshot."""
        return volumes.prepare_snapshot(order, record, self.clients)

    def create_snapshot(self, request: Request, /) -> Resource:
        """Creates the snapshot, by name."""
        return volumes.create(request, self.clients)

    def prepare_image(self, order: SnapshotOrder, record: Record, /) -> Request:
        """Creates the resource group and the gallery of the image."""
        self._refuse_foreign(order.of)
        return own_images.prepare(order, record, self.clients)

    def create_image(self, request: Request, /) -> Sequence[Resource]:
        """Puts the version in its gallery, and waits until it no longer needs the disk."""
        return own_images.create(request, self.clients, time.sleep)

    def attach(self, disk: Ref, machine: Ref, number: int, /) -> Sequence[str]:  # noqa: ARG002
        """The PUT of the machine has attached it."""
        return volumes.devices(number)

    # --- abilities

    def quotes(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quote]:
        """Today's list prices or spot prices. Held capacity is paid for already and is not quoted."""
        if purchase.kind.paid_already or not instance_types:
            return ()
        return prices.quotes(self.clients, region, instance_types, purchase, now=datetime.now(UTC))

    def inquiries(self, instance_types: Sequence[str], regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """Size by size; anybody may ask, also without credentials."""
        from gpucloud_azure import price_list

        now = datetime.now(UTC)
        return [price_list.inquiry(self.clients, size, regions, now) for size in instance_types]

    def tariff_inquiries(self, regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """Kind by kind; anybody may ask, also without credentials."""
        from gpucloud_azure import tariffs

        return list(tariffs.inquiries(self.clients, regions, datetime.now(UTC)))

    def held(self, region: str, instance_types: Sequence[str], /) -> Sequence[HeldCapacity]:
        """Capacity reservations, named by their groups."""
        return prices.held(self.clients, region, instance_types)

    def commitment_inquiries(self) -> Sequence[CommitmentInquiry]:
        """The tenant's reservations."""
        from gpucloud_azure import commitments

        return [commitments.inquiry(self.clients, datetime.now(UTC).date())]

    def headroom(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quota]:
        """The region's vCPUs and the families', or those of Spot."""
        return quotas.headroom(self.clients, region, instance_types, purchase, self._families)

    def console(self, ref: Ref, /) -> str:
        """The serial console's text, which boot diagnostics keep; empty while there is none."""
        self._refuse_foreign(ref)
        group, name = ids.name_of(ref.id)
        with errors.reading("retrieveBootDiagnosticsData"):
            answer = plain(
                self.clients.compute().virtual_machines.retrieve_boot_diagnostics_data(
                    group, name, sas_uri_expiration_time_in_minutes=5
                )
            )
        return self._blob(str(answer.get("serialConsoleLogBlobUri") or ""))

    def database_token(self, login: DatabaseLogin, /) -> str:  # noqa: ARG002  (it is for any server)
        """An Entra token for Azure Database, for about an hour.

        Source: learn.microsoft.com, "Use Microsoft Entra ID for authentication with Azure Database for
        PostgreSQL". UNVERIFIED with a real server.
        """
        return self.clients.credential.get_token(DATABASES).token

    def admit(self, group: Ref, cidrs: Sequence[str], ports: Sequence[int], /) -> None:
        """Allows only these sources; the rules among the machines of one box stay."""
        self._refuse_foreign(group)
        network.admit(group, cidrs, ports, self.clients)

    def extend(
        self,
        resources: Sequence[Ref],
        expires_at: datetime | None,
        timers: Sequence[str],
        note: Callable[[Sequence[str]], None],
        /,
    ) -> Sequence[str]:
        """Schedules the deallocation of the new end, and cancels that of the old one."""
        for ref in resources:
            self._refuse_foreign(ref)
        return extend.extend(self.clients, resources, expires_at, timers, note)

    @property
    def timer_deletes(self) -> bool:
        """The timers deallocate machines, and leave their disks."""
        return False

    def why_not_stop(self, machine: Machine, /, *, local_disks: bool) -> str | None:  # noqa: ARG002
        """Every machine can be deallocated: gpucloud creates none with an ephemeral disk."""
        return None

    def stop(self, ref: Ref, /) -> None:
        """Deallocates a machine: one that is only powered off is billed on."""
        self._refuse_foreign(ref)
        power.stop(self.clients, ref.id)

    def start(self, ref: Ref, /) -> None:
        """Starts a deallocated machine, and waits until it has capacity."""
        self._refuse_foreign(ref)
        power.start(self.clients, ref.id)

    def remarks(self) -> Sequence[str]:
        """Whether disks are encrypted on the host as well."""
        if self._has_host_encryption():
            return ()
        return (
            "disks are encrypted by the platform, but not at the host: the subscription lacks the feature "
            "(az feature register --namespace Microsoft.Compute --name EncryptionAtHost)",
        )

    @property
    def credentials_hint(self) -> str:
        """The sign-in of the Azure command line, or a service principal."""
        return checkup.HINT

    @property
    def policy(self) -> str:
        """A custom role."""
        return checkup.policy()

    def role_policy(self, role: CloudRole, owner: str, /) -> CloudPolicy:
        """The privileges of a role."""
        return privileges.role_policy(role, owner)

    def guardrail(self, bounds: Bounds, /) -> CloudPolicy:
        """A policy that denies everybody what is out of bounds."""
        return privileges.guardrail(bounds)

    def identity(self) -> Identity:
        """The signed-in user or application."""
        return checkup.identity(self.clients)

    def permissions(self, region: str, /) -> Sequence[Permission]:  # noqa: ARG002  (roles know no regions)
        """The role's actions, by the roles granted in the subscription; and the resource providers."""
        return checkup.permissions(self.clients)

    def server_time(self) -> datetime:
        """The ``Date`` of an answer of Resource Manager."""
        return checkup.server_time(self.clients)

    def read_ahead(self, region: str, /) -> None:
        """Nothing: what a launch needs is put by name."""

    # --- values that do not change while a program runs

    def _refuse_foreign(self, ref: Ref) -> None:
        """Another subscription would answer "not found", which must never pass for "gone"."""
        parts = ids.parts_of(ref.id)
        refuse_foreign(
            ref,
            self.account(),
            written=parts.subscription if parts else None,
            account="Azure subscription",
            hint="use the subscription that it was made in (AZURE_SUBSCRIPTION_ID)",
        )

    def _begin_key(self) -> Prefetch[str]:
        """All machines of a process share a public key whose private key is discarded."""
        if self._key is None:
            self._key = Prefetch(create.throw_away_key)
        return self._key

    def _has_host_encryption(self) -> bool:
        """Platform encryption is always there; who may not ask for more gets that."""
        if self._host_encryption is None:
            try:
                self._host_encryption = checkup.host_encryption(self.clients)
            except Exception as error:
                verdict = errors.classify(error)
                if verdict is None or verdict.error_class not in {ErrorClass.AUTH, ErrorClass.NOT_FOUND}:
                    raise
                self._host_encryption = False
        return self._host_encryption

    def _blob(self, url: str) -> str:
        """The content of a signed URL, which needs no other permission."""
        if not url:
            return ""
        client = self.clients.anonymous()
        from azure.core.rest import HttpRequest

        response = client.send_request(HttpRequest("GET", url), stream=True)
        try:
            if response.status_code == 404:
                return ""
            response.raise_for_status()
            content = b""
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) >= MOST_OF_A_BLOB:
                    break
        finally:
            response.close()
        return content[:MOST_OF_A_BLOB].decode("utf-8", "replace")


def _regions() -> Sequence[str]:
    """All regions of the market, for reporting unread ones."""
    from gpucloud_pricing.snapshot import Snapshot

    return sorted(region for cloud, region in Snapshot.read().regions if cloud == find.CLOUD)
