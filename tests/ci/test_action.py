"""The GitHub action, run as a runner runs it, and cancelled at random moments."""

from __future__ import annotations

import json
import os
import random
import re
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.ci.github import Action
from tests.ci.machine import Machine, Repository, a_machine, cancel, install
from tests.pages import ROOT
from tests.shell import Shell

RUN, CLEANUP = "Run on the box", "Make sure that nothing is left"


def action(machine: Machine, repository: Repository, **inputs: str) -> Action:
    """The action after its install step."""
    install(machine, machine.temp / "gpucloud")
    given = {name.replace("_", "-"): value for name, value in inputs.items()}
    used = Action.fetched(machine, repository, given)
    used.steps.done["install"] = {"outcome": "success", "outputs": {}}
    return used


def play(used: Action, *names: str) -> int:
    """Runs the steps of these names, or all after the install step."""
    first, *others = used.document["runs"]["steps"]
    assert first["id"] == "install"
    return used.steps.play([used.step(name) for name in names] or others)


def test_the_action_runs_a_command_and_brings_its_files_back(cli: Shell, repository: Repository) -> None:
    """It gives the command's exit code, a summary, and what the box has cost; nothing is left."""
    machine = a_machine(cli, repository)
    command = 'test "$(cat answer)" = 42 &&\n  echo "it is  42" | tee result\nexit 3'
    used = action(
        machine, repository, gpu="T4", command=command, fetch="result", args="--cloud\naws\n--ttl=1h"
    )
    assert play(used) == 3, machine.said
    assert "it is  42" in machine.said
    assert (machine.workspace / "result").read_text() == "it is  42\n"
    assert "| job |" in used.steps.summary
    assert cli.sandbox.status()["billing"] == []
    outputs = used.outputs()
    spent = json.loads(Path(outputs["spend"]).read_text())
    assert [box["run_id"] for box in spent["boxes"]] == [outputs["run-id"]] == ["gh-100-1-gpu-tests-0"]


def test_a_line_of_args_is_one_argument_whatever_it_holds(cli: Shell, repository: Repository) -> None:
    """Spaces, quotes, globs and command substitutions reach the box as they stand; so does the command.

    The token that a checkout leaves in ``.git/config`` does not.
    """
    machine = a_machine(cli, repository)
    (machine.workspace / ".git").mkdir(exist_ok=True)
    (machine.workspace / ".git" / "config").write_text("AUTHORIZATION: basic token\n")
    mark = cli.home / "expanded"
    value = f"two  words; 'one' \"two\" * $(touch {mark}) `touch {mark}` \\ ${{HOME}} -- && exit 1"
    command = f'# "; touch {mark}; $(touch {mark})\nprintf %s "$VALUE" >value; [ ! -e .git ]\n'
    args = f"--cloud=aws\n\n--env=VALUE={value}\n--tags\nteam=gpu tests"
    used = action(machine, repository, gpu="T4", command=command, args=args, fetch="value")
    assert play(used, RUN) == 0, machine.said
    assert (machine.workspace / "value").read_text() == value
    assert not mark.exists()


def test_two_arguments_on_a_line_are_refused_before_anything_is_bought(
    cli: Shell, repository: Repository
) -> None:
    machine = a_machine(cli, repository)
    used = action(machine, repository, gpu="T4", command="true", args="--spot --cloud aws")
    assert play(used, RUN) == 125
    assert "No such option: --spot --cloud aws" in machine.said
    assert cli.changes_asked() == []


def test_without_a_python_that_is_new_enough_the_action_says_so_and_does_nothing_else(
    cli: Shell, repository: Repository
) -> None:
    machine = a_machine(cli, repository)
    for program in (cli.home / "bin").glob("python3*"):
        program.unlink()
    used = Action.fetched(machine, repository, {"gpu": "T4", "command": "true"})
    assert used.steps.play(used.document["runs"]["steps"]) == 1
    assert "gpucloud needs Python 3.11 or newer" in machine.said
    assert "setup-python" in machine.said
    assert used.steps.done["spend"]["outcome"] == "skipped"
    assert used.outputs()["spend"] == ""


@pytest.mark.parametrize("turn", range(int(os.environ.get("CANCELLATIONS", "2"))))
def test_a_cancelled_job_leaves_nothing_after_its_cleanup(
    cli: Shell, repository: Repository, turn: int
) -> None:
    """At a moment that nobody has chosen; every second time the cleanup step has a machine without any state.

    The seed is in what pytest shows of a failure, and of all with ``-rP``.
    """
    seed = random.randrange(1 << 32)  # noqa: S311
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)  # noqa: S311
    cloud = chance.choice(["aws", "azure", "alibaba"])
    machine = a_machine(cli, repository)
    used = action(machine, repository, gpu="T4", command="sleep 60", args=f"--cloud={cloud}")
    process = used.steps.start(used.step(RUN))
    time.sleep(chance.uniform(0.2, 4.0))
    cancel(process)
    used.steps.code = 1
    if chance.random() < 0.5:
        for file in (cli.home / "state-sandbox").glob("journal.db*"):
            file.unlink()
    cleanup = used.step(CLEANUP)
    assert used.steps.wanted(cleanup)
    assert machine.finish(used.steps.start(cleanup)) == 0, machine.said
    assert cli.sandbox.status()["billing"] == []


def test_what_comes_from_outside_is_never_in_the_text_of_a_script() -> None:
    """Inputs travel in the environment; no other action is used."""
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    assert all("uses" not in each and "${{" not in each["run"] for each in steps)


def test_the_lock_of_the_action_names_all_that_it_needs_as_the_tests_have_it() -> None:
    """The program's dependencies, with every cloud's, and what builds the program; in the tests' versions."""
    action_lock, dev_lock = (locked(ROOT / "requirements" / f"{name}.txt") for name in ("action", "dev"))
    wanted = [Requirement("gpucloud[aws,azure,alibaba]"), Requirement("hatchling")]
    seen: set[str] = set()
    for each in wanted:  # grows as it is read
        for text in metadata.requires(each.name) or ():
            needed = Requirement(text)
            extras = each.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                wanted += [needed] if str(needed) not in seen else []
                seen.add(str(needed))
    assert {canonicalize_name(each.name) for each in wanted} - {"gpucloud"} <= set(action_lock)
    assert action_lock.items() <= dev_lock.items()
    install_lines = (ROOT / "requirements" / "install.sh").read_text().splitlines()
    pip = [line for line in install_lines if line.startswith('"${pip[@]}"')]
    assert len(pip) == 2
    assert all("--require-hashes" in line or "--no-deps --no-build-isolation" in line for line in pip)


def locked(file: Path) -> dict[str, str]:
    """The versions of a file of requirements that have a hash."""
    lines = file.read_text().replace("\\\n", " ").splitlines()
    requirements = [re.split("[=;]+", line) for line in lines if "--hash=sha256:" in line]
    return {name.strip(): version.split()[0] for name, version, *_ in requirements}
