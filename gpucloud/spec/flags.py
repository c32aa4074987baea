"""How each field of the spec is written on a command line; the CLI derives its options from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

GPU, PAYMENT, PLACE, BOX = PANELS = ("What GPU", "How to pay", "Where", "What box")
"""The sections of ``--help``, in order."""


@dataclass(frozen=True, slots=True)
class Flag:
    """The flag of a field.

    Attributes:
        panel: the section of ``--help`` that shows it.
        metavar: the name of its value in the help, such as ``GIB``; ``None`` for a switch.
        names: its spellings, the usual one first; derived from the field's name if empty.
        switches: values with their own switch, such as ``--spot``, and its help text.
    """

    panel: str
    metavar: str | None = None
    names: tuple[str, ...] = ()
    switches: Mapping[str, str] = field(default_factory=dict[str, str])

    def names_for(self, name: str) -> tuple[str, ...]:
        """The spellings of a field's flag."""
        return self.names or (f"--{name.replace('_', '-')}",)
