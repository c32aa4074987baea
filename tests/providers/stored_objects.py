"""What holds of the objects of each cloud's store, for whoever may read, write and delete there."""

from __future__ import annotations

from io import BytesIO

import pytest

from gpucloud.clouds import stores
from gpucloud.clouds.abilities import Audit
from gpucloud.clouds.cloud import Backoff, Cloud
from gpucloud.clouds.kit import LongerError
from gpucloud.clouds.object_store import ObjectStore
from gpucloud.clouds.provider import ApiCall, Provider

NAME = "run/attempts/2/out/a b#?%é+=.bin"
"""A path that no part of an address may take for something else."""


def store_of(provider: Provider) -> ObjectStore:
    """The object store of a provider."""
    store = provider.ability(ObjectStore)
    assert store is not None
    return store


def check_objects(provider: Provider, address: str) -> None:
    """Objects are written, listed, read and deleted; each change is reported."""
    audit = provider.ability(Audit)
    assert audit is not None
    seen: list[tuple[str, str]] = []

    def observer(call: ApiCall, /):  # type: ignore[no-untyped-def]
        return lambda outcome, _: seen.append((call.action.rpartition(":")[2].rpartition("/")[2], outcome))

    audit.watch(observer)
    cloud = Cloud(provider=provider, backoff=Backoff(budget_s=0))
    place, _ = stores.locate(cloud, address)
    data = bytes(range(256)) * 20
    stores.put_object(cloud, place, NAME, BytesIO(b"an older one"))
    stores.put_object(cloud, place, NAME, BytesIO(data))
    stores.put_object(cloud, place, "run/attempts/2/empty", BytesIO())
    stores.put_object(cloud, place, "run/attempts/20/other", BytesIO(b"x"))
    found = {each.path: each.size_bytes for each in stores.objects(cloud, place, "run/attempts/2", 1000)}
    assert found == {"run/attempts/2/empty": 0, NAME: len(data)}
    assert stores.read_object(cloud, place, NAME, len(data)) == data
    assert stores.read_object(cloud, place, "run/attempts/2/empty", 0) == b""
    with pytest.raises(LongerError):
        stores.read_object(cloud, place, NAME, len(data) - 1)
    stores.delete_object(cloud, place, NAME)
    stores.delete_object(cloud, place, NAME)
    assert stores.read_object(cloud, place, NAME, 1) is None
    assert [each.path for each in stores.objects(cloud, place, "run/attempts/2", 1000)] == [
        "run/attempts/2/empty"
    ]
    changes = [action for action, outcome in seen]
    assert len(changes) == 6, seen
    assert {outcome for _, outcome in seen} <= {"ok", "BlobNotFound"}
