"""The acceptance test of a box's GPUs: its measurements, and the floors that they must reach.

The floors are low on purpose: they find a GPU that is broken, throttled or badly connected, not one that is a
little slower than another. The floor of a GPU is derived from the clock and size that its driver reports.
"""

from __future__ import annotations

import io
import statistics
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpucloud.errors import GpucloudError
from gpucloud.ssh.client import Target, run

PROGRAM = "/usr/local/lib/gpucloud/gputest.pyz"
TIMEOUT_S = 300.0

CORES: Mapping[str, int] = {"7.0": 64, "7.5": 64, "8.0": 64}
NEWER_CORES = 128
"""32-bit multiply-adds per clock and multiprocessor, by compute capability. Source: NVIDIA's CUDA C++
Programming Guide, "Throughput of Native Arithmetic Instructions" (8.6, 8.7, 8.9, 9.0, 10.0, 12.0: 128)."""
PRODUCT_SHARE = 0.15
"""Of the arithmetic peak. The product is a plain one; it is not as fast as the vendor's library."""
SISTER_SHARE = 0.7
MEMORY_SHARE = 0.5
HOST_GBS = 2.5
"""PCIe 3.0 with 8 lanes, which T4 boxes have, carries 7.9."""
NVLINK_GBS = 15.0
"""One link of NVLink 2, the slowest on offer, carries 25 each way; PCIe 3.0 with 16 lanes seldom gives 13."""

Number = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]
Words = Annotated[str, Field(max_length=500)]


class _Measured(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class GpuMeasured(_Measured):
    """One GPU. Speeds are 10^9 bytes and 10^12 operations per second; zero where it was not measured."""

    index: Annotated[int, Field(ge=0, le=1024)]
    name: Words = ""
    capability: Annotated[str, Field(max_length=8)] = ""
    multiprocessors: Number = 0
    clock_mhz: Number = 0
    memory_bytes: Number = 0
    tested_bytes: Number = 0
    wrong_words: Number = 0
    product_tflops: Number = 0
    product_errors: Number = 0
    from_host_gbs: Number = 0
    to_host_gbs: Number = 0
    error: Words | None = None

    @property
    def peak_tflops(self) -> float:
        """The peak of its multiprocessors at full clock."""
        cores = CORES.get(self.capability, NEWER_CORES)
        return self.multiprocessors * cores * 2 * self.clock_mhz / 1e6


class PairMeasured(_Measured):
    """A copy from one GPU to another; ``direct`` if it does not pass through the machine's memory."""

    source: Annotated[int, Field(alias="from", ge=0, le=1024)]
    to: Annotated[int, Field(ge=0, le=1024)]
    direct: bool = False
    gbs: Number = 0
    error: Words | None = None


class Measurements(_Measured):
    """The output of the program on the box (``gpucloud_templates.gputest``)."""

    gpus: Annotated[tuple[GpuMeasured, ...], Field(max_length=1024)] = ()
    pairs: Annotated[tuple[PairMeasured, ...], Field(max_length=1024)] = ()
    error: Words | None = None


@cache
def program() -> bytes:
    """The test program as one file that Python runs."""
    content = io.BytesIO()
    package = files("gpucloud_templates").joinpath("gputest")
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("__init__.py", "__main__.py", "cuda.py", "together.py", "kernels.ptx"):
            archive.writestr(f"gputest/{name}", package.joinpath(name).read_bytes())
        archive.writestr("__main__.py", "from gputest.__main__ import main\n\nmain()\n")
    return content.getvalue()


def measure(target: Target) -> Measurements:
    """Runs the test on a box. Takes seconds.

    Raises:
        ConnectionFailedError: the box could not be reached, or took too long.
        GpucloudError: the program could not be run.
    """
    _on_box(target, ["sudo", "-n", "sh", "-c", f"cat >{PROGRAM}"], program())
    said = _on_box(target, ["python3", PROGRAM])
    try:
        return Measurements.model_validate_json(said)
    except ValidationError as error:
        raise GpucloudError(f"{target.alias}: the GPU test returned no readable result") from error


def _on_box(target: Target, argv: Sequence[str], stdin: bytes = b"") -> bytes:
    done = run(target, argv, stdin=stdin, timeout_s=TIMEOUT_S)
    if done.code:
        said = done.err.decode(errors="replace").strip()[-300:]
        raise GpucloudError(f"{target.alias}: the GPU test did not run: {said}")
    return done.out


def shortcomings(
    measured: Measurements, *, count: int, share: float = 1.0, interconnect: str = "none"
) -> Sequence[str]:
    """The faults of a box's GPUs, for people; empty for a good box.

    Args:
        measured: the output of the test.
        count: how many GPUs were rented.
        share: the fraction of a GPU, if it is less than a whole.
        interconnect: how they should be connected: ``none``, ``pcie``, ``nvlink`` or ``nvswitch``.
    """
    if measured.error is not None:
        return [measured.error]
    found = [] if len(measured.gpus) == count else [f"{len(measured.gpus)} of {count} GPUs answer the driver"]
    for gpu in measured.gpus:
        found += [f"GPU {gpu.index}: {words}" for words in _of_gpu(gpu, share)]
    well = [gpu for gpu in measured.gpus if gpu.error is None]
    usual = statistics.median(gpu.product_tflops for gpu in well) if well else 0.0
    found += [
        f"GPU {gpu.index}: {gpu.product_tflops:.1f} TFLOPS, the other GPUs {usual:.1f}"
        for gpu in well
        if gpu.product_tflops < SISTER_SHARE * usual
    ]
    return found + _of_pairs(measured, interconnect)


def _of_gpu(gpu: GpuMeasured, share: float) -> list[str]:
    if gpu.error is not None:
        return [gpu.error]
    least = PRODUCT_SHARE * share * gpu.peak_tflops
    checks = {
        f"{gpu.wrong_words:.0f} words of memory read back differently than written": gpu.wrong_words > 0,
        f"only {gpu.tested_bytes / 2**30:.1f} of {gpu.memory_bytes / 2**30:.1f} GiB of its memory are free": (
            gpu.tested_bytes < MEMORY_SHARE * gpu.memory_bytes
        ),
        f"{gpu.product_errors:.0f} entries of a matrix product are wrong": gpu.product_errors > 0,
        f"{gpu.product_tflops:.2f} TFLOPS, at least {least:.2f} were expected": gpu.product_tflops < least,
        f"{gpu.from_host_gbs:.1f} GB/s from the machine's memory, at least {HOST_GBS} were expected": (
            gpu.from_host_gbs < HOST_GBS
        ),
        f"{gpu.to_host_gbs:.1f} GB/s to the machine's memory, at least {HOST_GBS} were expected": (
            gpu.to_host_gbs < HOST_GBS
        ),
    }
    return [words for words, fails in checks.items() if fails]


def _of_pairs(measured: Measurements, interconnect: str) -> list[str]:
    found = [f"GPU {each.source} to {each.to}: {each.error}" for each in measured.pairs if each.error]
    fast = [each for each in measured.pairs if not each.error and each.direct and each.gbs >= NVLINK_GBS]
    if interconnect == "nvswitch":  # each is connected to all others
        found += [
            f"GPU {each.source} to {each.to}: {each.gbs:.0f} GB/s, at least {NVLINK_GBS:.0f} were expected"
            for each in measured.pairs
            if not each.error and each not in fast
        ]
    elif interconnect == "nvlink" and len(measured.gpus) > 1:  # each is connected to at least one other
        joined = {index for each in fast for index in (each.source, each.to)}
        found += [
            f"GPU {gpu.index}: no NVLink to any other GPU"
            for gpu in measured.gpus
            if gpu.error is None and gpu.index not in joined
        ]
    return found


def summary(measured: Measurements) -> str:
    """The measurements in one line, for people."""
    gpus = [gpu for gpu in measured.gpus if gpu.error is None]
    words = [
        f"{sum(gpu.tested_bytes for gpu in gpus) / 2**30:.0f} GiB of memory tested",
        f"{min(gpu.product_tflops for gpu in gpus):.1f} TFLOPS",
        f"{min(min(gpu.from_host_gbs, gpu.to_host_gbs) for gpu in gpus):.1f} GB/s to the machine",
    ]
    if measured.pairs:
        words.append(f"{min(pair.gbs for pair in measured.pairs):.0f} GB/s between GPUs")
    return ", ".join(words)
