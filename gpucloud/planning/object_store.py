"""The clouds by the schemes of their object stores."""

from __future__ import annotations

from gpucloud.clouds.cloud import Cloud
from gpucloud.errors import UsageError
from gpucloud.runtime.context import Context


def store_of(context: Context, scheme: str, field: str) -> Cloud:
    """The cloud with the object store of a scheme, which a field of the spec names.

    Raises:
        UsageError: no installed cloud has it.
    """
    known: dict[str, Cloud] = {}
    for name in context.clouds.names():
        try:
            cloud = context.clouds[name]
        except ImportError:
            continue
        if cloud.store_scheme is not None:
            known[cloud.store_scheme] = cloud
    if scheme not in known:
        allowed = ", ".join(f"{each}://" for each in sorted(known)) or "none with the installed clouds"
        raise UsageError(f"{field}: {scheme}:// is not supported; allowed: {allowed}")
    return known[scheme]
