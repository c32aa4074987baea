"""The forms in which commands that list things answer: ``-o``, ``--columns``, ``--sort-by``.

A command is declared once::

    @lists("boxes", name="name")
    def list_boxes(app: App) -> None: ...

and prints its table or its document through :class:`~gpucloud.cli.output.Output`, which has the form.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from gpucloud.errors import UsageError
from gpucloud.rendering.terminal import name_of, sorted_rows

if TYPE_CHECKING:
    from gpucloud.cli.context import App


class Form(StrEnum):
    """The forms of an answer."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"


_DOCUMENTS = (Form.JSON, Form.YAML, Form.CSV, Form.NAME)
"""The forms that render the command's document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a command that lists things answers.

    Attributes:
        form: the form.
        columns: the columns that the user chose; none for the default.
        sort_by: the column that sorts the rows, ``-NAME`` downwards.
        rows: the field of the command's document that has the rows.
        name: the field of a row that names it, with dots between levels.
    """

    form: Form = Form.TABLE
    columns: tuple[str, ...] = ()
    sort_by: str | None = None
    rows: str = ""
    name: str = ""


AS_TABLE = Layout()
"""The layout of commands without the options of a list."""


def _is_json(context: typer.Context, form: Form) -> Form:
    """Makes ``-o json`` the same as ``--json``, for errors too."""
    if form is Form.JSON and context.obj is not None:
        context.obj.json = True
    return form


_FORM = Annotated[
    Form,
    typer.Option(
        "-o",
        "--output",
        help="Form of the answer: wide (all columns), json, yaml, csv, name.",
        callback=_is_json,
        show_default=False,
    ),
]
_COLUMNS = Annotated[
    str | None,
    typer.Option("--columns", help="Columns of the table or of CSV: name,state.", metavar="NAMES"),
]
_SORT_BY = Annotated[
    str | None,
    typer.Option("--sort-by", help="Sort the rows by a column; downwards: -COLUMN.", metavar="COLUMN"),
]


def lists(rows: str, *, name: str) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    """Adds the options of a command that lists things.

    Args:
        rows: the field of its document that has the rows.
        name: the field of a row that names it, with dots between levels (``offer.instance_type``).
    """

    def decorate(function: Callable[..., int | None]) -> Callable[..., int | None]:
        signature = inspect.signature(function, eval_str=True)
        has_csv = "csv" in signature.parameters

        def command(
            app: App, *, form: Form, columns: str | None, sort_by: str | None, **values: Any
        ) -> int | None:
            names = tuple(filter(None, (each.strip() for each in (columns or "").split(","))))
            layout = Layout(form=form, columns=names, sort_by=sort_by, rows=rows, name=name)
            _refuse_contradictions(layout, json=app.output.json)
            of_own = has_csv and form is Form.CSV
            if has_csv:
                values["csv"] = values["csv"] or of_own
            document = form in _DOCUMENTS and not of_own
            output = replace(app.output, layout=layout, json=app.output.json or document)
            return function(app=replace(app, output=output), **values)

        keyword = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in signature.parameters.values()
        ]
        own = [
            inspect.Parameter(
                parameter, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
            for parameter, annotation, default in (
                ("form", _FORM, Form.TABLE),
                ("columns", _COLUMNS, None),
                ("sort_by", _SORT_BY, None),
            )
        ]
        command.__signature__ = inspect.Signature([*keyword, *own])  # type: ignore[attr-defined]
        command.__annotations__ = {}
        command.__doc__ = inspect.getdoc(function)
        return command

    return decorate


def _refuse_contradictions(layout: Layout, *, json: bool) -> None:
    if json and layout.form not in {Form.TABLE, Form.JSON}:
        raise UsageError(f"--json and -o {layout.form} contradict each other")
    document = "json" if json else str(layout.form)
    if document in {Form.JSON, Form.YAML, Form.NAME} and (layout.columns or layout.sort_by):
        raise UsageError(
            f"--columns and --sort-by shape tables and CSV, not {document}", hint="use a table or -o csv"
        )


# --- documents in other forms


def rendered(layout: Layout, document: Mapping[str, Any]) -> Iterator[str]:
    """A document as the lines of YAML, of CSV, or of the names of its rows.

    Raises:
        UsageError: there is no such column, or the document has no rows.
    """
    if layout.form is Form.YAML:
        import yaml

        yield yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100).rstrip("\n")
        return
    if layout.rows not in document:
        raise UsageError(f"this answer is no list: -o {layout.form} is not possible", hint="use -o json")
    rows = [flat(row) for row in cast("Sequence[Mapping[str, object]]", document[layout.rows])]
    if layout.form is Form.NAME:
        yield from dict.fromkeys(str(row[layout.name]) for row in rows if row.get(layout.name))
    else:
        names = list(dict.fromkeys(name for row in rows for name in row))
        yield from csv_lines(layout, names, [[row.get(name) for name in names] for row in rows])


def csv_lines(layout: Layout, names: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """The lines of CSV, with the user's columns in the user's order.

    Raises:
        UsageError: there is no such column.
    """
    import csv
    import io

    known = {name.replace("_", "-"): number for number, name in enumerate(names)}
    numbers = [known[name_of("--columns", each, known)] for each in layout.columns] or range(len(names))
    if layout.sort_by:
        by = known[name_of("--sort-by", layout.sort_by.removeprefix("-"), known)]
        texts = ["" if row[by] is None else str(row[by]) for row in rows]
        rows = [rows[number] for number in sorted_rows(texts, down=layout.sort_by.startswith("-"))]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([names[number] for number in numbers])
    writer.writerows([_csv_value(row[number]) for number in numbers] for row in rows)
    yield from buffer.getvalue().splitlines()


def _csv_value(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def flat(row: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """A row without levels: ``gpu.model``; a list is its entries with ``; `` between them."""
    found: dict[str, object] = {}
    for key, value in row.items():
        match value:
            case dict():
                found |= flat(cast("Mapping[str, object]", value), f"{prefix}{key}.")
            case list():
                found[prefix + key] = "; ".join(map(_entry, cast("list[object]", value)))
            case _:
                found[prefix + key] = value
    return found


def _entry(value: object) -> str:
    if isinstance(value, dict):
        fields = flat(cast("Mapping[str, object]", value)).values()
        return " ".join(str(field) for field in fields if field not in (None, ""))
    return str(value)
