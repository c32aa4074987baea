"""Measures every GPU, and the ways between them; prints one JSON object.

Of each GPU: most of its memory written and read again, a matrix product timed and checked, copies from and
to the machine. Of each GPU and its neighbour: a copy. Sizes are bytes, speeds 10^9 bytes or 10^12 operations
per second.
"""

from __future__ import annotations

import ctypes
import json
import pkgutil
import random
import sys

from . import together
from .cuda import CLOCK_KHZ, MAJOR, MINOR, MULTIPROCESSORS, CudaError, Driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .cuda import Gpu

WORD = 8
PIECE = 2 << 30
SHARE = 0.9
SIZE, TILE, SAMPLES = 4096, 64, 32
PRODUCT_S = 0.5
COPY = 256 << 20
COPIES = 8
SEED_A, SEED_B = 1, 2
MASK = (1 << 64) - 1


def pattern(index: int, seed: int) -> int:
    """As in ``kernels.cu``."""
    z = ((index ^ seed) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def test_memory(gpu: Gpu, most: int) -> dict[str, Any]:
    """Writes most of the free memory before any of it is read back."""
    left = min(int(gpu.memory()[0] * SHARE), most)
    pieces: list[tuple[int, int]] = []
    while left >= WORD:
        size = min(left, PIECE) // WORD * WORD
        pieces.append((gpu.allocate(size), size))
        left -= size
    wrong_at = gpu.allocate(WORD)
    gpu.driver.call("cuMemsetD8_v2", ctypes.c_uint64(wrong_at), 0, ctypes.c_size_t(WORD))
    for kernel, more in (("fill", ()), ("check", (ctypes.c_uint64(wrong_at),))):
        for number, (address, size) in enumerate(pieces):
            values = (ctypes.c_uint64(address), ctypes.c_uint64(size // WORD), ctypes.c_uint64(number))
            gpu.launch(kernel, (1024, 1), (256, 1), *values, *more)
    wrong = ctypes.c_uint64()
    gpu.read(wrong_at, wrong)  # waits for the kernels
    for address, _ in pieces:
        gpu.free(address)
    gpu.free(wrong_at)
    return {"tested_bytes": sum(size for _, size in pieces), "wrong_words": wrong.value}


def test_product(gpu: Gpu, size: int) -> dict[str, Any]:
    """Multiplies matrices of whole numbers for half a second, and computes some entries again."""
    count, bytes_each = size * size, size * size * 4
    a, b, c = (gpu.allocate(bytes_each) for _ in range(3))
    for address, seed in ((a, SEED_A), (b, SEED_B)):
        values = (ctypes.c_uint64(address), ctypes.c_uint64(count), ctypes.c_uint64(seed))
        gpu.launch("numbers", (256, 1), (256, 1), *values)

    def multiply() -> None:
        values = (ctypes.c_uint64(a), ctypes.c_uint64(b), ctypes.c_uint64(c), ctypes.c_int(size))
        gpu.launch("product", (size // TILE, size // TILE), (16, 16), *values)

    gpu.seconds(multiply)  # the clocks rise
    once = gpu.seconds(multiply)
    times = min(max(int(PRODUCT_S / max(once, 1e-6)), 1), 1000)
    seconds = gpu.seconds(*[multiply] * times)
    errors = sum(not _is_right(gpu, c, size, *place) for place in _places(size))
    for address in (a, b, c):
        gpu.free(address)
    return {"product_tflops": 2.0 * size**3 * times / seconds / 1e12, "product_errors": errors}


def _places(size: int) -> list[tuple[int, int]]:
    chance = random.Random(0)  # noqa: S311  (which entries are looked at is no secret)
    return [(chance.randrange(size), chance.randrange(size)) for _ in range(SAMPLES)]


def _is_right(gpu: Gpu, c: int, size: int, row: int, column: int) -> bool:
    found = ctypes.c_float()
    gpu.read(c + (row * size + column) * 4, found)
    pairs = ((pattern(row * size + k, SEED_A), pattern(k * size + column, SEED_B)) for k in range(size))
    return found.value == sum((x % 7 - 3) * (y % 7 - 3) for x, y in pairs)


def test_copies(gpu: Gpu, host: int, size: int) -> dict[str, Any]:
    """Copies from and to the machine's memory."""
    there = gpu.allocate(size)
    length = ctypes.c_size_t(size)

    def down() -> None:
        gpu.driver.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(there), ctypes.c_void_p(host), length, None)

    def up() -> None:
        gpu.driver.call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(host), ctypes.c_uint64(there), length, None)

    found = {name: _speed(gpu, size, copy) for name, copy in (("from_host_gbs", down), ("to_host_gbs", up))}
    gpu.free(there)
    return found


def _speed(gpu: Gpu, size: int, copy: Callable[[], None]) -> float:
    copy()
    return size * COPIES / gpu.seconds(*[copy] * COPIES) / 1e9


def test_pair(gpu: Gpu, other: Gpu, size: int) -> dict[str, Any]:
    """Copies to another GPU: directly if the machine allows it, else through its memory."""
    direct = ctypes.c_int()
    gpu.driver.call("cuDeviceCanAccessPeer", ctypes.byref(direct), gpu.device, other.device)
    gpu.use()
    if direct.value:
        gpu.driver.call("cuCtxEnablePeerAccess", other.context, 0)
    here = gpu.allocate(size)
    other.use()
    there = other.allocate(size)
    gpu.use()

    def copy() -> None:
        ends = (ctypes.c_uint64(there), other.context, ctypes.c_uint64(here), gpu.context)
        gpu.driver.call("cuMemcpyPeerAsync", *ends, ctypes.c_size_t(size), None)

    speed = _speed(gpu, size, copy)
    gpu.free(here)
    other.use()
    other.free(there)
    return {"from": gpu.index, "to": other.index, "direct": bool(direct.value), "gbs": speed}


def measure(driver: Driver, *, most: int = 1 << 62, size: int = SIZE, copy: int = COPY) -> dict[str, Any]:
    """Measures everything; a failure of one GPU or pair is reported there, and the others continue.

    Args:
        driver: the driver.
        most: bytes of memory that are tested at most.
        size: of the matrices.
        copy: bytes of a copy.
    """
    gpus = driver.gpus()
    host = 0
    shown: list[dict[str, Any]] = []
    for gpu in gpus:
        about: dict[str, Any] = {"index": gpu.index}
        shown.append(about)
        try:
            gpu.use()
            host = host or driver.host_memory(copy)  # a context must be in use
            about.update(
                name=gpu.name,
                capability=f"{gpu.attribute(MAJOR)}.{gpu.attribute(MINOR)}",
                multiprocessors=gpu.attribute(MULTIPROCESSORS),
                clock_mhz=gpu.attribute(CLOCK_KHZ) // 1000,
                memory_bytes=gpu.memory()[1],
            )
            gpu.load(pkgutil.get_data(__package__ or "", "kernels.ptx") or b"")
            about.update(test_memory(gpu, most))
            about.update(test_product(gpu, size))
            about.update(test_copies(gpu, host, copy))
        except CudaError as error:
            about["error"] = str(error)
    pairs: list[dict[str, Any]] = []
    well = [gpu for gpu in gpus if "error" not in shown[gpu.index]]
    for place, gpu in enumerate(well if len(well) > 1 else ()):
        other = well[(place + 1) % len(well)]
        try:
            pairs.append(test_pair(gpu, other, copy))
        except CudaError as error:
            pairs.append({"from": gpu.index, "to": other.index, "error": str(error)})
    return {"gpus": shown, "pairs": pairs}


def main() -> None:
    """Prints the measurements; with ``together RANK NODES ADDRESS PORT``, those of all nodes together."""
    found: dict[str, Any]
    if sys.argv[1:2] == ["together"]:
        rank, nodes, address, port = sys.argv[2:6]
        json.dump(together.measure(int(rank), int(nodes), address, int(port)), sys.stdout)
        return
    try:
        found = measure(Driver())
    except (OSError, CudaError) as error:
        found = {"gpus": [], "pairs": [], "error": str(error)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
