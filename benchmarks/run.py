"""Runs every benchmark and prints one table; exits 1 when a figure is over budget or could not be taken.

``python -m benchmarks.run [NAME ...]`` runs only the named ones: ``startup`` for ``benchmarks/startup.py``.
``--short`` runs, in a few minutes, what other load on the machine changes little: ratios, CPU, memory, calls.
That little is allowed for: the short form fails only where seconds are over their budget by more than a half,
also when the benchmark is repeated: another load makes a figure larger now and then.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pkgutil import iter_modules

import benchmarks
from benchmarks.table import Row, render

Benchmark = Callable[[], list[Row]]
SHORT = "--short"
SHORT_SLACK = 0.5
"""On a machine of which others have a share, eight turns of one tree gave ratios of CPU seconds from 1.25 to
2.26 for a launch on AWS, the best of eight 1.68 to 1.96, and the tree of some hours before the same. So the
short form finds what has become much dearer; a little shows in the full form, on a quiet machine."""


def find(names: Sequence[str], form: str) -> dict[str, Benchmark]:
    """The benchmarks by module name: every module of this package with this form of one, or those named.

    Raises:
        SystemExit: a named one does not exist.
    """
    modules = {
        module.name: import_module(f"benchmarks.{module.name}")
        for module in iter_modules(benchmarks.__path__)
        if module.name not in {"run", "table"} and (not names or module.name in names)
    }
    found = {name: getattr(module, form) for name, module in modules.items() if hasattr(module, form)}
    if missing := set(names) - set(found):
        raise SystemExit(f"no such benchmark: {', '.join(sorted(missing))}")
    return found


def main(arguments: Sequence[str]) -> int:
    """Runs them one after another, so that none disturbs another; gives the exit code."""
    short, names = SHORT in arguments, [name for name in arguments if name != SHORT]
    slack = SHORT_SLACK if short else 0.0
    rows: list[Row] = []
    failed: list[str] = []
    for name, benchmark in find(names, "short" if short else "main").items():
        began = time.monotonic()
        print(f"measuring {name} …", end=" ", file=sys.stderr, flush=True)
        try:
            found = benchmark()
            if short and not all(row.within(slack) for row in found):
                print(
                    f"over budget:\n{render(found)}\nmeasuring {name} once more …",
                    file=sys.stderr,
                    flush=True,
                )
                found = benchmark()
            rows += found
            print(f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        except Exception:
            traceback.print_exc()
            failed.append(name)
    print(render(rows))
    if failed:
        print(f"could not be measured: {', '.join(failed)}", file=sys.stderr)
    return 0 if rows and not failed and all(row.within(slack) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
