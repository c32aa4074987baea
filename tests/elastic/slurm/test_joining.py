"""Whether a node has joined is what slurmctld says of it. Its ``scontrol`` is a program that answers here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpucloud.elastic.slurm.commands import Controller
from gpucloud.elastic.slurm.joining import NotJoinedError, SlurmJoining


def joining(folder: Path, answer: str) -> SlurmJoining:
    """What waits for a node, where ``scontrol`` runs this."""
    (folder / "scontrol").write_text(f"#!/bin/sh\n{answer}\n")
    (folder / "scontrol").chmod(0o755)
    controller = Controller({"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"})
    return SlurmJoining(controller=controller, gres="", slices={}, register_s=0.0)


def test_a_node_has_joined_when_it_has_registered_and_not_too_small(tmp_path: Path) -> None:
    up = "echo 'NodeName=lab-t4-1 State=MIXED+CLOUD Weight=1'"
    joining(tmp_path, up).wait(["lab-t4-1"])
    with pytest.raises(NotJoinedError, match="did not register with slurmctld within 0 s"):
        joining(tmp_path, up.replace("CLOUD", "CLOUD+POWERING_UP")).wait(["lab-t4-1"])
    small = up.replace("CLOUD", "CLOUD+INVALID_REG").replace("Weight=1", "Weight=1 Reason=Low RealMemory")
    with pytest.raises(NotJoinedError, match="registered with less than it must have: Low RealMemory"):
        joining(tmp_path, small).wait(["lab-t4-1"])


def test_where_slurmctld_does_not_answer_the_lease_has_to_do(tmp_path: Path) -> None:
    """A box that is up is not deleted because the controller is restarted."""
    joining(tmp_path, "echo 'Unable to contact slurm controller' >&2; exit 1").wait(["lab-t4-1"])
