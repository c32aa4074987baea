"""The end of the command: its last set, its logs and its results go up, and then a record of them.

``RUN/attempts/ATTEMPT/results/NUMBER/`` has the files of a path that is to be brought home. ``ended.json`` is
written once all is there: whoever finds it knows how the command ended, without this box.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import time

from . import files, manifest, own, rclone
from .logs import upload_logs
from .rclone import FailedError
from .uploading import FAILURE, SETTINGS, upload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

RESULTS, RECORD, STAGE = "results", "ended.json", "odd"
LOOK_S, AGAIN_S = 1.0, 10.0
TRIES = 3
MOST_FILES = 1_000_000
MOST_WORDS = 20


def wait() -> None:
    """Waits for the end of the command, and stores what it leaves; what fails is tried again.

    A machine that may end itself then does: nothing is left here that is not stored.
    """
    settings = own.load(SETTINGS)
    while (code := exit_code(settings)) is None:
        time.sleep(LOOK_S)
    while True:
        try:
            record = store(settings, code)
        except (FailedError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            own.save(FAILURE, {"at": round(time.time()), "words": str(error)})
            time.sleep(AGAIN_S)
            continue
        break
    if settings.get("leave") and is_all(record):
        subprocess.run(["sudo", "-n", *settings["leave"]], check=False, stdin=subprocess.DEVNULL)


def exit_code(settings: Mapping[str, Any]) -> int | None:
    """How the command ended; ``None`` while it runs."""
    try:
        with open(os.path.join(os.path.expanduser("~"), settings["job"], "exit"), encoding="ascii") as file:
            return int(file.read(8))
    except (OSError, ValueError):
        return None


def store(settings: Mapping[str, Any], code: int) -> dict[str, Any]:
    """Stores all that the command leaves, and the record of it last. Raises ``FailedError``."""
    upload(last=True, ended=True)
    left_out = store_logs()
    attempt = f"{rclone.WRITING}{settings['run']}/attempts/{settings['attempt']}"
    results: list[dict[str, Any]] = []
    absent: list[str] = []
    for asked in settings["results"]:
        found = there(asked)
        if not found:
            absent.append(asked)
        for path in found:
            target = f"{attempt}/{RESULTS}/{len(results)}/"
            results.append({"asked": asked, "path": path, **send(settings, path, target, left_out)})
    if sum(len(each[kind]) for each in results for kind in ("files", "links", "outside")) > MOST_FILES:
        left_out.append(f"there are more than {MOST_FILES} files")
        results = []
    record = {
        "run": settings["run"].rpartition("/")[2],
        "attempt": settings["attempt"],
        "exit_code": code,
        "timed_out": os.path.exists(os.path.join(os.path.expanduser("~"), settings["job"], "late")),
        "at": round(time.time()),
        "results": results,
        "absent": absent,
        "left_out": left_out[:MOST_WORDS],
    }
    own.save(RECORD, record)
    rclone.call(settings, "copyto", f"{own.FOLDER}/{RECORD}", f"{attempt}/{RECORD}", "--no-check-dest")
    return record


def store_logs() -> list[str]:
    """Uploads the logs; why that is not possible, if so: no result is lost for want of them."""
    for left in reversed(range(TRIES)):
        try:
            upload_logs()
            break
        except (FailedError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            if not left:
                return [f"the logs: {error}"]
    return []


def is_all(record: Mapping[str, Any]) -> bool:
    """Whether all is stored: a path that was not written after a success is most likely another one here."""
    return not record["left_out"] and (record["exit_code"] != 0 or not record["absent"])


def there(asked: str) -> list[str]:
    """What a path means here: itself, or what has the pattern that it is."""
    path = at(asked)
    if os.path.exists(path):
        return [asked]
    home = os.path.expanduser("~")
    found = sorted(each for each in glob.glob(path) if os.path.exists(each))
    return [each if asked.startswith("/") else os.path.relpath(each, home) for each in found]


def at(path: str) -> str:
    """Where a path of the user is."""
    return os.path.join(os.path.expanduser("~"), path[2:] if path.startswith("~/") else path)


def send(settings: Mapping[str, Any], path: str, target: str, left_out: list[str]) -> dict[str, Any]:
    """Sends a file, or what is in a folder; gives what is there then. Raises ``FailedError``."""
    source = os.path.realpath(at(path))
    for _ in range(TRIES):
        if not os.path.isdir(source):
            folder, name = os.path.split(source)
            found = {name: files.seen(os.stat(source))}
            links: dict[str, str] = {}
            outside: dict[str, str] = {}
            unread: list[str] = []
        else:
            folder, look = source, files.look(source)
            found = {name: file for name, file in look.files.items() if not is_own(folder, name)}
            links, outside = links_of(folder, look)
            unread = [f"{name}: {why}" for name, why in look.left_out.items() if why.startswith("cannot")]
        send_files(settings, folder, target, found)
        if all(is_still(os.path.join(folder, name), file) for name, file in found.items()):
            left_out += [f"{path}/{words}" for words in unread]
            is_folder = os.path.isdir(source)
            own_name = os.path.basename(path)
            listed = {
                each if is_folder else own_name: entry(each if is_folder else own_name, each, file)
                for each, file in found.items()
            }
            return {"folder": is_folder, "files": listed, "links": links, "outside": outside}
    raise FailedError(f"{path!r} is still being written")


def is_own(folder: str, name: str) -> bool:
    """Whether a file is one of gpucloud's: who asks for the whole home folder does not mean lent keys."""
    return os.path.join(folder, name).startswith(f"{own.home()}/")


def entry(name: str, there: str, file: files.Seen) -> list[Any]:
    """A file of a result: its size, its time of change, and the name of its object where that is another.

    ``there`` is its name in its folder: another one where the path is a link to it.
    """
    stored = manifest.stored_name(there)
    return [file.size, file.mtime_ns, *([] if stored == name else [stored])]


def is_still(path: str, file: files.Seen) -> bool:
    """Whether a file is as it was."""
    try:
        return files.seen(os.lstat(path)) == file
    except OSError:
        return False


def links_of(folder: str, look: files.Look) -> tuple[dict[str, str], dict[str, str]]:
    """The links of a folder that stay in it, and the others, which nobody makes elsewhere."""
    inside: dict[str, str] = {}
    outside: dict[str, str] = {}
    for name, why in look.left_out.items():
        if why == "a link":
            target = os.readlink(os.path.join(folder, name))
            parts = [part for part in target.split("/") if part not in ("", ".")]
            ups = 0
            while ups < len(parts) and parts[ups] == "..":
                ups += 1
            stays = not target.startswith("/") and ".." not in parts[ups:] and ups <= name.count("/")
            (inside if stays else outside)[name] = target
    return inside, outside


def send_files(
    settings: Mapping[str, Any], folder: str, target: str, found: Mapping[str, files.Seen]
) -> None:
    """Sends files; those whose names no store takes go under others. Raises ``FailedError``."""
    plain = [name for name in found if manifest.stored_name(name) == name]
    rclone.copy(settings, folder, target, plain, sum(found[name].size for name in plain))
    odd = [name for name in found if manifest.stored_name(name) != name]
    stage = f"{own.FOLDER}/{STAGE}"
    shutil.rmtree(stage, ignore_errors=True)
    os.makedirs(stage)
    for name in odd:
        os.symlink(os.path.join(folder, name), os.path.join(stage, manifest.stored_name(name)))
    names: Sequence[str] = [manifest.stored_name(name) for name in odd]
    rclone.copy(settings, stage, target, names, sum(found[name].size for name in odd), "--copy-links")
    shutil.rmtree(stage, ignore_errors=True)
