"""``gpucloud policy``: the rules for what is launched, of all who share the journal."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.errors import UsageError
from gpucloud.resources import rfc3339
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.cli.documents.team import PolicyApplyDocument, PolicyDocument, PolicyShowDocument
    from gpucloud.journal.policy import Policy
    from gpucloud_pricing.documents import MoneyDocument

_LONGEST = 1 << 20


def apply(
    app: App,
    file: Annotated[str, typer.Argument(help="YAML: the rules; - for stdin.", metavar="FILE")],
) -> None:
    """Put the rules of FILE in force, instead of those before. In a team's journal, admins only.

    A rule that is not in the file is lifted. Boxes that are there already stay, and are always ended.

    Examples:
        gpucloud policy apply policy.yaml
        gpucloud policy apply policy.yaml --json
    """
    source, text = _text_of(file)
    applied = app.client.policy.apply(text, source)
    if app.output.json:
        answer: PolicyApplyDocument = {"policy": _document(applied)}
        app.output.document("policy-apply", answer)
    else:
        _show(app, applied)


def show(app: App) -> None:
    """Show the policy in force, as YAML.

    Examples:
        gpucloud policy show
        gpucloud policy show --json
    """
    policy = app.client.policy.show()
    if app.output.json:
        answer: PolicyShowDocument = {"policy": None if policy is None else _document(policy)}
        app.output.document("policy-show", answer)
    else:
        _show(app, policy)


def _text_of(file: str) -> tuple[str, bytes]:
    """The name of a file, and its content.

    Raises:
        UsageError: it cannot be read.
    """
    if file == "-":
        return "stdin", sys.stdin.buffer.read(_LONGEST)
    try:
        return file, Path(file).expanduser().read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {file!r}: {error.strerror or error}") from error


def _show(app: App, policy: Policy | None) -> None:
    from gpucloud.policy.rules import words

    rules = [] if policy is None else [words(policy.rules, rule) for rule in policy.rules.given]
    for line in rules:
        app.output.line(line)
    if not rules:
        app.output.say("There are no rules: everything is allowed. Set some: gpucloud policy apply FILE")
    elif policy is not None:
        app.output.say(f"Applied by {policy.by} at {rfc3339(policy.at)}.")


def _document(policy: Policy) -> PolicyDocument:
    rules = policy.rules
    return {
        "clouds": list(rules.clouds),
        "regions": list(rules.regions),
        "instance_types": list(rules.instance_types),
        "gpus": list(rules.gpus),
        "purchase": list(rules.purchase),
        "max_price": None if rules.max_price is None else _usd(rules.max_price),
        "boxes": [{"owner": owner, "most": most} for owner, most in rules.boxes.items()],
        "per_hour": [{"owner": owner, "most": _usd(most)} for owner, most in rules.per_hour.items()],
        "tags": list(rules.tags),
        "ttl_s": rules.ttl_s,
        "checkpoint_to": list(rules.checkpoint_to),
        "by": policy.by,
        "at": rfc3339(policy.at),
    }


def _usd(amount: Decimal) -> MoneyDocument:
    return Money(amount=amount, currency="USD").document()


COMMANDS = {"apply": apply, "show": show}
