"""The invariants: what must hold of clouds and journal, whatever has befallen a command."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.chaos.lab import STRANGER, Home
from tests.chaos.scenes import BEGUN, RESULT, STORED

LONGEST = timedelta(hours=48, minutes=30)
"""The latest end that a scene asks for, and what a victim may have waited before it asked."""
BUCKETS = frozenset({"storage", "object"})
"""What the user alone makes and deletes."""
SIGNALLED = frozenset({130, 143, 129})


def check_nothing_is_lost(home: Home, *, forgotten: bool = False) -> list[str]:
    """I1: each billed machine belongs to a box that the journal has, living, and can end.

    By its id, by a call that is still open, or because its making is written down. What is billed with a
    machine ends with it. Where the journal has been lost, its boxes are known by their tags alone.
    """
    wrong: list[str] = []
    states = home.boxes()
    ids = {row[0] for row in home.rows("SELECT id FROM resources WHERE state != 'gone'")}
    open_boxes = {row[0] for row in home.rows("SELECT box FROM intents WHERE status IN ('open', 'watched')")}
    open_boxes |= {row[0] for row in home.rows("SELECT box FROM resources WHERE state = 'making'")}
    for entry in ours(home):
        state = states.get(entry["box"])
        if forgotten and state is None and entry["owner"]:
            continue
        if state in {None, "deleted", "failed"}:
            wrong.append(f"{entry['kind']} {entry['id']} is billed, its box {entry['box']} is {state}")
        elif forgotten:  # taken in by its tags: what no list showed then is found by the same tags
            continue
        elif _is_known_by_id(entry) and entry["id"] not in ids and entry["box"] not in open_boxes:
            wrong.append(f"{entry['kind']} {entry['id']} is billed and not accounted for")
    return wrong


def _is_known_by_id(entry: dict[str, Any]) -> bool:
    """Whether something ends by itself alone: a machine, the disk that is a volume, or a snapshot."""
    return entry["kind"] == "instance" or is_stored(entry)


def is_stored(entry: dict[str, Any]) -> bool:
    """Whether something is the disk of a volume, by the form of its id, or a snapshot."""
    return entry["kind"] == "snapshot" or (entry["kind"] == "disk" and str(entry["box"]).startswith("v-"))


def check_nothing_is_doubled(home: Home, most: int) -> list[str]:
    """I2, I6: a box never has more machines at a time than were asked for, and a key never made more.

    Nor has a volume more than one disk.
    """
    wrong: list[str] = []
    alive: dict[str, set[str]] = defaultdict(set)
    made: dict[str, set[str]] = defaultdict(set)
    for event in home.lab.clouds.ledger():
        if not _is_known_by_id({"box": "", "kind": "", **event}):
            continue
        if event.get("kind") == "snapshot" and not event.get("token"):
            continue  # AWS knows no token of it: of two that one call made, the second is deleted at once
        if event["event"] == "died":
            alive[event["box"]].discard(event["id"])
            continue
        alive[event["box"]].add(event["id"])
        made[str(event.get("token"))].add(event["id"])  # one that is started again is the same machine
        if len(alive[event["box"]]) > most:
            wrong.append(f"box {event['box']} has {len(alive[event['box']])} machines at once")
        if event.get("token") and len(made[str(event["token"])]) > most:
            wrong.append(f"key {event['token']} has made {len(made[str(event['token'])])} machines")
    return wrong


def check_runs(home: Home) -> list[str]:
    """A run never has two machines at a time, whichever of its boxes they are of."""
    runs = dict(home.rows("SELECT boxes.id, runs.id FROM boxes JOIN runs USING (owner, run_id)"))
    alive: dict[str, set[str]] = defaultdict(set)
    wrong: list[str] = []
    for event in home.lab.clouds.ledger():
        run = runs.get(event.get("box"))
        if run is None or event.get("kind") != "instance":
            continue
        (alive[run].discard if event["event"] == "died" else alive[run].add)(event["id"])
        if len(alive[run]) > 1:
            wrong.append(f"run {run} has {len(alive[run])} machines at once")
    return wrong


def check_results(home: Home) -> list[str]:
    """What a command has left is here, in a store or on a box that is billed; and it has run once."""
    wrong: list[str] = []
    begun = home.path / BEGUN
    times = len(begun.read_text().splitlines()) if begun.exists() else 0
    ended = home.rows("SELECT DISTINCT box FROM events WHERE type = 'run_fetching'")
    if ended and times > len(ended):
        wrong.append(f"{len(ended)} commands have ended, and {times} have begun")
    result = home.path / "here" / "out"
    whole = result.exists() and result.read_text() == RESULT
    machines = [entry for entry in ours(home) if entry["kind"] == "instance"]
    stored = (home.path / STORED).exists()
    if stored and times > 1:
        wrong.append(f"a command whose end is stored has begun {times} times")
    if ended and not whole and not machines and not stored:
        wrong.append("results are lost: the command has ended, nothing is here, and its box is gone")
    return wrong


def most_at_once(ledger: Iterable[Mapping[str, Any]]) -> int:
    """How many instances ever lived at the same time."""
    living = most = 0
    for entry in ledger:
        if entry.get("kind") == "instance":
            living += {"born": 1, "died": -1}.get(str(entry["event"]), 0)
            most = max(most, living)
    return most


def check_price(home: Home, *, moved: bool = False) -> list[str]:
    """I7: nothing is billed above what the journal had agreed to.

    Where a price ``moved`` at the moment of the purchase, nothing that costs more is kept: no cloud
    takes a bid on demand.
    """
    wrong: list[str] = []
    kept = {entry["id"] for entry in ours(home)}
    agreed = {
        box: Decimal(str(price))
        for box, price in home.rows("SELECT id, price FROM boxes")
        if price is not None
    }
    for event in home.lab.clouds.ledger():
        if event["event"] == "born" and event["kind"] == "instance" and event["box"] in agreed:
            highest = max(agreed[event["box"]], *_intended(home, event["box"]))
            if Decimal(event["price"]) > highest and (not moved or event["id"] in kept):
                wrong.append(f"{event['id']} costs {event['price']}, agreed was {highest}")
    return wrong


def _intended(home: Home, box: str) -> list[Decimal]:
    rows = home.rows("SELECT price FROM intents WHERE box = ?", box)
    return [Decimal(str(row[0])) for row in rows if row[0] is not None] or [Decimal(0)]


def check_ends(home: Home) -> list[str]:
    """I5: what is ready ends from outside, and not later than the latest end that was asked for."""
    latest = datetime.now(UTC) + LONGEST
    ready = {box for box, state in home.boxes().items() if state == "ready"}
    ends = home.lab.ends()
    wrong: list[str] = []
    for entry in ours(home):
        if entry["kind"] != "instance" or entry["box"] not in ready:
            continue
        if entry["id"] not in ends:
            wrong.append(f"{entry['id']} is ready, and nothing ends it from outside")
        elif ends[entry["id"]] > latest:
            wrong.append(f"{entry['id']} ends at {ends[entry['id']]}, later than was asked")
    return wrong


def check_truthful(
    home: Home,
    code: int,
    *,
    ends: bool,
    buys: int,
    made: str = "instance",
    kept: int = 0,
    before: Collection[str] = (),
) -> list[str]:
    """I24: the exit code tells whether something may still be billed. What stores data outlives a launch.

    ``before`` are the boxes that were there before the command.
    """
    mine = ours(home)
    billed = sum(entry["kind"] == made and (made != "disk" or is_stored(entry)) for entry in mine) - kept
    new = [entry for entry in mine if entry["box"] not in before]
    beside = [entry for entry in new if entry["kind"] != made and not is_stored(entry)]
    if code == 0 and ends and billed:
        return [f"exit code 0, and {billed} of kind {made} are billed"]
    if code == 0 and buys and not ends and billed != buys:
        return [f"exit code 0, and {billed} of kind {made} are billed instead of {buys}"]
    if buys and code in SIGNALLED | {1, 2, 3, 4, 5, 6, 7} and (billed or beside):
        return [f"exit code {code}, and something is billed: {billed} of kind {made}, {len(beside)} beside"]
    return []


def check_stranger(home: Home, expected: int) -> list[str]:
    """I10: what belongs to somebody else is as it was."""
    theirs = [entry for entry in home.lab.billing() if entry["owner"] == STRANGER]
    return [] if len(theirs) == expected else [f"a stranger had {expected} things, and has {len(theirs)}"]


def ours(home: Home) -> list[dict[str, Any]]:
    """What is billed and not a stranger's, nor a bucket of the user's."""
    billing = home.lab.billing()
    return [each for each in billing if each["owner"] != STRANGER and each["kind"] not in BUCKETS]
