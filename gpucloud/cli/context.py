"""What every command is given: where it runs and how it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpucloud.cli.output import Output
from gpucloud.config import Paths, find_owner, find_paths

if TYPE_CHECKING:
    from gpucloud.market.catalog import Catalog


@dataclass(frozen=True, kw_only=True)
class App:
    """The program as one command sees it. Nothing is read or made before it is asked for."""

    output: Output
    environment: Mapping[str, str]
    command: str = ""
    sandbox: bool = False
    verbose: int = 0

    @cached_property
    def paths(self) -> Paths:
        """The folders; in sandbox mode ``paths.state`` is the sandbox's own."""
        return find_paths(self.environment, sandbox=self.sandbox)

    @cached_property
    def owner(self) -> str:
        """The owner's id, which every tag carries; made and kept when first asked for."""
        return find_owner(self.paths, self.environment)

    @cached_property
    def catalog(self) -> Catalog:
        """The market, at the prices of this user's last refresh; the same for the whole command."""
        from gpucloud.market.catalog import Catalog

        return Catalog(self.paths.state, self.output.say)
