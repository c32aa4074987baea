"""What the nodes of a box need for an RDMA network: the data of ``fabrics.toml``."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

LIMITS = "* - memlock unlimited\nroot - memlock unlimited\n"
"""Lines of limits.d: RDMA pins the memory of its buffers (rdma-core, ``ibv_reg_mr(3)``)."""
TCP = re.compile(r"net/socket|using network socket", re.IGNORECASE)
"""What NCCL's log says when it has found no other network than TCP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """An RDMA network; the fields are those of ``fabrics.toml``."""

    variables: Mapping[str, str]
    libraries: Sequence[str]
    proof: str

    def text(self) -> str:
        """A shell's lines that set the variables and the folders of the loader."""
        lines = [f"export {name}={shlex.quote(value)}" for name, value in self.variables.items()]
        path = "LD_LIBRARY_PATH"
        lines += [
            f"[ ! -d {folder} ] || export {path}={folder}${{{path}:+:${path}}}"
            for folder in reversed(self.libraries)
        ]
        return "".join(f"{line}\n" for line in lines)

    def is_named(self, log: Iterable[str]) -> bool:
        """Whether lines of NCCL's log tell that this network is used."""
        return any(re.search(self.proof, line, re.IGNORECASE) for line in log)


def fabric(name: str) -> Fabric:
    """A network by its name in the market's data."""
    text = files("gpucloud_templates").joinpath("fabrics.toml").read_text(encoding="utf-8")
    return Fabric(**tomllib.loads(text)[name])
