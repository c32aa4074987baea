"""Which API versions each type of resource is asked for with (``api_versions.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from gpucloud_sandbox.azure.places import known_locations
from gpucloud_sandbox.azure.subscription import Subscription
from gpucloud_sandbox.azure.wire import AzureError

_MANAGER = "Microsoft.Resources"
_OTHERS = "*"


@cache
def _table() -> Mapping[str, Mapping[str, Sequence[str]]]:
    text = files("gpucloud_sandbox.azure").joinpath("api_versions.toml").read_text(encoding="utf-8")
    return {
        namespace.lower(): {type_.lower(): versions for type_, versions in types.items()}
        for namespace, types in tomllib.loads(text).items()
    }


def namespaces() -> frozenset[str]:
    """The resource providers whose versions are known, in lower case."""
    return frozenset(_table())


def versions_of(namespace: str, type_: str) -> Sequence[str]:
    """The API versions of a type, newest first; none of a provider that is not emulated.

    Args:
        namespace: the resource provider's.
        type_: the first word of the type.
    """
    types = _table().get(namespace.lower(), {})
    return types.get(type_.lower()) or types.get(_OTHERS, ())


def check(subscription: Subscription, version: str, type_: str) -> None:
    """Passes a version that a type has.

    Source: azure-docs, "Resolve errors for resource provider registration".

    Args:
        subscription: the subscription.
        version: ``api-version``.
        type_: with its namespace.

    Raises:
        AzureError: it has no such version.
    """
    namespace, _, words = type_.partition("/")
    type_ = words.partition("/")[0]
    known = versions_of(namespace, type_)
    if not known or version in known:  # what no version is known of is refused as not emulated
        return
    supported = ", ".join(known)
    if namespace.lower() == _MANAGER.lower():
        text = f"The api-version '{version}' is invalid. The supported versions are '{supported}'."
        raise AzureError("InvalidApiVersionParameter", text)
    text = (
        f"No registered resource provider found for location '' and API version '{version}' for type "
        f"'{type_}'. The supported api-versions are '{supported}'. The supported locations are "
        f"'{', '.join(known_locations(subscription))}'."
    )
    raise AzureError("NoRegisteredProviderFound", text)
