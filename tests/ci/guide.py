"""The recipes of docs/ci.md, which are files of the examples."""

from __future__ import annotations

from typing import Any

import yaml

from tests.ci.machine import Repository
from tests.examples.play import example


def github_jobs(repository: Repository) -> list[Any]:
    """The jobs for GitHub: with the action, and without."""
    files = (example("github") / name for name in ("gpu-tests.yml", "one-box.yml"))
    return [yaml.safe_load(repository.pinned(file.read_text()))["jobs"]["gpu-tests"] for file in files]


def gitlab_job(repository: Repository) -> Any:
    """The job for GitLab."""
    return yaml.safe_load(repository.pinned((example("gitlab") / "gitlab-ci.yml").read_text()))["gpu-tests"]


def jenkinsfile(repository: Repository) -> str:
    """The pipeline for Jenkins."""
    return repository.pinned((example("jenkins") / "Jenkinsfile").read_text())
