"""Loads of botocore's models what gpucloud needs: of EC2, the calls that it may send, no documentation."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from botocore.loaders import JSONFileLoader, Loader, instance_cache

from gpucloud_aws.actions import ACTIONS

SERVICE = "ec2"


def allowed_operations(loader: Loader) -> Loader:
    """A loader of the same folders as another one, which loads as :class:`AllowedOperations` does."""
    return FolderLoader(
        extra_search_paths=list(loader.search_paths),
        file_loader=AllowedOperations(),
        include_default_search_paths=False,
    )


class FolderLoader(Loader):
    """Finds a service by its folder.

    botocore lists the files of all 400 services for each kind of file that a client reads, to say which
    services exist: 90 ms of a launch. A folder without the kind that is asked for still raises
    ``DataNotFoundError``.
    """

    @instance_cache
    def list_available_services(self, type_name: str) -> list[str]:  # noqa: ARG002  # a folder may have any
        """The names of the services' folders, sorted."""
        found = (entry for path in self.search_paths if Path(path).is_dir() for entry in os.scandir(path))
        return sorted({entry.name for entry in found if entry.is_dir()})


class AllowedOperations(JSONFileLoader):
    """Loads EC2's model without the hundreds of operations that gpucloud never sends.

    botocore makes a method for every operation in each client, and gpucloud has a client for each region:
    all operations would take 1.5 MB and 15 ms per region. Other models are loaded whole: botocore itself
    uses some of them to find credentials. Each is read once in a process: botocore's sessions read the list
    of all endpoints anew, which takes as long as the rest of a first call.
    """

    def load_file(self, file_path: str) -> Any:
        """The file's content, ``None`` if there is no such file; the path has no suffix, as in botocore."""
        model = Path(file_path)
        zipped = model.with_name(f"{model.name}.json.gz")
        if (model.parts[-3], model.name) != (SERVICE, "service-2") or not zipped.is_file():
            return _whole(file_path)
        return _read(zipped)


@cache
def _whole(file: str) -> Any:
    return JSONFileLoader().load_file(file)


@cache
def _read(file: Path) -> dict[str, Any]:
    with gzip.open(file) as opened:
        found: dict[str, Any] = json.load(opened, object_pairs_hook=_without_documentation)
    allowed = {operation for service, operation in ACTIONS if service == SERVICE}
    found["operations"] = {name: each for name, each in found["operations"].items() if name in allowed}
    return found


def _without_documentation(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without its documentation; a shape's member of that name is not one, and stays."""
    return {name: value for name, value in pairs if name != "documentation" or not isinstance(value, str)}
