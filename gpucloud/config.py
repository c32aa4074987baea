"""The folders of gpucloud's files, and the owner id of its user.

``GPUCLOUD_HOME`` puts everything into one folder; without it, the folders are those of the operating system
(XDG on Linux). The sandbox has its own state folder, so that the journals of emulated and real clouds never
mix; ``GPUCLOUD_SANDBOX_HOME`` names a sandbox that several homes share.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpucloud.errors import UsageError

JOURNAL = "journal.db"
HOSTS = "ssh_config"
"""The names in the state folder of the journal's file, and of the boxes' file for other ssh clients."""
DEFAULTS = "defaults.yaml"
"""In the configuration folder: the defaults of the user's specs, and the team's journal."""
CHANNELS = "notify.yaml"
CHANNELS_VARIABLE = "GPUCLOUD_NOTIFY"
"""The file in the configuration folder with the channels for notices, and the variable in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The folders. They are made when first needed, with :func:`make_private`.

    ``state`` holds the journal and the boxes' keys, ``config`` the owner id, and ``sandbox`` the files of the
    sandbox process.
    """

    state: Path
    config: Path
    sandbox: Path


def find_paths(environment: Mapping[str, str], *, sandbox: bool) -> Paths:
    """Finds the folders for this environment. Creates none.

    Args:
        environment: the environment variables; ``GPUCLOUD_HOME`` and ``GPUCLOUD_SANDBOX_HOME`` are read here.
        sandbox: whether the clouds are emulated; they have their own state folder.

    Raises:
        UsageError: the user has no home folder and ``GPUCLOUD_HOME`` is not set.
    """
    home = environment.get("GPUCLOUD_HOME")
    if home:
        data = Path(home).expanduser().absolute()
        config = data / "config"
    else:
        import platformdirs

        data = platformdirs.user_state_path("gpucloud")
        config = platformdirs.user_config_path("gpucloud")
    if not (data.is_absolute() and config.is_absolute()):
        raise UsageError(
            "this user has no home folder to keep the journal in",
            hint="set HOME, or GPUCLOUD_HOME to a folder that only you can read",
        )
    shared = environment.get("GPUCLOUD_SANDBOX_HOME")
    return Paths(
        state=data / ("state-sandbox" if sandbox else "state"),
        config=config,
        sandbox=Path(shared).expanduser().absolute() if shared else data / "sandbox",
    )


def make_private(folder: Path) -> Path:
    """Makes a folder and its missing parents, accessible to the user alone (0700). Returns it.

    The mode does not depend on the umask, and is corrected if the folder exists.

    Raises:
        UsageError: the folder cannot be made, is not a folder, or belongs to another user.
    """
    try:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
            path.chmod(0o700)
        if not folder.is_dir():
            raise NotADirectoryError(None, "Not a directory")
        _refuse_foreign(folder)
        if folder.stat().st_mode & 0o777 != 0o700:
            folder.chmod(0o700)
    except OSError as error:
        raise UsageError(
            f"cannot make the folder {folder}: {error.strerror or error}",
            hint="set GPUCLOUD_HOME to a folder that you can write to",
        ) from error
    return folder


def write_whole(path: Path, text: str, *, mode: int) -> None:
    """Replaces a whole file, with its missing folders: a crash leaves the old one or the new one.

    Raises:
        UsageError: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.touch(mode=0o600)
        draft.write_text(text, encoding="utf-8")
        draft.chmod(mode)
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def _refuse_foreign(folder: Path) -> None:
    """The owner of a folder, or of a link to it, could replace the keys, the journal and the owner id."""
    for found in (folder.lstat(), folder.stat()):
        if found.st_uid != os.geteuid():
            raise UsageError(
                f"the folder {folder} belongs to another user (uid {found.st_uid})",
                hint=f"take ownership: sudo chown -R {os.geteuid()} {folder}; "
                "or set GPUCLOUD_HOME to a folder of your own",
            )


def find_owner(
    paths: Paths,
    environment: Mapping[str, str],
    new_id: Callable[[], str] = lambda: "u-" + os.urandom(8).hex(),
    identity: str | None = None,
) -> str:
    """The owner id: ``GPUCLOUD_OWNER``, or the one in the configuration folder, made there once.

    Processes that start at the same time agree on one id: the first that writes the file wins.

    Args:
        paths: the folders; ``config/owner`` is read, and made if missing (0600).
        environment: the environment variables.
        new_id: makes a new id.
        identity: the id that a team's journal gives; ``None`` for a file.

    Raises:
        UsageError: the id is damaged, or cannot be read or written.
    """
    given = environment.get("GPUCLOUD_OWNER")
    if given:
        return _checked_owner(given, "GPUCLOUD_OWNER")
    if identity is not None:
        return _checked_owner(identity, "the login of the journal")
    file = paths.config / "owner"
    make_private(file.parent)
    try:
        if not file.exists():
            _put_once(file, new_id() + "\n")
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(
            f"cannot read or write the owner id in {file}: {error.strerror or error}",
            hint="set GPUCLOUD_OWNER, or GPUCLOUD_HOME to a folder that you can write to",
        ) from error
    return _checked_owner(text.strip(), str(file))


def known_owner(paths: Paths, environment: Mapping[str, str]) -> str | None:
    """The owner id as :func:`find_owner` would return it, unchecked; ``None`` if there is none yet."""
    with suppress(OSError):
        return environment.get("GPUCLOUD_OWNER") or (paths.config / "owner").read_text("utf-8").strip()
    return None


def _checked_owner(text: str, source: str) -> str:
    from gpucloud.resources import (
        OWNER_ID,
    )  # loaded here: a command that only searches the market has no owner

    if not OWNER_ID.fullmatch(text):
        raise UsageError(
            f"{source}: {text[:64]!r} is not an owner id; allowed: 1-64 letters, digits and . _ @ -",
            hint="boxes are found by this id: restore the id that they were launched with",
        )
    return text


def _put_once(file: Path, text: str) -> None:
    """Writes a whole file, unless one exists: the link either succeeds or finds the other process's file."""
    draft = file.with_name(f".{file.name}.{os.urandom(8).hex()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()
