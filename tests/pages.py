"""The pages of the documentation: their blocks, and what appears when these are run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def shape(line: str) -> str:
    """A line without what differs each time: ids, addresses, seconds, ages, amounts."""
    line = re.sub(r"i-[0-9a-f]+|GPU-[0-9a-f-]+|203\.0\.113\.\d+", "ID", line)
    line = re.sub(r"[$]?\d+(\.\d+)?(ms|[smhd]\b)?|\d+m\d+s|\b\d+h\d+m\b", "N", line)
    return re.sub(r"N+", "N", " ".join(line.split()))


def examples(page: Path) -> list[tuple[str, list[str]]]:
    """The Python blocks of a page, each with the lines that it shows below."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"```python\n(.*?)```(?:\s+```text\n(.*?)```)?", text, re.DOTALL)
    return [(code, shown.splitlines()) for code, shown in found]
