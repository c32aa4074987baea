"""Which prices the program starts from: its own, or newer ones of the package ``gpucloud-prices``.

That package holds data alone, in a folder for each form of it: ``release/prices_wheel.py`` writes it.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

FORM = 1
"""The form of ``snapshot.json`` and ``tariffs.json``; raised when an older program could not read them."""
PACKAGE = "gpucloud_prices"
OWN = Path(__file__).parent
AS_OF = "as_of.txt"
"""The file with the day of the newest price, such as 2026-11-26."""


@cache
def shipped_data() -> Path:
    """The folder of the newer data. Nothing of the other package is run."""
    found = find_spec(PACKAGE)
    for place in (found and found.submodule_search_locations) or ():
        folder = Path(place) / f"form_{FORM}"
        with suppress(FileNotFoundError):  # it has no data of this form
            if _as_of(folder) > _as_of(OWN):
                return folder
    return OWN


def _as_of(folder: Path) -> str:
    return (folder / AS_OF).read_text(encoding="ascii").strip()
