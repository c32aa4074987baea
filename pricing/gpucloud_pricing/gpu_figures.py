"""Peak figures of each GPU, from ``gpu_figures.toml``: rates by precision and the bandwidth of its memory.

Every figure has its source, and a doubt where sources disagree; a figure that is not known has a reason.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("gpu_figures.toml")
FIGURES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "bandwidth")
_GB_PER_TB = 1000  # makers print the bandwidth of older GPUs in GB/s, and so does the file


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFigure:
    """One figure of one GPU: TFLOPS without sparsity, or the memory's bandwidth in TB/s (10^12 bytes).

    ``doubt`` is why the figure may be wrong, ``None`` where sources agree.
    """

    value: Decimal
    source: str
    doubt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The figures of one GPU in one form.

    Attributes:
        name: the maker's name, with the form (SXM, PCIe) where a model has several.
        model: the name in the vocabulary.
        memory_gib: the size of memory that it is rented with, in GiB.
        types: the instance types that have this form, as ``CLOUD/PATTERN``; empty for the usual form.
        figures: what is known, by a name of :data:`FIGURES`.
        unknown: why the other figures are not known.
    """

    name: str
    model: str
    memory_gib: Decimal
    types: tuple[str, ...]
    figures: Mapping[str, GpuFigure]
    unknown: Mapping[str, str]


@cache
def cards(file: Path = FILE) -> tuple[Card, ...]:
    """Every card, the usual form of a model before its other ones."""
    read = tomllib.loads(file.read_text(encoding="utf-8"), parse_float=Decimal)
    return tuple(_card(row, read["sources"]) for row in read["card"])


@cache
def card_of(model: str, memory_gib: Decimal, instance_type: str | None = None) -> Card | None:
    """The card of a model with a size of memory; ``None`` if none is described.

    Args:
        model: the name in the vocabulary.
        memory_gib: the size of its memory, in GiB.
        instance_type: ``CLOUD/TYPE``; without it, the usual form of the card.
    """
    forms = [card for card in cards() if (card.model, card.memory_gib) == (model, memory_gib)]
    special = (card for card in forms if instance_type and _is_in(instance_type, card))
    return next(special, forms[0] if forms else None)


def _is_in(instance_type: str, card: Card) -> bool:
    return any(fnmatchcase(instance_type, pattern) for pattern in card.types)


def _card(row: Mapping[str, Any], sources: Mapping[str, str]) -> Card:
    return Card(
        name=row["name"],
        model=row["model"],
        memory_gib=Decimal(row["memory_gib"]),
        types=tuple(row.get("types", ())),
        figures={name: _figure(name, row[name], sources) for name in FIGURES if isinstance(row[name], list)},
        unknown={name: row[name] for name in FIGURES if isinstance(row[name], str)},
    )


def _figure(name: str, written: list[Any], sources: Mapping[str, str]) -> GpuFigure:
    value, keys, *doubt = written
    return GpuFigure(
        value=Decimal(value) / (_GB_PER_TB if name == "bandwidth" else 1),
        source="; ".join(sources[key] for key in keys.split()),
        doubt=doubt[0] if doubt else None,
    )
