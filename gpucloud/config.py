"""Where gpucloud keeps its files, and who its user is.

``GPUCLOUD_HOME`` puts everything into one folder; without it the folders are those of the operating system
(XDG on Linux). With the sandbox switched on, the state folder is another one, so that the journal of emulated
clouds never mixes with that of real ones.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpucloud.errors import UsageError
from gpucloud.resources import OWNER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The folders. They are made when first needed, with :func:`make_private`.

    ``state`` holds the journal and the boxes' keys, ``config`` the owner's id, and ``sandbox`` what the
    sandbox process keeps for itself.
    """

    state: Path
    config: Path
    sandbox: Path


def find_paths(environment: Mapping[str, str], *, sandbox: bool) -> Paths:
    """The folders for this environment. Makes nothing.

    Args:
        environment: the environment variables; ``GPUCLOUD_HOME`` is looked at here.
        sandbox: whether the clouds are emulated ones, which have a state folder of their own.

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
    return Paths(
        state=data / ("state-sandbox" if sandbox else "state"), config=config, sandbox=data / "sandbox"
    )


def make_private(folder: Path) -> Path:
    """Makes a folder, and those above it that are missing, readable by the user alone (0700). Gives it back.

    The mode does not depend on the umask, and is put right where the folder is there already.

    Raises:
        UsageError: it cannot be made, is no folder, or belongs to another user.
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


def _refuse_foreign(folder: Path) -> None:
    """Who owns a folder, or a link to it, can put other keys, another journal and owner in its place."""
    for found in (folder.lstat(), folder.stat()):
        if found.st_uid != os.geteuid():
            raise UsageError(
                f"the folder {folder} belongs to another user (uid {found.st_uid})",
                hint=f"make it yours: sudo chown -R {os.geteuid()} {folder}; "
                "or set GPUCLOUD_HOME to a folder of your own",
            )


def find_owner(
    paths: Paths,
    environment: Mapping[str, str],
    new_id: Callable[[], str] = lambda: "u-" + secrets.token_hex(8),
) -> str:
    """The owner's id: ``GPUCLOUD_OWNER``, else the one in the configuration folder, made there once.

    Several processes that start at once agree on one id: the first to put its file there wins.

    Args:
        paths: the folders; ``config/owner`` is read, and made where it is missing (0600).
        environment: the environment variables.
        new_id: gives a fresh id.

    Raises:
        UsageError: the id is damaged, or cannot be read or kept.
    """
    given = environment.get("GPUCLOUD_OWNER")
    if given:
        return _checked_owner(given, "GPUCLOUD_OWNER")
    file = paths.config / "owner"
    make_private(file.parent)
    try:
        if not file.exists():
            _put_once(file, new_id() + "\n")
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(
            f"cannot keep the owner's id in {file}: {error.strerror or error}",
            hint="set GPUCLOUD_OWNER, or GPUCLOUD_HOME to a folder that you can write to",
        ) from error
    return _checked_owner(text.strip(), str(file))


def _checked_owner(text: str, source: str) -> str:
    if not OWNER_ID.fullmatch(text):
        raise UsageError(
            f"{source}: {text[:64]!r} is no owner id; allowed are 1-64 letters, digits and . _ @ -",
            hint="boxes are found by this id: restore the old one, `gpucloud list --json` shows it",
        )
    return text


def _put_once(file: Path, text: str) -> None:
    """Writes a file as a whole, unless there is one: a link succeeds or finds another's file."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
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
