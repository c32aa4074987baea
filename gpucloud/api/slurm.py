"""Nodes for Slurm: its resume and suspend programs, and the pass that looks after nodes each minute."""

from __future__ import annotations

import os
import pwd
import socket
import stat
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpucloud.api.fleet import Fleet
from gpucloud.api.markets import Markets
from gpucloud.config import write_whole
from gpucloud.elastic.cluster import Cluster
from gpucloud.elastic.cluster_file import load_cluster
from gpucloud.elastic.slurm.commands import Controller
from gpucloud.elastic.slurm.rules import (
    Update,
    failed,
    of_classes,
    of_jobs,
    of_lost,
    of_machines,
    reasons_of,
)
from gpucloud.elastic.slurm.states import SlurmNode, by_name, expand, gangs, is_hostlist, jobs_nodes
from gpucloud.errors import GpucloudError, UsageError

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.elastic.fleet import Reconciled
    from gpucloud.elastic.rules import Slot
    from gpucloud.elastic.slurm.configuration import ControllerHost
    from gpucloud.elastic.slurm.shapes import CheapestPlace, SlurmShape
    from gpucloud.journal.records import Box
    from gpucloud.runtime.context import Context

FOLDER = "slurm"
"""Beside cluster.yaml: the files of ``slurm init``."""
CARRIED = ("HOME", "PATH", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "SLURM_CONF")
"""The variables that the programs get, beside those of gpucloud."""
LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file of ``slurm init``: ``written``, ``same`` as it was, or the user's own, which is ``kept``."""

    path: Path
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """One look: what was done about boxes, what slurmctld was told, and what could not be done."""

    done: Reconciled
    told: tuple[Update, ...]
    troubles: tuple[GpucloudError, ...]


@dataclass(frozen=True)
class Slurm:
    """The nodes of a cluster for Slurm, on the machine of slurmctld, as ``SlurmUser``.

    slurmctld decides which nodes are up; the fleet sees to it that they come, within their price, and end.
    """

    file: Path
    _session: Session

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster.

        Raises:
            UsageError: its file cannot be read, or is not valid; with file and line.
        """
        return load_cluster(self.file)

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self.file.absolute().parent / FOLDER

    @cached_property
    def _controller(self) -> Controller:
        return Controller(self._session.profile.variables)

    @cached_property
    def _fleet(self) -> Fleet:
        return Fleet(self.cluster, self._session, self._join)

    # --- init

    def init(self, *, force: bool = False) -> list[WrittenFile]:
        """Writes the files of the cluster for slurmctld beside its file; what is the same stays.

        Args:
            force: also replaces files that somebody has edited.

        Raises:
            UsageError: a file was edited, or cannot be written; none is written then.
            NoOfferError: no machine matches a class.
        """
        from gpucloud.elastic.slurm.configuration import files, is_edited

        wanted = files(self._site(), self.cluster, self._shapes())
        before = {file.name: _text(self.folder / file.name) for file in wanted}
        edited = [
            str(self.folder / file.name)
            for file in wanted
            if not file.theirs and (old := before[file.name]) is not None and is_edited(old)
        ]
        if edited and not force:
            raise UsageError(
                f"somebody has edited {', '.join(edited)}",
                hint="move your changes behind the Include line of slurm.conf, then --force",
            )
        written: list[WrittenFile] = []
        for file in wanted:
            path, old = self.folder / file.name, before[file.name]
            same = old == file.text or (file.theirs and old is not None)
            if not same:
                write_whole(path, file.text, mode=file.mode)
            state = "kept" if same and file.theirs else "same" if same else "written"
            written.append(WrittenFile(path=path, state=state))
        if self._session.sandboxed:
            self._make_devices()
        return written

    def _site(self) -> ControllerHost:
        from gpucloud.elastic.slurm.configuration import ControllerHost

        given = self._session.profile.variables
        names = [name for name in given if name in CARRIED or name.startswith("GPUCLOUD_")]
        variables = {name: given[name] for name in sorted(names)}
        if self._session.sandboxed:
            variables["GPUCLOUD_SANDBOX"] = "1"
        return ControllerHost(
            folder=str(self.folder),
            cluster_file=str(self.file.absolute()),
            program=(sys.executable, "-m", "gpucloud"),
            user=pwd.getpwuid(os.geteuid()).pw_name,
            host=socket.gethostname(),
            variables=variables,
            sandbox=self._session.sandboxed,
        )

    def _shapes(self) -> list[SlurmShape]:
        from gpucloud.elastic.slurm.shapes import shape_of

        return [
            shape_of(name, each, Markets(self._session).offers(each.spec.replaced(max_price=None)).offers)
            for name, each in self.cluster.classes.items()
        ]

    def _make_devices(self) -> None:
        """Stands for the device files of GPUs, which Slurm wants to see; only root can make some."""
        for name in (*(f"nvidia{n}" for n in range(16)), *(f"gpucloud/slice{n}" for n in range(64))):
            path = self.folder / "dev" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError, PermissionError):
                os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))

    # --- what slurmctld starts

    def resume(self, hostlist: str) -> tuple[Slot, ...]:
        """Writes down which nodes are wanted; those of a job are launched together, or not at all.

        Raises:
            UsageError: this is no machine of slurmctld, or `slurm init` was not called.
        """
        jobs = self._wanted_by_jobs()  # first: the file is there as long as slurmctld runs
        self._refuse_elsewhere()
        names = self._ours(hostlist)
        self._give_up_unknown(hostlist)
        boxes = gangs(names, [expand(nodes) for nodes in jobs], self.cluster.class_of)
        try:
            return self._fleet.want_boxes(boxes)
        except UsageError:
            return tuple(slot for box in boxes for slot in self._want(box))

    def _want(self, box: tuple[str, ...]) -> tuple[Slot, ...]:
        """Wants one box; slurmctld is told if it cannot be had: a part of it has not ended yet."""
        try:
            return self._fleet.want_boxes([box])
        except UsageError as error:
            self._controller.tell(failed(box, error.message))
            return ()

    def _wanted_by_jobs(self) -> list[str]:
        """The nodes of each job that is to be started; of none where Slurm does not say."""
        file = self._session.profile.variables.get("SLURM_RESUME_FILE")
        if not file:
            return []
        with suppress(OSError):
            return jobs_nodes(Path(file).read_text(encoding="utf-8"))
        return []

    def launch(self, hostlist: str) -> Synced:
        """Launches nodes that are wanted, waits until they are up, and tells slurmctld which cannot come.

        Raises:
            UsageError: as :meth:`resume`; nothing was bought.
        """
        self._refuse_elsewhere()
        gang = {slot.name: slot.gang for slot in self._fleet.seen()}
        boxes = dict.fromkeys(gang.get(name, (name,)) for name in self._ours(hostlist))
        return self._tell(self._fleet.up_boxes(list(boxes)))

    def suspend(self, hostlist: str) -> Reconciled:
        """Ends nodes; returns when nothing is billed for them."""
        return self._fleet.down(self._ours(hostlist))

    def fail(self, hostlist: str) -> Synced:
        """Ends nodes that did not register in time, and makes them idle again: else they stay down."""
        names = self._ours(hostlist)
        self._give_up_unknown(hostlist)
        told = failed(names, "it did not register in time")
        troubles = self._controller.tell(told)
        done = self._fleet.down(names)
        return Synced(done=done, told=tuple(told), troubles=(*done.troubles, *troubles))

    def detach(self, command: str, hostlist: str) -> None:
        """Forks a background process for each class of nodes."""
        by_class: dict[str, list[str]] = {}
        for name in self._ours(hostlist):
            by_class.setdefault(self.cluster.class_of(name), []).append(name)
        if not by_class:
            return
        words = [sys.executable, "-m", "gpucloud", *(["--sandbox"] if self._session.sandboxed else [])]
        given = self._session.profile.variables
        variables = {name: value for name, value in given.items() if name != "SLURM_RESUME_FILE"}
        self.folder.mkdir(exist_ok=True)
        with (self.folder / "gpucloud.log").open("ab") as log:
            for names in by_class.values():
                subprocess.Popen(
                    [*words, "slurm", command, "--cluster", str(self.file), "--foreground", ",".join(names)],
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                ).returncode = 0  # it lives on without us: nobody is to wait for it

    # --- each minute

    def sync(self) -> Synced:
        """Compares what slurmctld wants with the journal and the clouds, once, and settles differences.

        Raises:
            SlurmError: slurmctld does not answer: then nothing is done, and boxes end with their lease.
        """
        as_of = datetime.now(UTC)
        nodes = self._nodes()
        wanted = {node.name: node for node in nodes if node.is_wanted}
        self._want_unknown(wanted)
        done = self._fleet.reconcile(dict.fromkeys(wanted, LONG_AGO), as_of=as_of)
        return self._tell(done, everything=True)

    def _want_unknown(self, wanted: Mapping[str, SlurmNode]) -> None:
        """Wants the nodes that Slurm starts and the journal does not know, as their jobs need them."""
        awaited = [name for name, node in wanted.items() if node.is_awaited]
        known = {slot.name for slot in self._fleet.seen()} if awaited else set[str]()
        unknown = [name for name in awaited if name not in known]
        if unknown:
            jobs = [expand(job.nodes) for job in self._controller.jobs() if job.state == "CF"]
            for box in gangs(unknown, jobs, self.cluster.class_of):
                self._want(box)

    def _tell(self, done: Reconciled, *, everything: bool = False) -> Synced:
        """Tells slurmctld what it has to know of the slots as they are now."""
        nodes = self._nodes()
        known, markets = by_name(nodes), self._markets() if everything else {}
        jobs = [(job, expand(job.nodes)) for job in self._controller.jobs()]
        told = [
            *of_lost(nodes, reasons_of(done)),
            *of_classes(nodes, self.cluster.class_of, self._fleet.pauses(), markets),
            *of_machines(known, done.slots, self._controller.version()),
            *of_jobs(jobs, done.slots),
        ]
        troubles = self._controller.tell(told)
        return Synced(done=done, told=tuple(told), troubles=(*done.troubles, *troubles))

    def _nodes(self) -> list[SlurmNode]:
        """The nodes of slurmctld that are of this cluster."""
        return [node for node in self._controller.nodes() if self._is_ours(node.name)]

    def _markets(self) -> dict[str, CheapestPlace]:
        from gpucloud.elastic.slurm.shapes import market_of

        found: dict[str, CheapestPlace] = {}
        for name, each in self.cluster.classes.items():
            with suppress(GpucloudError):  # nothing matches today: what was known of it stays
                found[name] = market_of(Markets(self._session).offers(each.spec).offers)
        return found

    # --- nodes

    def _refuse_elsewhere(self) -> None:
        """Refuses to buy what could not join.

        Raises:
            UsageError: this is no machine of slurmctld, or `slurm init` was not called.
        """
        self._controller.refuse_elsewhere()
        self._gres()

    def _gres(self) -> str:
        """The text of gres.conf.

        Raises:
            UsageError: `slurm init` was not called.
        """
        gres = _text(self.folder / "gres.conf")
        if gres is None:
            raise UsageError(f"there is no {self.folder / 'gres.conf'}", hint="write it: gpucloud slurm init")
        return gres

    def _give_up_unknown(self, hostlist: str) -> None:
        """Makes nodes idle again that slurm.conf has and the cluster has no longer: else they stay down."""
        beginning = f"{self.cluster.name}-"
        unknown = [
            each for each in expand(hostlist) if each.startswith(beginning) and not self._is_ours(each)
        ]
        if unknown:
            why = f"{self.file.name} has no such node: call gpucloud slurm init again"
            for trouble in self._controller.tell(failed(unknown, why)):
                raise trouble

    def _ours(self, hostlist: str) -> list[str]:
        """The nodes of this cluster in a list; others are of somebody else's programs.

        Raises:
            UsageError: it is no list.
        """
        if not is_hostlist(hostlist):
            raise UsageError(f"{hostlist!r} is no list of nodes", hint="Slurm writes them as lab-t4-[1-3,7]")
        return [name for name in expand(hostlist) if self._is_ours(name)]

    def _is_ours(self, name: str) -> bool:
        try:
            self.cluster.class_of(name)
        except UsageError:
            return False
        return True

    def _join(self, context: Context, box: Box, slots: tuple[str, ...]) -> None:
        """Makes the nodes of a box nodes of Slurm.

        Raises:
            GpucloudError: they cannot join.
        """
        from gpucloud.bring_up.bring_up import targets
        from gpucloud.elastic.slurm.joining import SlurmJoining
        from gpucloud.elastic.slurm.shapes import slices_of
        from gpucloud.ssh.keys import key_folder

        assert context.state is not None  # noqa: S101  (who buys has a state folder)
        slices = slices_of({} if self._session.sandboxed else self.cluster.classes)
        nodes = targets(box, key_folder(context.state, box.id), context.proxy_command)
        context.tell("slurm", f"{', '.join(slots)}: slurmd starts")
        joining = SlurmJoining(controller=self._controller, gres=self._gres(), slices=slices)
        joining.join(nodes, slots, self.cluster.class_of(slots[0]))


def _text(path: Path) -> str | None:
    """The text of a file; ``None`` if there is none.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
