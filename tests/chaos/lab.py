"""Three clouds in this process whose machines have no inside, and somebody at a shell who is unlucky."""

from __future__ import annotations

import fcntl
import json
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gpucloud.resources import EXPIRES_TAG
from gpucloud_sandbox.alibaba import AlibabaSandbox
from gpucloud_sandbox.aws import AwsSandbox
from gpucloud_sandbox.azure import AzureSandbox
from gpucloud_sandbox.boxes import BoxSpec
from gpucloud_sandbox.client import Endpoint, SandboxClient, find
from gpucloud_sandbox.serve import Sandbox, build
from tests.chaos.teams import Team
from tests.forked import Forked, ForkServer
from tests.journals import psql, with_tables
from tests.sandbox.running import HollowBoxes
from tests.shell import Result

CLOUDS = ("aws", "azure", "alibaba")
REGIONS = {
    "aws": {"us-east-1", "us-east-2"},
    "azure": {"eastus", "eastus2"},
    "alibaba": {"us-east-1", "cn-hangzhou", "cn-shenzhen"},
}
"""The regions that the lab's clouds have."""
OWNER, STRANGER = "u-chaos", "u-stranger"
TIMEOUT_S = 120.0


TABLES = {
    "settings": ("name, value", ""),
    "things": ("cloud, region, kind, id, document", " ORDER BY rowid"),
    "ledger": (
        "at, event, cloud, id, entry",
        " WHERE number > (SELECT MAX(number) FROM ledger WHERE event = 'reset') ORDER BY number",
    ),
}
"""What the sandbox keeps: which columns, and of which rows."""
PHOTOGRAPH_LASTS_S = 300.0
"""Shorter than the window in which a cloud may show something late: what is younger is treated otherwise."""


@dataclass(frozen=True, slots=True)
class Photograph:
    """The clouds and a home, as they were."""

    at: float
    files: Path
    rows: Mapping[str, Sequence[Sequence[Any]]]
    boxes: Mapping[str, BoxSpec]


@dataclass
class Lab:
    """Runs commands against the clouds, and knows the truth about them."""

    folder: Path
    sandbox: Sandbox
    endpoint: Endpoint
    forks: ForkServer
    team: Team | None = None
    """Where the journals are, if not in the homes."""
    _photographs: dict[tuple[Before, str], Photograph] = field(
        default_factory=dict["tuple[Before, str]", Photograph]
    )

    @property
    def clouds(self) -> SandboxClient:
        """Steers the clouds."""
        return self.endpoint.client

    def begin(self, cloud: str) -> Home:
        """Everything as on the first day, and a new home, for one cloud."""
        self.clouds.reset()
        return self.new_home("home", cloud)

    def new_home(self, name: str, cloud: str) -> Home:
        """An empty home, for one cloud."""
        home = Home(self, self.folder / name, cloud)
        home.close()
        home.path.mkdir()
        (home.path / "sandbox").symlink_to(self.endpoint.folder)
        if self.team is not None:
            self.team.make(name)
        return home

    def begin_after(self, before: Before, cloud: str) -> Home:
        """As :meth:`begin`, and ``before`` has been done: from a photograph of the clouds and the files."""
        home = self.begin(cloud)
        found = self._photographs.get((before, cloud))
        if found is None or time.monotonic() - found.at > PHOTOGRAPH_LASTS_S:
            before(home, cloud)
            self._photographs[before, cloud] = self._photograph(home)
        else:
            self._put_back(found, home)
        return home

    def _photograph(self, home: Home) -> Photograph:
        if self.team is not None:
            self._photographs.clear()  # it keeps one
            self.team.photograph(home.path.name)
        files = Path(tempfile.mkdtemp(dir=self.folder)) / "home"
        shutil.copytree(home.path, files, symlinks=True)
        with self.sandbox.world.database.transaction() as connection:
            rows = {
                table: connection.execute(f"SELECT {columns} FROM {table}{where}").fetchall()  # noqa: S608
                for table, (columns, where) in TABLES.items()
            }
        assert isinstance(self.sandbox.world.boxes, HollowBoxes)
        return Photograph(time.monotonic(), files, rows, dict(self.sandbox.world.boxes.alive))

    def _put_back(self, photograph: Photograph, home: Home) -> None:
        home.close()
        shutil.copytree(photograph.files, home.path, symlinks=True)
        if self.team is not None:
            self.team.put_back(home.path.name)
        database = self.sandbox.world.database
        with database.transaction() as connection:
            for table, rows in photograph.rows.items():
                columns, _ = TABLES[table]
                marks = ", ".join("?" * len(columns.split(",")))
                connection.executemany(f"REPLACE INTO {table} ({columns}) VALUES ({marks})", rows)  # noqa: S608
            database.read_again()
        assert isinstance(self.sandbox.world.boxes, HollowBoxes)
        self.sandbox.world.boxes.alive.update(photograph.boxes)

    def placement_groups(self) -> list[str]:
        """The ids of the placement groups there are, which cost nothing: no ledger tells of them."""
        kinds = "'placement', 'deployment_set', 'Microsoft.Compute/availabilitySets'"
        with self.sandbox.world.database.transaction() as connection:
            found = connection.execute(f"SELECT id FROM things WHERE kind IN ({kinds})")  # noqa: S608
            return [id_ for (id_,) in found.fetchall()]

    def end_lag(self) -> None:
        """The clouds show everything that they have."""
        database = self.sandbox.world.database
        with database.transaction() as connection:
            connection.execute(
                "UPDATE things SET document = json_set(document, '$._hidden_reads', 0, '$._visible_at', ?) "
                "WHERE json_extract(document, '$._visible_at') IS NOT NULL",
                ("2000-01-01T00:00:00.000Z",),
            )
            database.read_again()

    def put_tags(self, owner: str, tags: Mapping[str, str]) -> None:
        """All that an owner has gets other tags, of whatever form; the ledger still says whose it is."""
        [born] = [
            entry
            for entry in self.clouds.ledger()
            if entry["event"] == "born" and entry["kind"] == "instance" and entry["owner"] == owner
        ]
        named = {name.removeprefix("gpucloud:"): value for name, value in born["tags"].items()}
        database = self.sandbox.world.database
        with database.transaction() as connection:
            resources = "WHERE document LIKE ?", (f"%{json.dumps(named['box'])}%",)
            for name, value in tags.items():
                connection.execute(
                    f"UPDATE things SET document = replace(document, ?, ?) {resources[0]}",  # noqa: S608
                    (json.dumps(named[name]), json.dumps(value), *resources[1]),
                )
            database.read_again()

    def ends(self) -> dict[str, datetime]:
        """When a cloud, or on AWS the guard that its machines are to have, ends each machine; by its id."""
        with self.sandbox.world.database.transaction() as connection:
            rows = connection.execute("SELECT kind, id, document FROM things").fetchall()
        ends: dict[str, str] = {}
        for kind, id_, text in rows:
            document: dict[str, Any] = json.loads(text)
            if kind == "scheduled" and document["state"] == "Scheduled":
                ends[document["machine"]] = document["at"]
            elif kind == "Microsoft.DevTestLab/schedules":
                tomorrow = datetime.now(UTC) + timedelta(days=1)  # each day at one time
                ends[document["properties"]["targetResourceId"]] = tomorrow.isoformat()
            elif kind == "instance" and document.get("AutoReleaseTime"):
                ends[id_] = document["AutoReleaseTime"]
            elif kind == "instance" and isinstance(document.get("Tags"), list):
                tags = {tag["Key"]: tag["Value"] for tag in document["Tags"]}
                ends.update({id_: tags[EXPIRES_TAG]} if EXPIRES_TAG in tags else {})
        found: dict[str, datetime] = {}
        for id_, at in ends.items():
            with suppress(ValueError):  # of a machine with broken tags
                found[id_] = datetime.fromisoformat(at)
        return found

    def billing(self) -> list[dict[str, Any]]:
        """What is billed."""
        billing: list[dict[str, Any]] = self.clouds.status()["billing"]
        return billing


@dataclass
class Home:
    """One user's files."""

    lab: Lab
    path: Path
    cloud: str
    """The one cloud that commands here know: to ask the others as well would only take time."""

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.path / "state-sandbox"

    def start(
        self, *line: str, owner: str = OWNER, plight: Mapping[str, Any] | None = None, **environment: str
    ) -> Forked:
        """Starts a command."""
        return self.lab.forks.start(
            [json.dumps({"cloud": self.cloud, **(plight or {})}), *line],
            environment={
                "PATH": PATH,
                "LC_ALL": "C.UTF-8",
                "HOME": str(self.path),
                "GPUCLOUD_HOME": str(self.path),
                "GPUCLOUD_SANDBOX": "1",
                "GPUCLOUD_OWNER": owner,
                **({"GPUCLOUD_JOURNAL": self.lab.team.url(self.path.name)} if self.lab.team else {}),
                **environment,
            },
            folder=str(self.path),
            main="tests.chaos.victims:main",
        )

    def run(self, *line: str, **how: Any) -> Result:
        """Runs a command to its end."""
        process = self.start(*line, **how)
        out, err = process.communicate(timeout=TIMEOUT_S)
        return Result(process.wait(), out, err)

    def forget(self) -> None:
        """Loses the journal."""
        if self.lab.team is not None:
            self.lab.team.make(self.path.name)
        for file in self.state.glob("journal.db*"):
            file.unlink()

    def close(self) -> None:
        """Throws the files away."""
        shutil.rmtree(self.path, ignore_errors=True)

    @contextmanager
    def newer_journal(self) -> Iterator[None]:
        """While the body runs, the journal is one of a version to come."""
        if self.lab.team is not None:
            psql(self.lab.team.behind(self.path.name), "INSERT INTO schema_version (version) VALUES (1000)")
            yield
            psql(self.lab.team.behind(self.path.name), "DELETE FROM schema_version WHERE version = 1000")
            return
        self.state.mkdir(parents=True, exist_ok=True)
        file = self.state / "journal.db"
        with closing(sqlite3.connect(file)) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            connection.execute("PRAGMA user_version = 1000")
        yield
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(f"PRAGMA user_version = {version}")

    def lose_what_was_not_synced(self) -> None:
        """The journal becomes what of it was on the disk, where that was written down; once."""
        synced = self.path / "synced"
        if synced.exists():
            for file in self.state.glob("journal.db*"):
                file.unlink()
                if (synced / file.name).exists():
                    (synced / file.name).replace(file)
            shutil.rmtree(synced)

    # --- the journal, read without gpucloud's own code

    def rows(self, query: str, *values: Any) -> list[Any]:
        """What the journal says; nothing where there is none."""
        query = with_tables(query, server=self.lab.team is not None)
        if self.lab.team is not None:
            return psql(self.lab.team.behind(self.path.name), query.replace("?", "%s"), values or None)
        file = self.state / "journal.db"
        if not file.exists():
            return []
        connection = sqlite3.connect(file)
        try:
            return connection.execute(query, values).fetchall()
        except sqlite3.OperationalError:  # killed before it had made its tables
            return []
        finally:
            connection.close()

    def boxes(self) -> dict[str, str]:
        """State of each box, by id."""
        return dict(self.rows("SELECT id, state FROM boxes"))

    def was_ready(self) -> bool:
        """Whether a box was ready at some time, as the journal says."""
        ready = "SELECT 1 FROM events WHERE type = 'state' AND json_extract(data, '$.state') = 'ready'"
        return bool(self.rows(ready))

    def has_moved(self) -> bool:
        """Whether a move has made its new box the user's, as the journal says."""
        attended = "CAST(json_extract(data, '$.facts.attended') AS text)"
        own = f"SELECT 1 FROM events WHERE type = 'state' AND {attended} IN ('0', 'false')"  # noqa: S608
        return bool(self.rows(own))


Before = Callable[[Home, str], None]
"""Makes what must be there before a command."""
PATH = "/usr/local/bin:/usr/bin:/bin"


@contextmanager
def a_lab(folder: Path, forks: ForkServer, team: Team | None = None) -> Iterator[Lab]:
    """A lab, while the body runs."""
    place = folder / "sandbox"
    place.mkdir()
    emulated: Sequence[Any] = (AlibabaSandbox, AwsSandbox, AzureSandbox)
    sandbox = build(place, emulated=emulated, boxes=HollowBoxes())
    sandbox.world.dials.set_pace({"transition_s": 0.0})
    for cloud in CLOUDS:  # a sweep of every region there is would take most of the time, and show no more
        catalog = sandbox.world.market.catalog(cloud)
        kept = {name: zones for name, zones in catalog.zones.items() if name in REGIONS[cloud]}
        vars(catalog)["zones"] = kept
    sandbox.start()
    runner = threading.Thread(target=sandbox.run, kwargs={"idle_s": 1e9}, daemon=True)
    runner.start()
    lock = (place / "serve.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        endpoint = find(place)
        assert endpoint is not None
        yield Lab(folder, sandbox, endpoint, forks, team)
    finally:
        sandbox.stopping.set()
        runner.join()
        sandbox.close()
        lock.close()
