"""What is asked of the object store of a cloud; it is asked again where its failure allows that."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import BinaryIO

from gpucloud.clouds.cloud import Cloud
from gpucloud.clouds.object_store import (
    ObjectStore,
    StorageGrant,
    StorageLease,
    StoredObject,
    StorePlace,
    StoreSize,
)
from gpucloud.errors import CloudError, ErrorClass


def scheme_of(cloud: Cloud) -> str | None:
    """The scheme of the URLs of a cloud's object store; ``None`` if none of its store is used."""
    store = cloud.ability(ObjectStore)
    return None if store is None else store.store_scheme


def locate(cloud: Cloud, address: str) -> tuple[StorePlace, str]:
    """The container of an address in the object store, and the folder in it.

    Raises:
        UsageError: there is no such container, or it belongs to somebody else.
    """
    what = f"look at {scheme_of(cloud)}://{address}"
    return cloud.ask(ObjectStore, what, lambda store: store.locate(address))


def names(cloud: Cloud, place: StorePlace, path: str) -> Sequence[str]:
    """The names of the folders and objects in a folder."""
    return cloud.ask(ObjectStore, _listing(place, path), lambda store: store.names(place, path))


def measure(cloud: Cloud, place: StorePlace, path: str, most: int) -> StoreSize:
    """How much a folder holds; about ``most`` objects are counted."""
    return cloud.ask(ObjectStore, _listing(place, path), lambda store: store.measure(place, path, most))


def objects(cloud: Cloud, place: StorePlace, path: str, most: int) -> Sequence[StoredObject]:
    """The objects below a folder, in the order of their paths; about ``most`` where there are more."""
    return cloud.ask(ObjectStore, _listing(place, path), lambda store: store.objects(place, path, most))


def _listing(place: StorePlace, path: str) -> str:
    return f"list {place.container}/{path}"


def lend(cloud: Cloud, grant: StorageGrant) -> StorageLease:
    """Lends rights on a part of a container for at most an hour.

    Raises:
        UsageError: these credentials cannot be narrowed so.
    """
    what = f"lend rights on {grant.place.container}"
    return cloud.ask(ObjectStore, what, lambda store: store.lend(grant))


def get_object(cloud: Cloud, place: StorePlace, path: str, target: BinaryIO, most: int) -> None:
    """Writes an object to a file, in place of what it has.

    Raises:
        CloudError: the cloud refused; of the class ``not_found`` if there is none.
        LongerError: it has more than ``most`` bytes.
        OSError: the file cannot be written.
    """

    def once(store: ObjectStore) -> None:
        target.seek(0)
        target.truncate()
        store.get_object(place, path, target, most)

    cloud.ask(ObjectStore, f"read {place.container}/{path}", once)


def read_object(cloud: Cloud, place: StorePlace, path: str, most: int) -> bytes | None:
    """What a small object has; ``None`` if there is none.

    Raises:
        LongerError: it has more than ``most`` bytes.
    """
    text = BytesIO()
    try:
        get_object(cloud, place, path, text, most)
    except CloudError as error:
        if error.error_class is ErrorClass.NOT_FOUND:
            return None
        raise
    return text.getvalue()


def put_object(
    cloud: Cloud, place: StorePlace, path: str, source: BinaryIO, *, kms_key: str | None = None
) -> None:
    """Creates or replaces an object, of at most 5 GB, with what a file has from its beginning on."""

    def once(store: ObjectStore) -> None:
        source.seek(0)
        store.put_object(place, path, source, kms_key)

    cloud.ask(ObjectStore, f"write {place.container}/{path}", once)


def delete_object(cloud: Cloud, place: StorePlace, path: str) -> None:
    """Deletes an object; one that is not there is deleted."""
    what = f"delete {place.container}/{path}"
    cloud.ask(ObjectStore, what, lambda store: store.delete_object(place, path))
