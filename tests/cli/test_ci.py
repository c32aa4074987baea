"""The recipes for CI, run as their systems run them, and cancelled at random moments."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.shell import PROGRAMS, Shell

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "ci.md").read_text()
CANCELLED = ((signal.SIGINT, 7.5), (signal.SIGTERM, 2.5), (signal.SIGKILL, 0.0))
"""What GitHub's runner sends a cancelled step, and how long it waits after each
(github.com/actions/runner, ProcessInvoker)."""


@dataclass
class Job:
    """A job of a CI system on a machine with gpucloud: scripts one after the other, each a process."""

    cli: Shell
    environment: dict[str, str]
    log: list[str] = field(default_factory=list[str])

    def start(
        self, script: str, shell: Sequence[str] = ("bash", "-e", "-o", "pipefail")
    ) -> subprocess.Popen[str]:
        """Starts a step, as a runner does: the script in a file, run by a shell."""
        file = self.cli.home / f"step-{len(self.log)}.sh"
        file.write_text(script)
        self.log.append(script)
        return subprocess.Popen(
            [*shell, str(file)],
            env={
                "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
                "HOME": str(self.cli.home),
                "GPUCLOUD_HOME": str(self.cli.home),
                "XDG_RUNTIME_DIR": str(self.cli.runtime),
                "GPUCLOUD_SANDBOX": "1",
                **self.environment,
            },
            cwd=self.cli.home / "checkout",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        """Waits for a step."""
        out, _ = process.communicate(timeout=120)
        return process.returncode, out

    def cancel(self, process: subprocess.Popen[str]) -> None:
        """What happens to a step of a cancelled job; then everything of it that is left is killed."""
        for number, patience_s in CANCELLED:
            process.send_signal(number)
            try:
                process.wait(timeout=patience_s or 10)
                break
            except subprocess.TimeoutExpired:
                continue
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def a_job(cli: Shell, **environment: str) -> Job:
    """A job in a checkout with one file."""
    (cli.home / "checkout").mkdir()
    (cli.home / "checkout" / "answer").write_text("42\n")
    (cli.home / "temp" / "gpucloud" / "bin").mkdir(parents=True)
    (cli.home / "temp" / "gpucloud" / "bin" / "gpucloud").symlink_to(PROGRAMS / "gpucloud")
    return Job(cli, environment)


# --- GitHub: the action itself


def github(cli: Shell, **inputs: str) -> tuple[Job, list[Mapping[str, Any]]]:
    """The action's steps but the installation, with the values that a runner puts into them."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    known = {
        "github.repository_id": "7",
        "github.run_id": "100",
        "github.run_attempt": "1",
        "github.job": "gpu",
        "strategy.job-index": "0",
        "github.action_path": str(ROOT),
    }
    values = {name: each.get("default", "") for name, each in action["inputs"].items()}
    values = {name: inputs.get(name, _filled(value, known)) for name, value in values.items()}
    assert all(name in inputs or not each.get("required") for name, each in action["inputs"].items())
    known |= {f"inputs.{name}": value for name, value in values.items()}
    summary = cli.home / "summary.md"
    job = a_job(cli, RUNNER_TEMP=str(cli.home / "temp"), GITHUB_STEP_SUMMARY=str(summary))
    steps = action["runs"]["steps"]
    assert [step["name"] for step in steps] == [
        "Install gpucloud",
        "Run on the box",
        "Make sure that nothing is left",
    ]
    return job, [
        {**step, "env": {k: _filled(v, known) for k, v in step["env"].items()}} for step in steps[1:]
    ]


def _filled(text: str, known: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: known[found[1]], text)


def step(job: Job, one: Mapping[str, Any]) -> subprocess.Popen[str]:
    job.environment |= one["env"]
    return job.start(one["run"])


def test_the_action_runs_a_command_and_brings_its_files_back(cli: Shell) -> None:
    command = 'test "$(cat answer)" = 42 && echo "it is  42" | tee result; exit 3'
    job, (run, cleanup) = github(cli, gpu="T4", command=command, fetch="result", args="--cloud aws\n--ttl 1h")
    code, out = job.finish(step(job, run))
    assert (code, "it is  42" in out) == (3, True), out
    assert (cli.home / "checkout" / "result").read_text() == "it is  42\n"
    assert "| job |" in (cli.home / "summary.md").read_text()
    code, out = job.finish(step(job, cleanup))
    assert code == 0, out
    assert cli.sandbox.status()["billing"] == []


@pytest.mark.parametrize("turn", range(int(os.environ.get("CANCELLATIONS", "2"))))
def test_a_cancelled_job_leaves_nothing_after_its_cleanup(cli: Shell, turn: int) -> None:
    """At a moment that nobody has chosen; every second time the cleanup step has a machine without any state.

    The seed is in what pytest shows of a failure, and of all with ``-rP``.
    """
    seed = random.randrange(1 << 32)  # noqa: S311
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)  # noqa: S311
    cloud = chance.choice(["aws", "azure", "alibaba"])
    job, (run, cleanup) = github(cli, gpu="T4", command="sleep 60", args=f"--cloud {cloud}")
    process = step(job, run)
    time.sleep(chance.uniform(0.2, 4.0))
    job.cancel(process)
    if chance.random() < 0.5:
        for file in (cli.home / "state-sandbox").glob("journal.db*"):
            file.unlink()
    code, out = job.finish(step(job, cleanup))
    assert code == 0, out
    assert cli.sandbox.status()["billing"] == []


def test_the_action_installs_by_hash_and_its_lock_names_all_that_it_needs() -> None:
    """The program's own dependencies, with every cloud's, and what builds the program."""
    locked = {
        re.split("[=;]", line)[0].strip()
        for line in (ROOT / "requirements" / "action.txt").read_text().replace("\\\n", " ").splitlines()
        if "--hash=sha256:" in line
    }
    wanted = [Requirement("gpucloud[aws,azure,alibaba]"), Requirement("hatchling")]
    seen: set[str] = set()
    for each in wanted:  # grows as it is read
        for text in metadata.requires(each.name) or ():
            needed = Requirement(text)
            extras = each.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                wanted += [needed] if str(needed) not in seen else []
                seen.add(str(needed))
    assert {canonicalize_name(each.name) for each in wanted} - {"gpucloud"} <= locked
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    installs = action["runs"]["steps"][0]["run"].splitlines()[2:]
    assert all("--require-hashes" in line or "--no-deps --no-build-isolation" in line for line in installs)


def test_everything_in_the_action_that_comes_from_outside_is_data(cli: Shell) -> None:
    """Inputs travel in the environment, never in the text of a script."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert all("${{" not in each["run"] for each in action["runs"]["steps"])
    marker = cli.home / "owned"
    command = f'echo fine # "; touch {marker}; $(touch {marker})'
    job, (run, _) = github(cli, gpu="T4", command=command, args="--cloud aws")
    code, out = job.finish(step(job, run))
    assert (code, "fine" in out, marker.exists()) == (0, True, False), out


# --- the snippets of the guide


def snippet(language: str, heading: str) -> str:
    section = GUIDE.split(f"## {heading}\n")[1].split("\n## ")[0]
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found, heading
    return found[1]


def gitlab() -> tuple[dict[str, str], str, str]:
    job = yaml.safe_load(snippet("yaml", "GitLab CI"))["gpu-tests"]
    return dict(job["variables"]), "\n".join(job["script"]), "\n".join(job["after_script"])


def jenkins() -> tuple[dict[str, str], str, str]:
    text = snippet("groovy", "Jenkins")
    assert re.search(r"post \{\s+always \{\s+sh '([^']*)'", text)
    run, cleanup = re.findall(r"sh '([^']*)'", text)
    return {"GPUCLOUD_OWNER": "ci-jenkins", "RUN_ID": "jenkins-job-1"}, run, cleanup


@pytest.mark.parametrize("system", [gitlab, jenkins], ids=["GitLab", "Jenkins"])
def test_a_snippet_runs_as_it_stands_and_cleans_up_when_it_is_killed(cli: Shell, system: Any) -> None:
    """With a stand-in for pytest on the box, and killed without a word in the middle."""
    variables, run, cleanup = system()
    known = {"CI_PROJECT_ID": "7", "CI_JOB_ID": "1"}
    job = a_job(cli, **{k: re.sub(r"\$(\w+)", lambda f: known[f[1]], v) for k, v in variables.items()})
    assert "-- pytest -m gpu --junit-xml results.xml" in run
    quick = run.replace("-- pytest -m gpu --junit-xml", "--cloud aws -- cp answer")
    code, out = job.finish(job.start(quick))
    assert code == 0, out
    assert (cli.home / "checkout" / "results.xml").read_text() == "42\n"
    slow = run.replace("-- pytest -m gpu --junit-xml results.xml", "--cloud aws -- sleep 60")
    process = job.start(slow)
    assert process.stdout is not None
    for line in process.stdout:
        if "  job " in line:
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert len(cli.billed()) == 1
    code, out = job.finish(job.start(cleanup))
    assert code == 0, out
    assert cli.sandbox.status()["billing"] == []
