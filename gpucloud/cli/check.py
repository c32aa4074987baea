"""``gpucloud check``: what works, and the exact fix for what does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.cli.options import takes_spec
from gpucloud.cli.output import utc_now
from gpucloud.errors import UsageError
from gpucloud.spec.model import Spec

if TYPE_CHECKING:
    from gpucloud.checkup import CloudFindings, Finding
    from gpucloud.planning.plan import Candidate
    from gpucloud.runtime.context import Context

_MARKS = {True: "ok", False: "NO", None: "?"}
ANY_GPU = "T4"
"""What quotas are looked at for when nothing was asked for: every cloud has it."""


@takes_spec
def check(
    app: App,
    spec: Spec,
    policy: Annotated[
        str | None, typer.Option("--policy", help="Only print a cloud's least privileges.", metavar="CLOUD")
    ] = None,
) -> int | None:
    """Check credentials, permissions, quotas, ssh and the clock; changes nothing."""
    from gpucloud.checkup import check_clouds, check_machine, document

    if policy is not None:
        return _print_policy(app, policy)
    with app.working(quiet=True) as (client, _), client.operation() as context:
        wanted = _wanted(app, spec)
        names = _asked_for(context, spec)
        found = check_clouds(context, names, wanted, spec.nodes)
    machine = check_machine(app.paths.state)
    if app.output.json:
        app.output.document("check", document(found, machine))
    else:
        _show(app, found, machine)
    return _code(found, machine, spec)


def _asked_for(context: Context, spec: Spec) -> list[str]:
    """The clouds to look at: those that the spec admits."""
    from gpucloud_pricing.places import admits

    names = context.clouds.names()
    return [name for name in names if not spec.clouds or admits(spec.clouds, frozenset({name}))]


def _wanted(app: App, spec: Spec) -> list[Candidate]:
    """The offers that a launch of the spec would consider, on demand and spot, the best first."""
    from dataclasses import replace

    from gpucloud.planning.planner import candidates_of
    from gpucloud_pricing import parse_wishes

    demand = replace(spec.demand(), max_price_usd=None)
    if not spec.wants_gpu:
        demand = replace(demand, gpus=parse_wishes(ANY_GPU))
    if not spec.purchase or list(map(str, spec.purchase)) == ["on_demand"]:
        demand = replace(demand, purchases=("on_demand", "spot"))
    market = app.client.catalog.market_for(demand)
    return candidates_of(market.search(demand, today=utc_now().date()))


def _print_policy(app: App, cloud: str) -> int | None:
    from gpucloud.clouds.cloud import Clouds
    from gpucloud.clouds.profile import Profile
    from gpucloud.clouds.provider import Checkup

    clouds = Clouds.installed(Profile(app.environment))
    if cloud not in clouds.names():
        raise UsageError(f"--policy: there is no cloud {cloud!r}; allowed: {', '.join(clouds.names())}")
    provider = clouds[cloud].provider
    if not isinstance(provider, Checkup):
        raise UsageError(f"--policy: {cloud} has no policy to print")
    app.output.line(provider.policy.rstrip("\n"))
    return None


def _show(app: App, found: Sequence[CloudFindings], machine: Sequence[Finding]) -> None:
    for cloud in found:
        app.output.line(f"{cloud.cloud}: {'works' if cloud.usable else 'cannot be used'}")
        _show_findings(app, cloud.findings)
    app.output.line("this machine")
    _show_findings(app, machine)


def _show_findings(app: App, findings: Sequence[Finding]) -> None:
    for finding in findings:
        app.output.line(f"  {_MARKS[finding.ok]:<3} {finding.name}: {finding.said}")
        if finding.fix:
            app.output.line(f"      fix: {finding.fix}")


def _code(found: Sequence[CloudFindings], machine: Sequence[Finding], spec: Spec) -> int:
    """0 when a launch can be tried; 4 for the clouds' side, 6 for quotas, 2 for this machine."""
    usable = [cloud for cloud in found if cloud.usable]
    if not usable or (spec.clouds and len(usable) < len(found)):
        return 4
    if spec.wants_gpu and all(cloud.fits is False for cloud in usable):
        return 6
    return 2 if any(finding.ok is False for finding in machine) else 0
