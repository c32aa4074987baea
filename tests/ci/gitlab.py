"""A small interpreter of GitLab's jobs: variables, scripts that share a shell, ``after_script``.

By https://docs.gitlab.com/ci/yaml/: it refuses keywords and variables that the recipe does not need.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.ci.machine import Machine

KEYWORDS = {"image", "timeout", "variables", "before_script", "script", "after_script", "artifacts"}
SHELL = ("bash",)
OPTIONS = "set -eo pipefail\nset +o noclobber\n"
"""What the runner writes before a script (gitlab-runner, ``shells/bash.go``)."""


def variables(machine: Machine, job: Mapping[str, Any]) -> dict[str, str]:
    """The variables of a job: GitLab's own, then the job's, in which those are expanded."""
    known = {"CI_PROJECT_ID": "7", "CI_JOB_ID": "1", "CI_BUILDS_DIR": str(machine.temp)}
    own = {
        name: re.sub(r"\$(\w+)", lambda found: known[found[1]], value)
        for name, value in job["variables"].items()
    }
    return known | own


def play(machine: Machine, job: Mapping[str, Any]) -> int:
    """Runs a job; the exit code of its script. ``after_script`` has its own shell, and runs in any case."""
    assert set(job) <= KEYWORDS, f"not known here: {set(job) - KEYWORDS}"
    assert "@sha256:" in job["image"]
    values = variables(machine, job)
    script = [*job.get("before_script", ()), *job["script"]]
    code = machine.run(OPTIONS + "\n".join(script), SHELL, values)
    status = "success" if code == 0 else "failed"
    after = OPTIONS + "\n".join(job["after_script"])
    after_code = machine.run(after, SHELL, {**values, "CI_JOB_STATUS": status})
    assert after_code == 0, machine.said  # GitLab itself would only show it
    return code
