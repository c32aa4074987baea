"""The keys of a box: one for its user, and a host key that is pinned before the first connection.

A box's folder (0700) holds ``id_ed25519`` and one ``known_hosts`` file per node; until the first connection
has replaced it also ``host_ed25519``, the one-time host key in the user-data. ``ready.json`` is the state of
the box when it became ready, which an older copy of the journal lacks. The folder of a box that was launched
elsewhere has the ``known_hosts`` files alone, from the journal (:func:`pin_shared`).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from gpucloud.config import make_private
from gpucloud.errors import UsageError
from gpucloud.resources import BOX_ID
from gpucloud.ssh.user import ensure_named

_PUBLIC_KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]{68}={0,2}")
_SHARED_KEY = re.compile(
    r"((?:ssh-(?:ed25519|rsa)|ecdsa-sha2-nistp(?:256|384|521)|sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
    r" [A-Za-z0-9+/]+={0,2})(?: [\x20-\x7e]{0,256})?"
)
_ANY_PUBLIC_KEY = re.compile(r"(?:ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,2}(?=\s|$)")
_PACKAGES = {
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "rsync": "rsync",
}
_READY = "ready.json"
OWN_KEY = "id_ed25519"
"""The name of a box's private key in its folder."""
ONE_TIME = "one-time"
"""The comment of a host key that still has to be replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxKeys:
    """The keys of a box for its user-data, in OpenSSH's formats."""

    public_key: str
    host_private_key: str
    host_public_key: str


def find_program(name: str) -> str:
    """The path of ssh, ssh-keygen or rsync.

    Raises:
        UsageError: it is not installed; the hint names the package. Or it would not start.
    """
    ensure_named()
    found = shutil.which(name)
    if found is None:
        raise UsageError(
            f"{name} is not installed",
            hint=f"install the package {_PACKAGES[name]}, for example: apt-get install {_PACKAGES[name]}",
        )
    return found


def key_folder(state: Path, box_id: str) -> Path:
    """The folder of a box's keys, next to the journal."""
    return state / "keys" / host_alias(box_id)


def create_keys(folder: Path, box_id: str, *, nodes: int = 1) -> BoxKeys:
    """Creates the keys of a new box in its folder, and pins the host key under the names of all its nodes.

    Raises:
        UsageError: ssh-keygen is missing, or the folder cannot be written.
    """
    aliases = [host_alias(box_id, node) for node in range(nodes)]
    with _told(folder):
        make_private(folder)
        for name in (OWN_KEY, "host_ed25519"):
            _generate(folder / name)
        keys = _read(folder)
        for alias in aliases:
            pin(folder, alias, [f"{keys.host_public_key} {ONE_TIME}"])
    return keys


def renew_host_key(folder: Path, box_id: str, node: int) -> BoxKeys:
    """Creates the one-time host key of a machine in place of another, and pins it for its node alone.

    Returns:
        The keys of the box, with this host key.

    Raises:
        UsageError: as :func:`create_keys`.
    """
    with _told(folder):
        _forget_one_time_key(folder)
        _generate(folder / "host_ed25519")
        keys = _read(folder)
        pin(folder, host_alias(box_id, node), [f"{keys.host_public_key} {ONE_TIME}"])
    return keys


def keep_ready(folder: Path, note: Mapping[str, Any]) -> None:
    """Writes the state of a box that became ready next to its keys, as plain JSON.

    A failure is ignored: the file is needed only after an older copy of the journal was restored.
    """
    draft = folder / f".{_READY}"
    with suppress(OSError):
        draft.write_text(json.dumps(note, sort_keys=True), encoding="utf-8")
        draft.chmod(0o600)
        draft.replace(folder / _READY)


def read_ready(folder: Path) -> Mapping[str, Any] | None:
    """The state that :func:`keep_ready` wrote; ``None`` if there is none.

    Raises:
        ValueError: the file is damaged.
    """
    try:
        note: Any = json.loads((folder / _READY).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except RecursionError:
        note = None
    if not isinstance(note, dict):
        raise ValueError(f"{folder / _READY} is no note of a box")
    return cast("dict[str, Any]", note)


def delete_keys(folder: Path) -> None:
    """Removes a box's keys, as far as they exist."""
    shutil.rmtree(folder, ignore_errors=True)


def has_own_key(folder: Path) -> bool:
    """Whether a box was launched by this state folder: its private key is there."""
    return (folder / OWN_KEY).exists()


def pin_shared(folder: Path, alias: str, key: str) -> None:
    """Pins the host key that the journal has for a node of a box that was launched elsewhere.

    Of a box that was launched here, the file beside its private key is what counts.

    Raises:
        ValueError: it is no ed25519 key.
    """
    if has_own_key(folder) or pinned(folder, alias) == [checked_public_key(key)]:
        return
    make_private(folder)
    pin(folder, alias, [key])


def host_alias(box_id: str, node: int = 0) -> str:
    """The name under which a node's host key is pinned: clouds reuse addresses, ids are unique.

    Raises:
        ValueError: the id could be read as an option or a pattern.
    """
    if not BOX_ID.fullmatch(box_id):
        raise ValueError(f"{box_id[:80]!r} is not a box id")
    return box_id if node == 0 else f"{box_id}.{node}"


def known_hosts(folder: Path, alias: str) -> Path:
    """The file of a node's accepted host keys; one per node, as nodes are brought up at the same time."""
    return folder / f"known_hosts-{alias}"


def pinned(folder: Path, alias: str) -> list[str]:
    """A node's accepted host keys: ``ssh-ed25519 AAAA...``, perhaps with a comment."""
    try:
        lines = known_hosts(folder, alias).read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return []
    return [line.partition(" ")[2] for line in lines]


def pin(folder: Path, alias: str, keys: Sequence[str]) -> None:
    """Replaces a node's accepted host keys, all at once: a crash leaves the old ones or the new ones."""
    file = known_hosts(folder, alias)
    draft = file.with_name(f".{file.name}")
    draft.touch(mode=0o600)
    draft.write_text("".join(f"{alias} {key}\n" for key in keys), encoding="ascii")
    draft.replace(file)


def discard_one_time_key(folder: Path) -> None:
    """Removes the one-time host key once no node has it any more."""
    if not any(ONE_TIME in file.read_text(encoding="ascii") for file in folder.glob("known_hosts-*")):
        _forget_one_time_key(folder)


def checked_public_key(text: str) -> str:
    """A host key that a box reported, without its comment.

    Raises:
        ValueError: it is not one ed25519 key.
    """
    key = " ".join(text.split()[:2])
    if not _PUBLIC_KEY.fullmatch(key):
        raise ValueError(f"{text[:80]!r} is not an ed25519 public key")
    return key


@dataclass(frozen=True, slots=True)
class SharedKey:
    """A public key for ``authorized_keys``: the whole line, the key without its comment, its fingerprint."""

    line: str
    key: str
    fingerprint: str


def read_shared_key(text: str, source: str = "--key") -> SharedKey:
    """A colleague's public key, from the content of its file: one line, without options, of a known type.

    Args:
        text: the content.
        source: what gave it, for messages.

    Raises:
        UsageError: it is anything else, or ssh-keygen is missing.
    """
    line = text.strip()
    if "PRIVATE KEY-----" in line:
        raise UsageError(f"{source}: this is a private key", hint="it stays where it is; give its .pub file")
    found = _SHARED_KEY.fullmatch(line)
    hint = "give the .pub file: one line, of ed25519, RSA or ECDSA, without options"
    if found is None:
        raise UsageError(f"{source}: this is not one public key of OpenSSH", hint=hint)
    command = [find_program("ssh-keygen"), "-l", "-f", "-"]
    done = subprocess.run(command, input=f"{found[1]}\n".encode(), capture_output=True, check=False)
    if done.returncode:
        raise UsageError(f"{source}: ssh-keygen cannot read this public key", hint=hint)
    return SharedKey(line, found[1], done.stdout.decode().split()[1])


def read_public_key(text: str) -> str:
    """A public key of the user, given as text or by its file, without its comment.

    Raises:
        UsageError: it is neither, or a private key.
    """
    if not _ANY_PUBLIC_KEY.match(text):
        try:
            text = Path(text).expanduser().read_text(encoding="utf-8")[:16384]
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"--ssh-key: cannot read a public key from {text!r}: {error}",
                hint="specify the .pub file, or the key itself",
            ) from error
    found = _ANY_PUBLIC_KEY.match(text)
    if found is None:
        raise UsageError("--ssh-key: this file holds no public key", hint="specify the .pub file")
    return found[0]


@contextmanager
def _told(folder: Path) -> Generator[None]:
    """Explains why keys could not be written.

    Raises:
        UsageError: they could not.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot write the box's keys to {folder}: {error.strerror or error}",
            hint="free some space, or set GPUCLOUD_HOME to a folder that you can write to",
        ) from error


def _forget_one_time_key(folder: Path) -> None:
    for name in ("host_ed25519", "host_ed25519.pub"):
        (folder / name).unlink(missing_ok=True)


def _generate(file: Path) -> None:
    if file.exists():
        return
    command = [find_program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(file)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        raise UsageError(f"ssh-keygen failed: {done.stderr.decode(errors='replace').strip()}")


def _read(folder: Path) -> BoxKeys:
    def text(name: str) -> str:
        return (folder / name).read_text(encoding="ascii")

    return BoxKeys(
        public_key=checked_public_key(text("id_ed25519.pub")),
        host_private_key=text("host_ed25519"),
        host_public_key=checked_public_key(text("host_ed25519.pub")),
    )
