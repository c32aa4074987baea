"""The sets of checkpoints in a store: their size, and the deletion of those that are not kept.

With the caller's own rights: a box may delete nothing. The functions wait for the cloud themselves, so that
threads may call them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpucloud.clouds import stores
from gpucloud.clouds.cloud import Cloud
from gpucloud.clouds.kit import LongerError, in_threads
from gpucloud.clouds.object_store import StorePlace
from gpucloud.runs.retention import superseded
from gpucloud_templates.checkpoints import manifest

MOST_OBJECTS = 1_000_000
_MANIFEST = re.compile(r"([0-9]{1,15})\.json")
_OURS = re.compile(
    r"[0-9]{1,9}/([0-9]{1,15}/.+|sets/[0-9]{1,15}\.json|latest\.json|logs/[a-z]+\.log|results/[0-9]+/.+|ended\.json)",
    re.DOTALL,
)
"""What boxes write below the folder of the attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What was deleted: so many objects, of so many bytes."""

    objects: int = 0
    size_bytes: int = 0


def prune(cloud: Cloud, place: StorePlace, folder: str, keep: int) -> Deleted:
    """Deletes what only superseded sets of an attempt have; its newest whole sets are kept.

    Args:
        cloud: the cloud of the bucket.
        place: the bucket.
        folder: the folder of the attempt.
        keep: how many whole sets to keep.

    Raises:
        CloudError: the cloud refused, or did not answer; what is left goes the next time.
    """
    names = stores.names(cloud, place, f"{folder}/{manifest.SETS}")
    numbers = [int(found[1]) for name in names if (found := _MANIFEST.fullmatch(name))]
    if len(numbers) <= keep:
        return Deleted()
    sets = {number: _objects_of(cloud, place, f"{folder}/{manifest.path_of(number)}") for number in numbers}
    latest = _objects_of(cloud, place, f"{folder}/{manifest.LATEST}")
    there = _sizes(cloud, place, folder)
    gone = superseded(sets, latest or (), there, keep)
    manifests = [name for name in gone if name.startswith(f"{manifest.SETS}/")]
    for some in ([name for name in gone if name not in manifests], manifests):
        in_threads(lambda name: stores.delete_object(cloud, place, f"{folder}/{name}"), some)
    return Deleted(objects=len(gone), size_bytes=sum(there.get(name, 0) for name in gone))


def _objects_of(cloud: Cloud, place: StorePlace, path: str) -> Mapping[str, int] | None:
    """The objects of a manifest with their sizes; ``None`` if it is damaged, or not there."""
    try:
        text = stores.read_object(cloud, place, path, manifest.MOST_BYTES)
        return None if text is None else manifest.objects(manifest.checked(text))
    except (LongerError, manifest.DamagedError):
        return None


def _sizes(cloud: Cloud, place: StorePlace, folder: str) -> dict[str, int]:
    found = stores.objects(cloud, place, folder, MOST_OBJECTS)
    return {each.path.removeprefix(f"{folder}/"): each.size_bytes for each in found}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """What a store has of a run.

    Attributes:
        attempts: how many attempts have something there.
        sets: how many sets there are of all of them, whole or not.
        objects: their paths from the folder of the attempts on, with sizes; of the logs and results too.
        others: how many objects are there that no box of gpucloud writes.
    """

    attempts: int
    sets: int
    objects: Mapping[str, int]
    others: int

    @property
    def size_bytes(self) -> int:
        """The size of all objects of gpucloud."""
        return sum(self.objects.values())


def stored_run(cloud: Cloud, place: StorePlace, attempts: str) -> StoredRun:
    """What is in the folder of the attempts of a run.

    Raises:
        CloudError: the cloud refused, or did not answer.
    """
    found = _sizes(cloud, place, attempts)
    ours = {name: size for name, size in found.items() if _OURS.fullmatch(name)}
    return StoredRun(
        attempts=len({name.partition("/")[0] for name in ours}),
        sets=sum(f"/{manifest.SETS}/" in name for name in ours),
        objects=ours,
        others=len(found) - len(ours),
    )


def delete_run(cloud: Cloud, place: StorePlace, attempts: str, names: Iterable[str]) -> None:
    """Deletes objects of a run, the manifests and records last.

    Raises:
        CloudError: the cloud refused, or did not answer; what is left goes the next time.
    """
    listed: Sequence[Any] = sorted(names, key=lambda name: (name.endswith(".json"), name))
    in_threads(lambda name: stores.delete_object(cloud, place, f"{attempts}/{name}"), listed)
