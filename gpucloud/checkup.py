"""Checks whether gpucloud can work here: credentials, permissions, clock and quotas, and this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Literal, TypedDict

from gpucloud.clouds.abilities import AccessPolicies, Checkup, NetworkCheck
from gpucloud.clouds.cloud import Cloud, Clouds
from gpucloud.clouds.provider import Provider
from gpucloud.errors import CloudError, ErrorClass, UsageError
from gpucloud.journal.policy import Rules
from gpucloud.market.catalog import check_places
from gpucloud.planning.access import SKEW_FAILS, server_time
from gpucloud.planning.plan import Candidate
from gpucloud.planning.planner import candidates_of
from gpucloud.planning.quota import headroom, shortfall
from gpucloud.policy.guardrail import bounds_of, not_held
from gpucloud.resources import CloudPolicy, CloudRole, Identity, Permission, Quota
from gpucloud.runtime.context import SET_CLOCK
from gpucloud.runtime.tasks import Call, Tasks, TimedOutError
from gpucloud.spec.model import Spec
from gpucloud_pricing import Market, parse_requirements
from gpucloud_pricing.places import admits
from gpucloud_pricing.purchases import LAUNCHABLE, Purchase

CHECK_TIMEOUT_S = 60.0
SKEW_WARNS = timedelta(seconds=30)
ANY_GPU = "T4"
"""What quotas are looked at for where the spec names no GPU: every cloud has it."""
PROGRAMS = ("ssh", "ssh-keygen", "rsync")


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a check works with: a call's context without its journal, which may be what is wrong.

    ``mend_clock`` says how to mend a clock that differs from a cloud's.
    """

    clouds: Clouds
    tasks: Tasks
    clock: Callable[[], datetime]
    mend_clock: str = SET_CLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check. ``ok`` is ``None`` if it is unknown, or only a warning."""

    name: str
    ok: bool | None
    said: str
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFindings:
    """The results for one cloud. ``usable``: a launch there can be tried."""

    cloud: str
    usable: bool
    identity: Identity | None
    findings: tuple[Finding, ...]

    @property
    def fits(self) -> bool | None:
        """Whether a requested type fits under the quotas; ``None`` if no quota was read."""
        quotas = [each for each in self.findings if each.name.startswith("quota ")]
        return any(each.ok is not False for each in quotas) if quotas else None


class FindingDocument(TypedDict):
    """The result of one check.

    Attributes:
        ok: ``null`` if it is unknown, or only a warning.
        said: what was found.
        fix: what to do; ``null`` if nothing.
    """

    name: str
    ok: bool | None
    said: str
    fix: str | None


class IdentityDocument(TypedDict):
    """Whose credentials are in use.

    Attributes:
        who: the cloud's own name of the user, role or application.
        source: where the credentials were found.
    """

    account: str
    who: str
    source: str


class CloudCheckDocument(TypedDict):
    """The results for one cloud.

    Attributes:
        status: ``ok`` if a launch can be tried, otherwise ``unusable``.
        identity: ``null`` if unknown.
    """

    cloud: str
    status: Literal["ok", "unusable"]
    identity: IdentityDocument | None
    checks: list[FindingDocument]


class CheckDocument(TypedDict):
    """What was found of the clouds and of this machine."""

    clouds: list[CloudCheckDocument]
    machine: list[FindingDocument]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found of the clouds and of this machine. ``exit_code`` is that of ``gpucloud check``."""

    clouds: Sequence[CloudFindings]
    machine: Sequence[Finding]
    exit_code: int

    def document(self) -> CheckDocument:
        """The fields of ``gpucloud.check/v1``."""
        return {
            "clouds": [
                {
                    "cloud": each.cloud,
                    "status": "ok" if each.usable else "unusable",
                    "identity": _identity(each.identity),
                    "checks": [_plain(finding) for finding in each.findings],
                }
                for each in self.clouds
            ],
            "machine": [_plain(finding) for finding in self.machine],
        }


def check(
    means: Means, market: Market, spec: Spec, state: Path, journal: UsageError | None = None
) -> Checked:
    """Looks at the clouds that a spec allows, and at this machine. Changes and costs nothing.

    Args:
        means: the clouds, and where to wait.
        market: the offers whose quotas are read.
        spec: what would be launched; of any GPU, where it names none.
        state: the folder of the journal, or where it will be made.
        journal: why the journal cannot be used; ``None`` if it can.

    Raises:
        UsageError: a place that the spec names does not exist.
    """
    names = [name for name in means.clouds.names() if admits(spec.clouds, frozenset({name}))]
    wanted = _considered(market, spec, means.clock().date())
    found, machine = check_clouds(means, names, wanted, spec.nodes), check_machine(state, journal)
    return Checked(clouds=found, machine=machine, exit_code=_exit_code(found, machine, spec))


def policy(clouds: Clouds, cloud: str, role: CloudRole, owner: str) -> CloudPolicy:
    """The least privileges of a role in a cloud, in the cloud's own format.

    Args:
        clouds: those that are installed.
        cloud: its name.
        role: an admin has what all of gpucloud needs.
        owner: the owner id of an operator.

    Raises:
        UsageError: there is no such cloud, or it tells none.
    """
    provider = _named(clouds, cloud)
    if (policies := provider.ability(AccessPolicies)) is not None:
        return policies.role_policy(role, owner)
    checkup = provider.ability(Checkup)
    if role is CloudRole.ADMIN and checkup is not None:
        return CloudPolicy(document=checkup.policy)
    raise UsageError(f"--policy: {cloud} has no such policy to print")


def guardrail(clouds: Clouds, cloud: str, rules: Rules, market: Market) -> CloudPolicy:
    """A policy of a cloud that holds everybody to the rules, as far as the cloud can.

    Raises:
        UsageError: there is no such cloud, it tells none, or there is no rule that it could hold.
    """
    policies = _named(clouds, cloud).ability(AccessPolicies)
    if policies is None:
        raise UsageError(f"--policy: {cloud} has no such policy to print")
    bounds = bounds_of(rules, cloud, market)
    limits = (bounds.regions, bounds.instance_types, bounds.purchases, bounds.tags)
    if bounds.allowed and not any(limits):
        raise UsageError(
            f"--guardrail: the policy has no rule that {cloud} could hold",
            hint="see the rules: gpucloud policy show; set some: gpucloud policy apply FILE",
        )
    found = policies.guardrail(bounds)
    return replace(found, notes=(*found.notes, *not_held(rules)))


def _named(clouds: Clouds, cloud: str) -> Provider:
    if cloud not in clouds.names():
        raise UsageError(f"--policy: there is no cloud {cloud!r}; allowed: {', '.join(clouds.names())}")
    return clouds[cloud].provider


def _considered(market: Market, spec: Spec, today: date) -> list[Candidate]:
    """The offers that a launch of the spec would consider, on demand and spot, the best first."""
    demand = replace(spec.demand(), max_price_usd=None)
    if not spec.wants_gpu:
        demand = replace(demand, gpus=parse_requirements(ANY_GPU))
    if not spec.purchase or spec.purchase == (Purchase.ON_DEMAND,):
        demand = replace(demand, purchases=LAUNCHABLE)
    check_places(market, demand)
    return candidates_of(market.search(demand, today=today))


def _exit_code(clouds: Sequence[CloudFindings], machine: Sequence[Finding], spec: Spec) -> int:
    """0 when a launch can be tried; 4 for the clouds' side, 6 for quotas, 2 for this machine."""
    usable = [cloud for cloud in clouds if cloud.usable]
    if not usable or (spec.clouds and len(usable) < len(clouds)):
        return 4
    if spec.wants_gpu and all(cloud.fits is False for cloud in usable):
        return 6
    return 2 if any(finding.ok is False for finding in machine) else 0


def check_clouds(
    means: Means, names: Iterable[str], wanted: Sequence[Candidate], nodes: int
) -> list[CloudFindings]:
    """Checks clouds, all at the same time. Changes nothing, costs nothing.

    Args:
        means: the clouds, and where to wait.
        names: the clouds.
        wanted: the candidates of a launch, the best first.
        nodes: the number of nodes.
    """
    calls = {
        name: means.tasks.start(
            partial(_check_cloud, means, name, [each for each in wanted if each.cloud == name], nodes)
        )
        for name in names
    }
    return [_waited(means, name, call) for name, call in calls.items()]


def _waited(means: Means, name: str, call: Call) -> CloudFindings:
    try:
        found: CloudFindings = means.tasks.wait(call, CHECK_TIMEOUT_S)
    except TimedOutError as error:
        return _unusable(name, Finding(name="answer", ok=False, said=str(error), fix="check the network"))
    return found


def _check_cloud(means: Means, name: str, wanted: Sequence[Candidate], nodes: int) -> CloudFindings:
    try:
        cloud = means.clouds[name]
    except ImportError as error:
        fix = f"pip install 'gpucloud[{name}]'"
        return _unusable(name, Finding(name="SDK", ok=False, said=str(error), fix=fix))
    try:
        account = cloud.account()
        identity = cloud.ask(Checkup, "identify the caller", lambda checkup: checkup.identity(), lacking=None)
    except CloudError as error:
        said = error.message.removeprefix(f"{name}: ")
        return _unusable(name, Finding(name="credentials", ok=False, said=said, fix=error.hint or ""))
    who = f"{identity.who} ({identity.source})" if identity else f"account {account}"
    findings = [Finding(name="credentials", ok=True, said=who)]
    region = wanted[0].region if wanted else None
    findings += _told("clock", lambda: _clock(server_time(cloud), means))
    if region is not None:
        findings += _told("permissions", lambda: _permissions(region, _allowed(cloud, region)))
        findings += _told("network", lambda: _network(cloud, region))
        findings += _told("quotas", lambda: _quotas(cloud, wanted, nodes))
    usable = not any(each.ok is False and not each.name.startswith("quota ") for each in findings)
    return CloudFindings(cloud=name, usable=usable, identity=identity, findings=tuple(findings))


def _told(name: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    """The findings of one check; a refused call is a finding too."""
    try:
        return look()
    except CloudError as error:
        denied = error.error_class in {ErrorClass.AUTH, ErrorClass.BILLING}
        return [
            Finding(
                name=name,
                ok=False if denied else None,
                said=error.message,
                fix=error.hint or "" if denied else "",
            )
        ]


def _allowed(cloud: Cloud, region: str) -> Sequence[Permission]:
    what = "check the permissions"
    return cloud.ask(Checkup, what, lambda checkup: checkup.permissions(region), lacking=())


def _unusable(name: str, finding: Finding) -> CloudFindings:
    return CloudFindings(cloud=name, usable=False, identity=None, findings=(finding,))


# --- what is looked at


def _clock(theirs: datetime | None, means: Means) -> list[Finding]:
    if theirs is None:
        return []
    skew = abs(means.clock() - theirs)
    said = f"{skew.total_seconds():.0f} s from the cloud's"
    ok = False if skew > SKEW_FAILS else None if skew > SKEW_WARNS else True
    fix = "" if ok else means.mend_clock
    return [Finding(name="clock", ok=ok, said=said, fix=fix)]


def _permissions(region: str, permissions: Sequence[Permission]) -> list[Finding]:
    """One finding per denied permission, and one for all others."""
    if not permissions:
        return []
    denied = [each for each in permissions if each.allowed is False]
    untold = sum(each.allowed is None for each in permissions)
    allowed = len(permissions) - len(denied) - untold
    said = f"{allowed} of {len(permissions)} permissions tried in {region} are allowed"
    if untold:
        said += f", {untold} unknown"
    findings = [Finding(name="permissions", ok=not denied, said=said, fix=denied[0].fix if denied else "")]
    return findings + [
        Finding(name=f"permission {each.action}", ok=False, said=each.said, fix=each.fix) for each in denied
    ]


def _network(cloud: Cloud, region: str) -> list[Finding]:
    """Whether a box would have a network, where a launch makes none."""
    try:
        said = cloud.ask(NetworkCheck, "look at the network", lambda check: check.network(region), lacking="")
    except CloudError as error:
        if error.error_class is not ErrorClass.UNSUPPORTED:
            raise
        return [Finding(name="network", ok=False, said=error.message, fix=error.hint or "")]
    return [Finding(name="network", ok=True, said=said)] if said else []


def _quotas(cloud: Cloud, wanted: Sequence[Candidate], nodes: int) -> list[Finding]:
    """The quotas of the best offer of each purchase option, and whether it fits."""
    findings: list[Finding] = []
    best = {each.purchase: each for each in reversed(wanted)}
    for candidate in best.values():
        quotas = headroom(cloud, candidate.region, [candidate.instance_type], candidate.purchase)
        for quota in quotas:
            short = shortfall(candidate, nodes, [quota])
            what = f"{candidate.instance_type} {candidate.purchase.replace('_', '-')} in {quota.region}"
            findings.append(
                Finding(
                    name=f"quota {quota.name}",
                    ok=short is None,
                    said=f"{what}: {_quota_text(quota)}",
                    fix=short.fix if short else "",
                )
            )
    return findings


def _quota_text(quota: Quota) -> str:
    used = "?" if quota.used is None else f"{quota.used.normalize():f}"
    return f"{used} of {quota.limit.normalize():f} {quota.unit} used"


def check_machine(state: Path, journal: UsageError | None = None) -> list[Finding]:
    """Checks this machine: the programs that gpucloud runs, and the folder of its journal.

    Args:
        state: the folder of the journal, or where it will be made.
        journal: why the journal cannot be used; ``None`` if it can.
    """
    findings: list[Finding] = []
    for program in PROGRAMS:
        path = shutil.which(program)
        package = "rsync" if program == "rsync" else "openssh-client"
        fix = "" if path else f"install it: apt-get install {package}, or the same for your system"
        findings.append(Finding(name=program, ok=path is not None, said=path or "not on the PATH", fix=fix))
    return [*findings, _journal(state, journal)]


def _journal(state: Path, problem: UsageError | None) -> Finding:
    if problem is not None:
        return Finding(name="journal", ok=False, said=problem.message, fix=problem.hint or "")
    folder = next(each for each in (state, *state.parents) if each.exists())
    writable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    fix = "" if writable else "set GPUCLOUD_HOME to a folder that you can write to"
    return Finding(name="journal", ok=writable, said=str(state), fix=fix)


def _identity(identity: Identity | None) -> IdentityDocument | None:
    if identity is None:
        return None
    return {"account": identity.account, "who": identity.who, "source": identity.source}


def _plain(finding: Finding) -> FindingDocument:
    return {"name": finding.name, "ok": finding.ok, "said": finding.said, "fix": finding.fix or None}
