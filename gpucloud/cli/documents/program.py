"""The documents of the program itself."""

from __future__ import annotations

from typing import TypedDict


class DashboardDocument(TypedDict):
    """The page.

    Attributes:
        url: its address, with the secret that opens it; ``null`` for a still page.
        file: the file of a still page.
    """

    url: str | None
    file: str | None


class PathsDocument(TypedDict):
    """The folders in use."""

    state: str
    config: str
    sandbox: str


class VersionDocument(TypedDict):
    """The version, and the folders in use.

    Attributes:
        python: the version of Python.
        defaults: the file of the user's defaults.
    """

    version: str
    python: str
    paths: PathsDocument
    defaults: str


class CompletionDocument(TypedDict):
    """The completion script of a shell."""

    shell: str
    script: str
