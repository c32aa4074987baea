"""Puts the bills of materials into the wheel (PEP 770), where a release has written them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BOMS = "sboms"
"""The folder beside ``pyproject.toml``; a checkout has none, the source distribution of a release has."""


class WheelHook(BuildHookInterface[Any]):
    """Found by hatchling, through ``pyproject.toml``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Names the files before the wheel is written."""
        if version == "standard":
            found = sorted((Path(self.root) / BOMS).glob("*.cdx.json"))
            build_data["sbom_files"] += [f"{BOMS}/{file.name}" for file in found]
