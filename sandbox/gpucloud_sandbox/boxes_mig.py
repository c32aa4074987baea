"""MIG on a box of the sandbox: the mode of its GPUs, and the instances that they are cut into."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from gpucloud_pricing.gpu_models import BY_NAME, GpuModel, family

KEEPS_MODE = {"Ampere"}
"""Architectures that must be reset for another mode, and keep it through a reboot (MIG User Guide)."""


@dataclass
class Mig:
    """The state of one box's GPUs, in a file.

    Args:
        file: where.
        model: the market's name of the GPUs; ``memory_mib`` is of each.
    """

    file: Path
    model: str
    memory_mib: int
    modes: dict[str, str] = field(default_factory=dict[str, str])
    pending: dict[str, str] = field(default_factory=dict[str, str])
    instances: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def __post_init__(self) -> None:
        with suppress(FileNotFoundError):
            kept = json.loads(self.file.read_text(encoding="utf-8"))
            self.modes, self.pending, self.instances = kept["modes"], kept["pending"], kept["instances"]

    @property
    def profiles(self) -> dict[str, int]:
        """How many of each profile a GPU has room for; empty for one without MIG."""
        gib = round(self.memory_mib / 1024)
        return self._known.mig.get(gib, {}) if self._known else {}

    @property
    def _known(self) -> GpuModel | None:
        return BY_NAME.get(family(self.model, Decimal(self.memory_mib) / 1024))

    def mode(self, gpu: int, *, pending: bool = False) -> str:
        """``Enabled`` or ``Disabled``; ``[N/A]`` for a GPU without MIG."""
        if not self.profiles:
            return "[N/A]"
        current = self.modes.get(str(gpu), "Disabled")
        return self.pending.get(str(gpu), current) if pending else current

    def set_mode(self, gpus: Sequence[int], mode: str) -> tuple[int, str]:
        """``nvidia-smi -mig 1``: at once, or with the next reboot."""
        if not self.profiles:
            return 3, "Unable to enable MIG Mode for GPU: Not Supported\nTreating as warning and moving on.\n"
        assert self._known is not None  # noqa: S101  (it has profiles)
        late = self._known.architecture in KEEPS_MODE
        for gpu in gpus:
            (self.pending if late else self.modes)[str(gpu)] = mode
        self._keep()
        if late:
            text = (
                "Warning: MIG mode is in pending enable state for GPU {}:Not Supported\n"
                "Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU {}\n"
            )
        else:
            text = f"{mode} MIG Mode for GPU {{}}\n"
        return 0, "".join(text.format(gpu, gpu) for gpu in gpus) + "All done.\n"

    def command(self, gpus: Sequence[int], arguments: Sequence[str]) -> tuple[int, str]:
        """``nvidia-smi mig ...``."""
        enabled = [gpu for gpu in gpus if self.mode(gpu) == "Enabled"]
        if not enabled:
            return 6, "No MIG-enabled devices found.\n"
        if "-cgi" in arguments:
            return self._create(enabled, arguments[arguments.index("-cgi") + 1].split(","))
        if {"-dgi", "-dci"} & set(arguments):
            return self._destroy(enabled, whole="-dgi" in arguments)
        rows = [
            f"|   {gpu}  MIG {profile:<16}{19:>3}{number + 7:>9}          {number}:1     |\n"
            for gpu in enabled
            for number, profile in enumerate(self.instances.get(str(gpu), []))
        ]
        return (0, "".join(rows)) if rows else (6, "No GPU instances found: Not Found\n")

    def _create(self, gpus: Sequence[int], wanted: Sequence[str]) -> tuple[int, str]:
        said = ""
        for gpu in gpus:
            there = self.instances.setdefault(str(gpu), [])
            for profile in wanted:
                if profile not in self.profiles:
                    return 4, f"Unable to parse profile name {profile}: Invalid Argument\n"
                used = sum(1 / self.profiles[each] for each in there)
                if used + 1 / self.profiles[profile] > 1.001:
                    return 19, f"{said}Unable to create a GPU instance on GPU {gpu}: Insufficient Resources\n"
                there.append(profile)
                said += (
                    f"Successfully created GPU instance ID {len(there) + 6} on GPU {gpu} using {profile}\n"
                )
        self._keep()
        return 0, said

    def _destroy(self, gpus: Sequence[int], *, whole: bool) -> tuple[int, str]:
        if not any(self.instances.get(str(gpu)) for gpu in gpus):
            return 6, "No GPU instances found: Not Found\n"
        if whole:
            for gpu in gpus:
                self.instances.pop(str(gpu), None)
            self._keep()
        return 0, ""

    def devices(self, box: str, gpu: int) -> str:
        """The lines of ``nvidia-smi -L`` under a GPU."""
        return "".join(
            f"  MIG {profile:<11}Device {number:>2}: "
            f"(UUID: MIG-{uuid.uuid5(uuid.NAMESPACE_OID, f'{box}/{gpu}/{number}')})\n"
            for number, profile in enumerate(self.instances.get(str(gpu), []))
        )

    def reboot(self) -> None:
        """Instances are gone; the mode stays where the architecture keeps it."""
        keeps = self._known is not None and self._known.architecture in KEEPS_MODE
        self.modes = {**self.modes, **self.pending} if keeps else {}
        self.pending, self.instances = {}, {}
        self._keep()

    def _keep(self) -> None:
        kept = {"modes": self.modes, "pending": self.pending, "instances": self.instances}
        self.file.write_text(json.dumps(kept), encoding="utf-8")
