"""What dies in the chaos tests: the program's own ``main``, in a forked process, with what befalls it.

Machines of the chaos lab have no inside, so a box counts as ready once they run, and does at once what it is
told over ssh; everything else is the program as it is.
"""

from __future__ import annotations

import errno
import functools
import importlib.metadata
import io
import json
import os
import resource
import shutil
import signal
import socket
import sqlite3
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import gpucloud.__main__
import gpucloud.api.ending
import gpucloud.api.fetching
import gpucloud.api.launching
import gpucloud.api.moving
import gpucloud.api.replacing
import gpucloud.api.session
import gpucloud.boxes.deadline
import gpucloud.boxes.failed_box
import gpucloud.boxes.launch
import gpucloud.boxes.power
import gpucloud.boxes.set_up
import gpucloud.boxes.starting
import gpucloud.cli.app
import gpucloud.ending.deadline
import gpucloud.ending.stopping
import gpucloud.journal.sqlite.database
import gpucloud.market.catalog
import gpucloud.runs.code
import gpucloud.runs.job
import gpucloud.runs.orphaned
import gpucloud.runs.results
import gpucloud.runs.run
import gpucloud.runs.tend
import gpucloud.ssh.checkpoints
import gpucloud.ssh.data
import gpucloud.storage.mounting
import gpucloud.storage.snapshots
import gpucloud_azure.create
from gpucloud import CleanupIncompleteError, Cluster, GpucloudError, NodeClass, SlotState, Spec
from gpucloud.bring_up.bring_up import NotReadyError, UnfitError
from gpucloud.cli.app import Call, Switches
from gpucloud.cli.context import App
from gpucloud.cli.output import Output
from gpucloud.ending.teardown import take_down
from gpucloud.journal.facts import Measured
from gpucloud.journal.records import Box
from gpucloud.purchase.failover import launch
from gpucloud.runtime.context import Context
from gpucloud.ssh.boot import BootState
from gpucloud.ssh.checkpoints import Begun
from gpucloud.ssh.client import Target
from gpucloud.ssh.files import NotCopiedError
from gpucloud.ssh.job import RUN, JobState
from gpucloud_alibaba.images import table as alibaba_images
from gpucloud_aws.images import table as aws_images
from gpucloud_azure.create import throw_away_key
from gpucloud_pricing import Demand
from gpucloud_pricing.gpus import parse_requirements
from gpucloud_templates.software import driver, releases
from tests.bench import Bench
from tests.builders import Clock
from tests.chaos import elsewhere
from tests.chaos.disk import FAILED_SYNC, FULL, OK, interpose
from tests.chaos.plights import COMMITTED_AFTER_SWAP
from tests.chaos.scenes import BEGUN, FAILS, NO_ROOM, REGION, RESULT, UNFIT
from tests.memory import MemoryProvider

PARSE: Any = gpucloud.cli.app.parse
LASTING = frozenset({"cut-off", "full"})
"""What does not end once it has begun."""
MARKET = gpucloud.market.catalog.shipped_market()
ENTRY_POINTS: Any = functools.cache(importlib.metadata.entry_points)
LOADED: Any = functools.cache(gpucloud.cli.app.load)
BUILT: Any = functools.cache(gpucloud.cli.app.build)
THROWN_AWAY_KEY = throw_away_key()
"""Read once, by the process that forks: these are the same for all."""


def warm_up() -> None:
    """Does beforehand what costs each command time, and is the same each time."""
    for cloud in ("aws", "azure", "alibaba"):
        with tempfile.TemporaryDirectory() as folder:
            clock = Clock()
            bench = Bench(Path(folder), clock, [MemoryProvider.named(cloud, clock=clock)])
            context = bench.context()
            take_down(context, launch(context, bench.purchase()), budget_s=60)
    BUILT()
    for command in ("launch", "run", "extend", "setup", "down", "sweep", "recover"):
        LOADED(command)
    for read in (aws_images, alibaba_images, driver, releases):
        read()
    for entry in ENTRY_POINTS(group="gpucloud.providers"):
        entry.load()
    for cloud in ("aws", "azure", "alibaba"):
        MARKET.search(Demand(gpus=parse_requirements("T4"), clouds=(cloud,)), datetime.now(UTC).date())


warm_up()


def main() -> None:
    """Runs a command; the first argument is JSON: what befalls it besides its clouds."""
    signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGINT}
    )  # what comes this early is meant for the program
    plight: dict[str, Any] = json.loads(sys.argv.pop(1))
    for module, name, instead in (
        (gpucloud.boxes.launch, "bring_up", set_up_at_once),
        (gpucloud.boxes.launch, "mount_all", told),
        (gpucloud.boxes.launch, "set_up", told),
        (gpucloud.storage.mounting, "write_out", told),
        (gpucloud.ssh.data, "install", told),
        (gpucloud.ssh.data, "prepare", folder),
        (gpucloud.ssh.data, "copy", copied),
        (gpucloud.ssh.data, "lock", told),
        (gpucloud.storage.snapshots, "write_all", told),
        (gpucloud.api.moving, "reach", told),
        (gpucloud.api.moving, "size_of", empty),
        (gpucloud.api.moving, "copy_between", told),
        (gpucloud.api.replacing, "reach", told),
        (gpucloud.api.replacing, "faulty_hardware", sick),
        (gpucloud.api.replacing, "keep_logs", told),
        (gpucloud.boxes.failed_box, "boot_state", guarded),
        (gpucloud.boxes.set_up, "bring_up", measured),
        (gpucloud.boxes.set_up, "reach", told),
        (gpucloud.boxes.set_up, "boot_again", told),
        (gpucloud.boxes.set_up, "end_setup", told),
        (gpucloud.boxes.set_up, "set_up", told),
        (gpucloud.api.ending, "keep_logs", told),
        (gpucloud.runs.run, "keep_logs", told),
        (gpucloud.ending.deadline, "move_end", told),
        (gpucloud.boxes.deadline, "reach", told),
        (gpucloud.boxes.power, "reach", told),
        (gpucloud.ending.stopping, "move_end", told),
        (gpucloud.ending.stopping, "disconnect", told),
        (gpucloud.boxes.starting, "admit_us", told),
        (gpucloud.boxes.starting, "bring_back", told),
        (gpucloud.api.launching, "start", told),
        (gpucloud.runs.code, "send_frozen", told),
        (gpucloud.ssh.checkpoints, "install", told),
        (gpucloud.ssh.checkpoints, "send_credentials", told),
        (gpucloud.ssh.checkpoints, "begin", nothing_restored),
        (gpucloud.ssh.checkpoints, "watch", told),
        (gpucloud.ssh.checkpoints, "wait", told),
        (gpucloud.runs.tend, "jobs", ended),
        (gpucloud.runs.tend, "keep_logs", told),
        (gpucloud.runs.tend, "reach", told),
        (gpucloud.runs.job, "reach", told),
        (gpucloud.runs.job, "start", begun),
        (gpucloud.runs.job, "end_group", told),
        (gpucloud.runs.results, "reach", told),
        (gpucloud.runs.results, "disconnect", told),
        (gpucloud.runs.results, "rsync_down", brought),
        (gpucloud.runs.orphaned, "reach", told),
        (gpucloud.runs.orphaned, "jobs", ended),
        (gpucloud.runs.orphaned, "keep_logs", told),
        (gpucloud.runs.orphaned, "rsync_down", brought),
        (gpucloud.api.fetching, "keep_logs", told),
        (gpucloud.runs.job, "Follower", Over),
    ):
        setattr(module, name, instead)
    gpucloud.market.catalog.shipped_market = lambda: MARKET
    gpucloud.cli.app.load = LOADED
    gpucloud.cli.app.build = BUILT
    importlib.metadata.entry_points = ENTRY_POINTS
    gpucloud_azure.create.throw_away_key = lambda: THROWN_AWAY_KEY
    ssl.SSLContext.load_default_certs = lambda *_: None  # type: ignore[method-assign]
    if not plight.pop("patient", False):
        _hurry()
    for name, value in plight.items():
        globals()[f"with_{name}"](value)
    gpucloud.cli.app.parse = command_or_engine
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    gpucloud.__main__.main()


def command_or_engine(line: Sequence[str], switches: Switches) -> Call:
    """A command; or what an engine does with its slots: ``engine up CLOUD``, ``engine look CLOUD``."""
    if line[0] != "engine":
        call: Call = PARSE(line, switches)
        return call
    return functools.partial(engine, line, switches)


def engine(line: Sequence[str], switches: Switches) -> None:
    """What an engine does with its slots."""
    spec = Spec(gpu="T4", clouds=line[2], regions=REGION[line[2]], allow_from="198.51.100.7/32")
    lab = Cluster(name="lab", classes={"t4": NodeClass(spec=spec, max=2)})
    app = App(output=Output(), environment=os.environ, command=line[0], sandbox=switches.sandbox)
    with app.working() as (client, _):
        fleet = client.engines.fleet(lab)
        wanted = lab.slots("t4")
        done = fleet.up(wanted) if line[1] == "up" else fleet.reconcile({wanted[0]: datetime.now(UTC)})
    for trouble in sorted(done.troubles, key=lambda each: not isinstance(each, CleanupIncompleteError)):
        raise trouble
    for slot in done.slots:
        if slot.state is not SlotState.READY:
            raise GpucloudError(f"{slot.name} is {slot.state}: {slot.reason}")


def measured(context: Context, box: Box, keys: Path) -> Measured:
    """In place of waiting for ssh, the boot and the GPUs."""
    return Measured(gpus={}, boot_seconds={})


def set_up_at_once(context: Context, box: Box, keys: Path) -> Measured:
    """The same for a launch, whose set-up may fail, or whose second node may be unfit at first."""
    if box.wanted.spec.get("setup") == FAILS:
        raise NotReadyError("the set-up failed")
    if box.wanted.spec.get("setup") == UNFIT and box.replaced is None:
        raise UnfitError("a GPU is missing", nodes=(1,))
    return measured(context, box, keys)


def guarded(target: Target) -> BootState:
    """In place of asking a box whose set-up failed."""
    return BootState(ready=False, seconds={}, guarded=True, step="driver", exit_code=1)


def sick(_: Target) -> str:
    """In place of asking the guard of a box for its hardware."""
    return "Xid 79"


def told(*_: object, **__: object) -> None:
    """In place of what is said to a box over ssh."""


def folder(*_: object, **__: object) -> str:
    """In place of making a folder for a data set on a box."""
    return "/var/lib/gpucloud/data/data"


def copied(*_: object, **__: object) -> bool:
    """In place of copying a data set to a box with the rights that its cloud has lent."""
    return True


def empty(*_: object, **__: object) -> int:
    """In place of the size of files on a box."""
    return 0


def ended(_: Target) -> list[JobState]:
    """In place of asking for the jobs of a node: that of its run has ended."""
    return [JobState(id=RUN, running=False, exit_code=0)]


def begun(*_: object, **__: object) -> None:
    """In place of starting the command of a run: it is counted."""
    with Path(os.environ["HOME"], BEGUN).open("a") as file:
        file.write("begun\n")


def nothing_restored(*_: object, **__: object) -> Begun:
    """In place of restoring a checkpoint on a box: there is none."""
    return Begun(folder="/kept", restored=None, damaged=())


def brought(_: Target, source: str, here: str, **__: object) -> None:
    """In place of copying a file of a box; there may be no room for it."""
    if Path(os.environ["HOME"], NO_ROOM).exists():
        raise NotCopiedError("no space left on device")
    Path(here, source).write_text(RESULT)


class Over:
    """In place of the output of a job: it has none, and is over."""

    def __init__(self, *_: object) -> None:
        pass

    def follow(self) -> int:
        """The job's exit code."""
        return 0

    def close(self) -> None:
        """Nothing is open."""


class _Time:
    """What the program takes for the time: waiting between tries takes none of ours, but counts.

    ``ahead_s`` has passed for the clouds too, ``wrong_s`` is what this machine's clock alone shows.
    """

    ahead_s = 0.0
    wrong_s = 0.0

    @classmethod
    def sleep(cls, seconds: float) -> None:
        cls.ahead_s += seconds
        time.sleep(min(seconds, 0.01))  # other threads may be what is waited for

    @classmethod
    def now(cls) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=cls.ahead_s + cls.wrong_s)


def _hurry() -> None:
    """Nothing is waited for in vain."""
    from azure.core.pipeline.transport import RequestsTransport

    import gpucloud.clouds.cloud
    from gpucloud.clouds.cloud import Cloud
    from gpucloud.runtime.tasks import Tasks

    call = Cloud.call

    def later(cloud: Cloud, what: str, asked: Callable[[], Any], budget_s: float | None = None) -> Any:
        told = call(cloud, what, asked, budget_s)
        return told + timedelta(seconds=_Time.ahead_s) if isinstance(told, datetime) else told

    def pause(tasks: Tasks, seconds: float) -> None:
        tasks.check()
        _Time.sleep(seconds)

    gpucloud.api.session.Session.now = lambda session: _Time.now()  # type: ignore[method-assign, assignment]
    Cloud.call = later  # type: ignore[method-assign, assignment]
    Tasks.pause = pause  # type: ignore[method-assign, assignment]
    Tasks.__init__.__defaults__ = (None, lambda: time.monotonic() + _Time.ahead_s)
    RequestsTransport.sleep = lambda self, duration: _Time.sleep(duration)
    defaults = Cloud.__init__.__kwdefaults__ or {}
    defaults["sleep"] = _Time.sleep
    defaults["monotonic"] = lambda: time.monotonic() + _Time.ahead_s


def with_cloud(name: str) -> None:
    """Has only this cloud: the others would only take time. Without a name it has all."""
    from gpucloud.clouds.cloud import Clouds

    if not name:
        return
    original: Any = Clouds.__init__

    def begin(self: Clouds, factories: Any, *rest: Any, **named: Any) -> None:
        own = {each: factory for each, factory in factories.items() if each == name}
        original(self, own, *rest, **named)

    Clouds.__init__ = begin  # type: ignore[method-assign]


def with_later(seconds: float) -> None:
    """Lives so much later."""
    _Time.ahead_s = seconds


def with_clock(hours: int) -> None:
    """Has a clock that is wrong by so much."""
    _Time.wrong_s = hours * 3600.0


def with_skew(minutes: int) -> None:
    """Has a clock that is wrong by so little that nobody sees it."""
    _Time.wrong_s = minutes * 60.0


def with_timeouts(seconds: float) -> None:
    """Waits no longer than this for an answer."""
    import gpucloud_alibaba.clients
    import gpucloud_aws.clients
    import gpucloud_azure.clients

    gpucloud_aws.clients.READ_TIMEOUT_S = gpucloud_azure.clients.READ_TIMEOUT_S = seconds  # type: ignore[assignment]
    gpucloud_alibaba.clients.READ_TIMEOUT_MS = int(seconds * 1000)


def with_disk(kib: int) -> None:
    """Has a disk on which no file can grow beyond this size."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (kib * 1024, kib * 1024))


def with_files(most: int) -> None:
    """May open only so many files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def with_memory(mib: int) -> None:
    """May have only so much memory more than it has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + mib * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def with_read_only(_: int) -> None:
    """Cannot write to its files."""
    home = str(Path.home())
    elsewhere.leave(elsewhere.MOUNTS)
    elsewhere.mount(home, home, flags=elsewhere.MS_BIND)
    elsewhere.mount(None, home, flags=elsewhere.MS_BIND | elsewhere.MS_REMOUNT | elsewhere.MS_RDONLY)


def with_place(where: str) -> None:
    """Runs elsewhere (:data:`tests.chaos.elsewhere.PLACES`)."""
    elsewhere.go(where)


def with_lease(seconds: list[float]) -> None:
    """Renews its leases, and takes others for dead, after so many seconds instead of the program's."""
    every_s, timeout_s = seconds
    _have("BEAT_EVERY_S", every_s)
    _have("LEASE_TIMEOUT", timedelta(seconds=timeout_s))


def with_waits(seconds: list[float]) -> None:
    """Waits so long for an answer of its journal's server, and tries again for so long."""
    answer_s, patience_s = seconds
    _have("ANSWER_S", answer_s)
    _have("PATIENCE_S", patience_s)
    _have("CONNECT_S", 2)


def with_job(state: str) -> None:
    """Finds the commands of runs ``running`` instead of ended."""
    found = [JobState(id=RUN, running=state == "running", exit_code=None)]
    vars(gpucloud.runs.tend)["jobs"] = lambda _: found


def with_window(seconds: float) -> None:
    """Takes a cloud to show everything after so many seconds instead of ten minutes."""
    _have("CONSISTENCY_WINDOW", timedelta(seconds=seconds))


def _have(name: str, value: object) -> None:
    """Gives a constant of the program another value, wherever it was imported."""
    for module in [each for each in sys.modules.values() if each.__name__.startswith("gpucloud.")]:
        if hasattr(module, name):
            setattr(module, name, value)


def with_closed(which: int) -> None:
    """Was started without stdin (1), stdout (2), stderr (4), or several of them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if which >> number & 1:
            os.close(number)
            setattr(sys, name, None)


class _Window(io.RawIOBase):
    """A terminal whose window is closed at the n-th write: SIGHUP comes, and then nothing is taken."""

    left = 0

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def writable(self) -> bool:
        """It is written to."""
        return True

    def fileno(self) -> int:
        """What it stands for."""
        return self._handle

    def write(self, data: Any, /) -> int:
        """Passes it on."""
        _Window.left -= 1
        if _Window.left == 0:
            os.kill(os.getpid(), signal.SIGHUP)
        if _Window.left <= 0:
            raise OSError(errno.EIO, "Input/output error")
        return os.write(self._handle, data)


def with_hung_up(nth: int) -> None:
    """Its terminal is closed at the n-th thing that it says."""
    _Window.left = nth
    for handle, name in ((1, "stdout"), (2, "stderr")):
        stream = io.TextIOWrapper(io.BufferedWriter(_Window(handle)), encoding="utf-8", write_through=True)
        setattr(sys, name, stream)


def with_connection(at: list[Any]) -> None:
    """Its n-th connection to a cloud fails: ``refused``, ``unresolved``, ``timed-out``; ``cut-off``: all
    from there on. ``never`` only counts."""
    how, number, ports = at
    errors = {
        "refused": ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        "unresolved": socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        "timed-out": TimeoutError("timed out"),
        "cut-off": OSError(errno.ENETUNREACH, "Network is unreachable"),
    }
    count = _Count("connections", how, number)
    original: Any = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and address[1] in ports and count.strikes():
            raise errors[how]
        original(self, address)

    socket.socket.connect = connect  # type: ignore[method-assign, assignment]


def with_write(at: list[Any]) -> None:
    """The disk of its journal is full from the n-th write on; ``never`` only counts."""
    how, number = at
    count = _Count("writes", how, number)
    interpose(lambda: FULL if count.strikes() else OK, lambda: OK, lambda path: None)


def with_sync(at: list[Any]) -> None:
    """The n-th sync of its journal fails; ``never`` only counts."""
    how, number = at
    count = _Count("syncs", how, number)
    interpose(lambda: OK, lambda: FAILED_SYNC if count.strikes() else OK, lambda path: None)


def with_power(_: str) -> None:
    """What is on the disk, should the power go, is in the folder ``synced``: at first, all that there is."""
    folder = Path.home() / "synced"
    folder.mkdir()
    for file in Path.home().glob("state-sandbox/journal.db*"):
        shutil.copyfile(file, folder / file.name)

    def synced(path: Path) -> None:
        shutil.copyfile(path, folder / "new")
        (folder / "new").replace(folder / path.name)

    interpose(lambda: OK, lambda: OK, synced)


def with_commit(at: list[Any]) -> None:
    """Dies just before, or just after, its n-th commit to the journal; ``never`` only counts."""
    moment, number = at
    count = _Count("commits", moment, number)

    def die() -> None:
        if count.strikes():
            os.kill(os.getpid(), 9)

    _at_commit(**{"after" if moment == "after" else "before": die})


def _at_commit(before: Callable[[], None] | None = None, after: Callable[[], None] | None = None) -> None:
    """Does something at each commit that changes the journal."""
    database: Any = gpucloud.journal.sqlite.database
    original = database.transaction

    @contextmanager
    def transaction(connection: sqlite3.Connection) -> Generator[None]:
        total = connection.total_changes
        with original(connection):
            yield
            writes = connection.total_changes > total
            if writes and before:
                before()
        if writes and after:
            after()

    database.transaction = transaction


def with_swap(at: list[Any]) -> None:
    """After its n-th commit its journal is deleted, moved away, or replaced by the copy from its start."""
    how, number = at
    count = _Count("swaps", how, number)
    state, older = Path.home() / "state-sandbox", Path.home() / "older"
    if state.exists():
        shutil.copytree(state, older)

    def swap() -> None:
        for file in state.glob("journal.db*"):
            if how == "moved":
                file.replace(Path.home() / file.name)
            else:
                file.unlink()
        for file in older.glob("journal.db*") if how == "older" else ():
            shutil.copyfile(file, state / file.name)

    def note_later_ones() -> None:
        if (Path.home() / "swaps").exists():
            (Path.home() / COMMITTED_AFTER_SWAP).touch()

    _at_commit(before=note_later_ones, after=lambda: swap() if count.strikes() else None)


class _Count:
    """Counts, and says when the time has come. A file tells how many there were, or that it has come."""

    def __init__(self, what: str, how: str, number: int) -> None:
        self._file = Path.home() / what
        self._how, self._number = how, number
        self._seen = 0
        self._lock = threading.Lock()

    def strikes(self) -> bool:
        """Counts one more."""
        with self._lock:
            self._seen += 1
            now = self._seen == self._number or (self._how in LASTING and self._seen > self._number)
            if self._how == "never" or (now and self._seen == self._number):
                self._file.write_text(str(self._seen), encoding="ascii")
            return now and self._how != "never"
