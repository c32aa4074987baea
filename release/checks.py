"""What must be true of a commit before it is released; ``make release`` asks first.

The last line is the version. Exits with 1, and says what is wrong, if anything is.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from release.lock import ROOT, project_of

_SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(rc|alpha|beta)\.[1-9]\d*)?")
_HEADING = re.compile(r"^## \[(?P<version>[^]]+)\](?: - (?P<day>\d{4}-\d{2}-\d{2}))?[ \t]*$", re.M)
_NAMED = re.compile(r"gpucloud(?:==|[-:@]v?)(\d+\.\d+\.\d+(?:-\w+\.\d+)?)\b")
UNRELEASED = "Unreleased"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What is about to be released.

    Attributes:
        version: of ``pyproject.toml``.
        module_version: what ``gpucloud --version`` prints.
        changelog: the text of ``CHANGELOG.md``.
        pages: the text of each page for users, by its path.
        changed: the paths that are not as in the commit.
        tags: the tags of the commit.
        released: every tag that begins with ``v``.
    """

    version: str
    module_version: str
    changelog: str
    pages: dict[str, str]
    changed: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    released: tuple[str, ...] = ()


def objections(commit: Commit) -> Iterator[str]:
    """Why a commit cannot be released, each with what to do."""
    version, tag = commit.version, f"v{commit.version}"
    if commit.changed:
        yield f"not committed: {', '.join(commit.changed)}; a release is built from a commit"
    if _SEMVER.fullmatch(version) is None:
        yield f"{version} is no version of Semantic Versioning; write pyproject.toml's as 1.2.3 or 1.2.3-rc.1"
    if commit.module_version != version:
        yield f"pyproject.toml says {version}, gpucloud.__version__ {commit.module_version}; make them equal"
    yield from _changelog_objections(commit.changelog, version)
    for page, text in commit.pages.items():
        if other := sorted(set(_NAMED.findall(text)) - {version}):
            yield f"{page} names version {', '.join(other)}; write {version}"
    if tag in commit.released and tag not in commit.tags:
        yield f"{tag} is the tag of another commit: {version} has been released; choose a higher version"
    for another in commit.tags:
        if another.startswith("v") and another != tag:
            yield f"this commit has the tag {another}, but is version {version}; move the tag"


def _changelog_objections(changelog: str, version: str) -> Iterator[str]:
    wanted = f"`## [{version}] - YYYY-MM-DD`"
    headings = list(_HEADING.finditer(changelog))
    if headings and headings[0]["version"] == UNRELEASED:
        end = headings[1].start() if len(headings) > 1 else len(changelog)
        if changelog[headings[0].end() : end].strip():
            yield f"CHANGELOG.md has changes under [{UNRELEASED}]; move them under {wanted}"
        headings = headings[1:]
    newest = headings[0] if headings else None
    if newest is None or newest["version"] != version:
        found = newest["version"] if newest else "missing"
        yield f"CHANGELOG.md's newest version is {found}; write {wanted}"
    elif newest["day"] is None:
        yield f"CHANGELOG.md's [{version}] has no date; write {wanted}"


def read_commit() -> Commit:
    """The checkout as it is."""
    import gpucloud

    pages = git("ls-files", "*.md").splitlines()
    return Commit(
        version=project_of()["version"],
        module_version=gpucloud.__version__,
        changelog=(ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        pages={
            page: (ROOT / page).read_text(encoding="utf-8")
            for page in pages
            if page != "CHANGELOG.md"  # tells of older versions
        },
        changed=tuple(line[3:] for line in git("status", "--porcelain").splitlines()),
        tags=tuple(git("tag", "--points-at", "HEAD").split()),
        released=tuple(git("tag", "--list", "v*").split()),
    )


def git(*arguments: str) -> str:
    """What git says about the checkout.

    Raises:
        CalledProcessError: git has failed.
    """
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> int:
    """Runs; gives the exit code."""
    commit = read_commit()
    found = list(objections(commit))
    for objection in found:
        print(f"not to be released: {objection}", file=sys.stderr)
    if not found:
        print(commit.version)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
