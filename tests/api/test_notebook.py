"""In a notebook, a result is the table that the command line prints of it."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gpucloud import Client, Profile, Spec
from gpucloud.rendering.html import html_of
from gpucloud.rendering.table import Cell, Role, Table

PROGRAM = Path(sysconfig.get_path("scripts"), "gpucloud")
SPEC = Spec(gpu="T4", clouds="aws", regions="us-east-1", ttl="1h")
FLAGS = ("--gpu", "T4", "--cloud", "aws", "--region", "us-east-1")
PASSING = {"AGE", "LEFT", "SO FAR", "FOR", "COST", "COMPUTE", "DISK", "ADDRESS"}
"""The columns whose cells change while somebody looks."""
Rows = list[dict[str, str]]
Printed = Callable[..., Rows]


class _Rows(HTMLParser):
    """The texts of the cells of a table, by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._open = False
        self.feed(text)

    def handle_starttag(self, tag: str, _: object) -> None:
        if tag == "tr":
            self.rows.append([])
        self._open = tag in {"th", "td"}

    def handle_data(self, data: str) -> None:
        if self._open:
            self.rows[-1].append(data)


def shown_in_html(text: str | None) -> Rows:
    assert text is not None
    heads, *rows = _Rows(text).rows
    return [dict(zip(heads, row, strict=True)) for row in rows]


def lasting(rows: Rows) -> Rows:
    return [{name: text for name, text in row.items() if name not in PASSING} for row in rows]


@pytest.fixture
def printed(profile: Profile) -> Printed:
    """What a command prints into a pipe, as rows."""

    def run(*arguments: str) -> Rows:
        environment = {**profile.variables, "GPUCLOUD_SANDBOX": "1"}
        out = subprocess.run(
            [PROGRAM, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=True
        ).stdout
        heads, *rows = [re.split(r" {2,}", line.strip()) for line in out.splitlines()]
        return [dict(zip(heads, row, strict=True)) for row in rows]

    return run


def test_a_result_is_shown_as_the_command_line_prints_it(client: Client, printed: Printed) -> None:
    offers = client.market.offers(SPEC)
    assert shown_in_html(offers._repr_html_()) == printed("offers", *FLAGS) != []
    plan = client.plan(SPEC)
    assert shown_in_html(plan._repr_html_()) == printed("plan", *FLAGS)
    box = client.launch(plan, name="trainer")
    client.volumes.create("data", size_gib=100, near="T4")
    assert lasting(shown_in_html(client.list()._repr_html_())) == lasting(printed("list"))
    assert lasting(shown_in_html(client.volumes.list()._repr_html_())) == lasting(printed("volume", "list"))
    assert lasting(shown_in_html(client.costs.spend()._repr_html_())) == lasting(printed("spend"))
    [alone] = shown_in_html(box._repr_html_())
    assert (alone["NAME"], alone["STATE"]) == ("trainer", "ready")


def test_a_long_list_of_offers_says_how_many_more_there_are(client: Client) -> None:
    found = client.market.offers(Spec(gpu="T4"))
    html = found._repr_html_()
    assert len(shown_in_html(html)) == 20
    assert f"<p>{len(found.groups()) - 20} more</p>" in html


def test_an_empty_list_is_shown_as_a_list(client: Client) -> None:
    assert client.list()._repr_html_() is None
    assert client.list() == []


def test_foreign_text_is_no_markup_and_steers_no_terminal() -> None:
    """A box's log, a cloud's message: both reach tables."""
    html = html_of(Table({"<b>": ["<script>", Cell("a\x1b[31mb", Role.FAILED), None]}))
    assert [list(row.values()) for row in shown_in_html(html)] == [["<script>"], ["ab"], ["-"]]
    assert "<script>" not in html
