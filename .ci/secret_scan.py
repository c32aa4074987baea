"""Looks for secrets in every file of the repository: `make lint-secrets`. Names of files are looked at alone.

``.secrets.baseline`` has the settings, and what only looks like a secret. A line that moved is no new one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from detect_secrets.core import baseline
from detect_secrets.core.secrets_collection import SecretsCollection

BASELINE = ".secrets.baseline"
ROOT = Path(__file__).parents[1]


def main(named: Sequence[str]) -> int:
    """Names the files and lines; exit code 1 if there are any."""
    known = baseline.load(baseline.load_from_file(str(ROOT / BASELINE)), filename=BASELINE)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    found = SecretsCollection()
    found.scan_files(*(named or filter(None, listed.stdout.split("\0"))), num_processors=2)
    new = found - known
    for file, secret in new:
        print(f"{file}:{secret.line_number}: {secret.type}", file=sys.stderr)
    if new:
        print("If it is none, say so in its line: # pragma: allowlist secret", file=sys.stderr)
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
