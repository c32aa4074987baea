"""The container or blob of a request, and the parts of its answer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from werkzeug.wrappers import Response

from gpucloud_sandbox.azure.storage import BLOB, CONTAINER
from gpucloud_sandbox.azure.subscription import Subscription
from gpucloud_sandbox.azure.wire import AzureError
from gpucloud_sandbox.database import Document

_NONE: Mapping[str, str] = {}


class Place:
    """What a request is about: an account, perhaps a container and a blob in it, and where contents are."""

    def __init__(self, subscription: Subscription, folder: Path, account: Document, names: list[str]) -> None:
        self.subscription, self.account, self.names = subscription, account, names
        self._folder = folder

    @property
    def key(self) -> str:
        """Under which this container or blob is kept."""
        return "/".join([self.account["name"], *self.names])

    @property
    def container(self) -> Document:
        """The container.

        Raises:
            AzureError: there is none.
        """
        key = "/".join([self.account["name"], self.names[0]])
        found = self.subscription.all(CONTAINER).get(key)
        if found is None or found["gone_until"]:
            raise AzureError("ContainerNotFound", "The specified container does not exist.", 404)
        return found

    @property
    def blob(self) -> Document | None:
        """The blob; ``None`` where there is none, or only blocks of one."""
        return self.subscription.all(BLOB).get(self.key) if len(self.names) == 2 else None

    @property
    def found(self) -> Document:
        """The blob.

        Raises:
            AzureError: there is none.
        """
        _ = self.container
        if self.blob is None:
            raise AzureError("BlobNotFound", "The specified blob does not exist.", 404)
        return self.blob

    def write(self, data: bytes) -> list[Any]:
        """Keeps a piece of content; returns its digest and size."""
        digest = hashlib.sha256(data).hexdigest()
        self._folder.mkdir(exist_ok=True)
        (self._folder / digest).write_bytes(data)
        return [digest, len(data)]

    def read(self, blob: Document) -> bytes:
        """A blob's content."""
        return b"".join((self._folder / digest).read_bytes() for _, digest, _ in blob["blocks"])

    def marks(self) -> dict[str, str]:
        """The ``etag`` and time of a change."""
        etag = f'"0x{self.subscription.world.token(15).upper()}"'
        return {"etag": etag, "modified": format_datetime(self.subscription.now, usegmt=True)}

    def keep(self, kind: str, **changes: Any) -> Document:
        """Stores a container or blob, changed."""
        *above, last = self.names
        known = {"key": self.key, "account": self.account["name"], "name": last, "container": "".join(above)}
        return self.subscription.keep(kind, self.key, {**known, **self.marks(), **changes})


def done(
    status: int, document: Mapping[str, Any], headers: Mapping[str, str] = _NONE, body: bytes = b""
) -> Response:
    """An answer about a container or blob."""
    about = {"ETag": document["etag"], "Last-Modified": document["modified"]}
    own = {f"x-ms-meta-{name}": value for name, value in document["metadata"].items()}
    return Response(body, status, headers={**about, **own, **headers}, content_type=None)
