"""A small interpreter of Jenkins' declarative pipelines: environment, stages of ``sh`` steps, ``post``.

By https://www.jenkins.io/doc/book/pipeline/syntax/: it refuses everything that the recipe does not need.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tests.ci.machine import Machine

TOKEN = re.compile(
    r"""\s*(?:'{3}(?P<lines>.*?)'{3}|'(?P<single>[^'\n]*)'|"(?P<double>[^"\n]*)"|(?P<word>\w+)|(?P<mark>[{}(),:=]))""",
    re.DOTALL,
)
SHELL = ("sh", "-xe")
"""How ``sh`` runs a script without a first line of its own (durable-task-plugin)."""

Token = tuple[str, str]
"""Which group of ``TOKEN``, and its text."""


@dataclass(frozen=True, slots=True)
class Statement:
    """``name argument``, ``name(arguments)`` or ``name = argument``, and what is between its braces."""

    name: str
    arguments: tuple[Token, ...]
    body: tuple[Statement, ...]


def parse(text: str) -> tuple[Statement, ...]:
    """The statements of a Jenkinsfile.

    Raises:
        AssertionError: it holds what is not known here.
    """
    tokens: list[Token] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        found = TOKEN.match(text, at)
        assert found is not None, f"not known here: {text[at : at + 40]!r}"
        kind = found.lastgroup or ""
        tokens.append((kind, found[kind]))
        at = found.end()
    statements = _statements(tokens)
    assert not tokens, f"not known here: {tokens[:5]}"
    return statements


def play(machine: Machine, text: str, *, without: Collection[str] = ()) -> int:
    """Runs a pipeline but for some of its stages; the exit code of the first script that failed, or 0."""
    [pipeline] = parse(text)
    assert pipeline.name == "pipeline"
    parts = {each.name: each.body for each in pipeline.body}
    assert set(parts) == {"agent", "options", "environment", "stages", "post"}
    known = {"BUILD_TAG": "jenkins-gpu-tests-1", "WORKSPACE_TMP": str(machine.temp)}
    values = known | {each.name: value(each.arguments[0], known) for each in parts["environment"]}
    stages = {value(each.arguments[0], known): each.body for each in parts["stages"]}
    assert set(without) <= set(stages)
    code = 0
    for name, body in stages.items():
        for script in _scripts(body, "steps") if name not in without else ():
            code = code or machine.run(script, SHELL, values)
    for script in _scripts(parts["post"], "always"):
        code = machine.run(script, SHELL, values) or code
    return code


def _statements(tokens: list[Token]) -> tuple[Statement, ...]:
    """Takes statements from the front of the tokens, up to the brace that closes their block."""
    found: list[Statement] = []
    while tokens and tokens[0] != ("mark", "}"):
        kind, name = tokens.pop(0)
        assert kind == "word", f"not known here: {name}"
        arguments: list[Token] = []
        if tokens[:1] == [("mark", "(")]:
            end = tokens.index(("mark", ")"))
            arguments, tokens[: end + 1] = tokens[1:end], []
        elif tokens[0][0] != "mark" or tokens[0] == ("mark", "="):
            arguments = [tokens.pop(0)] if tokens[0][0] != "mark" else [tokens.pop(0), tokens.pop(0)][1:]
        body: tuple[Statement, ...] = ()
        if tokens[:1] == [("mark", "{")]:
            del tokens[0]
            body = _statements(tokens)
            assert tokens, f"{name} is not closed"
            del tokens[0]
        found.append(Statement(name, tuple(arguments), body))
    return tuple(found)


def _scripts(body: tuple[Statement, ...], name: str) -> list[str]:
    """The ``sh`` steps of the one block of steps in a stage or in ``post``."""
    [block] = body
    assert block.name == name
    assert all(each.name == "sh" and not each.body for each in block.body), f"not known here: {block}"
    return [value(each.arguments[0], {}) for each in block.body]


def value(token: Token, known: Mapping[str, str]) -> str:
    """The value of a Groovy string: only one in double quotes is interpolated."""
    kind, text = token
    text = text.replace("\\\n", "")
    assert kind in {"lines", "single", "double"}, f"no string: {text}"
    assert "\\" not in text, f"not known here: {text}"
    if kind != "double":
        return text
    return re.sub(r"\$\{env\.(\w+)\}", lambda found: known[found[1]], text)
