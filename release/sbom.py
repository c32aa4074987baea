"""Bills of materials (CycloneDX 1.6, JSON): what is installed for the program alone, and with each extra."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.bom_ref import BomRef
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from release.lock import ITSELF, Locked, extras, locked_for

APART = frozenset({"ray"})
"""Extras that are not in ``all``, nor in its lock."""
MARKER = "gpucloud:marker"
"""The property with the systems (PEP 508) on which a package is installed."""


def write_boms(lock: Sequence[Locked], project: Mapping[str, Any], at: int) -> dict[str, bytes]:
    """The bills of materials by file name. The same lock, project and time give the same bytes.

    Args:
        lock: what is locked for the program with all its extras.
        project: the table ``project`` of ``pyproject.toml``.
        at: the time of the commit, in seconds since 1970.

    Raises:
        ValueError: an extra asks for what is not locked.
    """
    version: str = project["version"]
    return {
        f"{ITSELF}-{extra}.cdx.json": _bom(locked_for(lock, roots), roots, extra, version, at)
        for extra, roots in extras(project).items()
        if extra not in APART
    }


def _bom(packages: Sequence[Locked], roots: Sequence[str], extra: str, version: str, at: int) -> bytes:
    itself = Component(
        type=ComponentType.APPLICATION,
        name=ITSELF,
        version=version,
        licenses=[DisjunctiveLicense(id="Apache-2.0")],
        bom_ref=ITSELF,
        purl=PackageURL("pypi", None, ITSELF, version),
    )
    bom = Bom(
        components=map(_component, packages),
        dependencies=_dependencies(packages, roots),
        serial_number=uuid5(NAMESPACE_URL, f"{ITSELF} {version} {extra} {at}"),
    )
    bom.metadata.component = itself
    bom.metadata.timestamp = datetime.fromtimestamp(at, UTC)
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    return json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"


def _component(package: Locked) -> Component:
    """A package with the digests of all its files: the lock does not tell which one is installed."""
    purl = PackageURL("pypi", None, package.name, package.version)
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(purl.to_string()),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in package.sha256],
    )
    return Component(
        type=ComponentType.LIBRARY,
        name=package.name,
        version=package.version,
        bom_ref=_ref(package),
        purl=purl,
        properties=[Property(name=MARKER, value=package.marker)] if package.marker else [],
        external_references=[files],
    )


def _dependencies(packages: Sequence[Locked], roots: Sequence[str]) -> list[Dependency]:
    """What needs what, from the program down."""
    needs: dict[str, list[Dependency]] = defaultdict(list)
    for package in packages:
        for name in package.needed_by:
            needs[name].append(Dependency(BomRef(_ref(package))))
    first = [Dependency(BomRef(_ref(package))) for package in packages if package.name in roots]
    return [
        Dependency(BomRef(ITSELF), first),
        *(Dependency(BomRef(_ref(package)), needs[package.name]) for package in packages),
    ]


def _ref(package: Locked) -> str:
    return f"{package.name}=={package.version}"
