"""A commit is released only if its version, its changelog, its pages and its tags agree."""

from __future__ import annotations

from dataclasses import replace

import pytest

from release.checks import Commit, objections, read_commit

CHANGELOG = (
    "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-11-26\n\n- A change.\n\n## [1.1.0] - 2026-10-01\n"
)
GOOD = Commit(
    version="1.2.0",
    module_version="1.2.0",
    changelog=CHANGELOG,
    pages={"docs/ci.md": "pip install gpucloud==1.2.0"},
    tags=("v1.2.0",),
    released=("v1.1.0", "v1.2.0"),
)


@pytest.mark.parametrize("tags", [(), ("v1.2.0",), ("v1.2.0", "nightly")])
def test_a_commit_whose_parts_agree_is_released_with_its_tag_or_before_it(tags: tuple[str, ...]) -> None:
    released = ("v1.1.0", *(("v1.2.0",) if tags else ()))
    assert not list(objections(replace(GOOD, tags=tags, released=released)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"changed": ("README.md",)}, "not committed: README.md"),
        ({"version": "1.2", "module_version": "1.2"}, "no version of Semantic Versioning"),
        ({"module_version": "1.1.0"}, r"gpucloud.__version__ 1.1.0"),
        ({"changelog": CHANGELOG.replace("## [1.2.0] - 2026-11-26", "## [1.2.0]")}, "has no date"),
        (
            {"changelog": CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n\n- New.\n")},
            "under [Unreleased]",
        ),
        ({"changelog": CHANGELOG.replace("1.2.0", "1.2.1")}, "newest version is 1.2.1"),
        ({"changelog": "# Changelog\n"}, "newest version is missing"),
        ({"pages": {"docs/ci.md": "image: lab/gpucloud:1.1.0"}}, "docs/ci.md names version 1.1.0"),
        ({"tags": ()}, "has been released; choose a higher version"),
        ({"tags": ("v1.2.0", "v1.3.0")}, "has the tag v1.3.0, but is version 1.2.0"),
    ],
)
def test_what_does_not_agree_stops_the_release_and_is_named(change: dict[str, object], reason: str) -> None:
    assert any(reason in objection for objection in objections(replace(GOOD, **change)))  # type: ignore[arg-type]


def test_the_pages_name_no_other_version_than_the_programs() -> None:
    commit = read_commit()
    assert not [each for each in objections(commit) if " names version " in each]
