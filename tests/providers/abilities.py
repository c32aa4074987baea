"""All abilities that a provider may have, and what has one."""

from collections.abc import Sequence
from typing import TypeVar

from gpucloud.clouds import abilities
from gpucloud.clouds.object_store import ObjectStore
from gpucloud.clouds.provider import Provider

A = TypeVar("A")

ABILITIES: Sequence[type[object]] = (
    abilities.AccessPolicies,
    abilities.AddressAssociation,
    abilities.Audit,
    abilities.Boot,
    abilities.Checkup,
    abilities.Commitments,
    abilities.ConsoleLog,
    abilities.DatabaseLogins,
    abilities.Deadlines,
    abilities.Firewall,
    abilities.Images,
    abilities.Power,
    abilities.Preflight,
    abilities.Prices,
    abilities.Quotas,
    abilities.Reservations,
    abilities.Snapshots,
    abilities.Traits,
    abilities.Volumes,
    ObjectStore,
)


def able(provider: Provider, kind: type[A]) -> A:
    """What has an ability, of a provider that must have it."""
    found = provider.ability(kind)
    assert found is not None, kind
    return found
