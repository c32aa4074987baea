"""Reads the user-data of a box, and moves its absolute paths into the box's own folder."""

from __future__ import annotations

import base64
import binascii
import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from gpucloud_sandbox.boxes_volumes import Mounts

OWN_PATHS = tuple(
    f"/{path}"
    for path in (
        "etc/apt",
        "etc/environment",
        "etc/gpucloud",
        "etc/modprobe.d",
        "etc/profile.d",
        "etc/security/limits.d",
        "etc/ssh",
        "etc/systemd/system",
        "etc/udev",
        "dev/disk",
        "etc/fstab",
        "home",
        "opt/gpucloud",
        "run/gpucloud",
        "scratch",
        "tmp",
        "usr/local/lib/gpucloud",
        "var/lib/cloud",
        "var/lib/gpucloud",
        "var/log/cloud-init-output.log",
        "var/log/gpucloud",
        "workspace",
    )
)
"""What a box has of its own; every other path is this machine's."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml, where PyYAML was built with it, is ten times as fast."""
DATA_PATHS = ("/scratch", "/workspace")
"""Those that a user's job works in, besides the volumes."""


@dataclass(frozen=True, slots=True)
class PathMap:
    """Replaces a box's own paths, and emulated programs, wherever text names them.

    ``root`` is the folder that stands for the box's ``/``; ``shims`` holds programs named ``names``. Where
    volumes are mounted, the paths are the box's own as well.
    """

    root: Path
    shims: Path
    names: frozenset[str]
    mounts: Mounts

    def text(self, text: str) -> str:
        """Shell text (a command line, a script, a unit) with its paths replaced; twice gives the same."""
        own = "|".join(map(re.escape, (*OWN_PATHS, *self.mounts.paths())))
        programs = "|".join(sorted(map(re.escape, self.names)))
        pattern = (
            rf"(?P<done>{re.escape(str(self.root))}|{re.escape(str(self.shims))})"
            rf"|(?<![\w./-])(?P<own>{own})(?![\w-])"
            rf"|(?<![\w./-])(?:/usr)?/s?bin/(?P<program>{programs})(?![\w-])"
        )
        return re.sub(pattern, self._replacement, text)

    def data(self, text: str) -> str:
        """The text of a user's job, with the paths of its data replaced; other words may be no paths."""
        own = "|".join(map(re.escape, (*DATA_PATHS, *self.mounts.paths())))
        pattern = rf"{re.escape(str(self.root))}|(?<![\w./-])(?P<own>{own})(?![\w-])"
        return re.sub(pattern, lambda found: f"{self.root}{found['own']}" if found["own"] else found[0], text)

    def path(self, path: str) -> Path:
        """One absolute path of the box, never outside its folder."""
        parts = [part for part in Path(path).parts if part not in {"/", "..", "."}]
        return self.root.joinpath(*parts)

    def _replacement(self, found: re.Match[str]) -> str:
        if found["done"]:
            return found["done"]
        if found["own"]:
            return f"{self.root}{found['own']}"
        return str(self.shims / found["program"])


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """One user that may log in with any of these public keys (OpenSSH lines)."""

    name: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFile:
    """One file that is written on the first boot."""

    path: str
    content: bytes
    mode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudConfig:
    """The parts of cloud-config that a sandbox box supports.

    ``with_default_user``: the image's own user is made too; a list of users without ``default`` prevents it.
    """

    with_default_user: bool = True
    users: tuple[User, ...] = ()
    host_key: str | None = None
    bootcmd: tuple[tuple[str, ...], ...] = ()
    write_files: tuple[WriteFile, ...] = ()
    runcmd: tuple[tuple[str, ...], ...] = ()


def unpacked(encoded: str) -> str:
    """User-data as a cloud keeps it, in base64 and perhaps compressed, as text."""
    raw = base64.b64decode(encoded)
    return (gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).decode("utf-8", "replace")


def parse(text: str) -> CloudConfig:
    """Reads cloud-config.

    Raises:
        ValueError: it is not cloud-config, or a part of it is malformed; says which.
    """
    if not text.startswith("#cloud-config"):
        raise ValueError("user-data does not begin with #cloud-config; nothing of it was done")
    try:
        document: Any = _LOADER(text).get_single_data() or {}
    except yaml.YAMLError as error:
        raise ValueError(f"user-data is no YAML: {error}") from error
    if not isinstance(document, dict):
        raise ValueError("user-data is no mapping")
    fields = cast("dict[str, Any]", document)
    try:
        return CloudConfig(
            with_default_user="default" in fields.get("users", ["default"]),
            users=tuple(_user(each) for each in fields.get("users", ()) if each != "default"),
            host_key=fields.get("ssh_keys", {}).get("ed25519_private"),
            bootcmd=tuple(_command(each) for each in fields.get("bootcmd", ())),
            write_files=tuple(_file(each) for each in fields.get("write_files", ())),
            runcmd=tuple(_command(each) for each in fields.get("runcmd", ())),
        )
    except (KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise ValueError(f"user-data is malformed: {type(error).__name__} {error}") from error


def _user(entry: Mapping[str, Any]) -> User:
    return User(name=str(entry["name"]), keys=tuple(map(str, entry.get("ssh_authorized_keys", ()))))


def _command(entry: str | list[Any]) -> tuple[str, ...]:
    """cloud-init gives a string to the shell and runs a list as it is."""
    return ("sh", "-c", entry) if isinstance(entry, str) else tuple(map(str, entry))


def _file(entry: Mapping[str, Any]) -> WriteFile:
    content = str(entry.get("content", "")).encode()
    if entry.get("encoding") in {"b64", "base64"}:
        content = base64.b64decode(content)
    return WriteFile(
        path=str(entry["path"]), content=content, mode=int(str(entry.get("permissions", "0644")), 8)
    )
