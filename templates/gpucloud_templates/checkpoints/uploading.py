"""Uploads: what a set adds goes up from frozen files, and then its manifest.

Deleting and replacing files in the folder harms no upload. A file that was written in place meanwhile keeps
its last whole version in the set, or is left out if it has none.
"""

from __future__ import annotations

import errno
import os
import shutil
import time

from . import choice, files, manifest, own, rclone
from .rclone import FailedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

SETTINGS, KNOWN, STATUS, FAILURE = "settings.json", "known.json", "status.json", "failure.json"
FROZEN, MANIFESTS = "frozen", "manifests"
SETTLES_S, LOOK_AGAIN_S = 10.0, 0.5
"""How long a last upload waits for what is still being written or filled."""
TRIES = 3
MOST_WORDS = 20
RATED_BYTES = 1024 * 1024
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
NEWEST_SHARE = 0.3
"""The share of the newest upload in the rate that is kept: one that is slow by chance does not decide."""


class TornSetError(FailedError):
    """A marker whose files do not hold still: the set before stays the newest."""


def upload(*, last: bool = False, ended: bool = False) -> dict[str, Any]:
    """Uploads what has changed since the last set, and gives the newest one. Raises ``FailedError``.

    An empty folder is no set.

    Args:
        last: the box ends: what is being written or filled is waited for, for a while.
        ended: the command has ended: nobody fills folders any more.
    """
    patience = time.monotonic() + (SETTLES_S if last and not ended else 0.0)
    while True:
        with own.alone():
            upload = Upload(ended=ended)
            newest = upload.run()
        if not upload.waiting or time.monotonic() >= patience:
            return newest
        time.sleep(LOOK_AGAIN_S)


def watch(every_s: float) -> None:
    """Uploads again and again; a failure is written down, and the next time may be better."""
    while True:
        time.sleep(every_s)
        try:
            upload()
            own.save(FAILURE, {})
        except (FailedError, OSError, ValueError) as error:
            own.save(FAILURE, {"at": round(time.time()), "words": str(error)})


def status() -> dict[str, Any]:
    """What there is: the newest set, what was left out of it, how fast uploads are, the last failure."""
    return {**own.load(STATUS), "failure": own.load(FAILURE)}


class Upload:
    """One set in the making."""

    def __init__(self, *, ended: bool) -> None:
        self.ended = ended
        self.settings = own.load(SETTINGS)
        if not self.settings:
            raise FailedError("nothing was begun here")
        self.last = own.load(manifest.LATEST)
        self.known = own.load(KNOWN)
        self.waiting: dict[str, str] = {}
        # What was restored belongs to another attempt: the first set of each is whole.
        self.old: dict[str, list[Any]] = {} if self.last.get("restored") else self.last.get("files", {})
        self.identities = self._identities()

    def run(self) -> dict[str, Any]:
        """Makes the set, if there is something new; the newest one. Raises ``FailedError``."""
        folder = str(self.settings["folder"])
        now = time.time()
        look = files.look(folder)
        names = self._chosen(look, now)
        inodes = {name: look.files[name].inode for name in names}
        if not names or self._is_last(look, names):
            self._remember(inodes)
            self._tell(self.last, look.left_out)
            return self.last
        number = self._number()
        entries, fresh, twins = self._known_entries(look, names)
        sent = self._send(folder, number, [(name, look.files[name]) for name in fresh], self._in_place(look))
        for name, file in sent.items():
            for each in (name, *twins.get(name, ())):
                entries[each] = manifest.entry(each, *file[:2], number, manifest.stored_name(name))
                inodes[each] = file.inode
        self._keep_older(entries, names)
        if not entries or (entries == self.last.get("files") and not self.last.get("restored")):
            self._tell(self.last, look.left_out)
            return self.last
        made: dict[str, Any] = {"number": number, "at": round(now), "files": entries}
        self._finish(made)
        self._remember({name: inodes[name] for name in entries if name in inodes}, sent=[])
        self._tell(made, look.left_out)
        return made

    # --- what belongs to it

    def _chosen(self, look: files.Look, now: float) -> set[str]:
        """The names of the set, in the folder as it is now."""
        folder = str(self.settings["folder"])

        def is_written(name: str) -> bool:
            up = tuple(look.files[name]) in self.identities
            return not up and files.is_written(os.path.join(folder, name))

        pattern = self.settings.get("marker")
        if pattern:
            chosen = choice.marked(look, pattern, is_written)
            if look.files and not chosen.names and not chosen.waiting:
                chosen.waiting[pattern] = "no file has this name yet"
        elif self.ended:
            chosen = choice.Choice(set(look.files), {})
        else:
            first_seen: dict[str, float] = self.known.get("first_seen", {})
            restored = self.last.get("files", {})
            old = {each for name in restored for each in manifest.folders_of(name)}
            self.known["first_seen"] = {
                name: first_seen.get(name, now) for name in choice.new_folders(look, old)
            }
            chosen = choice.unmarked(look, restored, self.known["first_seen"], now, is_written)
        self.waiting.update(chosen.waiting)
        return chosen.names

    def _is_last(self, look: files.Look, names: set[str]) -> bool:
        """Whether the newest set, also one that was restored, has these files and no others."""
        known: Mapping[str, Sequence[Any]] = self.last.get("files", {})
        inodes = self.known.get("inodes", {})
        return names == set(known) and all(
            tuple(look.files[name]) == (known[name][0], known[name][1], inodes.get(name)) for name in names
        )

    def _identities(self) -> dict[tuple[int, ...], tuple[int, str]]:
        """Where each file is that is up: the number that has added it, and the name of its object."""
        inodes: Mapping[str, int] = self.known.get("inodes", {})
        up = [(inodes[name], name, each) for name, each in self.old.items() if name in inodes]
        up += self.known.get("sent", ())  # of a set that was not finished
        return {
            (each[0], each[1], inode): (each[2], each[3] if len(each) > 3 else name)
            for inode, name, each in up
        }

    def _known_entries(
        self, look: files.Look, names: set[str]
    ) -> tuple[dict[str, list[Any]], list[str], dict[str, list[str]]]:
        """The files that are up already, also under another name; those that are not, the newest first.

        The last is what else such a file is called: it has several names in the folder, and is sent once.
        """
        entries: dict[str, list[Any]] = {}
        fresh: dict[tuple[int, ...], str] = {}
        twins: dict[str, list[str]] = {}
        for name in sorted(names, key=lambda each: (look.files[each].mtime_ns, each), reverse=True):
            file = look.files[name]
            where = self.identities.get(tuple(file))
            if where is not None:
                entries[name] = manifest.entry(name, *file[:2], *where)
            elif tuple(file) in fresh:
                twins.setdefault(fresh[tuple(file)], []).append(name)
            else:
                fresh[tuple(file)] = name
        return entries, list(fresh.values()), twins

    def _in_place(self, look: files.Look) -> set[str]:
        """The files that are known to be written in place: one has the inode of before, and is another."""
        inodes = self.known.get("inodes", {})
        known: set[str] = set(self.known.get("in_place", ()))
        for name, entry in self.old.items():
            file = look.files.get(name)
            if file is not None and file.inode == inodes.get(name) and [*file[:2]] != entry[:2]:
                known.add(name)
        return known & set(look.files)

    def _keep_older(self, entries: dict[str, list[Any]], names: set[str]) -> None:
        """Adds the last whole version of what is in the folder, and could not be frozen whole.

        Raises:
            TornSetError: it belongs to a marker: its files are of one moment or not at all.
        """
        if self.settings.get("marker"):
            missing = sorted(names - set(entries))
            if missing:
                raise TornSetError(f"{missing[0]!r}: {self.waiting.get(missing[0], 'it is gone')}")
            return
        for name in self.old:
            waits = name in self.waiting or any(each in self.waiting for each in manifest.folders_of(name))
            if name not in entries and waits:
                entries[name] = self.old[name]

    # --- sending

    def _number(self) -> int:
        """The number of the set; that of one whose files were not all sent is used again."""
        newest = 0 if self.last.get("restored") else self.last.get("number", 0)
        return int(max(newest, self._begun().get("closed", 0))) + 1

    def _begun(self) -> Mapping[str, int]:
        """The set that was begun last; ``closed`` is the last number whose manifest may have been sent."""
        begun: dict[str, int] = self.known.get("begun", {})
        return begun

    def _send(
        self, folder: str, number: int, fresh: Sequence[tuple[str, files.Seen]], in_place: set[str]
    ) -> dict[str, files.Seen]:
        """Sends files; gives those that are up as they were at one moment. Raises ``FailedError``."""
        if not fresh:
            return {}
        again = self._begun().get("number") == number
        self._remember(self.known.get("inodes", {}), begun={"number": number, "closed": number - 1})
        place = files.place_for(folder, FROZEN)
        up: dict[str, files.Seen] = {}
        torn: set[str] = set()
        try:
            for batch in batches(fresh, files.free_bytes(place) // 2):
                frozen = self._freeze(folder, place, batch, in_place)
                try:
                    self._send_frozen(place, number, frozen, again=again)
                    whole = {name: each.file for name, each in frozen.items() if each.is_whole()}
                    torn.update(set(frozen) - set(whole))
                    up.update(whole)
                    self._remember_sent(number, whole)
                finally:
                    for each in frozen.values():
                        each.close()
                    shutil.rmtree(place, ignore_errors=True)
                    os.makedirs(place, exist_ok=True)
        finally:
            shutil.rmtree(place, ignore_errors=True)
            self.known["in_place"] = sorted(in_place | torn)
        self.waiting.update(dict.fromkeys(torn, "it was written during its upload"))
        return up

    def _freeze(
        self, folder: str, place: str, batch: Sequence[tuple[str, files.Seen]], in_place: set[str]
    ) -> dict[str, files.Frozen]:
        """Freezes files; what is gone is no part of the set, and of what is written the older version is."""
        frozen: dict[str, files.Frozen] = {}
        made: set[str] = set()
        for name, file in batch:
            target = os.path.join(place, manifest.stored_name(name))
            parent = os.path.dirname(target)
            if parent not in made:
                os.makedirs(parent, exist_ok=True)
                made.add(parent)
            copied = name in in_place or file.size <= files.COPIED_BYTES
            try:
                frozen[name] = files.freeze(os.path.join(folder, name), target, copied=copied)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except files.TornError as error:
                self.waiting[name] = str(error)
            except OSError as error:
                room = "there is no room to copy it" if error.errno in NO_ROOM else f"{error.strerror}"
                self.waiting[name] = room
        return frozen

    def _send_frozen(self, place: str, number: int, frozen: dict[str, files.Frozen], *, again: bool) -> None:
        """Sends frozen files; what is written meanwhile is left out. Raises ``FailedError``."""
        target = f"{self._attempt()}/{number}/"
        options = ("--local-no-check-updated", *(() if again else ("--no-check-dest",)))
        for left in reversed(range(TRIES)):
            whole = [name for name, each in frozen.items() if each.is_whole()]
            size = sum(frozen[name].file.size for name in whole)
            began = time.monotonic()
            try:
                names = [manifest.stored_name(name) for name in whole]
                rclone.copy(self.settings, place, target, names, size, *options)
            except FailedError:
                if not left or all(frozen[name].is_whole() for name in whole):
                    raise
                continue
            self._rate(size, time.monotonic() - began)
            return

    def _rate(self, size: int, seconds: float) -> None:
        if size >= RATED_BYTES and seconds > 0:
            rate, before = size / seconds, self.known.get("rate")
            self.known["rate"] = rate if before is None else before + (rate - before) * NEWEST_SHARE

    def _finish(self, made: Mapping[str, Any]) -> None:
        """Sends the manifest, under its number and as the newest one. Raises ``FailedError``."""
        self._remember(self.known.get("inodes", {}), begun={"closed": made["number"]})
        drafts = f"{own.FOLDER}/{MANIFESTS}"
        shutil.rmtree(drafts, ignore_errors=True)
        os.makedirs(f"{drafts}/{manifest.SETS}")
        own.save(f"{MANIFESTS}/{manifest.LATEST}", made)
        os.link(f"{drafts}/{manifest.LATEST}", f"{drafts}/{manifest.path_of(made['number'])}")
        rclone.call(self.settings, "copy", drafts, f"{self._attempt()}/", "--no-check-dest")
        os.replace(f"{drafts}/{manifest.LATEST}", f"{own.FOLDER}/{manifest.LATEST}")

    def _attempt(self) -> str:
        return f"{rclone.WRITING}{self.settings['run']}/attempts/{self.settings['attempt']}"

    # --- what is remembered

    def _remember(self, inodes: Mapping[str, int], **changes: Any) -> None:
        self.known.update(inodes=dict(inodes), **changes)
        own.save(KNOWN, self.known)

    def _remember_sent(self, number: int, up: Mapping[str, files.Seen]) -> None:
        """Writes down what is up of a set that is not finished."""
        sent: list[Any] = self.known.get("sent", [])
        for name, file in up.items():
            stored = manifest.stored_name(name)
            sent.append((file.inode, name, manifest.entry(name, *file[:2], number, stored)))
        self._remember(self.known.get("inodes", {}), sent=sent)

    def _tell(self, newest: Mapping[str, Any], left_out: Mapping[str, str]) -> None:
        """Writes down what :func:`status` says."""
        told = {**left_out, **self.waiting}
        words = [f"{name}: {told[name]}" for name in sorted(told)[:MOST_WORDS]]
        found: Mapping[str, Sequence[Any]] = newest.get("files", {})
        own.save(
            STATUS,
            {
                **manifest.about(newest),
                "at": newest.get("at"),
                "newest": max(found, key=lambda name: (found[name][1], name), default=None),
                "rate": self.known.get("rate"),
                "left_out": {"count": len(told), "words": words},
            },
        )


def batches(listed: Sequence[tuple[str, files.Seen]], most: int) -> Iterator[list[tuple[str, files.Seen]]]:
    """Files in groups of at most so many bytes, or alone: what is frozen takes room once it is deleted."""
    group: list[tuple[str, files.Seen]] = []
    size = 0
    for name, file in listed:
        if group and size + file.size > most:
            yield group
            group, size = [], 0
        group.append((name, file))
        size += file.size
    if group:
        yield group
