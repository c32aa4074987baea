"""What the victims do: commands, and what must be there before them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.chaos.lab import OWNER, STRANGER, Before, Home
from tests.chaos.plights import CAPACITY

if TYPE_CHECKING:
    from tests.cli.test_checkpoints import Store

Line = tuple[str, ...]
WANTED = ("--gpu", "T4", "--allow-from", "198.51.100.7/32")
LAUNCH = ("launch", *WANTED, "--yes")
REGION = {"aws": "us-east-1", "azure": "eastus", "alibaba": "us-east-1"}
"""Where things are bought: prices of more regions are asked for in the same way."""
REGION_OF_RDMA = {**REGION, "alibaba": "cn-shenzhen"}
"""Where machines are sold that RDMA can join."""
ELSEWHERE = {"aws": "use1-az2", "azure": "eastus2", "alibaba": "us-east-1b"}
"""Where boxes are moved to: another zone where machines have zones."""
ONLY = {"aws": "g4dn.xlarge", "azure": "Standard_NC4as_T4_v3", "alibaba": "ecs.gn6i-c4g1.xlarge"}
ONE_ZONE = {"aws": ("--zone", "use1-az1"), "alibaba": ("--zone", "us-east-1a")}
ROLE = "acs:ram::5123456789012345:role/gpucloud-lender"
SETS = {
    "aws": ("s3://lab/team:/data",),
    "azure": ("az://checkpoints/con/team:/data",),
    "alibaba": ("oss://lab/team:/data", "--data-role", ROLE),
}
"""Data sets of a launch."""
FAILS = "false"
"""The set-up of a victim that fails."""
UNFIT = "true"
"""The set-up of a victim whose second node is unfit, and is replaced alone."""
BEGUN, NO_ROOM, STORED, RESULT = "begun", "no-room", "stored", "paid for"
"""Files of a home: how often commands of runs have begun; one that is there while nothing can be copied; one
that is there where a store has the end of the command and its result; and what a result holds."""
MOST_USD = {"aws": "0.60", "azure": "0.60", "alibaba": "1.20"}
MOST_USD_OF_SPOT = {"aws": "0.25", "azure": "0.10", "alibaba": "0.20"}
"""A little above what the cheapest machine costs there."""


def _nothing(home: Home, cloud: str) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A command that something befalls.

    Attributes:
        name: unique.
        before: makes what must be there; nothing befalls it.
        beside: makes what the clouds keep in memory alone: buckets.
        line: the command, for a cloud.
        ends: whether, when it succeeds, nothing of ours may be billed any more.
        buys: how many machines it starts, or what else it makes.
        made: the kind of what it makes or ends.
        kept: how many of that kind are there before, and stay.
        forgotten: whether the journal has been lost: then only tags tell.
        most_usd: what a machine of it may cost per hour, by cloud; without it, what the journal says.
        reads: whether it changes nothing.
        placed: whether its machines stand in a placement group, which is to be gone with them.
        stops: whether it may leave a stopped box, which no sweep deletes before its deadline.
        kinds: of faults; ``None`` for all. Where a command does what others do, only how it may die is new,
            and what comes of its own changing calls.
    """

    name: str
    line: Callable[[str], Line]
    before: Before = _nothing
    beside: Before = _nothing
    ends: bool = False
    buys: int = 0
    made: str = "instance"
    kept: int = 0
    forgotten: bool = False
    most_usd: Mapping[str, str] = field(default_factory=dict[str, str])
    reads: bool = False
    placed: bool = False
    stops: bool = False
    kinds: frozenset[str] | None = None


def _launch(*more: str) -> Callable[[str], Line]:
    return lambda cloud: (*LAUNCH, "--cloud", cloud, "--region", REGION[cloud], "--name", "x", *more)


def _launch_fabric(cloud: str) -> Line:
    """Two nodes that are joined by RDMA, where the cloud has such machines."""
    asked = ("--gpu", "A100:8", "--rdma", "any", "--nodes", "2", "--allow-from", "198.51.100.7/32")
    return ("launch", *asked, "--cloud", cloud, "--region", REGION_OF_RDMA[cloud], "--name", "x", "--yes")


def _launch_unfit(cloud: str) -> Line:
    """The same, and one of them is replaced."""
    return (*_launch_fabric(cloud), "--setup", UNFIT)


def launched(home: Home, cloud: str) -> None:
    """A box is there."""
    done = home.run(*_launch("--run-id", "r")(cloud))
    assert done.code == 0, done.err


def _sick(home: Home, cloud: str) -> None:
    """A box is there that is to be replaced: every guard reports faulty hardware."""
    done = home.run(*_launch("--on-unhealthy", "replace")(cloud))
    assert done.code == 0, done.err


def _kept(home: Home, cloud: str) -> None:
    """A box is there whose set-up failed."""
    done = home.run(*_launch("--keep-on-failure", "--setup", FAILS)(cloud))
    assert done.code == 8, done.err
    assert "is kept" in done.err


def _stopped(home: Home, cloud: str) -> None:
    """A box is there that is stopped."""
    launched(home, cloud)
    done = home.run("stop", "x", "--yes")
    assert done.code == 0, done.err


def _detached(home: Home, cloud: str) -> None:
    """A detached run with frozen code is there, whose command has ended."""
    (home.path / "code.py").touch()
    where = ("--cloud", cloud, "--region", REGION[cloud], "--sync", "code.py")
    done = home.run("run", "--detach", *WANTED, *where, "--spot", "--restarts", "9", "--", "true")
    (home.path / "code.py").unlink()
    assert done.code == 0, done.err


def _interrupted(home: Home, cloud: str) -> None:
    """A detached run is there, whose box its cloud has taken back."""
    _detached(home, cloud)
    _take_back(home)


def _take_back(home: Home) -> None:
    """Our one machine is gone."""
    ours = [each for each in home.lab.billing() if each["owner"] != STRANGER]
    [machine] = [each["id"] for each in ours if each["kind"] == "instance"]
    home.lab.clouds.interrupt(machine, notice_s=0)


def _fetching(*more: str) -> Callable[[str], Line]:
    """A run whose file is to come home."""
    line = ("--run-id", "r", "--fetch", "out:here/", "--", "true")
    return lambda cloud: ("run", *more, *WANTED, "--cloud", cloud, "--region", REGION[cloud], *line)


def _to_fetch(home: Home, cloud: str) -> None:
    """A detached run is there, whose command has ended, and whose file is to come home."""
    done = home.run(*_fetching("--detach")(cloud))
    assert done.code == 0, done.err


def _not_fetched(home: Home, cloud: str) -> None:
    """A box is kept for the file of a run, which could not be copied; now it could."""
    _to_fetch(home, cloud)
    (home.path / NO_ROOM).write_text("")
    done = home.run("tend")
    assert done.code == 8, done.err
    (home.path / NO_ROOM).unlink()


def _ended_itself(home: Home, cloud: str) -> None:
    """A detached run is there whose box is gone; it has stored before how the command ended, and its file."""
    store = _store(home, cloud)
    place = ("--checkpoint-to", store.url, *store.options)
    done = home.run(*_fetching("--detach", "--spot", "--restarts", "9", *place)(cloud))
    assert done.code == 0, done.err
    _take_back(home)
    (home.path / STORED).touch()


def _with_its_record(home: Home, cloud: str) -> None:
    """The store has what that box has written last."""
    store = _store(home, cloud)
    files = {"out": [len(RESULT), 1]}
    result = {"asked": "out", "path": "out", "folder": False, "files": files, "links": {}, "outside": {}}
    record = {"run": "r", "attempt": 1, "exit_code": 0, "timed_out": False, "absent": [], "left_out": []}
    store.put("r/attempts/1/results/0/out", RESULT.encode())
    store.put("r/attempts/1/ended.json", json.dumps({**record, "results": [result]}).encode())


def _sold_out(home: Home, cloud: str) -> None:
    """There is no capacity at the first try."""
    (code, status), action = CAPACITY[cloud], "PUT virtualMachines" if cloud == "azure" else "RunInstances"
    home.lab.clouds.fault(effect="error", cloud=cloud, action=action, code=code, status=status)


def _launch_waiting(cloud: str) -> Line:
    """One offer is all that is wanted, and waited for."""
    return (*_launch("--wait", "1h", "--instance-type", ONLY[cloud])(cloud), *ONE_ZONE.get(cloud, ()))


def _forgotten(home: Home, cloud: str) -> None:
    """A box is there, and the journal is gone."""
    launched(home, cloud)
    home.forget()


def _engine(verb: str) -> Callable[[str], Line]:
    """What an engine does with the slots of its cluster."""
    return lambda cloud: ("engine", verb, cloud)


def _up(home: Home, cloud: str) -> None:
    """Two slots are up; one of them is wanted no longer, as the next look hears."""
    done = home.run(*_engine("up")(cloud))
    assert done.code == 0, done.err


def _create(cloud: str) -> Line:
    where = ("--cloud", cloud, "--region", REGION[cloud])
    return ("volume", "create", "data", "--size", "20", *where, "--yes")


def _stored(home: Home, cloud: str) -> None:
    """A volume is there."""
    done = home.run(*_create(cloud))
    assert done.code == 0, done.err


def _copied(home: Home, cloud: str) -> None:
    """A volume is there that was used, and a snapshot of it."""
    _used(home, cloud)
    done = home.run(*_COPY)
    assert done.code == 0, done.err


def _used(home: Home, cloud: str) -> None:
    """A volume is there that a box has used: Alibaba Cloud copies no other."""
    _stored(home, cloud)
    for line in (_launch("--volume", "data:/data")(cloud), ("down", "x", "--yes")):
        done = home.run(*line)
        assert done.code == 0, done.err


def _imaged(home: Home, cloud: str) -> None:
    """A snapshot of a box is there, and the box is not."""
    _stopped(home, cloud)
    for line in (_IMAGE, ("down", "x", "--yes")):
        done = home.run(*line)
        assert done.code == 0, done.err


_IMAGE = ("snapshot", "create", "mine", "--of", "x", "--yes")


def _attached(home: Home, cloud: str) -> None:
    """A box is there that uses a volume."""
    _stored(home, cloud)
    done = home.run(*_launch("--volume", "data:/data")(cloud))
    assert done.code == 0, done.err


def _with_a_set(home: Home, cloud: str) -> None:
    """A data set is there."""
    _store(home, cloud).put("a", b"one")


def _store(home: Home, cloud: str) -> Store:
    """A bucket, which is made unless it is there."""
    from tests.cli.test_checkpoints import STORES
    from tests.shell import Shell

    scheme, _, _ = SETS[cloud][0].partition(":")
    return STORES[scheme](Shell(home.path, home.path, home.lab.endpoint))


_COPY = ("snapshot", "create", "monday", "--of", "data", "--yes")


def always(*line: str) -> Callable[[str], Line]:
    return lambda cloud: line


def _capped(most_usd: Mapping[str, str], *more: str) -> Callable[[str], Line]:
    return lambda cloud: (*_launch(*more)(cloud), "--max-price", most_usd[cloud])


OF_EXTEND = frozenset({"H2", "D6", "D7", *(f"F{n}" for n in (4, 5, 6, 7, 8, 9, 16)), "K1", "K5", "K6", "K9"})
OF_VOLUMES = frozenset({"H2", "D6", "D7", *(f"F{number}" for number in range(1, 20))})
OF_FABRIC = OF_VOLUMES
OF_SETUP = frozenset({"H2", "D6", "D7", "F9", "K1", "K5"})
OF_RESULTS = frozenset({"H2", "D6", "D7", "D11", "F6", "F9", "K1", "K5"})
OF_ENGINES = frozenset({"H2", "D6", "D7", "F2", "F4", "F6", "F8", "F9", "K1", "K5"})
SCENES = {
    scene.name: scene
    for scene in (
        Scene(name="launch", line=_launch(), buys=1),
        Scene(name="launch-spot", line=_launch("--spot"), buys=1),
        Scene(name="launch-nodes", line=_launch("--nodes", "2"), buys=2),
        Scene(name="launch-wait", line=_launch_waiting, beside=_sold_out, buys=1, kinds=OF_RESULTS),
        Scene(name="launch-fabric", line=_launch_fabric, buys=2, placed=True, kinds=OF_FABRIC),
        Scene(name="launch-unfit", line=_launch_unfit, buys=2, placed=True, kinds=OF_FABRIC),
        Scene(name="down", before=launched, line=always("down", "x", "--yes"), ends=True),
        Scene(
            name="down-run",
            before=_forgotten,
            line=always("down", "--run-id", "r", "--yes"),
            ends=True,
            forgotten=True,
        ),
        Scene(
            name="sweep",
            before=_forgotten,
            line=always("sweep", "--older-than", "0s", "--yes"),
            ends=True,
            forgotten=True,
        ),
        Scene(
            name="extend",
            before=launched,
            line=always("extend", "x", "--ttl", "48h"),
            kinds=OF_EXTEND,
        ),
        Scene(
            name="stop",
            before=launched,
            line=always("stop", "x", "--yes"),
            ends=True,
            stops=True,
            kinds=OF_EXTEND,
        ),
        Scene(name="start", before=_stopped, line=always("start", "x", "--yes"), stops=True, kinds=OF_EXTEND),
        Scene(
            name="down-stopped",
            before=_stopped,
            line=always("down", "x", "--yes"),
            ends=True,
            kinds=OF_SETUP,
        ),
        Scene(name="down-kept", before=_kept, line=always("down", "x", "--yes"), ends=True, kinds=OF_SETUP),
        Scene(name="setup", before=_kept, line=always("setup", "x"), kinds=OF_SETUP - {"F9"}),
        Scene(
            name="run",
            line=lambda cloud: ("run", *WANTED, "--cloud", cloud, "--region", REGION[cloud], "--", "true"),
            ends=True,
            buys=1,
            kinds=frozenset({"H2", "D6", "F9", "K1", "K4", "K5"}),
        ),
        Scene(name="run-fetch", line=_fetching(), ends=True, buys=1, kinds=OF_RESULTS | {"K4"}),
        Scene(name="tend-fetch", before=_to_fetch, line=always("tend"), ends=True, kinds=OF_RESULTS),
        Scene(
            name="fetch",
            before=_not_fetched,
            line=always("runs", "fetch", "r"),
            ends=True,
            kinds=OF_RESULTS,
        ),
        Scene(
            name="down-fetch",
            before=_not_fetched,
            line=always("down", "--run-id", "r", "--yes"),
            ends=True,
            kinds=OF_RESULTS,
        ),
        Scene(
            name="tend-stored",
            before=_ended_itself,
            beside=_with_its_record,
            line=always("tend"),
            ends=True,
            kinds=OF_RESULTS,
        ),
        Scene(name="tend-lost", before=_interrupted, line=always("tend"), kinds=OF_EXTEND),
        Scene(name="tend-ended", before=_detached, line=always("tend"), ends=True, kinds=OF_SETUP),
        Scene(name="tend-sick", before=_sick, line=always("tend"), kinds=OF_EXTEND),
        Scene(name="engine-up", line=_engine("up"), buys=2, kinds=OF_ENGINES),
        Scene(name="engine-look", before=_up, line=_engine("look"), kept=1, kinds=OF_ENGINES),
        Scene(name="volume-create", line=_create, buys=1, made="disk", kinds=OF_VOLUMES),
        Scene(
            name="volume-delete",
            before=_stored,
            line=always("volume", "delete", "data", "--yes"),
            ends=True,
            made="disk",
            kinds=OF_VOLUMES,
        ),
        Scene(
            name="launch-volume",
            before=_stored,
            line=_launch("--volume", "data:/data"),
            buys=1,
            kinds=frozenset({"H2", "D6", "D7", "F6", "F8", "F9"}),
        ),
        Scene(
            name="launch-data",
            beside=_with_a_set,
            line=lambda cloud: (*_launch("--data")(cloud), *SETS[cloud]),
            buys=1,
            kinds=frozenset({"H2", "D6", "D7", "F6", "F7", "F8", "F9", "F16"}),
        ),
        Scene(
            name="snapshot-create",
            before=_used,
            line=always(*_COPY),
            buys=1,
            made="snapshot",
            kinds=OF_VOLUMES,
        ),
        Scene(
            name="snapshot-delete",
            before=_copied,
            line=always("snapshot", "delete", "monday", "--yes"),
            ends=True,
            made="snapshot",
            kinds=OF_VOLUMES,
        ),
        Scene(
            name="snapshot-restore",
            before=_copied,
            line=always("snapshot", "restore", "monday", "--to", "copy", "--yes"),
            buys=1,
            made="disk",
            kept=1,
            kinds=OF_VOLUMES,
        ),
        Scene(
            name="image-create",
            before=_stopped,
            line=always(*_IMAGE),
            buys=1,
            made="snapshot",
            stops=True,
            kinds=OF_VOLUMES,
        ),
        Scene(
            name="image-delete",
            before=_imaged,
            line=always("snapshot", "delete", "mine", "--yes"),
            ends=True,
            made="snapshot",
            kinds=OF_VOLUMES,
        ),
        Scene(
            name="launch-image",
            before=_imaged,
            line=_launch("--image", "mine"),
            buys=1,
            kinds=frozenset({"H2", "D6", "D7", "F6", "F8", "F9"}),
        ),
        Scene(
            name="move-volume",
            before=_attached,
            line=lambda cloud: ("move", "x", "--to", ELSEWHERE[cloud], "--yes"),
            buys=1,
            made="disk",
            kept=1,
            kinds=frozenset({"H2", "D6", "D7", "F6", "F8", "F9", "F15"}),
        ),
        Scene(name="recover", before=_forgotten, line=always("recover"), forgotten=True, reads=True),
        Scene(
            name="launch-capped", line=_capped(MOST_USD), buys=1, most_usd=MOST_USD, kinds=frozenset({"K2"})
        ),
        Scene(
            name="launch-spot-capped",
            line=_capped(MOST_USD_OF_SPOT, "--spot"),
            buys=1,
            most_usd=MOST_USD_OF_SPOT,
            kinds=frozenset({"K2"}),
        ),
        Scene(
            name="list",
            before=launched,
            line=always("list", "--live"),
            reads=True,
            kinds=frozenset({"K5"}),
        ),
    )
}
"""``OWNER`` is whose commands these are; what a stranger has must survive all of them."""
assert OWNER
