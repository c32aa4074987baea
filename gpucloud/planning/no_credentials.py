"""The error of a first launch: no cloud has credentials here, and how to get them for each."""

from __future__ import annotations

from collections.abc import Sequence

from gpucloud.clouds.abilities import Checkup
from gpucloud.clouds.cloud import Cloud
from gpucloud.errors import CloudError, ErrorClass

NEXT = "sign in, then run `gpucloud check`; without an account, add --sandbox"


def no_credentials(clouds: Sequence[Cloud]) -> CloudError:
    """The error for clouds that all lack credentials, with the shortest way to get them for each.

    Args:
        clouds: the clouds that were asked, at least one.
    """
    names = [cloud.name for cloud in clouds]
    listed = " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    ways = [f"{cloud.name}: {way}" for cloud in clouds if (way := _shortest_way(cloud))]
    error = CloudError(
        f"no credentials for {listed}: nothing was bought",
        error_class=ErrorClass.AUTH,
        cloud=names[0],
        hint="\n".join((NEXT, *ways)),
        sent=False,
    )
    if len(names) > 1:
        error.cloud = None  # not one cloud's failure
    return error


def _shortest_way(cloud: Cloud) -> str:
    """The first way that the provider names; ``gpucloud check`` shows all."""
    checkup = cloud.ability(Checkup)
    return "" if checkup is None else checkup.credentials_hint.partition(";")[0]
