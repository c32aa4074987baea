"""Reads Slurm's answers: its nodes, its jobs, and which job wants which nodes. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from gpucloud.errors import GpucloudError

POWER_DOWN = frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN"})
_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """A node as slurmctld has it.

    Attributes:
        states: its base state and flags, such as ``IDLE``, ``CLOUD`` and ``POWERING_UP``.
        features: the words that jobs may ask for.
        note: what was written down of its machine.
    """

    name: str
    states: frozenset[str]
    reason: str = ""
    weight: int = 1
    features: str = ""
    note: str = ""

    @property
    def is_wanted(self) -> bool:
        """Whether Slurm wants a machine for it."""
        return not self.states & POWER_DOWN

    @property
    def is_awaited(self) -> bool:
        """Whether its slurmd has still to register."""
        return bool(self.states & {"POWERING_UP", "POWER_UP"})

    @property
    def is_registered(self) -> bool:
        """Whether its slurmd has registered."""
        return self.is_wanted and not self.is_awaited

    @property
    def is_too_small(self) -> bool:
        """Whether it registered with less than its line in slurm.conf says."""
        return "INVALID_REG" in self.states


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """A job that has nodes.

    Attributes:
        state: ``R``, ``CF`` and others, as squeue(1) abbreviates them.
        note: its comment for the administrator, which accounting keeps.
    """

    id: str
    state: str
    nodes: str
    note: str = ""


def read_nodes(text: str) -> list[SlurmNode]:
    """The nodes in what ``scontrol --oneliner show node`` prints."""
    return [_node(line) for line in text.splitlines() if line.startswith("NodeName=")]


_FIELD = re.compile(r"(?:^|\s)(NodeName|State|Weight|AvailableFeatures)=(\S*)")
_COMMENT = re.compile(r"\sComment=(.*?)(?=\s[A-Z]\w+=|$)")
_REASON = re.compile(r"\sReason=(.*?)(?: \[[^\]]*@[^\]]*\])?(?=\sComment=|\sExtra=|\s*$)")


def _node(line: str) -> SlurmNode:
    fields = dict(cast("list[tuple[str, str]]", _FIELD.findall(line)))
    reason, note = _REASON.search(line), _COMMENT.search(line)
    features, weight = fields.get("AvailableFeatures", ""), fields.get("Weight", "")
    return SlurmNode(
        name=fields["NodeName"],
        states=frozenset(fields.get("State", "").replace("*", "").split("+")),
        reason=reason[1] if reason else "",
        weight=int(weight) if re.fullmatch("[0-9]{1,10}", weight) else 1,
        features="" if features == "(null)" else features,
        note=note[1] if note else "",
    )


JOB_FORMAT = "JobID:|,StateCompact:|,NodeList:|,AdminComment:"
"""The fields of :func:`read_jobs`, for ``squeue --Format``."""


def read_jobs(text: str) -> list[SlurmJob]:
    """The jobs in what ``squeue --noheader --Format`` prints of :data:`JOB_FORMAT`."""
    rows = [line.split("|", 3) for line in text.splitlines() if line.count("|") >= 3]
    return [
        SlurmJob(id=job, state=state, nodes=nodes, note="" if note.strip() == "(null)" else note.strip())
        for job, state, nodes, note in rows
        if nodes
    ]


def jobs_nodes(text: str) -> list[str]:
    """The host lists of the jobs in ``SLURM_RESUME_FILE``, one for each job.

    Slurm 22.05 calls them ``nodes``; since 23.02 they are ``nodes_resume``, those to be started, beside
    ``nodes_alloc``, which has the nodes that are up, too (slurm.conf(5), ResumeProgram).

    Raises:
        GpucloudError: it is no such file.
    """
    try:
        found: Any = json.loads(text)
        jobs = cast("list[dict[str, Any]]", found["jobs"])
        return [str(job.get("nodes_resume") or job.get("nodes") or "") for job in jobs]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise GpucloudError(f"SLURM_RESUME_FILE has another format: {text[:_LONGEST]!r}") from error


MOST_HOSTS = 1 << 16
"""A longer host list is a mistake: what follows is left out."""


def expand(hostlist: str) -> list[str]:
    """The names in a host list such as ``lab-t4-[1-3,7],login``, in order; one pair of brackets in each."""
    names = (
        f"{before}{number}{after}"
        for before, numbers, after in _HOSTS.findall(hostlist)
        for number in (_numbers(numbers) if numbers else ("",))
        if before or number
    )
    return list(islice(names, MOST_HOSTS))


def is_hostlist(text: str) -> bool:
    """Whether a text is a host list; that of somebody else's nodes may have several pairs of brackets."""
    return _HOSTLIST.fullmatch(text) is not None


_RANGE = r"[0-9]{1,9}(?:-[0-9]{1,9})?"
_NAME = rf"(?:[^,\[\]\s]|\[{_RANGE}(?:,{_RANGE})*\])+"
_HOSTLIST = re.compile(rf"{_NAME}(?:,{_NAME})*")
_HOSTS = re.compile(r"([^,\[\]]*)(?:\[([0-9,-]+)\])?([^,\[\]]*)")


def _numbers(text: str) -> Iterator[str]:
    for part in text.split(","):
        if re.fullmatch(_RANGE, part):
            low, _, high = part.partition("-")
            width = len(low) if low.startswith("0") else 0
            yield from (f"{number:0{width}d}" for number in range(int(low), int(high or low) + 1))


def gangs(
    names: Iterable[str], jobs: Iterable[Sequence[str]], class_of: Callable[[str], str]
) -> list[tuple[str, ...]]:
    """Which nodes are launched together: those of a job that are of one class; the others alone.

    Args:
        names: the nodes to start.
        jobs: the nodes of each job. A node of several jobs comes with the first.
        class_of: the class of a node.
    """
    left = dict.fromkeys(names)
    found: list[tuple[str, ...]] = []
    for nodes in jobs:
        by_class: dict[str, list[str]] = {}
        for name in nodes:
            if name in left:
                del left[name]
                by_class.setdefault(class_of(name), []).append(name)
        found += [tuple(group) for group in by_class.values()]
    return found + [(name,) for name in left]


def version(text: str) -> tuple[int, int]:
    """The version in what ``scontrol --version`` prints; 0.0 for other text."""
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def by_name(nodes: Iterable[SlurmNode]) -> Mapping[str, SlurmNode]:
    """Nodes by their names."""
    return {node.name: node for node in nodes}
