"""The program that tests GPUs: its own kernels run by the processor, and where there is one, by a GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from gpucloud.bring_up.acceptance import Measurements, program, shortcomings

KERNELS = files("gpucloud_templates").joinpath("gputest", "kernels.cu")
SMALL = (
    "import json, sys; sys.path.insert(0, sys.argv[1])\n"
    "import gputest.__main__ as test; test.PRODUCT_S = 0.001\n"
    "print(json.dumps(test.measure(test.Driver(), most=1 << 20, size=128, copy=1 << 16)))"
)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stand-in for the driver's library."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no C++ compiler (g++)")
    folder = tmp_path_factory.mktemp("libraries")
    source = Path(__file__).with_name("fake_cuda.cpp")
    command = [compiler, "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", f'-DKERNELS="{KERNELS}"']
    subprocess.run([*command, str(source), "-o", str(folder / "libcuda.so.1")], check=True)
    return folder


def run(folder: Path, libraries: Path, *code: str, **faults: str) -> Measurements:
    file = folder / "gputest.pyz"
    file.write_bytes(program())
    command = [sys.executable, "-c", *code, str(file)] if code else [sys.executable, str(file)]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries), **faults}
    done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=120)
    return Measurements.model_validate_json(done.stdout)


def test_kernels_and_program_agree(tmp_path: Path, libraries: Path) -> None:
    """Memory that holds is found to hold, and every looked-at entry of the product is exact."""
    found = run(tmp_path, libraries, SMALL)
    assert found.error is None
    assert [gpu.index for gpu in found.gpus] == [0, 1]
    assert all(gpu.tested_bytes == 1 << 20 and not gpu.wrong_words for gpu in found.gpus)
    assert all(gpu.product_tflops > 0 and not gpu.product_errors for gpu in found.gpus)
    assert all(gpu.from_host_gbs > 0 and gpu.to_host_gbs > 0 for gpu in found.gpus)
    assert [(pair.source, pair.to, pair.direct) for pair in found.pairs] == [(0, 1, True), (1, 0, True)]


def test_a_bit_that_flips_and_a_gpu_that_is_lost_are_found(tmp_path: Path, libraries: Path) -> None:
    found = run(tmp_path, libraries, SMALL, FAKE_CUDA_STUCK_BIT="1", FAKE_CUDA_LOST="0")
    assert found.gpus[0].error == "cuMemAlloc_v2: CUDA error 79: GPU is lost"
    assert found.gpus[1].wrong_words == 1
    assert found.pairs == ()


def test_wrong_arithmetic_is_found(tmp_path: Path, libraries: Path) -> None:
    """Python expects other numbers than the kernels write: what is not zero by chance is wrong."""
    code = SMALL.replace("test.PRODUCT_S", "test.pattern = lambda *_: 4; test.PRODUCT_S")
    assert all(gpu.product_errors > 20 for gpu in run(tmp_path, libraries, code).gpus)


def test_a_machine_without_a_driver_says_so(tmp_path: Path) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has a driver")
    found = run(tmp_path, tmp_path)
    assert found.gpus == ()
    assert "libcuda.so.1" in str(found.error)


@pytest.mark.gpu
def test_on_a_real_gpu(tmp_path: Path) -> None:
    """The GPUs of this machine pass, and are those that nvidia-smi lists."""
    found = run(tmp_path, tmp_path)
    command = ["nvidia-smi", "-L"]
    listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    assert shortcomings(found, count=len(listed)) == []
    assert all(gpu.name in line for gpu, line in zip(found.gpus, listed, strict=True))
