"""Prometheus' text format: written, and read from a box, which may say anything. Pure functions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpucloud.monitor.families import Family

MOST_SAMPLES = 2000
"""Of one box: 16 GPUs with 9 metrics are 144."""
LONGEST_VALUE = 200
LONGEST_LINE = 2000
"""The most characters of a label's value, and of a line."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SAMPLE = re.compile(r"(?P<name>[A-Za-z_:]\w*)(?:\{(?P<labels>.*)\})? (?P<value>[-+.\deE]{1,32})", re.ASCII)
_LABEL = re.compile(r'(?P<name>[A-Za-z_]\w*)="(?P<value>(?:[^"\\]|\\.)*)"(?:,|$)', re.ASCII)
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric; ``labels`` has no empty value."""

    family: Family
    labels: Mapping[str, str]
    value: float


def sample(family: Family, value: float, **labels: str | None) -> Sample:
    """A sample without the labels that are not known."""
    return Sample(family, {name: text for name, text in labels.items() if text}, value)


def text_of(samples: Iterable[Sample]) -> str:
    """Samples in the text format 0.0.4, each metric with its help and its type."""
    by_family: dict[Family, list[str]] = {}
    for each in samples:
        inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in each.labels.items())
        line = f"{each.family.name}{'{' + inner + '}' if inner else ''} {_number(each.value)}\n"
        by_family.setdefault(each.family, []).append(line)
    return "".join(
        f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n{''.join(lines)}"
        for family, lines in by_family.items()
    )


def read(text: str, allowed: Mapping[str, Family]) -> list[Sample]:
    """The samples of known metrics with known labels, each once; every other line is left out.

    Whoever uses the box may have written the text.
    """
    found: dict[tuple[object, ...], Sample] = {}
    for line in text.split("\n"):
        each = _read_line(line, allowed)
        if each is not None:
            found.setdefault((each.family.name, *sorted(each.labels.items())), each)
        if len(found) == MOST_SAMPLES:
            break
    return list(found.values())


def _read_line(line: str, allowed: Mapping[str, Family]) -> Sample | None:
    match = _SAMPLE.fullmatch(line) if len(line) <= LONGEST_LINE else None
    family = allowed.get(match["name"]) if match else None
    labels = _read_labels(match["labels"] or "") if match else None
    if match is None or family is None or labels is None or not labels.keys() <= set(family.labels):
        return None
    try:
        value = float(match["value"])
    except ValueError:
        return None
    return Sample(family, labels, value) if math.isfinite(value) else None


def _read_labels(text: str) -> dict[str, str] | None:
    """Labels; ``None`` where the text is something else, or has a label twice or one that is too long."""
    labels: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None or match["name"] in labels or len(match["value"]) > LONGEST_VALUE:
            return None
        labels[match["name"]] = _printable(_ESCAPED.sub(_unescaped, match["value"]))
        at = match.end()
    return {name: value for name, value in labels.items() if value}


def _unescaped(found: re.Match[str]) -> str:
    return {"n": "\n"}.get(found[1], found[1])


def _escaped(text: str) -> str:
    """A label's value as the format has it; what only steers a terminal or a page is left out."""
    shown = _printable(text)[:LONGEST_VALUE]
    return shown.replace("\\", "\\\\").replace('"', '\\"')


def _printable(text: str) -> str:
    return "".join(each for each in text if each.isprintable())


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
