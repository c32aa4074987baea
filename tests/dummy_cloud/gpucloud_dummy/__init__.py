"""A cloud in a folder, and its provider: the least that a package must bring, and nothing optional."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from gpucloud.clouds.kit import check_user_data, refuse_foreign
from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import DeletionGraph, Record, Verdict
from gpucloud.errors import ErrorClass, Scope
from gpucloud.resources import (
    Machine,
    Order,
    Ref,
    Request,
    Resource,
    ResourceKind,
    Search,
    SearchResult,
    State,
    Tags,
)
from gpucloud_dummy.ground import Ground, Row
from gpucloud_pricing.purchases import Purchase

__all__ = ["DummyProvider"]

A = TypeVar("A")
T = TypeVar("T")
FOLDER = "DUMMY_CLOUD_FOLDER"
CLASSES = {
    "SoldOut": ErrorClass.CAPACITY,
    "Unknown": ErrorClass.NOT_FOUND,
    "InUse": ErrorClass.EVENTUAL,
    "OtherParameters": ErrorClass.CONFLICT,
    "NoFolder": ErrorClass.AUTH,
}


class DummyError(Exception):
    """What this cloud's 'SDK' raises."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code, self.message = code, message


USER_DATA_BYTES = 16 * 1024


class DummyProvider:
    """The provider. Its state is in the folder, as commands are separate processes."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    @property
    def name(self) -> str:
        """The name under which the market knows this cloud."""
        return "dummy"

    @property
    def deletion(self) -> DeletionGraph:
        """Instances hold on to the group."""
        return DeletionGraph.in_order(ResourceKind.INSTANCE, ResourceKind.DISK, ResourceKind.GROUP)

    @property
    def ending(self) -> str:
        """Nothing here ends by itself."""
        return "nothing ends the box: take it down yourself"

    def account(self) -> str:
        """The folder's name is the account."""
        return self._ground().folder.name

    def prepare(self, order: Order, record: Record, /) -> Request:
        """One group, by name."""
        check_user_data(order, USER_DATA_BYTES, cloud="the dummy cloud")
        ref = self._ref(order.region, ResourceKind.GROUP, order.name)
        if not self._change(lambda rows: ref.id in rows):
            record.making(ResourceKind.GROUP, order.name)
            row: Row = {"kind": "group", "region": order.region, "state": "running", "since": _now()}
            self._change(lambda rows: rows.setdefault(ref.id, {**row, "tags": order.tags.as_dict()}))
        record.made(ref)
        return {
            "key": order.key,
            "name": order.name,
            "region": order.region,
            "zone": order.zone,
            "instance_type": order.instance_type,
            "purchase": str(order.purchase),
            "gpu_model": order.gpu_model,
            "gpu_count": int(order.gpu_count),
            "nodes": len(order.ranks),
            "disk_gib": order.disk_gib,
            "user_data": base64.b64encode(order.user_data).decode(),
            "group": ref.id,
            "tags": {**order.extra_tags, **order.tags.as_dict()},
        }

    def create(self, request: Request, /) -> Sequence[Machine]:
        """All nodes in one change of the folder, named after the key."""
        return self._change(lambda rows: self._boot(rows, dict(request)))

    def _boot(self, rows: dict[str, Row], request: dict[str, Any]) -> Sequence[Machine]:
        stem = hashlib.sha256(request["key"].encode()).hexdigest()[:12]
        ids = [f"vm-{stem}-{node}" for node in range(request["nodes"])]
        if not all(each in rows for each in ids):
            if request["group"] not in rows:
                raise DummyError("InUse", f"group {request['group']} is not there yet")
            if request["region"] in self._ground().sold_out():
                raise DummyError("SoldOut", f"nothing left in {request['region']}")
            for number, each in enumerate(ids, start=len(rows)):
                common = {"region": request["region"], "tags": request["tags"], "since": _now()}
                disk: Row = {**common, "kind": "disk", "state": "running", "of": each}
                rows[f"{each}-disk"] = disk
                rows[each] = {
                    **common,
                    "kind": "instance",
                    "state": "pending",
                    "request": request,
                    "address": f"203.0.113.{number % 250 + 1}",
                }
        if rows[ids[0]]["request"] != request:
            raise DummyError("OtherParameters", f"{ids[0]} was asked for with other parameters")
        return [self._machine(rows, each) for each in ids]

    def get(self, ref: Ref, /) -> Resource:
        """One thing; machines that ended are shown for ever."""
        self._refuse_foreign(ref)
        rows = self._change(lambda rows: rows)
        if ref.id not in rows or rows[ref.id]["region"] != ref.region:
            raise DummyError("Unknown", f"{ref.id} does not exist")
        return self._resource(rows, ref.id)

    def find(self, search: Search, /) -> SearchResult:
        """The folder is one list of everything."""
        rows = self._change(lambda rows: rows)
        resources = [self._resource(rows, each) for each in rows if _matches(rows[each], search)]
        return SearchResult(
            resources=tuple(resource for resource in resources if resource.state is not State.GONE)
        )

    def delete(self, ref: Ref, /) -> None:
        """Machines stop first; a disk goes with its machine."""
        self._refuse_foreign(ref)

        def delete(rows: dict[str, Row]) -> None:
            row = rows.get(ref.id)
            if row is None or row["state"] in {"stopping", "gone"}:
                return
            users = [each for each, other in rows.items() if _uses(other, ref.id)]
            if users or row.get("of") in rows:
                raise DummyError("InUse", f"{ref.id} is used by {users or row['of']}")
            if ref.kind is ResourceKind.INSTANCE:
                row["state"] = "stopping"
            else:
                del rows[ref.id]

        self._change(delete)

    def classify(self, error: Exception, /) -> Verdict | None:
        """The table above."""
        if not isinstance(error, DummyError):
            return None
        return Verdict(
            error_class=CLASSES[error.code],
            code=error.code,
            message=error.message,
            request_id=f"dummy-{id(error)}",
            scope=Scope.ATTEMPT,
        )

    def ability(self, kind: type[A], /) -> A | None:
        """None of the abilities: this cloud has the basic verbs alone."""
        return None

    def _refuse_foreign(self, ref: Ref) -> None:
        refuse_foreign(
            ref, self.account(), account="dummy account", hint=f"use the folder that it is in ({FOLDER})"
        )

    def _ground(self) -> Ground:
        folder = self._profile.get(FOLDER)
        if not folder:
            raise DummyError("NoFolder", f"{FOLDER} is not set")
        return Ground(Path(folder))

    def _change(self, change: Callable[[dict[str, Row]], T]) -> T:
        return self._ground().change(change)

    def _ref(self, region: str, kind: ResourceKind, id: str) -> Ref:  # noqa: A002
        return Ref(cloud=self.name, account=self.account(), region=region, kind=kind, id=id)

    def _resource(self, rows: dict[str, Row], id: str) -> Resource:  # noqa: A002
        row = rows[id]
        if row["kind"] == "instance":
            return self._machine(rows, id)
        return Resource(
            ref=self._ref(row["region"], ResourceKind(row["kind"]), id),
            state=State(row["state"]),
            tags=Tags.parse(row["tags"]),
            created_at=datetime.fromisoformat(row["since"]),
        )

    def _machine(self, rows: dict[str, Row], id: str) -> Machine:  # noqa: A002
        row, request = rows[id], rows[id]["request"]
        runs = row["state"] == "running"
        return Machine(
            ref=self._ref(row["region"], ResourceKind.INSTANCE, id),
            state=State(row["state"]),
            tags=Tags.parse(row["tags"]),
            created_at=datetime.fromisoformat(row["since"]),
            zone=request["zone"],
            instance_type=request["instance_type"],
            purchase=Purchase(request["purchase"]),
            public_ip=row["address"] if runs else None,
            private_ip=row["address"].replace("203.0.113.", "10.0.0.") if runs else None,
            parts=(self._ref(row["region"], ResourceKind.DISK, f"{id}-disk"),)
            if f"{id}-disk" in rows
            else (),
        )


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _uses(row: Row, id: str) -> bool:  # noqa: A002
    return bool(row["kind"] == "instance" and row["state"] != "gone" and row["request"]["group"] == id)


def _matches(row: Row, search: Search) -> bool:
    tags = Tags.parse(row["tags"])
    if tags is None or (search.regions is not None and row["region"] not in search.regions):
        return False
    if search.token is not None and row.get("request", {}).get("key") != search.token:
        return False
    return search.admits(tags) and (row["kind"] == "instance" or not search.machines_only)
