"""How a field of the spec is given on a command line. The command line makes its options of these."""

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
        metavar: what stands for its value there; ``None`` for a switch.
        names: how it is written, the usual way first; follows from the field's name where it is empty.
        switches: values that have a switch of their own, with its help text: ``--spot``.
    """

    panel: str
    metavar: str | None = None
    names: tuple[str, ...] = ()
    switches: Mapping[str, str] = field(default_factory=dict[str, str])

    def names_for(self, name: str) -> tuple[str, ...]:
        """How the flag of a field is written."""
        return self.names or (f"--{name.replace('_', '-')}",)
