"""The boxes of the sandbox: every emulated instance runs a real ssh server on its own loopback port.

A box's commands run on this machine as the caller, in the box's own folder, with played programs first on the
PATH (``systemctl``, ``poweroff``, ``apt-get``, ``nvidia-smi``, ...). Privileged steps of user-data are
interpreted, not executed. It is no security boundary.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpucloud_sandbox import boxes_volumes
from gpucloud_sandbox.boxes_disk import Disk
from gpucloud_sandbox.boxes_machine import NOTICE, Box, BoxSpec
from gpucloud_sandbox.boxes_nvidia import SICKNESSES

__all__ = ["NOTICE", "BoxSpec", "Boxes"]

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TICK_S = 0.2
VOLUMES = "volumes"
"""The folder of the volumes, beside those of the boxes."""
_STOP_TIMEOUT_S = 20.0


class Boxes:
    """All boxes of a sandbox, in one event loop with its own thread. Thread-safe.

    Args:
        folder: the parent of the boxes' folders; folders of an earlier process are used again.
        on_power_off: called with a box's id, in a thread of its own, when the box powers itself off.
        now: returns the sandbox's time in UTC, by which timers elapse.
    """

    def __init__(
        self,
        folder: Path,
        *,
        on_power_off: Callable[[str], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._folder = folder
        self._on_power_off = on_power_off
        self._now = now
        self._boxes: dict[str, Box] = {}
        self._endings: dict[str, Future[None]] = {}
        self._sick: list[str] = []
        self._lock = threading.Lock()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        logging.getLogger("asyncssh").setLevel(logging.ERROR)
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="boxes", daemon=True)
        self._thread.start()

    def boot(self, spec: BoxSpec) -> None:
        """Starts to boot a box and returns at once; it boots once its last stop is done. Nothing if it runs.

        Raises:
            ValueError: the id cannot be a folder's name.
        """
        if not _ID.fullmatch(spec.id):
            raise ValueError(f"{spec.id!r} is not a box id")
        with self._lock:
            if spec.id in self._boxes:
                return
            if not (self._folder / spec.id).exists():
                if self._sick:
                    spec = replace(spec, sick=self._sick.pop(0))
                if spec.root_volume:
                    Disk(self._folder / spec.id).fill(self._volume(spec.root_volume))
            box = Box(
                self._folder / spec.id,
                spec,
                now=self._now,
                neighbours=lambda: list(self._boxes.values()),
                powered_off=lambda: self._begin(self._power_off(spec.id)),
                restarting=lambda: self._begin(self._restart(box)),
            )
            self._boxes[spec.id] = box
            ending = self._endings.pop(spec.id, None)
        self._loop.call_soon_threadsafe(lambda: self._begin(self._boot(box, after=ending)))

    def stop(self, id: str) -> None:  # noqa: A002  (the field's own name)
        """Starts to end a box's connections and processes and returns at once. May be repeated.

        Its disk stays for the next boot.
        """
        self._finish(id, erase=False)

    def end(self, id: str) -> None:  # noqa: A002
        """Starts to end a box and to erase its disk; its console stays. May be repeated."""
        self._finish(id, erase=True)

    def ssh_port(self, id: str) -> int | None:  # noqa: A002
        """The loopback port of a box's ssh server; ``None`` while there is none."""
        box = self._boxes.get(id)
        return box.port if box else None

    def console(self, id: str) -> str:  # noqa: A002
        """What a box wrote to its console; empty for an unknown one. Ended boxes keep theirs."""
        if not _ID.fullmatch(id):
            return ""
        try:
            return (self._folder / id / "console.log").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def plug(self, id: str, device: str, volume: str) -> None:  # noqa: A002
        """Shows a volume to a box, as a device; its files are those that any box has left there."""
        boxes_volumes.plug(Disk(self._folder / id).root, device, self._volume(volume))

    def unplug(self, id: str, volume: str) -> None:  # noqa: A002
        """Takes a volume away from a box. May be repeated."""
        disk = Disk(self._folder / id)
        boxes_volumes.unplug(disk.root, disk.mounts, self._volume(volume))

    def copy(self, source: str, target: str) -> None:
        """Fills a volume or a snapshot with the files of another one. May be repeated."""
        boxes_volumes.copy(self._volume(source), self._volume(target))

    def copy_root(self, id: str, target: str) -> None:  # noqa: A002
        """Fills a snapshot with the files of a box's root disk, without those of its volumes."""
        Disk(self._folder / id).copy_to(self._volume(target))

    def wipe(self, volume: str) -> None:
        """Deletes the files of a volume. May be repeated."""
        boxes_volumes.wipe(self._volume(volume))

    def _volume(self, id: str) -> Path:  # noqa: A002
        if not _ID.fullmatch(id):
            raise ValueError(f"{id!r} is not a volume id")
        return self._folder / VOLUMES / id

    def make_unhealthy(self, sickness: str, times: int) -> None:
        """The next new boxes get a faulty GPU.

        Raises:
            ValueError: the fault is unknown.
        """
        if sickness not in SICKNESSES:
            raise ValueError(f"no sickness {sickness!r}; there are {', '.join(SICKNESSES)}")
        with self._lock:
            self._sick = [sickness] * times

    def tell_time(self) -> None:
        """Tells every box that the clock was moved; returns when its clocks show it."""
        asyncio.run_coroutine_threadsafe(self._look_at_clock(), self._loop).result()

    def notice_interruption(self, id: str, at: datetime) -> None:  # noqa: A002
        """Tells a spot box, through its metadata service, when it will be taken away."""
        box = self._boxes.get(id)
        if box is not None:
            box.interruption = at

    def close(self) -> None:
        """Stops every box, keeps their folders, and ends the thread."""
        if not self._thread.is_alive():
            return
        for id_ in list(self._boxes):
            self.stop(id_)
        for ending in list(self._endings.values()):
            ending.result(_STOP_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_TIMEOUT_S)

    # --- inside the thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._begin(self._tick())
        try:
            self._loop.run_forever()
        finally:
            # A task that is cancelled before it has begun does not close the connection that it was given.
            self._loop.run_until_complete(asyncio.sleep(0))
            while tasks := asyncio.all_tasks(self._loop):  # one that ends may have begun another
                for task in tasks:
                    task.cancel()
                self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _finish(self, id: str, *, erase: bool) -> None:  # noqa: A002
        with self._lock:
            box, before = self._boxes.pop(id, None), self._endings.get(id)
            if self._thread.is_alive():
                work = self._end(id, box, before, erase=erase)
                self._endings[id] = asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _end(
        self,
        id: str,  # noqa: A002
        box: Box | None,
        before: Future[None] | None,
        *,
        erase: bool,
    ) -> None:
        await _done(before)
        if box is not None:
            await box.stop()
        if erase:
            await asyncio.to_thread(Disk(self._folder / id).erase)

    async def _tick(self) -> None:
        while True:
            await self._look_at_clock()
            await asyncio.sleep(_TICK_S)

    async def _look_at_clock(self) -> None:
        for box in list(self._boxes.values()):
            box.tick()

    async def _power_off(self, id: str) -> None:  # noqa: A002
        box = self._boxes.get(id)
        if box is not None:
            await box.stop()
            threading.Thread(target=self._on_power_off, args=(id,), daemon=True).start()

    async def _restart(self, box: Box) -> None:
        await box.stop()
        await self._boot(box)

    async def _boot(self, box: Box, *, after: Future[None] | None = None) -> None:
        await _done(after)
        if self._boxes.get(box.spec.id) is not box:  # it was stopped again meanwhile
            return
        try:
            await box.boot()
        except Exception as error:
            box.say(f"boot failed: {type(error).__name__}: {error}\n")


async def _done(ending: Future[None] | None) -> None:
    """Waits for the end of an earlier stop, however it went."""
    if ending is not None:
        await asyncio.wait([asyncio.wrap_future(ending)])
