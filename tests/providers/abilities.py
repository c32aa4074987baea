"""All abilities that a provider may have."""

from collections.abc import Sequence

from gpucloud.clouds import abilities
from gpucloud.clouds.object_store import ObjectStore

ABILITIES: Sequence[type[object]] = (
    abilities.AccessPolicies,
    abilities.Addresses,
    abilities.Audit,
    abilities.Boot,
    abilities.Checkup,
    abilities.Commitments,
    abilities.ConsoleLog,
    abilities.DatabaseLogins,
    abilities.Deadlines,
    abilities.Echo,
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
