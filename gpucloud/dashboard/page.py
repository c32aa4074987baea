"""The page as HTML: with links to its script and style where it is served, and as one still file."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

STATIC = Path(__file__).with_name("static")
SCRIPT, STYLE = "script.js", "style.css"


def served_page(document: str) -> str:
    """The page with a document, which then asks for newer ones."""
    return _page(
        document,
        still=False,
        head=f'<link rel="stylesheet" href="{STYLE}">\n<script src="{SCRIPT}" defer></script>',
    )


def still_page(document: str) -> str:
    """The page as one file that asks for nothing."""
    script, style = static(SCRIPT), static(STYLE)
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}"
    return _page(
        document,
        still=True,
        head=f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>',
        end=f"<script>{script}</script>",
    )


@cache
def static(name: str) -> str:
    """A file of the page."""
    return (STATIC / name).read_text(encoding="utf-8")


@cache
def words() -> Mapping[str, Mapping[str, str]]:
    """Every text of the page by its key, in each language."""
    found: Mapping[str, Mapping[str, str]] = json.loads(static("words.json"))
    return found


def _page(document: str, *, still: bool, head: str, end: str = "") -> str:
    data = {"document": document, "words": json.dumps(words(), ensure_ascii=False, separators=(",", ":"))}
    parts = {f"<!-- {name} -->": _data_block(name, text) for name, text in data.items()}
    page = static("page.html").replace("<!-- head -->", head).replace("<!-- end -->", end)
    page = page.replace('data-still=""', f'data-still="{"yes" if still else ""}"')
    for mark, block in parts.items():
        page = page.replace(mark, block)
    return page


def _data_block(name: str, text: str) -> str:
    """JSON that a browser takes for data: nothing in it can end the element that it is in."""
    harmless = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{harmless}</script>'


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def encoded(document: Mapping[str, Any]) -> str:
    """A document as JSON, in one line."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
