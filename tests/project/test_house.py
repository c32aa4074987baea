"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import gpucloud

CLOUD_NAMES = re.compile(r"\b(aws|azure|alibaba|aliyun)\b", re.IGNORECASE)


def _docstring_lines(source: str) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def named_clouds(source: str) -> list[str]:
    """The lines of code, comments and docstrings left out, that name a cloud."""
    prose = _docstring_lines(source)
    return [
        f"{token.start[0]}: {token.line.strip()}"
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type != tokenize.COMMENT and token.start[0] not in prose and CLOUD_NAMES.search(token.string)
    ]


def test_the_core_names_no_cloud() -> None:
    """What a cloud does differently is in its provider: a fourth one changes nothing here."""
    found = {
        f"{path.name}:{line}"
        for path in Path(gpucloud.__file__).parent.rglob("*.py")
        for line in named_clouds(path.read_text(encoding="utf-8"))
    }
    assert not found


def test_a_named_cloud_would_be_seen() -> None:
    assert named_clouds('"""Of AWS."""\n# azure\nx = "aws"\n') == ['3: x = "aws"']
