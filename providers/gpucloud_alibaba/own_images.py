"""Images of instances: a snapshot of the system disk, and the image that is made of it and holds it.

``CreateImage`` of an instance would take its data disks along. Of a snapshot it takes one that is
``accomplished``, encrypted or not (ECS user guide, "Create a custom image from a snapshot"; API reference,
CreateImage, ``InvalidSnapshotId.NotReady``, read 2026-11-25).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gpucloud.clouds.abilities import Images, Snapshots
from gpucloud.clouds.provider import Record
from gpucloud.resources import Ref, Request, Resource, ResourceKind, SnapshotOrder, State, Tags
from gpucloud_alibaba.account import AlibabaAccount
from gpucloud_alibaba.clients import Clients, listed
from gpucloud_alibaba.describe import ref_of
from gpucloud_alibaba.errors import AlibabaNotReadyError, GoneError, named, reading
from gpucloud_alibaba.models import ecs_models

LOOKS = 720  # with their pauses, an hour: a full copy of a large disk takes long
LONGEST_PAUSE_S = 5.0


class AlibabaImages(Images):
    """Images of instances.

    Args:
        account: the account.
        snapshots: makes those that the images hold.
        get: reads a snapshot.
    """

    def __init__(self, account: AlibabaAccount, snapshots: Snapshots, get: Callable[[Ref], Resource]) -> None:
        self._account = account
        self._snapshots = snapshots
        self._get = get

    def prepare_image(self, order: SnapshotOrder, record: Record, /) -> Request:
        """Takes the snapshot, by its token once, and waits for it; returns the image's call as plain JSON.

        Raises:
            AlibabaNotReadyError: the snapshot is not shown, or not complete in time.
        """
        self._account.refuse_foreign(order.of)
        disk = _system_disk(order.of, self._account.clients)
        of_disk = self._snapshots.prepare_snapshot(replace(order, of=disk), record)
        record.making(ResourceKind.SNAPSHOT, order.name)
        snapshot = self._snapshots.create_snapshot(of_disk).ref
        record.made(snapshot)
        self._await(snapshot)
        call = {
            "RegionId": order.region,
            "SnapshotId": snapshot.id,
            "ImageName": order.name,
            # Of a snapshot it would be v1: machines that cannot require tokens (SDK 7.11.8, CreateImage).
            "Features": {"ImdsSupport": "v2"},
            "ClientToken": f"{order.key}-image",
            "Tag": of_disk["create_snapshot"]["Tag"],
        }
        return {"account": order.account, "size_gib": order.size_gib, "create_image": call}

    def create_image(self, request: Request, /) -> Sequence[Resource]:
        """Sends the call, once; the cloud recognises a repeated one by its token.

        The answer has the id only; all other fields are as ordered.
        """
        models, call = ecs_models(), request["create_image"]
        asked = models.CreateImageRequest().from_map(dict(call))
        answer = self._account.clients.ecs(call["RegionId"]).create_image(asked).body
        with reading("CreateImage"):
            id_ = named(answer.image_id)
        tags = Tags.parse({tag["Key"]: tag["Value"] for tag in call["Tag"]})
        return [
            Resource(
                ref=ref_of(request["account"], call["RegionId"], kind, each),
                state=state,
                tags=tags,
                size_gib=request["size_gib"],
            )
            for kind, each, state in (
                (ResourceKind.IMAGE, id_, State.PENDING),
                (ResourceKind.SNAPSHOT, call["SnapshotId"], State.RUNNING),
            )
        ]

    def _await(self, snapshot: Ref) -> None:
        """Waits until a snapshot is complete; one that failed is refused when it is used."""
        pause_s = 0.1
        for _ in range(LOOKS):
            try:
                if self._get(snapshot).state is not State.PENDING:
                    return
            except GoneError as error:
                raise AlibabaNotReadyError(f"snapshot {snapshot.id} is not shown") from error
            self._account.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        raise AlibabaNotReadyError(f"snapshot {snapshot.id} in {snapshot.region} is not complete yet")


def _system_disk(machine: Ref, clients: Clients) -> Ref:
    """The system disk of an instance."""
    asked = ecs_models().DescribeDisksRequest(
        region_id=machine.region, instance_id=machine.id, disk_type="system"
    )
    body = clients.ecs(machine.region).describe_disks(asked).body
    with reading("DescribeDisks"):
        [disk] = listed(body.disks.disk)
        return ref_of(machine.account, machine.region, ResourceKind.DISK, named(disk.disk_id))
