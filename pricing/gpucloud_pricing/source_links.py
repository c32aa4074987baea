"""Where a source can be read: a link that a buyer can open."""

from __future__ import annotations

import re
from urllib.parse import quote

from gpucloud_pricing.values import Source

_REPOSITORY = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+")
_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+(/\S*)?")
_ISSUE = re.compile(r"(issue|pull) ([0-9]+)")
_SUFFIX = re.compile(r"\S+\.[a-z0-9]+")


def link_to(source: Source) -> str | None:
    """The address of a source; ``None`` if it has none, or its file is not named exactly.

    A file of a public repository is linked at its commit; a repository without a commit as a whole.
    """
    repository, path = source.repository, source.path
    if source.url:
        return source.url
    if _REPOSITORY.fullmatch(repository) and "." not in repository.split("/")[0]:
        return _in_repository(f"https://github.com/{repository}", path, source.commit)
    if _HOST.fullmatch(repository):
        return f"https://{repository}/{quote(path)}"
    return f"https://{path}" if _HOST.fullmatch(path) else None


def _in_repository(home: str, path: str, commit: str) -> str:
    if issue := _ISSUE.fullmatch(path):
        return f"{home}/{'pull' if issue[1] == 'pull' else 'issues'}/{issue[2]}"
    if not commit:
        return home
    return f"{home}/blob/{commit}/{quote(path)}" if _is_file(path) else f"{home}/tree/{commit}"


def _is_file(path: str) -> bool:
    return bool(_SUFFIX.fullmatch(path.rsplit("/", 1)[-1].replace(" ", "_"))) and not set(",;*") & set(path)
