"""What holds of the objects of each cloud's store, for whoever may read, write and delete there."""

from __future__ import annotations

from io import BytesIO

import pytest

from gpucloud.clouds.cloud import Backoff, Cloud
from gpucloud.clouds.kit import LongerError
from gpucloud.clouds.provider import ApiCall, Audited, ObjectStore, Provider

NAME = "run/attempts/2/out/a b#?%é+=.bin"
"""A path that no part of an address may take for something else."""


def check_objects(provider: Provider, address: str) -> None:
    """Objects are written, listed, read and deleted; each change is reported."""
    assert isinstance(provider, Audited)
    assert isinstance(provider, ObjectStore)
    seen: list[tuple[str, str]] = []

    def witness(call: ApiCall, /):  # type: ignore[no-untyped-def]
        return lambda outcome, _: seen.append((call.action.rpartition(":")[2].rpartition("/")[2], outcome))

    provider.watch(witness)
    cloud = Cloud(provider=provider, backoff=Backoff(budget_s=0))
    place, _ = cloud.locate(address)
    data = bytes(range(256)) * 20
    cloud.put_object(place, NAME, BytesIO(b"an older one"))
    cloud.put_object(place, NAME, BytesIO(data))
    cloud.put_object(place, "run/attempts/2/empty", BytesIO())
    cloud.put_object(place, "run/attempts/20/other", BytesIO(b"x"))
    found = {each.path: each.size_bytes for each in cloud.objects(place, "run/attempts/2", 1000)}
    assert found == {"run/attempts/2/empty": 0, NAME: len(data)}
    assert cloud.read_object(place, NAME, len(data)) == data
    assert cloud.read_object(place, "run/attempts/2/empty", 0) == b""
    with pytest.raises(LongerError):
        cloud.read_object(place, NAME, len(data) - 1)
    cloud.delete_object(place, NAME)
    cloud.delete_object(place, NAME)
    assert cloud.read_object(place, NAME, 1) is None
    assert [each.path for each in cloud.objects(place, "run/attempts/2", 1000)] == ["run/attempts/2/empty"]
    changes = [action for action, outcome in seen]
    assert len(changes) == 6, seen
    assert {outcome for _, outcome in seen} <= {"ok", "BlobNotFound"}
