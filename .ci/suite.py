"""pytest as the build machine runs it: what fails is run once more, by itself.

What passes then is named under FLAKY, and is no failure. Arguments: pytest's command line. The last line
printed is pytest's own; after a second run, one that counts both.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
SOME_FAILED = 1
"""pytest's exit code when all tests ran and some failed; after any other, some have not run."""
ALONE = ("-n", "0", "--last-failed", "--last-failed-no-failures", "none")


def main(command: Sequence[str]) -> int:
    """Runs; gives the exit code."""
    LAST_FAILED.unlink(missing_ok=True)
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        code = _run(*command, "--junit-xml", report.name)
        failed = _failed()
        if code != SOME_FAILED or not all("::" in name for name in failed):  # a whole file could not be read
            return code
        ran = _ran(report.name)
    print(f"\nRunning {len(failed)} of {ran} tests once more, by themselves.\n", flush=True)
    code = _run(*command, *ALONE)
    failed_again = _failed()
    if flaky := sorted(failed - failed_again):
        print("\nFLAKY", *flaky, sep="\n")
    print(f"{ran - len(failed_again)} passed, {len(failed_again)} failed", flush=True)
    return code


def _run(*command: str) -> int:
    return subprocess.run(command, check=False).returncode


def _failed() -> set[str]:
    """The tests that failed in the last run, as pytest names them."""
    return set(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else set()


def _ran(report: str) -> int:
    """How many tests were not skipped."""
    suites = ElementTree.parse(report).getroot().iter("testsuite")  # noqa: S314  (pytest has just written it)
    return sum(int(suite.attrib["tests"]) - int(suite.attrib["skipped"]) for suite in suites)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
