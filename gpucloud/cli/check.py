"""``gpucloud check``: checks the conditions for a launch, and prints the fix for each failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.cli.options import SpecFlags
from gpucloud.errors import UsageError
from gpucloud.resources import CloudRole

if TYPE_CHECKING:
    from gpucloud.checkup import Checked, Finding

_MARKS = {True: "ok", False: "NO", None: "?"}


def check(
    app: App,
    spec: SpecFlags,
    policy: Annotated[
        str | None,
        typer.Option("--policy", help="Only print the least-privilege policy of a cloud.", metavar="CLOUD"),
    ] = None,
    role: Annotated[
        CloudRole | None,
        typer.Option("--role", help="With --policy: that of a role; an operator has your owner ID."),
    ] = None,
    guardrail: Annotated[
        bool,
        typer.Option("--guardrail", help="With --policy: what denies everybody what `policy show` forbids."),
    ] = False,
) -> int | None:
    """Check credentials, permissions, quotas, ssh and the clock; changes nothing.

    Examples:
        gpucloud check
        gpucloud check --policy aws --role operator
    """
    if policy is None and (role or guardrail):
        raise UsageError("--role and --guardrail need --policy CLOUD")
    if policy is not None:
        _print_policy(app, policy, role, guardrail=guardrail)
        return None
    with app.working(quiet=True) as (client, _):
        checked = client.accounts.check(spec)
    if app.output.json:
        app.output.document("check", checked.document())
    else:
        _show(app, checked)
    return checked.exit_code


def _print_policy(app: App, cloud: str, role: CloudRole | None, *, guardrail: bool) -> None:
    """The cloud's own document on stdout, and what it cannot say on stderr."""
    if role and guardrail:
        raise UsageError("--role and --guardrail contradict each other")
    found = (
        app.client.accounts.guardrail(cloud)
        if guardrail
        else app.client.accounts.policy(cloud, role or "admin")
    )
    app.output.line(found.document.rstrip("\n"))
    for note in found.notes:
        app.output.say(note)


def _show(app: App, checked: Checked) -> None:
    for cloud in checked.clouds:
        app.output.sentence(f"{cloud.cloud}: {'works' if cloud.usable else 'cannot be used'}")
        _show_findings(app, cloud.findings)
    app.output.sentence("this machine")
    _show_findings(app, checked.machine)


def _show_findings(app: App, findings: Sequence[Finding]) -> None:
    for finding in findings:
        app.output.sentence(f"  {_MARKS[finding.ok]:<3} {finding.name}: {finding.said}", indent=4)
        if finding.fix:
            app.output.sentence(f"      fix: {finding.fix}")
