"""``llms.txt``: the pages of the site with a line each, for programs that read instead of people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECTIONS = ("tutorials", "how-to", "reference", "explanation", "about")
_NOT_PROSE = ("#", "```", "|", "[中文]", "[English]")
_TOCTREE = re.compile(r"```\{toctree\}\n(.*?)```", re.DOTALL)


def llms(made: Mapping[str, str]) -> str:
    """What gpucloud is, and its pages by section, as https://llmstxt.org describes the file.

    Args:
        made: the pages that are made from the code, by their paths in ``docs/``.
    """
    title, line = _head((ROOT / "docs" / "index.md").read_text(encoding="utf-8"))
    lines = [f"# {title}", "", f"> {line}", ""]
    for section in SECTIONS:
        index = ROOT / "docs" / section / "index.md"
        lines += [f"## {_head(index.read_text(encoding='utf-8'))[0]}", ""]
        for page in pages_of(index):
            own = made.get(str(page.relative_to(ROOT / "docs"))) if (ROOT / "docs") in page.parents else None
            heading, text = _head(own or page.read_text(encoding="utf-8"))
            address = page.relative_to(ROOT).with_suffix(".html")
            lines.append(f"- [{heading}]({address}): {text}")
        lines.append("")
    return "\n".join(lines)


def pages_of(index: Path) -> Iterator[Path]:
    """The pages in the table of contents of a page."""
    for block in _TOCTREE.findall(index.read_text(encoding="utf-8")):
        for line in block.splitlines():
            entry = re.sub(r".*<(.*)>", r"\1", line.strip())
            if entry and not entry.startswith(":"):
                path = ROOT / entry.lstrip("/") if entry.startswith("/") else index.parent / entry
                yield path.resolve().with_suffix(".md")


def _head(text: str) -> tuple[str, str]:
    """The title of a page, and its first sentence."""
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    body = [part for part in text.split("\n\n") if part and not part.startswith(_NOT_PROSE)]
    sentence = re.match(r".+?[.:](?=\s|$)", " ".join(body[0].split())) if body else None
    plain = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", sentence[0] if sentence else "")
    return title[1] if title else "", plain
