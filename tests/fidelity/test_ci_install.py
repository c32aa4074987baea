"""The install step of the action and of the recipes, with the package index that pip is set to use."""

from __future__ import annotations

from tests.ci import gitlab
from tests.ci.conftest import endpoint, repository
from tests.ci.guide import gitlab_job
from tests.ci.machine import Repository, a_machine
from tests.shell import Shell

__all__ = ["endpoint", "repository"]


def test_a_recipe_installs_all_that_it_needs_from_the_index(cli: Shell, repository: Repository) -> None:
    """Into an environment that has nothing else."""
    machine = a_machine(cli, repository, without={"rsync"}, online=True)
    assert gitlab.play(machine, gitlab_job(repository)) == 0, machine.said
    assert cli.sandbox.status()["billing"] == []
