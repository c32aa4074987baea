"""The JSON documents of boxes, volumes, snapshots and runs. Imported for types and JSON Schemas."""

from __future__ import annotations

from typing import Any, TypedDict

from gpucloud_pricing.documents import Day, GpuDocument, MoneyDocument, Number, Time


class NodeDocument(TypedDict):
    """One machine of a box, as its cloud last returned it.

    Attributes:
        state: ``pending``, ``running``, ``stopping``, ``stopped`` or ``gone``.
    """

    instance_id: str
    state: str
    public_ip: str | None
    private_ip: str | None


class PerHourDocument(TypedDict):
    """What a box costs per hour now, all nodes; ``null`` if unknown.

    Attributes:
        total: the sum; ``null`` if a part is unknown.
    """

    total: MoneyDocument | None
    compute: MoneyDocument | None
    disk: MoneyDocument | None
    address: MoneyDocument | None


class SliceDocument(TypedDict):
    """A MIG slice of a GPU of a node."""

    node: int
    gpu: int
    profile: str
    uuid: str


class GuardDocument(TypedDict):
    """The last report of a node's guard.

    Attributes:
        at: when it reported.
        idle_s: how long the node has been idle.
        left_s: how long it may live; ``null`` without a deadline.
        deadline: when it ends the node.
        clock_ahead_s: how far the node's clock is ahead; ``null`` if unknown.
        sessions: open sessions.
        taken_back_at: when the cloud said that it interrupts the node.
        clock_is_right: whether the node's clock was found right.
        jobs: whether jobs run.
        gpu_percent: the use of each GPU.
        ending: why it ends the node, once it does.
        health: faults in words, by what they are of.
    """

    at: Time
    idle_s: Number
    left_s: Number | None
    deadline: Time | None
    clock_ahead_s: Number | None
    sessions: Number | None
    taken_back_at: Time | None
    clock_is_right: bool
    jobs: bool
    gpu_percent: list[Number]
    ending: str | None
    health: dict[str, str]


class VolumeDocument(TypedDict):
    """One volume: a disk that outlives boxes.

    Attributes:
        name: unique among the owner's living volumes and boxes.
        id: unique for ever.
        state: ``planned``, ``provisioning``, ``ready``, ``deleting``, ``deleted`` or ``failed``.
        zone: ``null`` if its cloud has no zones for disks.
        keep_s: how many seconds it is kept after its last use.
        attached_to: the name of the box that uses it; ``null`` if none does.
        used_at: when it was last attached or detached; ``null`` if it never was.
        expires_at: when it is unwanted, and is deleted.
        overdue: whether it lives past that.
        ended_at: when it was found deleted.
        per_hour: the present spending; ``null`` if its price is unknown.
        cost_so_far: ``null`` if its price is unknown.
    """

    name: str
    id: str
    owner: str
    state: str
    cloud: str | None
    region: str | None
    zone: str | None
    size_gib: int | None
    keep_s: Number
    attached_to: str | None
    created_at: Time
    used_at: Time | None
    expires_at: Time | None
    overdue: bool
    ended_at: Time | None
    per_hour: MoneyDocument | None
    cost_so_far: MoneyDocument | None


class SnapshotDocument(TypedDict):
    """One snapshot: a copy of a volume, or of the root disk of a stopped box.

    Attributes:
        name: unique among the owner's living boxes, volumes and snapshots.
        id: unique for ever.
        state: ``planned``, ``provisioning``, ``ready``, ``deleting``, ``deleted`` or ``failed``.
        of: the name of the volume or box that it was made of; ``null`` if unknown.
        bootable: whether it is of a box, and boxes can boot from it.
        size_gib: the size of that disk, which is the most that it holds.
        expires_at: when it is unwanted, and is deleted.
        overdue: whether it lives past that.
        ended_at: when it was found deleted.
        most_per_hour: the most that it costs now; ``null`` if its price is unknown.
        most_so_far: the most that it has cost; ``null`` if its price is unknown.
    """

    name: str
    id: str
    owner: str
    state: str
    of: str | None
    bootable: bool
    cloud: str | None
    region: str | None
    size_gib: int | None
    created_at: Time
    expires_at: Time | None
    overdue: bool
    ended_at: Time | None
    most_per_hour: MoneyDocument | None
    most_so_far: MoneyDocument | None


class BoxDocument(TypedDict):
    """One box: what a user launched.

    Attributes:
        name: unique among the owner's living boxes.
        id: unique for ever.
        run_id: the run of the box.
        state: ``planned``, ``provisioning``, ``bootstrapping``, ``ready``, ``interrupted``, ``stopping``,
            ``stopped``, ``deleting``, ``deleted`` or ``failed``.
        gpu: the GPUs of one node; ``null`` if unknown.
        purchase: the way of paying.
        price: of the compute, per hour and node, in the currency of the cloud's bill.
        price_as_of: the date of that price.
        price_source: an id of the market's sources.
        expires_at: the deadline; ``null`` if nothing ends the box.
        overdue: whether it lives past its deadline.
        seen_at: when its cloud was last asked for it.
        ended_at: when it was found deleted.
        ended_by: why it ended without ``down``: ``ttl``, ``cloud`` or ``itself``.
        compute_ended_at: when the billing of its machines ended.
        cost_so_far: compute, disks and addresses with a known price, all nodes.
        cost_at_least: the part of it that is certain.
        mig: the MIG slices of its GPUs.
        accept_test: the measurements of the GPU test, by node.
        replaced: why its first machine was replaced.
        results_of: the run whose files it is kept for, as they could not be copied; ``null`` for none.
        setup_error: why its set-up failed.
        guards: the last report of each node's guard; ``null`` for a guard without one.
    """

    name: str
    id: str
    run_id: str | None
    owner: str
    state: str
    cloud: str | None
    region: str | None
    zone: str | None
    instance_type: str | None
    gpu: GpuDocument | None
    purchase: str | None
    nodes: list[NodeDocument]
    price: MoneyDocument | None
    price_as_of: Day | None
    price_source: str | None
    per_hour: PerHourDocument
    created_at: Time
    expires_at: Time | None
    overdue: bool
    seen_at: Time | None
    ended_at: Time | None
    ended_by: str | None
    compute_ended_at: Time | None
    cost_so_far: MoneyDocument | None
    cost_at_least: MoneyDocument | None
    mig: list[SliceDocument]
    accept_test: list[dict[str, Any]]
    replaced: str | None
    results_of: str | None
    setup_error: str | None
    guards: list[GuardDocument | None]


class SavedSetDocument(TypedDict):
    """The newest whole checkpoint of an attempt, as ``run`` or ``tend`` has seen it last.

    Attributes:
        number: its number in the attempt.
        at: when its files were looked at.
        newest_file: the path of its newest file in the folder.
        files: how many it has.
        bytes: their size.
        bytes_per_second: how fast the box uploads, as measured; ``null`` before.
        upload_seconds: what an upload of all of it takes at that rate.
        notice_seconds: how long before they take a spot box back the clouds tell it, by cloud.
    """

    number: int
    at: Time
    newest_file: str
    files: int
    bytes: int
    bytes_per_second: float | None
    upload_seconds: float | None
    notice_seconds: dict[str, int]


class RunAttemptDocument(TypedDict):
    """One box of a run.

    Attributes:
        box: its name; ``null`` if none was planned.
        at: when the attempt was begun.
        lost_at: when its loss was noticed.
        loss: why it was lost: ``interruption``, ``hardware``, ``capacity``, ``request`` (its command asks for
            a restart) or ``launch`` (its process ended before the command began); ``null`` if it was not.
        message: the loss, in words.
        checkpoint: the number of the newest attempt that had a whole checkpoint in the bucket then.
        checkpoint_bytes: about how large that was; ``null`` if it is not known.
        saved: its newest whole checkpoint; ``null`` before the first one was seen.
        traffic: what it costs besides its box to restore the last checkpoint in its place, in words; ``null``
            for nothing.
        cost_so_far: what the box has cost, by currency.
    """

    box: str | None
    box_id: str | None
    cloud: str | None
    region: str | None
    zone: str | None
    instance_type: str | None
    purchase: str | None
    at: Time
    lost_at: Time | None
    loss: str | None
    message: str | None
    checkpoint: str | None
    checkpoint_bytes: int | None
    saved: SavedSetDocument | None
    traffic: str | None
    cost_so_far: list[MoneyDocument]


_Class = TypedDict("_Class", {"class": str})  # keywords of Python cannot be fields of a class


class RunFailureDocument(_Class):
    """Why a run, or its command, ended otherwise than by itself.

    Attributes:
        class: such as ``timeout``, ``deadline``, ``capacity``.
    """

    message: str


class RunCodeDocument(TypedDict):
    """The files of a run, frozen at its submission.

    Attributes:
        sha256: of the archive.
        size_bytes: of the archive.
        files: how many files and links it has.
        commit: the git commit that they are from, with ``+dirty`` if there were changes.
        machine: the host that has the archive.
        stored: whether the run's store has it too.
    """

    sha256: str
    size_bytes: int
    files: int
    commit: str | None
    machine: str
    stored: bool


class KeptResultsDocument(TypedDict):
    """Files of a command that has ended, which could not be copied, and the box that is kept for them.

    Attributes:
        why: what was not copied, and why.
        box: the name of the box.
        until: its deadline; ``null`` for none.
        per_hour: what it costs; ``null`` if that is not known.
        command: copies the files, and ends the box.
    """

    why: str
    box: str
    until: Time | None
    per_hour: MoneyDocument | None
    command: str


class RunRecordDocument(TypedDict):
    """One run: a command with its attempts.

    Attributes:
        run_id: unique among the runs that are not over.
        state: ``running``, ``waiting``, ``fetching``, ``ended``, ``failed`` or ``cancelled``.
        detached: whether it goes on without the process that began it.
        abandoned: whether its process has ended, and it was not detached: it will not go on.
        command: a shell command, or the arguments of a program.
        spec: of its boxes, without the values of variables.
        restarts: how often it was restarted.
        most_restarts: how often it may be.
        restart_at: when the next attempt is due.
        waits_until: until when it tries to get a box, while it has none.
        expires_at: its deadline; ``null`` for none.
        exit_code: of its command.
        failure: why it ended otherwise.
        attempts: its boxes, oldest first.
        cost_so_far: what they have cost, by currency.
        kept: its files that could not be copied, and their box; ``null`` if there are none.
        cluster: whose engine wants it; ``null`` for a command.
        slots: those of the cluster that are its nodes.
        code: the files that every attempt gets.
    """

    run_id: str
    owner: str
    state: str
    detached: bool
    abandoned: bool
    command: list[str] | str
    spec: dict[str, Any]
    restarts: int
    most_restarts: int
    restart_at: Time | None
    waits_until: Time | None
    created_at: Time
    ended_at: Time | None
    expires_at: Time | None
    exit_code: int | None
    failure: RunFailureDocument | None
    attempts: list[RunAttemptDocument]
    cost_so_far: list[MoneyDocument]
    kept: KeptResultsDocument | None
    cluster: str | None
    slots: list[str]
    code: RunCodeDocument | None
