"""Bills of materials (CycloneDX 1.6, JSON): what is installed for the program alone, and with each extra.

Written without CycloneDX's own library, whose classes pyright cannot read; the tests validate with it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from release.lock import ITSELF, LOCK, Locked, extras, locked_for, project_of, read_lock

LOCKS = {"ray": "ray.txt"}
"""In ``requirements/``, the locks of extras that are not in ``all``; the others are in ``all.txt``."""
MARKER = "gpucloud:marker"
"""The property with the systems (PEP 508) on which a package is installed."""

Json = dict[str, Any]


def write_boms(checkout: Path, at: int) -> dict[str, bytes]:
    """The bills of materials by file name. The same locks, project and time give the same bytes.

    Args:
        checkout: the folder with ``pyproject.toml`` and ``requirements/``.
        at: the time of the commit, in seconds since 1970.

    Raises:
        ValueError: an extra asks for what is not locked.
    """
    project = project_of(checkout / "pyproject.toml")
    locks = {
        file: read_lock((checkout / "requirements" / file).read_text(encoding="utf-8"))
        for file in (LOCK.name, *LOCKS.values())
    }
    version: str = project["version"]
    return {
        f"{ITSELF}-{extra}.cdx.json": _bom(locked_for(locks[file], roots), roots, extra, version, at)
        for extra, roots in extras(project).items()
        for file in [LOCKS.get(extra, LOCK.name)]
    }


def _bom(packages: Sequence[Locked], roots: Sequence[str], extra: str, version: str, at: int) -> bytes:
    document: Json = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid5(NAMESPACE_URL, f"{ITSELF} {version} {extra} {at}").urn,
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(at, UTC).isoformat(),
            "component": {
                "type": "application",
                "bom-ref": ITSELF,
                "name": ITSELF,
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": f"pkg:pypi/{ITSELF}@{version}",
            },
        },
        "components": [_component(package) for package in packages],
        "dependencies": _dependencies(packages, roots),
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def _component(package: Locked) -> Json:
    """A package with the digests of all its files: the lock does not tell which one is installed."""
    purl = f"pkg:pypi/{package.name}@{package.version}"
    hashes = [{"alg": "SHA-256", "content": digest} for digest in package.sha256]
    component: Json = {
        "type": "library",
        "bom-ref": _ref(package),
        "name": package.name,
        "version": package.version,
        "purl": purl,
        "externalReferences": [{"type": "distribution", "url": purl, "hashes": hashes}],
    }
    if package.marker:
        component["properties"] = [{"name": MARKER, "value": package.marker}]
    return component


def _dependencies(packages: Sequence[Locked], roots: Sequence[str]) -> list[Json]:
    """What needs what, from the program down."""
    needs: dict[str, list[str]] = defaultdict(list)
    for package in packages:
        for name in package.needed_by:
            needs[name].append(_ref(package))
    first = [_ref(package) for package in packages if package.name in roots]
    below = [{"ref": _ref(package), "dependsOn": needs[package.name]} for package in packages]
    return [{"ref": ITSELF, "dependsOn": first}, *below]


def _ref(package: Locked) -> str:
    return f"{package.name}=={package.version}"
