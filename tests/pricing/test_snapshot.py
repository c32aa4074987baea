"""The shipped snapshot is what its script makes of the CSV files, and can be used alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gpucloud_pricing
from build_tariffs import build_tariffs
from gpucloud_pricing.snapshot import SNAPSHOT, TARIFFS

ROOT = Path(__file__).parents[2]


def test_the_committed_snapshot_is_byte_for_byte_what_the_script_builds(tmp_path: Path) -> None:
    script = ROOT / "pricing" / "build_snapshot.py"
    code = (
        f"import runpy, sys, pathlib; m = runpy.run_path({str(script)!r});"
        "sys.stdout.buffer.write(m['build'](pathlib.Path(sys.argv[1])))"
    )
    data = Path(gpucloud_pricing.__file__).parent / "data"
    built = subprocess.run([sys.executable, "-c", code, data], capture_output=True, check=True, cwd=tmp_path)
    assert built.stdout == SNAPSHOT.read_bytes()


def test_the_committed_tariffs_are_byte_for_byte_what_the_script_chooses() -> None:
    assert build_tariffs(Path(gpucloud_pricing.__file__).parent / "data") == TARIFFS.read_bytes()


def test_the_library_answers_a_search_with_the_standard_library_alone(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(SNAPSHOT.parents[1])!r});"
        "from datetime import date; from gpucloud_pricing import *;"
        "found = Market.load().search(Demand(gpus=parse_requirements('A100:8')), date(2026, 11, 20), 1);"
        "print(found[0].instance_type)"
    )
    alone = [sys.executable, "-I", "-S", "-c", code]  # -S: no site-packages
    answer = subprocess.run(alone, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert answer.stdout.strip() == "p4d.24xlarge"
