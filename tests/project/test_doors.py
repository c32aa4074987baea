"""Every call that makes a cloud's bill larger is made in one room: ``gpucloud.purchase``."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpucloud.clouds import abilities
from gpucloud.clouds.provider import Provider

ROOT = Path(__file__).parents[2]
BILLED: Mapping[str, frozenset[str]] = {
    "Provider": frozenset({"create"}),
    "Volumes": frozenset({"create_volume"}),
    "Snapshots": frozenset({"create_snapshot"}),
    "Images": frozenset({"create_image"}),
    "Power": frozenset({"start"}),
}
"""The verbs of each protocol after which a cloud bills more."""
FREE: Mapping[str, frozenset[str]] = {
    "Provider": frozenset({"ability", "account", "classify", "delete", "find", "get", "prepare"}),
    "AccessPolicies": frozenset({"guardrail", "role_policy"}),
    "AddressAssociation": frozenset({"give_address"}),
    "Audit": frozenset({"watch"}),
    "Boot": frozenset({"boot_image"}),
    "Checkup": frozenset({"identity", "permissions", "server_time"}),
    "Commitments": frozenset({"commitment_inquiries"}),
    "ConsoleLog": frozenset({"console"}),
    "DatabaseLogins": frozenset({"database_token"}),
    "Deadlines": frozenset({"ensure_end", "extend"}),
    "Firewall": frozenset({"admit"}),
    "Images": frozenset({"prepare_image"}),
    "NetworkCheck": frozenset({"network"}),
    "Power": frozenset({"stop", "why_not_stop"}),
    "Preflight": frozenset({"check", "read_ahead", "remarks"}),
    "Prices": frozenset({"inquiries", "quotes", "tariff_inquiries"}),
    "Quotas": frozenset({"headroom"}),
    "Reservations": frozenset({"held"}),
    "Snapshots": frozenset({"prepare_snapshot"}),
    "Volumes": frozenset({"attach", "prepare_volume"}),
}
"""The other verbs. An address is made, and recorded, by ``prepare``, as a part of the machine's order."""
ROOM = ROOT / "gpucloud" / "purchase"
SHELL = ROOT / "gpucloud" / "clouds" / "cloud.py"
"""Wraps a provider's verbs; ``Cloud.bill`` makes a billable one, which it is given."""


def protocols() -> dict[str, set[str]]:
    """The verbs of a provider, by protocol."""
    kinds = [Provider, *vars(abilities).values()]
    return {
        kind.__name__: {name for name in vars(kind) if _is_verb(kind, name)}
        for kind in kinds
        if inspect.isclass(kind) and getattr(kind, "_is_protocol", False) and kind.__name__ != "Record"
    }


def _is_verb(kind: type, name: str) -> bool:
    return not name.startswith("_") and inspect.isfunction(vars(kind)[name])


def billed_calls(text: str) -> Iterator[str]:
    """The billable verbs that a module names: ``KIND.verb``, whatever it calls the object."""
    nodes = list(ast.walk(ast.parse(text)))
    called = [node for node in nodes if isinstance(node, ast.Attribute)]
    for node in called:
        if node.attr == "create" and _is_cloud(node.value):
            yield "Provider.create"
    for kind, names in itertools.chain.from_iterable(map(_given, nodes)):
        for node in called if kind in BILLED else ():
            if node.attr in BILLED[kind] and isinstance(node.value, ast.Name) and node.value.id in names:
                yield f"{kind}.{node.attr}"


def _is_cloud(node: ast.expr) -> bool:
    return ast.unparse(node).rpartition(".")[2] in {"cloud", "provider"}


def _given(node: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """The names that stand for an ability: of ``ask(KIND, ..., lambda NAME: ...)``, ``NAME = ...(KIND)``."""
    match node:
        case ast.Call(args=[ast.Name(id=kind), *rest]):
            yield kind, {arg.arg for each in rest if isinstance(each, ast.Lambda) for arg in each.args.args}
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Name(id=kind)])):
            yield kind, {name}
        case _:
            return


def test_every_verb_of_a_provider_is_said_to_bill_or_not() -> None:
    """A new verb is put into one of the two tables here."""
    said = {kind: set(BILLED.get(kind, ())) | set(FREE.get(kind, ())) for kind in {*BILLED, *FREE}}
    assert {kind: verbs for kind, verbs in protocols().items() if verbs} == said


def test_no_other_room_makes_a_billable_call() -> None:
    found = {
        (str(file.relative_to(ROOT)), call)
        for file in (ROOT / "gpucloud").rglob("*.py")
        if file != SHELL and ROOM not in file.parents
        for call in billed_calls(file.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_each_billable_call_is_made_in_one_place() -> None:
    made = [call for file in ROOM.glob("*.py") for call in billed_calls(file.read_text(encoding="utf-8"))]
    assert sorted(made) == sorted(f"{kind}.{verb}" for kind, verbs in BILLED.items() for verb in verbs)


def test_a_billable_call_is_noticed_under_any_name() -> None:
    texts = {
        "def f(c, m): c.ask(Power, 'w', lambda p: p.start(m))": ["Power.start"],
        "p = cloud.ability(Power)\np.start(m)": ["Power.start"],
        "partial(self.provider.create, request)": ["Provider.create"],
        "cloud.create(request, before=b)": ["Provider.create"],
        "c.bill_by(Volumes, 'w', lambda v: v.create_volume(r), before)": ["Volumes.create_volume"],
        "c.ask(Power, 'w', lambda p: p.stop(m))": [],
        "context.tasks.start(call)": [],
    }
    for text, calls in texts.items():
        assert list(billed_calls(text)) == calls, text
