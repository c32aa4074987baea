"""An all-reduce over all GPUs of all nodes of a box, by NCCL.

``libnccl.so.2`` is called by ctypes, so that neither MPI nor a framework is needed: nccl-tests reaches other
nodes by MPI only, which needs keys among the nodes. Names and numbers are those of NVIDIA's "NCCL API".
UNVERIFIED on real machines: no source shows this use without its header.
"""

from __future__ import annotations

import ctypes
import glob
import os
import re
import socket
import struct
import tempfile
import time

from .cuda import CudaError, Driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FLOAT, SUM = 7, 0
ID_BYTES = 128
SIZE = 256 << 20
TIMES = 5
MEET_S = 120.0
LINES, LINE = 40, 300
PLACES = (
    "/usr/local/cuda*/lib*/libnccl.so.2",
    "/usr/lib/*/libnccl.so.2",
    "/opt/gpucloud/*/lib/python*/site-packages/nvidia/nccl/lib/libnccl.so.2",
    "/opt/pytorch/lib/python*/site-packages/nvidia/nccl/lib/libnccl.so.2",
)
"""Where NCCL is besides the loader's own folders: in CUDA, and in PyTorch's wheels."""
NETWORK = re.compile(r"NET/|Using network|Selected provider", re.IGNORECASE)


class Identity(ctypes.Structure):
    """``ncclUniqueId``, which is passed by value."""

    _fields_ = [("internal", ctypes.c_byte * ID_BYTES)]


class Nccl:
    """NVIDIA's collective communication library.

    Raises:
        OSError: it is not installed.
    """

    def __init__(self) -> None:
        self._library = _loaded(["libnccl.so.2", *(path for place in PLACES for path in glob.glob(place))])
        self._library.ncclGetErrorString.restype = ctypes.c_char_p

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function.

        Raises:
            CudaError: it did not succeed.
        """
        code = int(getattr(self._library, name)(*arguments))
        if code:
            said = (self._library.ncclGetErrorString(code) or b"unknown").decode(errors="replace")
            raise CudaError(f"{name}: NCCL error {code}: {said}")

    def identity(self) -> bytes:
        """What the ranks of one communicator find each other by."""
        made = Identity()
        self.call("ncclGetUniqueId", ctypes.byref(made))
        return bytes(made)


def _loaded(names: list[str]) -> ctypes.CDLL:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError("the image has no NCCL (libnccl.so.2)")


def meet(rank: int, nodes: int, address: str, port: int, make: Callable[[], bytes]) -> bytes:
    """Gives what the first node makes to all others, on its private address."""
    if rank == 0:
        made = make()
        with socket.create_server((address, port)) as server:
            server.settimeout(MEET_S)
            for _ in range(nodes - 1):
                peer, _ = server.accept()
                with peer:
                    peer.sendall(made)
        return made
    end = time.monotonic() + MEET_S
    while True:
        try:
            peer = socket.create_connection((address, port), timeout=MEET_S)
            with peer, peer.makefile("rb") as stream:
                return stream.read(ID_BYTES)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def all_reduce(driver: Driver, nccl: Nccl, rank: int, nodes: int, identity: bytes) -> dict[str, Any]:
    """Adds up a number of each GPU of all nodes; returns the speed, and how many sums are wrong."""
    gpus = driver.gpus()
    world, first = nodes * len(gpus), rank * len(gpus)
    comms = [ctypes.c_void_p() for _ in gpus]
    nccl.call("ncclGroupStart")
    for gpu, comm in zip(gpus, comms):  # noqa: B905  (Python 3.8)
        gpu.use()
        shared = Identity.from_buffer_copy(identity)
        nccl.call("ncclCommInitRank", ctypes.byref(comm), world, shared, first + gpu.index)
    nccl.call("ncclGroupEnd")
    count = SIZE // 4
    buffers: list[tuple[int, int]] = []
    for gpu in gpus:
        gpu.use()
        own = struct.unpack("<I", struct.pack("<f", first + gpu.index + 1))[0]
        buffers.append((gpu.allocate(SIZE), gpu.allocate(SIZE)))
        driver.call("cuMemsetD32_v2", ctypes.c_uint64(buffers[-1][0]), own, ctypes.c_size_t(count))

    def once() -> None:
        nccl.call("ncclGroupStart")
        for gpu, comm, (sent, got) in zip(gpus, comms, buffers):  # noqa: B905
            gpu.use()
            there = (ctypes.c_void_p(sent), ctypes.c_void_p(got), ctypes.c_size_t(count))
            nccl.call("ncclAllReduce", *there, FLOAT, SUM, comm, None)
        nccl.call("ncclGroupEnd")
        for gpu in gpus:
            gpu.use()
            driver.call("cuCtxSynchronize")

    once()  # the first one connects
    begun = time.perf_counter()
    for _ in range(TIMES):
        once()
    seconds = (time.perf_counter() - begun) / TIMES
    wrong, expected = 0, world * (world + 1) / 2
    for gpu, (_, got) in zip(gpus, buffers):  # noqa: B905
        gpu.use()
        for at in (0, count // 2, count - 1):
            value = ctypes.c_float()
            gpu.read(got + 4 * at, value)
            wrong += value.value != expected
    return {"gbs": 2 * (world - 1) / world * SIZE / seconds / 1e9, "wrong": wrong}


def measure(rank: int, nodes: int, address: str, port: int) -> dict[str, Any]:
    """What the all-reduce gave, with the lines of NCCL's log that name networks, or why there was none."""
    log = os.path.join(tempfile.mkdtemp(), "log")
    os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,NET", NCCL_DEBUG_FILE=log)
    try:
        nccl = Nccl()
    except OSError as error:
        return {"missing": True, "error": str(error)}
    found: dict[str, Any]
    try:
        identity = meet(rank, nodes, address, port, nccl.identity)
        found = all_reduce(Driver(), nccl, rank, nodes, identity)
    except (OSError, CudaError) as error:
        found = {"error": str(error)}
    return {**found, "network": network(log)}


def network(log: str) -> list[str]:
    """The lines of a log that name networks."""
    try:
        with open(log, encoding="utf-8", errors="replace") as lines:
            named = [line.strip()[:LINE] for line in lines if NETWORK.search(line)]
    except OSError:
        return []
    return named[:LINES]
