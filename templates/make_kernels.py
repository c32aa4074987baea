"""Makes ``gputest/kernels.ptx`` from ``kernels.cu``; needs no GPU.

Run it with a Python that has ``nvidia-cuda-nvrtc-cu12==12.1.105``, and commit what it writes. That release
still knows Volta, the oldest GPU on offer, and its PTX is understood by every driver since 530.
"""

from __future__ import annotations

import ctypes
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent / "gpucloud_templates" / "gputest"
OLDEST = b"--gpu-architecture=compute_70"


def nvrtc() -> ctypes.CDLL:
    """The compiler's library, out of its wheel."""
    found = find_spec("nvidia.cuda_nvrtc")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("pip install nvidia-cuda-nvrtc-cu12==12.1.105")
    folder = Path(found.submodule_search_locations[0]) / "lib"
    ctypes.CDLL(str(next(folder.glob("libnvrtc-builtins.so*"))), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(next(folder.glob("libnvrtc.so*"))))


def compiled(source: bytes) -> bytes:
    """CUDA C++ as PTX."""
    library, program, size = nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels.cu", 0, None, None)
    code = library.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(OLDEST))
    if code:
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        raise SystemExit(log.value.decode())
    library.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    library.nvrtcGetPTX(program, text)
    return text.value


if __name__ == "__main__":
    (HERE / "kernels.ptx").write_bytes(compiled((HERE / "kernels.cu").read_bytes()))
