"""A table as HTML, for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpucloud.rendering.table import Cell, Table, has_value


def html_of(table: Table) -> str:
    """A table as HTML. Columns without any value are left out."""
    shown = {heading: cells for heading, cells in table.cells().items() if has_value(cells)}
    left = [' style="text-align: left"', ' style="text-align: right"']
    align = [left[heading in table.right] for heading in shown]
    head = "".join(f"<th{style}>{escape(heading)}</th>" for heading, style in zip(shown, align, strict=True))
    rows = "".join(_row(cells, align) for cells in zip(*shown.values(), strict=True))
    more = f"<p>{table.left_out} more</p>" if table.left_out else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _row(cells: Sequence[Cell], align: Sequence[str]) -> str:
    texts = zip(cells, align, strict=True)
    return f"<tr>{''.join(f'<td{style}>{escape(cell.text)}</td>' for cell, style in texts)}</tr>"
