"""Whether gpucloud will work here: each cloud's credentials, permissions, clock, quotas; and this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from gpucloud.clouds.cloud import Cloud
from gpucloud.clouds.provider import Checkup
from gpucloud.errors import CloudError, ErrorClass
from gpucloud.planning.clock_check import SET_CLOCK, SKEW_FAILS
from gpucloud.planning.plan import Candidate
from gpucloud.planning.quota import shortfall
from gpucloud.resources import Identity, Permission, Quota
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import Call, TimedOutError

CHECK_TIMEOUT_S = 60.0
SKEW_WARNS = timedelta(seconds=30)
PROGRAMS = ("ssh", "ssh-keygen", "rsync")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at. ``ok`` is ``None`` where it could not be told, or only warns."""

    name: str
    ok: bool | None
    said: str
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFindings:
    """What was found of one cloud. ``usable`` is whether a launch there can be tried at all."""

    cloud: str
    usable: bool
    identity: Identity | None
    findings: tuple[Finding, ...]

    @property
    def fits(self) -> bool | None:
        """Whether some asked-for type fits under the quotas; ``None`` where none was read."""
        quotas = [each for each in self.findings if each.name.startswith("quota ")]
        return any(each.ok is not False for each in quotas) if quotas else None


def check_clouds(
    context: Context, names: Iterable[str], wanted: Sequence[Candidate], nodes: int
) -> list[CloudFindings]:
    """Looks at clouds, all at once. Changes and costs nothing.

    Args:
        world: the outside.
        names: the clouds.
        wanted: the offers that would be launched, the best first.
        nodes: how many machines of one.
    """
    calls = {
        name: context.tasks.start(
            partial(_check_cloud, context, name, [each for each in wanted if each.cloud == name], nodes)
        )
        for name in names
    }
    return [_waited(context, name, call) for name, call in calls.items()]


def _waited(context: Context, name: str, call: Call) -> CloudFindings:
    try:
        found: CloudFindings = context.tasks.wait(call, CHECK_TIMEOUT_S)
    except TimedOutError as error:
        return _unusable(name, Finding(name="answer", ok=False, said=str(error), fix="look at the network"))
    return found


def _check_cloud(context: Context, name: str, wanted: Sequence[Candidate], nodes: int) -> CloudFindings:
    try:
        cloud = context.clouds[name]
    except ImportError as error:
        fix = f"pip install 'gpucloud[{name}]'"
        return _unusable(name, Finding(name="SDK", ok=False, said=str(error), fix=fix))
    try:
        account = cloud.account()
        identity = cloud.identity()
    except CloudError as error:
        return _unusable(name, Finding(name="credentials", ok=False, said=error.message, fix=_hint(cloud)))
    who = f"{identity.who} ({identity.source})" if identity else f"account {account}"
    findings = [Finding(name="credentials", ok=True, said=who)]
    region = wanted[0].region if wanted else None
    findings += _told("clock", cloud, lambda: _clock(cloud.server_time(), context.clock()))
    if region is not None:
        findings += _told("permissions", cloud, lambda: _permissions(region, cloud.permissions(region)))
        findings += _told("quotas", cloud, lambda: _quotas(cloud, wanted, nodes))
    usable = not any(each.ok is False and not each.name.startswith("quota ") for each in findings)
    return CloudFindings(cloud=name, usable=usable, identity=identity, findings=tuple(findings))


def _told(name: str, cloud: Cloud, look: Callable[[], list[Finding]]) -> list[Finding]:
    """What a look finds; a refusal is a finding too."""
    try:
        return look()
    except CloudError as error:
        denied = error.error_class is ErrorClass.AUTH
        return [
            Finding(
                name=name,
                ok=False if denied else None,
                said=error.message,
                fix=_hint(cloud) if denied else "",
            )
        ]


def _hint(cloud: Cloud) -> str:
    return cloud.provider.credentials_hint if isinstance(cloud.provider, Checkup) else ""


def _unusable(name: str, finding: Finding) -> CloudFindings:
    return CloudFindings(cloud=name, usable=False, identity=None, findings=(finding,))


# --- what is looked at


def _clock(theirs: datetime | None, ours: datetime) -> list[Finding]:
    if theirs is None:
        return []
    skew = abs(ours - theirs)
    said = f"{skew.total_seconds():.0f} s from the cloud's"
    ok = False if skew > SKEW_FAILS else None if skew > SKEW_WARNS else True
    fix = "" if ok else f"set the clock: {SET_CLOCK}"
    return [Finding(name="clock", ok=ok, said=said, fix=fix)]


def _permissions(region: str, permissions: Sequence[Permission]) -> list[Finding]:
    """The denied ones one by one; the others in one line."""
    if not permissions:
        return []
    denied = [each for each in permissions if each.allowed is False]
    untold = sum(each.allowed is None for each in permissions)
    allowed = len(permissions) - len(denied) - untold
    said = f"{allowed} of {len(permissions)} tried in {region} are allowed"
    if untold:
        said += f", {untold} could not be told"
    findings = [Finding(name="permissions", ok=not denied, said=said, fix=denied[0].fix if denied else "")]
    return findings + [
        Finding(name=f"permission {each.action}", ok=False, said=each.said, fix=each.fix) for each in denied
    ]


def _quotas(cloud: Cloud, wanted: Sequence[Candidate], nodes: int) -> list[Finding]:
    """The quotas of the best offer of each way of paying, and whether it fits."""
    findings: list[Finding] = []
    best = {each.purchase: each for each in reversed(wanted)}
    for candidate in best.values():
        quotas = cloud.headroom(candidate.region, [candidate.instance_type], candidate.purchase)
        for quota in quotas:
            short = shortfall(candidate, nodes, [quota])
            what = f"{candidate.instance_type} {candidate.purchase.replace('_', '-')} in {quota.region}"
            findings.append(
                Finding(
                    name=f"quota {quota.name}",
                    ok=short is None,
                    said=f"{what}: {_quota_text(quota)}",
                    fix=quota.fix if short else "",
                )
            )
    return findings


def _quota_text(quota: Quota) -> str:
    used = "?" if quota.used is None else f"{quota.used.normalize():f}"
    return f"{used} of {quota.limit.normalize():f} {quota.unit} used"


def check_machine(state: Path, which: Callable[[str], str | None] = shutil.which) -> list[Finding]:
    """Looks at this machine: the programs that gpucloud runs, and the folder of its journal.

    Args:
        state: the folder of the journal, or where it will be made.
        which: finds a program on the PATH.
    """
    findings: list[Finding] = []
    for program in PROGRAMS:
        path = which(program)
        package = "rsync" if program == "rsync" else "openssh-client"
        fix = "" if path else f"install it: apt-get install {package}, or your system's like"
        findings.append(Finding(name=program, ok=path is not None, said=path or "not on the PATH", fix=fix))
    folder = next(each for each in (state, *state.parents) if each.exists())
    writable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    fix = "" if writable else "set GPUCLOUD_HOME to a folder that you can write to"
    return [*findings, Finding(name="journal", ok=writable, said=str(state), fix=fix)]


def document(found: Sequence[CloudFindings], machine: Sequence[Finding]) -> dict[str, Any]:
    """The fields of ``gpucloud.check/v1``."""
    return {
        "clouds": [
            {
                "cloud": each.cloud,
                "status": "ok" if each.usable else "unusable",
                "identity": _identity(each.identity),
                "checks": [_plain(finding) for finding in each.findings],
            }
            for each in found
        ],
        "machine": [_plain(finding) for finding in machine],
    }


def _identity(identity: Identity | None) -> Mapping[str, str] | None:
    if identity is None:
        return None
    return {"account": identity.account, "who": identity.who, "source": identity.source}


def _plain(finding: Finding) -> dict[str, Any]:
    return {"name": finding.name, "ok": finding.ok, "said": finding.said, "fix": finding.fix or None}
