"""Fuzzes the readers of what others wrote: ``python -m tests.fuzz``, or ``make fuzz``.

Each target runs in a process of its own, for a time or a number of executions. With atheris (``make fuzz``
installs it on Linux) what is kept and changed further is what reached new code; without it, changes are
blind. What makes a target fail is written to ``build/fuzz/TARGET/``; once that is mended, it becomes a file
of ``tests/fuzz/corpus/TARGET/``.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import logging
import mmap
import os
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, redirect_stderr
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz.mutation import MOST_BYTES, mutated

CORPUS = Path(__file__).with_name("corpus")
FOUND = Path("build/fuzz")
"""Inputs that reached new code, and those that failed."""
ROOMS = (
    *("gpucloud", "gpucloud_alibaba", "gpucloud_aws", "gpucloud_azure"),
    *("gpucloud_pricing", "gpucloud_templates"),
)
HAS_ATHERIS = find_spec("atheris") is not None
HANGS_AFTER_S = 30
ENOUGH_MIB = 4096
OWN_SHARE = 0.5
"""The share of our own changes; the others are libFuzzer's."""
_COVERED = re.compile(r"\bcov: (\d+)")


def seeds_of(target: str) -> list[bytes]:
    """The corpus of a target, in order."""
    return [file.read_bytes() for file in sorted(CORPUS.joinpath(target).iterdir())]


def inputs(target: str, most: int, seed: int) -> list[bytes]:
    """The corpus of a target, and so many changed inputs; always the same of a seed."""
    seeds, dice = seeds_of(target), random.Random(seed)  # noqa: S311  (no secret)
    return [*seeds, *(mutated(dice.choice(seeds), dice) for _ in range(most))]


def watched(target: str, run: Callable[[bytes], None], counted: memoryview) -> Callable[[bytes], None]:
    """A target that counts its inputs, and keeps the one that it fails at."""

    def watch(data: bytes) -> None:
        counted[0] += 1
        try:
            run(data)
        except BaseException:
            name = f"crash-{hashlib.sha256(data).hexdigest()[:12]}"
            FOUND.joinpath(target, name).write_bytes(data)
            traceback.print_exc()
            raise

    return watch


def fuzz_blindly(target: str, run: Callable[[bytes], None], *, seconds: int, most: int) -> None:
    """Changes the corpus at random."""
    end, number, seed = time.monotonic() + seconds, 0, time.time_ns()
    while time.monotonic() < end and number < most:
        for data in inputs(target, 100, seed + number):
            number += 1
            run(data)


def fuzz_by_coverage(target: str, run: Callable[[bytes], None], *, seconds: int, most: int) -> None:
    """Has libFuzzer change what reaches new code of this project. Ends the process."""
    import atheris

    def change(data: bytes, most_bytes: int, seed: int) -> bytes:
        dice = random.Random(seed)  # noqa: S311  (no secret)
        if dice.random() < OWN_SHARE:
            return mutated(data, dice, most_bytes)
        return atheris.Mutate(data, most_bytes)

    corpus = FOUND / target / "corpus"
    corpus.mkdir(exist_ok=True)
    with atheris.instrument_imports(include=list(ROOMS)):
        for data in seeds_of(target):  # what is imported and made at its first use takes its time here
            run(data)
    options = {
        "max_total_time": seconds,
        "runs": most,
        "max_len": MOST_BYTES,
        "timeout": HANGS_AFTER_S,
        "rss_limit_mb": ENOUGH_MIB,
        "artifact_prefix": f"{FOUND / target}/",
    }
    words = [f"-{name}={value}" for name, value in options.items()]
    atheris.Setup([sys.argv[0], *words, str(corpus), str(CORPUS / target)], run, custom_mutator=change)
    atheris.Fuzz()


def _targets() -> Mapping[str, Callable[[bytes], None]]:
    """The targets; where there is atheris, it learns which of the project's code they reach."""
    with ExitStack() as stack:
        if HAS_ATHERIS:
            import atheris

            stack.enter_context(redirect_stderr(io.StringIO()))  # it names every module
            stack.enter_context(atheris.instrument_imports(include=list(ROOMS)))
        targets: Mapping[str, Callable[[bytes], None]] = import_module("tests.fuzz.targets").TARGETS
    return targets


def _fuzz(target: str, run: Callable[[bytes], None], *, seconds: int, most: int) -> tuple[int, bool]:
    """Fuzzes in a process of its own, and prints a line; how often it ran, and whether it failed."""
    begun, place = time.monotonic(), FOUND / target
    place.mkdir(parents=True, exist_ok=True)
    said, scratch = place / "last.txt", place / "tmp"
    scratch.mkdir(exist_ok=True)
    counted = memoryview(mmap.mmap(-1, 8)).cast("Q")  # shared with the child
    child = os.fork()
    if not child:
        with said.open("wb") as log:
            os.dup2(log.fileno(), 2)
        tempfile.tempdir = str(scratch)
        fuzz = fuzz_by_coverage if HAS_ATHERIS else fuzz_blindly
        try:
            fuzz(target, watched(target, run, counted), seconds=seconds, most=most)
        except BaseException:  # atheris ends by SystemExit; what failed is told
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    shutil.rmtree(scratch)
    covered = _COVERED.findall(said.read_text(errors="replace"))
    edges = f"{covered[-1]:>6} edges" if covered else "blind"
    failed = f"  FAILED: see {said}" if code else ""
    print(f"{target:16} {counted[0]:>9} {time.monotonic() - begun:>6.0f} s {edges}{failed}", flush=True)
    return int(counted[0]), code != 0


def main(arguments: Sequence[str]) -> int:
    """Fuzzes; gives the exit code."""
    names = sorted(each.name for each in CORPUS.iterdir())
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", action="append", choices=names, help="only this one; repeatable")
    parser.add_argument("--seconds", type=int, default=60, help="the longest time of each (default: 60)")
    parser.add_argument("--executions", type=int, default=1_000_000, help="the most executions of each")
    given = parser.parse_args(arguments)
    targets = _targets()
    logging.disable(logging.CRITICAL)
    done = [
        _fuzz(name, targets[name], seconds=given.seconds, most=given.executions)
        for name in given.target or names
    ]
    failed = sum(failure for _, failure in done)
    print(f"{sum(number for number, _ in done)} executions of {len(done)} targets, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
