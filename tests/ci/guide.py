"""The recipes of docs/ci.md."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.ci.machine import Repository
from tests.pages import ROOT


def blocks(language: str, heading: str) -> list[str]:
    """The blocks of a section, as they are shown."""
    guide = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    section = guide.split(f"## {heading}\n")[1].split("\n## ")[0]
    found = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found, heading
    return found


def github_jobs(repository: Repository) -> list[Any]:
    """The jobs of the section on GitHub: with the action, and without."""
    return [
        yaml.safe_load(repository.pinned(text))["jobs"]["gpu-tests"]
        for text in blocks("yaml", "GitHub Actions")
    ]


def gitlab_job(repository: Repository) -> Any:
    """The job of the section on GitLab."""
    [text] = blocks("yaml", "GitLab CI")
    return yaml.safe_load(repository.pinned(text))["gpu-tests"]


def jenkinsfile(repository: Repository) -> str:
    """The pipeline of the section on Jenkins."""
    [text] = blocks("groovy", "Jenkins")
    return repository.pinned(text)
