"""Reads a box's report on its checkpoints: journals the newest whole one, warns of what was left out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gpucloud.clouds.abilities import Boot
from gpucloud.journal.facts import Facts, SavedSet
from gpucloud.journal.records import Box
from gpucloud.runtime.context import Context
from gpucloud.ssh.checkpoints import Checkpoint, Status

STEP = "store"
WRITTEN_EACH_S = 60.0
"""A run that saves each second must not fill the journal."""


@dataclass(slots=True)
class Noted:
    """What was noted of the checkpoints of a box."""

    context: Context
    box: Box
    _saved: SavedSet | None = None
    _written_at: float = 0.0
    _warned: bool = False
    _left_out: tuple[str, ...] = ()
    _told: set[str] = field(default_factory=set[str])

    def note(self, said: Status, *, at_once: bool) -> None:
        """Writes down the newest checkpoint, and warns of what is left out, and of one that is too large."""
        if said.newest is not None:
            if at_once:
                self._written_at = -WRITTEN_EACH_S
            self._write_down(said, said.newest)
        left_out = tuple(said.words)
        news = [words for words in left_out if words not in self._told]
        if news and left_out == self._left_out:  # twice in a row: it is not about to be whole
            self._told.update(news)
            more = said.left_out - len(left_out)
            also = f"; {more} more" if more > 0 else ""
            self.context.warn(STEP, f"warning: not in the checkpoint: {'; '.join(news)}{also}")
        self._left_out = left_out

    def _write_down(self, said: Status, newest: Checkpoint) -> None:
        now, known = time.monotonic(), self._saved
        if known is not None and (known.number == newest.number or now - self._written_at < WRITTEN_EACH_S):
            return
        self._written_at = now
        self._saved = SavedSet(
            number=newest.number,
            at=datetime.fromtimestamp(said.at, UTC),
            newest=said.newest_file,
            files=newest.files,
            size_bytes=newest.size_bytes,
            bytes_per_s=said.bytes_per_s,
            notices=self._notices(),
        )
        self.context.journal.observe(self.box, Facts(saved=self._saved))
        words = too_large(self._saved, self.box)
        if words is not None and not self._warned:
            self._warned = True
            self.context.warn(STEP, f"warning: {words}")

    def _notices(self) -> dict[str, int]:
        """How many seconds before they take a spot box back the clouds tell it."""
        clouds = self.context.clouds
        told = {name: clouds[name].ability(Boot) for name in clouds.names()}
        services = {name: boot.metadata for name, boot in told.items() if boot is not None}
        return {name: metadata.notice_s for name, metadata in services.items() if metadata is not None}


def too_large(saved: SavedSet, box: Box) -> str | None:
    """Why a whole upload does not fit into the notice of a box's cloud; ``None`` if it does, or may."""
    notice_s, upload_s = saved.notices.get(box.cloud), saved.upload_s
    if not box.is_spot or notice_s is None or upload_s is None or upload_s <= notice_s:
        return None
    return (
        f"a whole upload of the checkpoint takes {upload_s:.0f} s at the measured rate, and {box.cloud}"
        f" takes a spot box back {notice_s} s after its notice: what is not in the bucket by then is lost;"
        " save more often (--checkpoint-every), keep fewer files in the folder, or use --on-demand"
    )
