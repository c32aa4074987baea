"""The JSON documents of all commands: ``gpucloud.NAME/v1`` by name, and those that commands put together.

Imported to check types, to print JSON Schemas and to write ``docs/schemas``; not by commands that answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from gpucloud.api.documents import (
    BoxDocument,
    RunFailureDocument,
    RunRecordDocument,
    SnapshotDocument,
    VolumeDocument,
)
from gpucloud.checkup import CheckDocument
from gpucloud.clouds.documents import AuditDocument, FollowedCallDocument
from gpucloud.costs.documents import (
    BudgetDocument,
    CostDocument,
    ProjectDocument,
    RunStoreDocument,
    SpendDocument,
    UnusualDayDocument,
)
from gpucloud.elastic.ray.configuration import Configuration
from gpucloud.market.documents import (
    CommitmentsDocument,
    EquivalentsDocument,
    OffersDocument,
    PriceDiffDocument,
    PriceHistoryDocument,
    PricesDocument,
    PricesRefreshDocument,
    PriceWatchDocument,
    SizesDocument,
)
from gpucloud.planning.documents import ImagesDocument, PlanDocument
from gpucloud_pricing.documents import Amount, MoneyDocument, Number, Time, Unknown

# --- boxes


class StepDocument(TypedDict):
    """A step of a command.

    Attributes:
        at_s: when it began, in seconds since the command's start.
    """

    step: str
    at_s: Number


class ShowDocument(TypedDict):
    """One box."""

    box: BoxDocument


class ExtendDocument(TypedDict):
    """The box with its new deadline."""

    box: BoxDocument


class ShareNodeDocument(TypedDict):
    """A node, as somebody with another ssh client reaches it."""

    node: int
    address: str
    port: int
    user: str
    host_key: str


class ShareDocument(TypedDict):
    """The box, and who was let in, or no longer.

    Attributes:
        fingerprint: of the key.
        changed: ``false`` if all was so before.
        nodes: those that have the key now, or have it no longer.
        allow_from: the addresses that the box accepts.
        command: what a colleague with the same journal enters; ``null`` if the journal is a file.
    """

    box: BoxDocument
    fingerprint: str
    changed: bool
    nodes: list[ShareNodeDocument]
    allow_from: list[str]
    command: str | None


class DashboardDocument(TypedDict):
    """The page.

    Attributes:
        url: its address, with the secret that opens it; ``null`` for a still page.
        file: the file of a still page.
    """

    url: str | None
    file: str | None


class StopDocument(TypedDict):
    """The box that is stopped; ``expires_at`` is when it is deleted."""

    box: BoxDocument


class VolumeAnswerDocument(TypedDict):
    """One volume."""

    volume: VolumeDocument


class SnapshotAnswerDocument(TypedDict):
    """One snapshot."""

    snapshot: SnapshotDocument


class SnapshotsDocument(TypedDict):
    """The snapshots of the journal."""

    snapshots: list[SnapshotDocument]


class VolumesDocument(TypedDict):
    """The volumes of the journal."""

    volumes: list[VolumeDocument]


class StartDocument(TypedDict):
    """The box that was started again."""

    box: BoxDocument


class MoveDocument(TypedDict):
    """The new box, and the one that was moved, which is deleted unless the user kept it.

    Attributes:
        volumes: those of the new box.
        old_volumes: those that the old box had; they are kept, and billed.
    """

    box: BoxDocument
    old: BoxDocument
    volumes: list[VolumeDocument]
    old_volumes: list[VolumeDocument]


class LaunchDocument(TypedDict):
    """The boxes that were launched, and the steps of the launch.

    Attributes:
        box: the first box that is ready.
        boxes: all of them.
        failure: why other boxes of the spec are not ready; ``null`` if all are.
    """

    box: BoxDocument
    boxes: list[BoxDocument]
    failure: FailureDocument | None
    timeline: list[StepDocument]


class SetupDocument(TypedDict):
    """The box whose set-up was repeated, and the steps."""

    box: BoxDocument
    timeline: list[StepDocument]


class RunDocument(TypedDict):
    """A run that has ended.

    Attributes:
        box: the box of the run, which is deleted unless it was kept.
        exit_code: of the command.
        failure: why it ended, where it did not by itself: ``timeout``; ``null`` if it did.
        not_fetched: the files of ``--fetch`` that were not copied back.
        cost_so_far: what all boxes of the run have cost, by currency.
        timeline: the steps.
    """

    box: BoxDocument
    exit_code: int
    failure: RunFailureDocument | None
    not_fetched: list[str]
    cost_so_far: list[MoneyDocument]
    timeline: list[StepDocument]


class RunDetachedDocument(TypedDict):
    """``run --detach``: a run whose command was left running."""

    run: RunRecordDocument
    timeline: list[StepDocument]


class TendedDocument(TypedDict):
    """What was done for a run.

    Attributes:
        did: ``left`` (nothing was to be done), ``lost`` (its box was; another attempt is due later),
            ``restarted`` or ``ended``.
        message: why, in words.
    """

    run_id: str
    did: str
    message: str


class TroubleDocument(TypedDict):
    """What could not be done.

    Attributes:
        owed_command: the command that ends what may still be billed.
    """

    message: str
    hint: str | None
    owed_command: str | None


class TendedBoxDocument(TypedDict):
    """What was done about a box of a launch with ``on_sick: replace``, and why.

    Attributes:
        did: ``left``, ``replaced``, or ``ended``: it had been replaced before.
        replaced_by: the name of the box that has replaced it.
    """

    id: str
    name: str
    did: str
    message: str
    replaced_by: str | None


class TendDocument(TypedDict):
    """One look after everything.

    Attributes:
        runs: those that were not over.
        boxes: those that are to be replaced once their hardware is faulty.
        troubles: what could not be done; the next look goes on with it.
    """

    runs: list[TendedDocument]
    boxes: list[TendedBoxDocument]
    troubles: list[TroubleDocument]


class RunsListDocument(TypedDict):
    """``runs list``: runs, oldest first."""

    runs: list[RunRecordDocument]


class RunsShowDocument(TypedDict):
    """``runs show``: one run.

    Attributes:
        store: what its store holds; ``null`` without one, or if it did not answer.
    """

    run: RunRecordDocument
    store: RunStoreDocument | None


class RunsCancelDocument(TypedDict):
    """``runs cancel``: a run that is over now."""

    run: RunRecordDocument


class RunsDeleteDocument(TypedDict):
    """``runs delete``: what its store held, and holds no more.

    Attributes:
        deleted: without ``others``, which stay.
    """

    run_id: str
    deleted: RunStoreDocument


class RunsFetchDocument(TypedDict):
    """``runs fetch``: a run whose files are here now.

    Attributes:
        run: the run; ``null`` with ``--from``: this journal does not know it.
    """

    run: RunRecordDocument | None


class BudgetListDocument(TypedDict):
    """``budget list``: the budgets of the journal.

    Attributes:
        unusual_days: days on which boxes of all owners have cost more than is usual.
    """

    budgets: list[BudgetDocument]
    unusual_days: list[UnusualDayDocument]


class BudgetShowDocument(TypedDict):
    """``budget show``: one budget."""

    budget: BudgetDocument


class BudgetSetDocument(TypedDict):
    """``budget set``: the budget as it is now; ``null`` if it was removed."""

    name: str
    budget: BudgetDocument | None


class BoxesRuleDocument(TypedDict):
    """How many boxes of an owner may live; ``*`` is everybody who is not named."""

    owner: str
    most: int


class PerHourRuleDocument(TypedDict):
    """What the holdings of an owner may cost per hour; ``*`` is everybody who is not named."""

    owner: str
    most: MoneyDocument


class PolicyDocument(TypedDict):
    """What may be launched; an empty list, or ``null``, is no rule.

    Attributes:
        clouds: names, globs, ``!x`` to leave out.
        regions: as ``clouds``, with geo groups.
        instance_types: as ``clouds``.
        gpus: models, as ``clouds``.
        purchase: ways of paying.
        max_price: per hour and node, compute only.
        boxes: living boxes; those that are stopped count.
        tags: names of tags that a box must have.
        ttl_s: how far off the end of a box may be, in seconds.
        checkpoint_to: where checkpoints may be kept: the beginnings of URLs.
        by: the owner ID of who applied it.
    """

    clouds: list[str]
    regions: list[str]
    instance_types: list[str]
    gpus: list[str]
    purchase: list[str]
    max_price: MoneyDocument | None
    boxes: list[BoxesRuleDocument]
    per_hour: list[PerHourRuleDocument]
    tags: list[str]
    ttl_s: int | None
    checkpoint_to: list[str]
    by: str
    at: Time


class PolicyShowDocument(TypedDict):
    """``policy show``: the policy in force; ``null`` if none was ever applied."""

    policy: PolicyDocument | None


class PolicyApplyDocument(TypedDict):
    """``policy apply``: the policy that is in force now."""

    policy: PolicyDocument


class JournalMigrateDocument(TypedDict):
    """The tables of a team's journal.

    Attributes:
        journal: where it is, without a password.
        before: the version of its tables before; 0 if there were none.
        version: their version now.
    """

    journal: str
    before: int
    version: int


class JournalCopyDocument(TypedDict):
    """A copy of a journal.

    Attributes:
        events: how many events the journal that was copied to did not have.
        owner: the owner ID of your boxes in it.
    """

    events: int
    owner: str


class JournalUsersDocument(TypedDict):
    """The users of a team's journal.

    Attributes:
        changes: a line for each login that was made, and each role that was given or taken.
    """

    changes: list[str]


class JournalVerifyDocument(TypedDict):
    """A replay of a journal.

    Attributes:
        events: how many events it has.
        differences: a line for each box or run whose rows are not what the replay gives.
    """

    events: int
    differences: list[str]


class ExecDocument(TypedDict):
    """A command on a box that has ended.

    Attributes:
        box: its name as given.
    """

    box: str
    exit_code: int


class NodeExitDocument(TypedDict):
    """The exit code of a command on a node."""

    node: int
    exit_code: int


class ExecAllDocument(TypedDict):
    """``exec --all-nodes``: a command on a box that has ended on every node."""

    box: str
    nodes: list[NodeExitDocument]


class ExecDetachedDocument(TypedDict):
    """``exec --detach``: a command that was left running.

    Attributes:
        job: the ID of its job.
    """

    box: str
    job: str


class SyncDocument(TypedDict):
    """Files that were copied.

    Attributes:
        up: whether they were copied to the box.
    """

    box: str
    up: bool
    source: str
    destination: str


class TravellingFile(TypedDict):
    """A file or link that would be copied to a box.

    Attributes:
        there: its path on the box: absolute, or from the home folder.
    """

    here: str
    there: str
    size_bytes: int


class SyncListDocument(TypedDict):
    """What ``--dry-run`` lists.

    Attributes:
        size_bytes: of all files.
        left_out_files: how many files stay here, without those of ``.git``.
        secrets: files that would travel and look like secrets.
    """

    files: list[TravellingFile]
    size_bytes: int
    left_out_files: int
    left_out_bytes: int
    secrets: list[str]


class PortDocument(TypedDict):
    """A port on a box, and the local address that leads to it."""

    port: int
    local_port: int
    address: str
    node: int


class ForwardDocument(TypedDict):
    """Ports that are reachable at this machine from now on."""

    box: str
    ports: list[PortDocument]


class K8sServeDocument(TypedDict):
    """Where cluster-autoscaler is answered from now on."""

    address: str


class SampleDocument(TypedDict):
    """One value of a metric."""

    name: str
    labels: dict[str, str]
    value: Number


class MetricsDocument(TypedDict):
    """The metrics of the journal."""

    samples: list[SampleDocument]


class MetricsServeDocument(TypedDict):
    """Where Prometheus is answered from now on: host and port."""

    address: str


class MetricsFilesDocument(TypedDict):
    """The files that were written."""

    files: list[str]


class TestedChannelDocument(TypedDict):
    """A channel for notices, and whether it took a test; ``occasions`` are what else it gets."""

    channel: str
    kind: str
    occasions: list[str]
    sent: bool
    error: str | None


class NotifyTestDocument(TypedDict):
    """What became of the test of each channel."""

    channels: list[TestedChannelDocument]


class K8sManifestsDocument(TypedDict):
    """What a Kubernetes cluster needs to use the nodes, each as Kubernetes has it."""

    manifests: list[dict[str, Any]]


class HostDocument(TypedDict):
    """A node as a host of ssh."""

    host: str
    box: str
    node: int
    address: str
    port: int
    user: str
    identity_file: str


class SshConfigDocument(TypedDict):
    """The boxes as hosts of ssh.

    Attributes:
        included: whether the user's configuration of ssh reads ``file``.
        text: the contents of the file.
    """

    file: str
    included: bool
    hosts: list[HostDocument]
    text: str


class RayInitDocument(TypedDict):
    """The configuration of Ray's autoscaler for a cluster.

    Attributes:
        configuration: what Ray reads, as YAML or JSON.
        head_command: the command that starts the head, with the configuration in ``ray.yaml``.
    """

    configuration: Configuration
    head_command: str


class NodeHostDocument(TypedDict):
    """A node of a box, for programs that work on several.

    Attributes:
        host: its name for ssh.
        address: where this machine reaches it.
        host_keys: the keys that its ssh server may have.
        proxy_command: ssh's ``ProxyCommand``, if it is not reached directly.
        private_ip: where the other nodes reach it; ``null`` if not known yet.
        gpus: how many GPUs it has; ``null`` if not known.
    """

    node: int
    host: str
    address: str
    port: int
    user: str
    identity_file: str
    host_keys: list[str]
    proxy_command: str | None
    private_ip: str | None
    gpus: int | None


class HostsDocument(TypedDict):
    """The nodes of a box.

    Attributes:
        missing: the numbers of those that are gone, or cannot be reached from this machine.
    """

    box: str
    nodes: list[NodeHostDocument]
    missing: list[int]


class SlurmFileDocument(TypedDict):
    """A file of ``slurm init``.

    Attributes:
        state: ``written``, ``same`` as it was, or ``kept``: the user's own.
    """

    path: str
    state: str


class SlurmInitDocument(TypedDict):
    """The files for slurmctld, in the order in which they are needed."""

    folder: str
    files: list[SlurmFileDocument]


class SlurmNodeDocument(TypedDict):
    """A node of a cluster.

    Attributes:
        state: ``wanted``, ``launching``, ``waiting``, ``ready``, ``lost``, ``ending`` or ``ended``.
        gang: the nodes that are launched together with it, by rank.
        reason: why it is lost or waits.
        price: per hour.
    """

    name: str
    state: str
    gang: list[str]
    reason: str | None
    cloud: str | None
    zone: str | None
    instance_type: str | None
    purchase: str | None
    price: MoneyDocument | None


class SlurmNodesDocument(TypedDict):
    """The nodes that are wanted now, of those that were named; others go on ending."""

    nodes: list[SlurmNodeDocument]


class SlurmUpdateDocument(TypedDict):
    """What slurmctld was told.

    Attributes:
        what: the nodes or the job.
        settings: as scontrol(1) takes them.
    """

    what: str
    settings: str


class SlurmSyncDocument(TypedDict):
    """The nodes of a cluster, what slurmctld was told of them, and what could not be done."""

    nodes: list[SlurmNodeDocument]
    told: list[SlurmUpdateDocument]
    troubles: list[TroubleDocument]


class BootStepDocument(TypedDict):
    """A step of a first boot."""

    step: str
    exit_code: int
    seconds: Number


class LogDocument(TypedDict):
    """A log of a box.

    Attributes:
        source: which log.
        steps: the steps of the first boot; only of the boot log.
    """

    source: str
    text: str
    steps: NotRequired[list[BootStepDocument]]


class LogLineDocument(TypedDict):
    """A line of a log that is followed.

    Attributes:
        source: which log.
        line: the line.
        attempt: of a run: the number of the attempt, from 1.
    """

    source: str
    line: str
    attempt: NotRequired[int]


# --- searches of the clouds


class UnreadDocument(TypedDict):
    """A region that could not be read."""

    cloud: str
    region: str
    error: str


class UnjudgedDocument(TypedDict):
    """A resource with the user's owner tag, and tags that gpucloud never writes."""

    kind: str
    id: str
    cloud: str
    region: str
    wrong: str | None


class StrangerDocument(TypedDict):
    """A resource that belongs to no living box in this journal.

    Attributes:
        box: the id of a box, by its tag.
        wrong: what is wrong with its tags.
    """

    kind: str
    id: str
    cloud: str
    region: str
    owner: str | None
    box: str | None
    wrong: str | None


class ListDocument(TypedDict):
    """The boxes.

    Attributes:
        strangers: resources of no living box; this and the following with ``--live``.
        unread: regions that could not be read.
        left_out: clouds that are not set up here, and why.
        volumes: with ``--all-kinds``, as ``snapshots``.
    """

    boxes: list[BoxDocument]
    volumes: NotRequired[list[VolumeDocument]]
    snapshots: NotRequired[list[SnapshotDocument]]
    strangers: NotRequired[list[StrangerDocument]]
    unread: NotRequired[list[UnreadDocument]]
    left_out: NotRequired[dict[str, str]]


class DownDocument(TypedDict):
    """The boxes that were deleted.

    Attributes:
        unjudged: resources left alone because of their tags.
    """

    boxes: list[BoxDocument]
    unjudged: list[UnjudgedDocument]


class RecoverDocument(TypedDict):
    """What was restored to the journal.

    Attributes:
        unread: regions that could not be read.
        left_out: clouds that are not set up here, and why.
        unjudged: resources left alone because of their tags.
    """

    boxes: list[BoxDocument]
    volumes: list[VolumeDocument]
    snapshots: list[SnapshotDocument]
    unread: list[UnreadDocument]
    left_out: dict[str, str]
    unjudged: list[UnjudgedDocument]


class FoundDocument(TypedDict):
    """A resource with gpucloud's tags.

    Attributes:
        kind: ``instance``, ``disk``, ``volume``, and others.
        price: per hour; ``null`` if unknown.
        address_price: of the public address of a machine, per hour.
        unknown: why there is no price.
        reason: why it is listed.
        wrong: what is wrong with its tags.
        unwanted: whether it is to be deleted.
        removed: whether it was deleted.
    """

    kind: str
    id: str
    cloud: str
    region: str
    owner: str | None
    box: str | None
    run_id: str | None
    created_at: Time | None
    expires_at: Time | None
    price: MoneyDocument | None
    address_price: NotRequired[MoneyDocument]
    unknown: NotRequired[Unknown]
    reason: str
    wrong: str | None
    unwanted: bool
    removed: bool


class SweepDocument(TypedDict):
    """Resources with gpucloud's tags in all regions of all clouds.

    Attributes:
        price_per_hour: the known prices of the user's own.
        unread: regions that could not be read.
        left_out: clouds that are not set up here, and why.
    """

    found: list[FoundDocument]
    price_per_hour: MoneyDocument
    unread: list[UnreadDocument]
    left_out: dict[str, str]


# --- errors

_Class = TypedDict("_Class", {"class": str})  # keywords of Python cannot be fields of a class


class FailedAttemptDocument(_Class):
    """An attempt of a launch that failed.

    Attributes:
        class: what the failure means, for every cloud alike.
        code: the cloud's own code.
    """

    cloud: str
    region: str
    zone: str | None
    instance_type: str
    purchase: str
    code: str | None
    message: str
    request_id: str | None


class LeftDocument(TypedDict):
    """What may still be billed; ``price`` is per hour."""

    kind: str
    id: str
    cloud: str | None
    region: str | None
    price: MoneyDocument | None


class FailureDocument(_Class):
    """A failure.

    Attributes:
        class: what it means, for every cloud alike.
        message: what was tried and what happened.
        hint: what to do next.
        code: the cloud's own code.
        attempts: what was tried, in order.
        left: what may still be billed.
        owed_command: the command that deletes what is left.
    """

    message: str
    hint: str | None
    cloud: str | None
    code: str | None
    request_id: str | None
    attempts: list[FailedAttemptDocument]
    left: list[LeftDocument]
    owed_command: str | None


class ErrorDocument(TypedDict):
    """The answer of every command that fails."""

    error: FailureDocument


# --- the program


class PathsDocument(TypedDict):
    """The folders in use."""

    state: str
    config: str
    sandbox: str


class VersionDocument(TypedDict):
    """The version, and the folders in use.

    Attributes:
        python: the version of Python.
        defaults: the file of the user's defaults.
    """

    version: str
    python: str
    paths: PathsDocument
    defaults: str


class CompletionDocument(TypedDict):
    """The completion script of a shell."""

    shell: str
    script: str


# --- the sandbox


class BillingDocument(TypedDict):
    """A resource that the emulated clouds bill; ``price`` is per hour."""

    kind: str
    id: str
    cloud: str
    region: str
    box: str | None
    owner: str | None
    price: MoneyDocument


class SandboxStatusDocument(TypedDict):
    """``sandbox start`` and ``sandbox status``.

    Attributes:
        endpoints: by cloud; ``null`` for a cloud that does not run.
        clock_ahead_s: how far the clouds' clock is ahead.
        review: whose unsafe requests are refused.
        environment: the variables for the vendors' tools; this and the following of ``sandbox start``.
        unset: the variables that must not be set.
    """

    running: bool
    endpoints: dict[str, str | None]
    billed_per_hour: MoneyDocument
    billing: list[BillingDocument]
    clock_ahead_s: Number | None
    review: str | None
    environment: NotRequired[dict[str, str]]
    unset: NotRequired[list[str]]


class SandboxStopDocument(TypedDict):
    """``sandbox stop``."""

    running: bool


class SandboxResetDocument(TypedDict):
    """``sandbox reset``: nothing besides."""


class PaceDocument(TypedDict):
    """The delays of the emulated clouds.

    Attributes:
        transition_s: how long an instance takes to start, and to stop.
        latency_s: added to every call.
        lag_s: how long a new instance is hidden from reads.
        lag_calls: from how many reads it is hidden.
    """

    transition_s: Number
    latency_s: Number
    lag_s: Number
    lag_calls: int


class SandboxPaceDocument(TypedDict):
    """``sandbox pace``."""

    pace: PaceDocument


class CallDocument(TypedDict):
    """A call that the emulated clouds received.

    Attributes:
        mutating: whether it changes something.
        status: the HTTP status of the answer; ``null`` without one.
        milliseconds: how long the answer took.
        concurrent: how many calls were under way, this one included.
    """

    cloud: str
    service: str
    action: str
    region: str
    mutating: bool
    at: Time
    status: int | None
    milliseconds: Number | None
    concurrent: int


class SandboxCallsDocument(TypedDict):
    """``sandbox calls``, oldest first."""

    calls: list[CallDocument]


class StockDocument(TypedDict):
    """A rule about stock; the places are globs."""

    count: int
    cloud: str
    region: str
    zone: str
    instance_type: str
    purchase: str


class SandboxStockDocument(TypedDict):
    """``sandbox stock``."""

    rules: list[StockDocument]


class PriceMoveDocument(TypedDict):
    """A change of prices; the places are globs.

    Attributes:
        amount: the new price: a decimal string.
        factor: the catalog's price times this: a decimal string.
        tariff: the kind of tariff, as a glob; empty for prices of machines.
        at: when it was made.
    """

    cloud: str
    region: str
    zone: str
    instance_type: str
    purchase: str
    amount: Amount | None
    factor: Amount | None
    tariff: str
    at: str


class SandboxPriceDocument(TypedDict):
    """``sandbox price``."""

    moves: list[PriceMoveDocument]


class FaultDocument(TypedDict):
    """A fault that is still active; ``cloud``, ``action`` and ``region`` are globs.

    Attributes:
        struck: how many calls it has struck.
        times: how many calls it strikes; ``null`` for all.
        skip: how many matching calls succeed first.
        status: the HTTP status of an error.
        seconds: the length of a delay.
    """

    number: int
    struck: int
    effect: str
    stage: str
    cloud: str
    action: str
    region: str
    times: int | None
    skip: int
    code: str
    status: int
    message: str
    seconds: Number
    signal: str


class SandboxFaultDocument(TypedDict):
    """``sandbox fault``."""

    faults: list[FaultDocument]


class TakenDocument(TypedDict):
    """An instance that is interrupted; ``at`` is its end."""

    instance: str
    at: Time


class SandboxInterruptDocument(TypedDict):
    """``sandbox interrupt``."""

    taken: list[TakenDocument]


class SandboxGpuDocument(TypedDict):
    """``sandbox gpu``: the next ``times`` boxes get a faulty GPU."""

    sickness: str
    times: int


class SandboxClockDocument(TypedDict):
    """``sandbox clock``: the clouds' time."""

    now: Time


class SandboxAddressDocument(TypedDict):
    """``sandbox address``: the caller's address as the clouds see it."""

    address: str


class SandboxControlDocument(TypedDict):
    """``sandbox control``: what the cloud answered."""

    answer: Any


SandboxDocument = (
    SandboxStatusDocument
    | SandboxStopDocument
    | SandboxResetDocument
    | SandboxPaceDocument
    | SandboxCallsDocument
    | SandboxStockDocument
    | SandboxPriceDocument
    | SandboxFaultDocument
    | SandboxInterruptDocument
    | SandboxGpuDocument
    | SandboxClockDocument
    | SandboxAddressDocument
    | SandboxControlDocument
)

DOCUMENTS: Mapping[str, Any] = {
    "audit": AuditDocument,
    "audit-call": FollowedCallDocument,
    "budget-list": BudgetListDocument,
    "budget-set": BudgetSetDocument,
    "budget-show": BudgetShowDocument,
    "check": CheckDocument,
    "commitments": CommitmentsDocument,
    "completion": CompletionDocument,
    "cost": CostDocument,
    "dashboard": DashboardDocument,
    "down": DownDocument,
    "equivalents": EquivalentsDocument | SizesDocument,
    "error": ErrorDocument,
    "exec": ExecDocument | ExecAllDocument | ExecDetachedDocument,
    "extend": ExtendDocument,
    "stop": StopDocument,
    "move": MoveDocument,
    "start": StartDocument,
    "forward": ForwardDocument,
    "hosts": HostsDocument,
    "images": ImagesDocument,
    "journal-copy": JournalCopyDocument,
    "journal-migrate": JournalMigrateDocument,
    "journal-users": JournalUsersDocument,
    "journal-verify": JournalVerifyDocument,
    "k8s-manifests": K8sManifestsDocument,
    "k8s-serve": K8sServeDocument,
    "metrics": MetricsDocument,
    "metrics-files": MetricsFilesDocument,
    "metrics-serve": MetricsServeDocument,
    "notify-test": NotifyTestDocument,
    "launch": LaunchDocument,
    "list": ListDocument,
    "logs": LogDocument | LogLineDocument,
    "offers": OffersDocument,
    "plan": PlanDocument,
    "prices": PricesDocument,
    "policy-apply": PolicyApplyDocument,
    "policy-show": PolicyShowDocument,
    "prices-diff": PriceDiffDocument,
    "prices-history": PriceHistoryDocument,
    "prices-refresh": PricesRefreshDocument,
    "prices-watch": PriceWatchDocument,
    "project": ProjectDocument,
    "ray-init": RayInitDocument,
    "recover": RecoverDocument,
    "run": RunDocument | RunDetachedDocument,
    "runs-cancel": RunsCancelDocument,
    "runs-delete": RunsDeleteDocument,
    "runs-fetch": RunsFetchDocument,
    "runs-list": RunsListDocument,
    "runs-show": RunsShowDocument,
    "sandbox": SandboxDocument,
    "setup": SetupDocument,
    "share": ShareDocument,
    "show": ShowDocument,
    "slurm-init": SlurmInitDocument,
    "slurm-nodes": SlurmNodesDocument,
    "slurm-sync": SlurmSyncDocument,
    "spend": SpendDocument,
    "ssh-config": SshConfigDocument,
    "sweep": SweepDocument,
    "sync": SyncDocument,
    "sync-list": SyncListDocument,
    "tend": TendDocument,
    "version": VersionDocument,
    "volume": VolumeAnswerDocument,
    "volumes": VolumesDocument,
    "snapshot": SnapshotAnswerDocument,
    "snapshots": SnapshotsDocument,
}
"""The fields of each document besides ``schema``; a union where its commands answer in several forms."""
