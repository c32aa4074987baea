"""The values that completion knows: names from the journal, and words of the market. Asks no cloud."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gpucloud_pricing

Value = tuple[str, str]
"""A word and its help text."""

SNAPSHOT = Path(gpucloud_pricing.__path__[0], "snapshot.json")
_GEOS = ("ap", "cn", "eu", "us")


class Values:
    """The values of each kind.

    Args:
        environment: the environment variables, which say where the journal is.
        sandbox: whether the journal is that of the sandbox.
        options: the values of the options on the line, by their first name; they narrow the places.
    """

    def __init__(
        self, environment: Mapping[str, str], *, sandbox: bool, options: Mapping[str, Sequence[str]]
    ) -> None:
        self._environment = environment
        self._sandbox = sandbox
        self._options = options

    def of(self, kind: str, word: str) -> Iterable[Value]:
        """The values of a kind that may complete a word; none of an unknown kind."""
        return KINDS[kind](self, word) if kind in KINDS else ()

    # --- from the journal

    def boxes(self, _: str) -> Iterable[Value]:
        """The living boxes of the owner."""
        from gpucloud.journal.sqlite.names import box_names

        return self._journal(box_names)

    def box_ids(self, _: str) -> Iterable[Value]:
        """The ids of the newest boxes."""
        from gpucloud.journal.sqlite.names import box_ids

        return self._journal(box_ids)

    def box_paths(self, word: str) -> Iterable[Value]:
        """``NAME:``, to be followed by a path on the box."""
        return () if "/" in word else [(f"{name}:", state) for name, state in self.boxes(word)]

    def runs(self, _: str) -> Iterable[Value]:
        """The runs with living boxes."""
        from gpucloud.journal.sqlite.names import run_ids

        return self._journal(run_ids)

    def volumes(self, _: str) -> Iterable[Value]:
        """The living volumes."""
        from gpucloud.journal.sqlite.names import volume_names

        return self._journal(volume_names)

    def snapshots(self, _: str) -> Iterable[Value]:
        """The living snapshots."""
        from gpucloud.journal.sqlite.names import snapshot_names

        return self._journal(snapshot_names)

    def images(self, _: str) -> Iterable[Value]:
        """The living snapshots that are images of boxes."""
        from gpucloud.journal.sqlite.names import image_names

        return self._journal(image_names)

    def disks(self, _: str) -> Iterable[Value]:
        """The living boxes and volumes, whose disks can be copied."""
        from gpucloud.journal.sqlite.names import disk_names

        return self._journal(disk_names)

    def all_runs(self, _: str) -> Iterable[Value]:
        """The newest runs, ended ones too."""
        from gpucloud.journal.sqlite.names import run_ids

        return self._journal(lambda journal, owner: run_ids(journal, owner, over=True))

    def open_runs(self, _: str) -> Iterable[Value]:
        """The runs that are not over."""
        from gpucloud.journal.sqlite.names import recorded_runs

        return self._journal(lambda journal, owner: recorded_runs(journal, owner, over=False))

    def recorded_runs(self, _: str) -> Iterable[Value]:
        """The newest runs, also those that are over."""
        from gpucloud.journal.sqlite.names import recorded_runs

        return self._journal(lambda journal, owner: recorded_runs(journal, owner, over=True))

    def _journal(self, read: Callable[[Path, str], list[Value]]) -> list[Value]:
        """What a query finds in the user's own file; a team's server is not waited for at each tab."""
        from gpucloud.config import DEFAULTS, JOURNAL, find_paths, known_owner
        from gpucloud.errors import UsageError

        try:
            paths = find_paths(self._environment, sandbox=self._sandbox)
            shared = self._environment.get("GPUCLOUD_JOURNAL") or _journal_of(paths.config / DEFAULTS)
        except UsageError:  # there is no home folder, or the defaults are damaged
            return []
        if shared:
            return []
        owner = known_owner(paths, self._environment)
        return read(paths.state / JOURNAL, owner) if owner else []

    # --- from the market

    def gpus(self, word: str) -> Iterable[Value]:
        """Models, those of several sizes with their memory too; after ``MODEL:``, the counts on sale."""
        head, comma, last = word.rpartition(",")
        known = [
            (each["hardware"][0], each["hardware"][2], each["hardware"][1]) for each in _market()["types"]
        ]
        model, colon, _ = last.partition(":")
        if colon:
            rows = [row for row in known if model.upper() in {row[0], f"{row[0]}-{row[1]}GB"}]
            counts = sorted({count for _, _, count in rows if count.isdecimal()}, key=int)
            return [(f"{head}{comma}{model}:{count}", f"exactly {count}") for count in counts]
        sizes: dict[str, set[str]] = {}
        for name, memory, _ in known:
            sizes.setdefault(name, set()).add(memory)
        return [(f"{head}{comma}{name}", about) for name, about in _models(sizes)]

    def clouds(self, word: str) -> Iterable[Value]:
        """The clouds of the market."""
        names = dict.fromkeys(cloud for cloud, *_ in _market()["regions"])
        return _listed(word, ((name, "") for name in names))

    def regions(self, word: str) -> Iterable[Value]:
        """The regions of the clouds on the line, and the groups of regions."""
        rows = [(row[1], f"{row[2]}, {row[0]}") for row in self._regions_named()]
        return _listed(word, [*rows, *((geo, "group of regions") for geo in _GEOS)])

    def zones(self, word: str) -> Iterable[Value]:
        """The zones of the clouds and regions on the line."""
        wanted = _plain_words(self._options.get("--region", ()))
        rows = [row for row in self._regions_named() if not wanted or row[1] in wanted]
        return _listed(word, ((zone, f"{row[1]}, {row[0]}") for row in rows for zone in row[6]))

    def types(self, word: str) -> Iterable[Value]:
        """The instance types of the clouds on the line."""
        wanted = _plain_words(self._options.get("--cloud", ()))
        rows = [each for each in _market()["types"] if not wanted or each["cloud"] in wanted]
        return _listed(
            word,
            (
                (each["name"], f"{each['hardware'][0]}:{each['hardware'][1]}, {each['cloud']}")
                for each in rows
            ),
        )

    def _regions_named(self) -> Iterator[Sequence[Any]]:
        """The regions of the clouds that the line names, or all."""
        wanted = _plain_words(self._options.get("--cloud", ()))
        return (row for row in _market()["regions"] if not wanted or row[0] in wanted)


def _journal_of(defaults: Path) -> str | None:
    """The team's journal that the user's defaults name; YAML is loaded only where there are any."""
    if not defaults.exists():
        return None
    from gpucloud.spec.defaults import journal_of

    return journal_of(defaults)


def _market() -> Mapping[str, Any]:
    """The tables of the price snapshot."""
    market: Mapping[str, Any] = json.loads(SNAPSHOT.read_bytes())
    return market


def _models(sizes: Mapping[str, set[str]]) -> Iterator[Value]:
    for name, memories in sorted(sizes.items()):
        ordered = sorted(memories, key=int)
        yield name, " or ".join(f"{memory} GB" for memory in ordered)
        if len(ordered) > 1:
            for memory in ordered:
                yield f"{name}-{memory}GB", f"{memory} GB"


def _plain_words(values: Iterable[str]) -> set[str]:
    """The names among patterns; globs and exclusions narrow nothing here."""
    words = {word for value in values for word in value.split(",")}
    return set() if any(mark in word for word in words for mark in "!*?[") else words


def _listed(word: str, values: Iterable[Value]) -> Iterator[Value]:
    """Values after what a list holds already: ``aws,!az`` is completed to ``aws,!azure``."""
    head, comma, last = word.rpartition(",")
    sign = "!" if last.startswith("!") else ""
    return ((f"{head}{comma}{sign}{name}", about) for name, about in values)


KINDS: Mapping[str, Callable[[Values, str], Iterable[Value]]] = {
    "box": Values.boxes,
    "box-id": Values.box_ids,
    "box-path": Values.box_paths,
    "volume": Values.volumes,
    "snapshot": Values.snapshots,
    "image": Values.images,
    "disk": Values.disks,
    "run": Values.runs,
    "any-run": Values.all_runs,
    "open-run": Values.open_runs,
    "recorded-run": Values.recorded_runs,
    "gpu": Values.gpus,
    "cloud": Values.clouds,
    "region": Values.regions,
    "zone": Values.zones,
    "type": Values.types,
}
"""How the values of each kind are found. Of a ``file``, the shell knows more; of ``nothing``, nobody does."""

FILES = frozenset({"file", "box-path"})
"""The kinds that are, or may be, files of this machine."""
