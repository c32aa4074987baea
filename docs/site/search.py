"""How the search of the site finds Chinese: by pairs of characters, as there are no spaces between words."""

from __future__ import annotations

import re

_PARTS = re.compile(r"[\u4e00-\u9fff]+|(?:(?![\u4e00-\u9fff])\w)+")

SPLIT_QUERY = r"""
function splitQuery(query) {
  const parts = query.match(/[\u4e00-\u9fff]+|(?:(?![\u4e00-\u9fff])[\p{L}\p{N}_])+/gu) || [];
  const pairs = (part) => Array.from({length: part.length - 1}, (_, at) => part.slice(at, at + 2));
  return parts.flatMap((part) => /^[\u4e00-\u9fff]{2}/.test(part) ? pairs(part) : [part]);
}
"""
"""``terms`` for what somebody looks for, in the browser."""


def terms(text: str) -> list[str]:
    """The terms of a text: Latin words, and of Chinese each two characters that stand together."""
    found: list[str] = []
    for part in _PARTS.findall(text):
        is_chinese = "\u4e00" <= part[0] <= "\u9fff"
        found += (
            [part[at : at + 2] for at in range(len(part) - 1)] if is_chinese and len(part) > 1 else [part]
        )
    return found
