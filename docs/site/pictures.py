"""The architecture as pictures: drawn from the contracts that ``lint-imports`` checks."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from docs.site.markdown import escaped, head, table

ROOT = Path(__file__).parents[2]
WIDTH = 760
ROW, GAP, PADDING = 44, 12, 10
CHARACTER = 7.4  # the width of one, about
FILL, TEXT, LINE = "#2f5d8c", "#ffffff", "#8a8f98"  # read on white and on black


@dataclass(frozen=True, slots=True)
class Contract:
    """Layers, the highest first; those of one layer do not import each other."""

    name: str
    container: str
    layers: Sequence[Sequence[str]]

    @property
    def file(self) -> str:
        """The name of its picture."""
        return f"{self.container.replace('.', '-') or 'packages'}.svg"


def contracts() -> Iterator[Contract]:
    """The contracts of ``pyproject.toml`` about layers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for each in project["tool"]["importlinter"]["contracts"]:
        if each["type"] == "layers":
            layers = [[name.strip() for name in layer.split("|")] for layer in each["layers"]]
            yield Contract(each["name"], next(iter(each.get("containers", [])), ""), layers)


def drawn() -> dict[str, str]:
    """Each picture as SVG, by the name of its file."""
    return {each.file: picture(each) for each in contracts()}


def picture(contract: Contract) -> str:
    """One contract: a row of boxes for each layer, and an arrow in the direction of imports."""
    rows = [part for layer in contract.layers for part in _wrapped(layer)]
    height = len(rows) * (ROW + GAP) + GAP
    shapes = [_row(names, GAP + place * (ROW + GAP)) for place, names in enumerate(rows)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' font-family="system-ui, sans-serif" font-size="13">\n'
        f"<title>{escape(contract.name)}</title>\n"
        f'<path d="M14 {GAP}V{height - GAP - 8}m-5 -1l5 9l5 -9z" fill="{LINE}" stroke="{LINE}"/>\n'
        f'<g text-anchor="middle" fill="{TEXT}">\n{"".join(shapes)}</g>\n</svg>\n'
    )


def _wrapped(layer: Sequence[str]) -> Iterator[Sequence[str]]:
    """A layer, in as many rows as its names need."""
    row: list[str] = []
    for name in layer:
        if row and _space([*row, name]) > WIDTH - 40:
            yield row
            row = []
        row.append(name)
    yield row


def _space(names: Sequence[str]) -> float:
    return sum(len(name) * CHARACTER + 2 * PADDING + GAP for name in names)


def _row(names: Sequence[str], top: float) -> str:
    free = max(WIDTH - 40 - _space(names), 0) / len(names)
    left, shapes = 36.0, ""
    for name in names:
        width = len(name) * CHARACTER + 2 * PADDING + free
        middle = left + width / 2
        shapes += (
            f'<rect x="{left:.0f}" y="{top}" width="{width:.0f}" height="{ROW}" rx="5" fill="{FILL}"/>'
            f'<text x="{middle:.0f}" y="{top + 27}">{escape(name)}</text>\n'
        )
        left += width + GAP
    return shapes


def page() -> str:
    """The page of the architecture: each contract with its picture."""
    introduction = """
    Imports go down: a module imports from the rows below its own, never from a row above, and never from its
    neighbours in a row.

    `lint-imports` checks these contracts, and the pictures are drawn from them.
    [Rooms](../dev/rooms.md) says what is in each room.
    """
    lines = head("Architecture", introduction)
    for each in contracts():
        text = "; ".join(", ".join(layer) for layer in each.layers)
        lines += [f"## {each.name}", "", f"![From the top: {text}](../pictures/{each.file})", ""]
    rows = [(f"`{name}`", escaped(text)) for name, text in _rooms()]
    lines += ["## What each room is", "", *table(("room", "holds"), rows)]
    return "\n".join(lines)


def _rooms() -> Iterator[tuple[str, str]]:
    """The packages of gpucloud with the first sentence of their docstrings."""
    for file in sorted((ROOT / "gpucloud").glob("*/__init__.py")):
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        yield file.parent.name, text.partition("\n")[0]
