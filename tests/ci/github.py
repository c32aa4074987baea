"""A small interpreter of GitHub Actions: a job's steps, composite actions, and the expressions that both use.

It knows what the recipes need, by the documentation of workflow syntax and the runner's schema of actions
(github.com/actions/runner, ``action_yaml.json``); it refuses everything else.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.ci.machine import Machine, Repository

Contexts = Mapping[str, Mapping[str, Any]]

SHELLS = {
    None: ("bash", "-e"),
    "bash": ("bash", "--noprofile", "--norc", "-eo", "pipefail"),
}
"""The command line of each ``shell``, before the file; a step of an action must name one."""
EVENT: Contexts = {
    "github": {
        "repository_id": "7",
        "run_id": "100",
        "run_attempt": "1",
        "job": "gpu-tests",
        "token": "of the job",
        "event": {"number": 5},
    },
    "strategy": {"job-index": "0"},
}
STEP_KEYS = {"name", "id", "if", "env"}
CHECKOUT = re.compile(r"actions/checkout@[0-9a-f]{40}")
FILES = ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV", "GITHUB_PATH")


@dataclass(slots=True)
class Steps:
    """Steps that run one after the other and see each other's outputs: a job's, or an action's."""

    machine: Machine
    repository: Repository
    contexts: Contexts
    environment: Mapping[str, str]
    shells: Collection[str | None] = frozenset(SHELLS)
    done: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """The context ``steps``."""
    code: int = 0
    """The exit code of the first step that failed."""
    summary: str = ""

    def play(self, steps: Sequence[Mapping[str, Any]]) -> int:
        """Runs the steps that are wanted, as a job does that nobody cancels; its exit code."""
        for step in steps:
            if not self.wanted(step):
                self._done(step, "skipped", {})
            elif "uses" in step:
                self._use(step)
            else:
                self.finish(step, self.start(step))
        return self.code

    def wanted(self, step: Mapping[str, Any]) -> bool:
        """Whether a step runs, by its ``if``. Without a status function, only while nothing has failed."""
        condition = step.get("if", "")
        well = self.code == 0 or "always()" in condition
        return well and (not condition or bool(evaluate(condition, self._visible)))

    def start(self, step: Mapping[str, Any]) -> subprocess.Popen[str]:
        """Starts a ``run`` step."""
        assert set(step) <= STEP_KEYS | {"run", "shell"}, f"not known here: {step}"
        assert step.get("shell") in self.shells, f"{step.get('name')} needs a shell"
        for file in FILES:
            (self.machine.temp / file).write_text("")
        environment = {
            **self.environment,
            **{name: fill(value, self._visible) for name, value in step.get("env", {}).items()},
            **{file: str(self.machine.temp / file) for file in FILES},
            "RUNNER_TEMP": str(self.machine.temp),
            "GITHUB_WORKSPACE": str(self.machine.workspace),
        }
        script = fill(step["run"], self._visible)
        return self.machine.start(script, SHELLS[step.get("shell")], environment)

    def finish(self, step: Mapping[str, Any], process: subprocess.Popen[str]) -> None:
        """Waits for a step, and takes what it has written for later ones."""
        code = self.machine.finish(process)
        written = {file: (self.machine.temp / file).read_text() for file in FILES}
        assert not written["GITHUB_ENV"] + written["GITHUB_PATH"], "not known here"
        outputs = dict(line.split("=", 1) for line in written["GITHUB_OUTPUT"].splitlines())
        self.summary += written["GITHUB_STEP_SUMMARY"]
        self._done(step, "success" if code == 0 else "failure", outputs)
        self.code = self.code or code

    def _use(self, step: Mapping[str, Any]) -> None:
        """Uses an action: the one for checkouts, whose work is done already, or gpucloud's."""
        assert set(step) <= STEP_KEYS | {"uses", "with"}, f"not known here: {step}"
        if CHECKOUT.fullmatch(step["uses"]):
            return
        assert step["uses"] == f"OWNER/gpucloud@{self.repository.commit}"
        given = {name: fill(str(value), self._visible) for name, value in step.get("with", {}).items()}
        action = Action.fetched(self.machine, self.repository, given, self.environment)
        code = action.steps.play(action.document["runs"]["steps"])
        self.summary += action.steps.summary
        self._done(step, "success" if code == 0 else "failure", action.outputs())
        self.code = self.code or code

    def _done(self, step: Mapping[str, Any], outcome: str, outputs: Mapping[str, str]) -> None:
        if "id" in step:
            self.done[step["id"]] = {"outcome": outcome, "outputs": outputs}

    @property
    def _visible(self) -> Contexts:
        return {**self.contexts, "steps": self.done}


@dataclass(slots=True)
class Action:
    """One use of a composite action."""

    document: Mapping[str, Any]
    steps: Steps

    @classmethod
    def fetched(
        cls,
        machine: Machine,
        repository: Repository,
        given: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
    ) -> Action:
        """The action of a repository, unpacked beside the checkout as a runner does, with these inputs."""
        folder = machine.temp.parent / "_actions"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        pack = subprocess.run(
            ["git", "--git-dir", str(repository.folder), "archive", repository.commit],
            check=True,
            capture_output=True,
        )
        subprocess.run(["tar", "--extract", "--directory", str(folder)], input=pack.stdout, check=True)
        document = yaml.safe_load((folder / "action.yml").read_text())
        assert document["runs"]["using"] == "composite"
        assert set(given) <= set(document["inputs"]), "GitHub would warn of an input that is not there"
        missing = {name for name, each in document["inputs"].items() if each.get("required")} - set(given)
        assert not missing, f"required: {missing}"
        inputs = {
            name: given.get(name, fill(each.get("default", ""), EVENT))
            for name, each in document["inputs"].items()
        }
        own = {**(environment or {}), "GITHUB_ACTION_PATH": str(folder)}
        contexts = {**EVENT, "inputs": inputs}
        return cls(document, Steps(machine, repository, contexts, own, frozenset(SHELLS) - {None}))

    def step(self, name: str) -> Mapping[str, Any]:
        """A step by its name."""
        steps: list[Mapping[str, Any]] = self.document["runs"]["steps"]
        return next(each for each in steps if each["name"] == name)

    def outputs(self) -> dict[str, str]:
        """The values of the outputs; empty where the step that gives one has not."""
        known = {**self.steps.contexts, "steps": self.steps.done}
        return {name: fill(each["value"], known) for name, each in self.document["outputs"].items()}


def play_job(machine: Machine, repository: Repository, job: Mapping[str, Any]) -> Steps:
    """Runs a job of a workflow."""
    known = {"runs-on", "timeout-minutes", "permissions", "env", "steps"}
    assert set(job) <= known, f"not known here: {set(job) - known}"
    environment = {name: fill(value, EVENT) for name, value in job.get("env", {}).items()}
    steps = Steps(machine, repository, EVENT, environment)
    steps.play(job["steps"])
    return steps


def fill(text: str, contexts: Contexts) -> str:
    """A text with the values of its expressions."""
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: str(evaluate(found[1], contexts)), text)


def evaluate(expression: str, contexts: Contexts) -> Any:
    """The value of an expression.

    Raises:
        AssertionError: GitHub would not know it in this place, or this interpreter does not.
    """
    if " && " in expression:
        return all(evaluate(each, contexts) for each in expression.split(" && "))
    if " == " in expression:
        left, right = expression.split(" == ")
        return evaluate(left, contexts) == evaluate(right, contexts)
    if expression == "always()":
        return True
    if text := re.fullmatch(r"'([^']*)'", expression):
        return text[1]
    assert re.fullmatch(r"[a-z]+(\.[A-Za-z_-]+)+", expression), f"not known here: {expression}"
    name, *path = expression.split(".")
    value: Any = contexts
    for key in (name, *path):
        optional = path[1:2] == ["outputs"] and key == path[-1]  # a step that was skipped gives none
        assert optional or key in value, f"GitHub knows no {expression} here"
        value = value.get(key, "")
    return value
