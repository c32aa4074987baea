"""The recipes of docs/ci.md, run as they stand, install steps included, and killed in the middle."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ci import gitlab, jenkins
from tests.ci.github import play_job
from tests.ci.guide import github_jobs, gitlab_job, jenkinsfile
from tests.ci.machine import Machine, Repository, a_machine, install, killer
from tests.shell import Shell


def on_github(machine: Machine, repository: Repository) -> int:
    """The recipe with the action."""
    job, _ = github_jobs(repository)
    played = play_job(machine, repository, job)
    assert "| job |" in played.summary
    assert '"schema": "gpucloud.spend/v1"' in machine.said
    return played.code


def on_gitlab(machine: Machine, repository: Repository) -> int:
    """The recipe for GitLab."""
    return gitlab.play(machine, gitlab_job(repository))


def on_jenkins(machine: Machine, repository: Repository) -> int:
    """The recipe for Jenkins."""
    return jenkins.play(machine, jenkinsfile(repository))


@pytest.mark.parametrize("play", [on_github, on_gitlab, on_jenkins], ids=["GitHub", "GitLab", "Jenkins"])
def test_a_recipe_installs_tests_on_a_gpu_brings_the_results_and_leaves_nothing(
    cli: Shell, repository: Repository, play: Callable[[Machine, Repository], int]
) -> None:
    machine = a_machine(cli, repository, without={"rsync"} if play is on_gitlab else ())
    assert play(machine, repository) == 0, machine.said
    assert 'tests="1"' in (machine.workspace / "results.xml").read_text()
    assert cli.sandbox.status()["billing"] == []


def test_several_commands_on_one_box_leave_nothing_when_one_of_them_fails(
    cli: Shell, repository: Repository
) -> None:
    """The recipe without the action, after its install step."""
    machine = a_machine(cli, repository)
    install(machine, machine.temp / "venv")
    (machine.workspace / "answer").write_text("41\n")
    _, job = github_jobs(repository)
    steps = [each for each in job["steps"] if "install.sh" not in each.get("run", "")]
    assert len(steps) == len(job["steps"]) - 1
    assert play_job(machine, repository, {**job, "steps": steps}).code == 1, machine.said
    assert "Tesla T4" in machine.said
    assert "1 failed" in machine.said
    assert cli.sandbox.status()["billing"] == []


def gitlab_killed(machine: Machine, repository: Repository) -> int:
    """The recipe for GitLab, after its install step."""
    job = gitlab_job(repository)
    del job["before_script"]
    install(machine, machine.temp / "gpucloud-1" / "venv")
    return gitlab.play(machine, job)


def jenkins_killed(machine: Machine, repository: Repository) -> int:
    """The recipe for Jenkins, after its install step."""
    install(machine, machine.temp / "gpucloud" / "venv")
    return jenkins.play(machine, jenkinsfile(repository), without={"Install gpucloud"})


@pytest.mark.parametrize("play", [gitlab_killed, jenkins_killed], ids=["GitLab", "Jenkins"])
def test_a_recipe_cleans_up_when_its_run_is_killed_without_a_word(
    cli: Shell, repository: Repository, play: Callable[[Machine, Repository], int]
) -> None:
    machine = a_machine(cli, repository)
    machine.watch = killer(cli)
    (machine.workspace / "slow").touch()
    assert play(machine, repository) == -9, machine.said
    assert cli.sandbox.status()["billing"] == []
