"""What reads ``nvidia-smi``, on the words of a real one."""

from __future__ import annotations

import re
import subprocess

import pytest

from gpucloud.ssh.boot import parse_gpus, parse_slices
from gpucloud_templates.guard.rules import read_gpus
from gpucloud_templates.guard.watch import GPU_QUERY

pytestmark = pytest.mark.gpu


def nvidia_smi(*arguments: str) -> str:
    return subprocess.run(["nvidia-smi", *arguments], capture_output=True, check=True, text=True).stdout


def test_the_launcher_reads_every_gpu() -> None:
    listed = re.findall(r"^GPU \d+: (.*) \(UUID", nvidia_smi("-L"), re.MULTILINE)
    gpus = parse_gpus(
        nvidia_smi("--query-gpu=index,name,memory.total,driver_version", "--format=csv,noheader,nounits")
    )
    assert [gpu.name for gpu in gpus] == listed
    assert all(gpu.memory_mib > 1000 and re.fullmatch(r"\d+\.\d+(\.\d+)?", gpu.driver) for gpu in gpus)


def test_the_guard_reads_utilisation_and_errors_of_every_gpu() -> None:
    found = read_gpus(nvidia_smi(GPU_QUERY, "--format=csv,noheader,nounits"))
    assert len(found) == nvidia_smi("-L").count("GPU ")
    assert all(0 <= percent <= 100 and errors >= 0 for percent, errors in found)


def test_slices_are_those_that_are_listed() -> None:
    listed = nvidia_smi("-L")
    assert len(parse_slices(listed)) == listed.count("  MIG ")
