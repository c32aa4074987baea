"""The ability to use a cloud's object store, and what is said of its containers and objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import BinaryIO, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlace:
    """A container of an object store: a bucket, or in Azure ``ACCOUNT/CONTAINER``.

    Attributes:
        container: its name.
        region: where it is.
        account: the account that owns it.
        endpoint: the URL of its service; empty if the container's name and region are enough to find it.
    """

    container: str
    region: str
    account: str
    endpoint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageGrant:
    """The rights on a part of a container that a box gets. It may delete nothing.

    Attributes:
        place: the container.
        reads: the folder that may be listed and read; without slashes at its ends, as ``writes``.
        writes: the folder, inside ``reads``, in which objects may be created and replaced; ``None`` for none.
        name: what the grant is for; shown in the cloud's own log.
        role: the role that gives the rights; ``None`` for the caller's own.
        kms_key: the key of the cloud that encrypts what is written; ``None`` for the container's default.
    """

    place: StorePlace
    reads: str
    writes: str | None
    name: str
    role: str | None = None
    kms_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageLease:
    """A grant that is in force, as options of rclone. They are secret: never printed and never journalled.

    Attributes:
        ends_at: when the cloud refuses it; at most an hour from its beginning.
        folder: the container, as the beginning of a path of rclone.
        reading: the options of rclone's remote that reads; it may be the same as the one that writes.
        writing: the options of the one that writes; those of ``reading`` where nothing may be written.
    """

    ends_at: datetime
    folder: str
    reading: Mapping[str, str] = field(repr=False)
    writing: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSize:
    """How much a folder of an object store holds.

    Attributes:
        files: how many objects were counted.
        size_bytes: their size.
        whole: whether these are all; otherwise there are more.
    """

    files: int
    size_bytes: int
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object of a container: its path from the container on, and its size."""

    path: str
    size_bytes: int


@runtime_checkable
class ObjectStore(Protocol):
    """An object store, whose objects the caller reads and writes with the caller's own rights.

    On a part of it, the caller can lend rights for a while.
    """

    @property
    def store_scheme(self) -> str:
        """The scheme of its URLs: ``s3``."""
        ...

    def locate(self, address: str, /) -> tuple[StorePlace, str]:
        """The container of an address (a URL without its scheme), and the folder in it.

        Raises :class:`gpucloud.errors.UsageError` if there is none, or if it belongs to somebody else.
        """
        ...

    def names(self, place: StorePlace, path: str, /) -> Sequence[str]:
        """The names of the folders and objects in a folder; none where it does not exist."""
        ...

    def lend(self, grant: StorageGrant, /) -> StorageLease:
        """Lends rights for at most an hour, never more than the caller or the role has.

        Raises :class:`gpucloud.errors.UsageError` if these credentials cannot be narrowed so.
        """
        ...

    def measure(self, place: StorePlace, path: str, most: int, /) -> StoreSize:
        """Counts the objects below a folder, about ``most`` of them."""
        ...

    def objects(self, place: StorePlace, path: str, most: int, /) -> Sequence[StoredObject]:
        """The objects below a folder, in the order of their paths; about ``most`` where there are more.

        Those that stand for folders are left out.
        """
        ...

    def get_object(self, place: StorePlace, path: str, target: BinaryIO, most: int, /) -> None:
        """Writes an object to an empty file.

        Raises :class:`gpucloud.clouds.kit.LongerError` if it has more than ``most`` bytes.
        """
        ...

    def put_object(self, place: StorePlace, path: str, source: BinaryIO, kms_key: str | None, /) -> None:
        """Creates or replaces an object of at most 5 GB; a key of the cloud may encrypt it."""
        ...

    def delete_object(self, place: StorePlace, path: str, /) -> None:
        """Deletes an object; one that is not there is deleted."""
        ...
