"""The part of CUDA's driver interface that the test needs, by ctypes: ``libcuda.so.1`` comes with the driver.

Names and numbers are those of NVIDIA's "CUDA Driver API" reference.
"""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CLOCK_KHZ, MULTIPROCESSORS, MAJOR, MINOR = 13, 16, 75, 76
"""Attributes of a device."""
_PORTABLE = 1


class CudaError(Exception):
    """A call of the driver failed."""


class Gpu:
    """One GPU, with the primary context in which everything is done.

    Args:
        driver: the driver.
        index: from 0, in the order of the PCI bus.
    """

    def __init__(self, driver: Driver, index: int) -> None:
        self.driver, self.index = driver, index
        self.device = ctypes.c_int()
        driver.call("cuDeviceGet", ctypes.byref(self.device), index)
        self.context = ctypes.c_void_p()
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self._functions: dict[str, ctypes.c_void_p] = {}

    def use(self) -> None:
        """Makes this GPU the current one."""
        self.driver.call("cuCtxSetCurrent", self.context)

    @property
    def name(self) -> str:
        """The product's name."""
        text = ctypes.create_string_buffer(256)
        self.driver.call("cuDeviceGetName", text, 256, self.device)
        return text.value.decode(errors="replace")

    def attribute(self, number: int) -> int:
        """One of the device's attributes."""
        value = ctypes.c_int()
        self.driver.call("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> int:
        """Memory of this GPU: its address."""
        address = ctypes.c_uint64()
        self.driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address: int) -> None:
        """Frees memory of this GPU."""
        self.driver.call("cuMemFree_v2", ctypes.c_uint64(address))

    def load(self, ptx: bytes) -> None:
        """Loads kernels; the driver compiles them for this GPU."""
        self._module = ctypes.c_void_p()
        self.driver.call("cuModuleLoadData", ctypes.byref(self._module), ctypes.c_char_p(ptx))

    def launch(self, name: str, grid: tuple[int, int], block: tuple[int, int], *values: Any) -> None:
        """Starts a kernel; ``values`` are ctypes."""
        if name not in self._functions:
            function = ctypes.c_void_p()
            self.driver.call("cuModuleGetFunction", ctypes.byref(function), self._module, name.encode())
            self._functions[name] = function
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        sizes = (*grid, 1, *block, 1, 0)
        self.driver.call("cuLaunchKernel", self._functions[name], *sizes, None, pointers, None)

    def read(self, address: int, into: Any) -> None:
        """Copies memory of this GPU into a ctypes object."""
        self.driver.call(
            "cuMemcpyDtoH_v2",
            ctypes.byref(into),
            ctypes.c_uint64(address),
            ctypes.c_size_t(ctypes.sizeof(into)),
        )

    def seconds(self, *work: Callable[[], None]) -> float:
        """How long what these calls start takes, by the GPU's own clock."""
        marks = (ctypes.c_void_p(), ctypes.c_void_p())
        for mark in marks:
            self.driver.call("cuEventCreate", ctypes.byref(mark), 0)
        self.driver.call("cuEventRecord", marks[0], None)
        for call in work:
            call()
        self.driver.call("cuEventRecord", marks[1], None)
        self.driver.call("cuEventSynchronize", marks[1])
        milliseconds = ctypes.c_float()
        self.driver.call("cuEventElapsedTime", ctypes.byref(milliseconds), *marks)
        for mark in marks:
            self.driver.call("cuEventDestroy_v2", mark)
        return milliseconds.value / 1000


class Driver:
    """CUDA's driver.

    Raises:
        OSError: it is not installed.
        CudaError: it does not start.
    """

    def __init__(self) -> None:
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # as nvidia-smi counts
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function.

        Raises:
            CudaError: it did not succeed.
        """
        code = int(getattr(self._library, name)(*arguments))
        if code:
            words = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(words))
            said = (words.value or b"unknown").decode(errors="replace")
            raise CudaError(f"{name}: CUDA error {code}: {said}")

    def gpus(self) -> list[Gpu]:
        """All of them."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return [Gpu(self, index) for index in range(count.value)]

    def host_memory(self, size: int) -> int:
        """Memory of the machine that every GPU can reach by itself: its address."""
        address = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), _PORTABLE)
        return address.value or 0
