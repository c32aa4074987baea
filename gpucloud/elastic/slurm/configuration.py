"""The files of ``gpucloud slurm init``: texts, by name. Pure functions.

What is written into slurm.conf, and why, is in slurm.conf(5) of Slurm 22.05 to 25.11; what was seen to happen
without a line is said in its comment.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpucloud.elastic.cluster import Cluster
from gpucloud.elastic.slurm.batch import TEMPLATES, template
from gpucloud.elastic.slurm.node import SLICES, TASK_PROLOG
from gpucloud.elastic.slurm.shapes import SlurmShape, hostlist, ports

INCLUDE, GRES, ENVIRONMENT, LOG = "gpucloud.conf", "gres.conf", "environment", "gpucloud.log"
PROGRAMS = ("resume", "suspend", "fail", "sync")
SUBMIT_FILTER = "job_submit.lua"
PORTS = range(20_000, 30_000)
"""Of slurmd, where all nodes are on this machine: each cluster begins elsewhere, below the system's own."""
WRITTEN = "Written by `gpucloud slurm init`, digest "
"""Begins the line of a file by which an edited one is recognized."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerHost:
    """The controller's machine.

    Attributes:
        folder: where the files are, absolute.
        cluster_file: the file of the cluster, absolute.
        program: the words that start gpucloud.
        user: who runs slurmctld (``SlurmUser``).
        host: the name of the machine.
        variables: what the programs need of the environment.
        sandbox: whether the boxes are on this machine, all with its address.
    """

    folder: str
    cluster_file: str
    program: Sequence[str]
    user: str
    host: str
    variables: Mapping[str, str]
    sandbox: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file. ``theirs``: the user writes on in it, so that it is never replaced."""

    name: str
    text: str
    mode: int = 0o644
    theirs: bool = False


def files(site: ControllerHost, cluster: Cluster, shapes: Sequence[SlurmShape]) -> list[File]:
    """All files, in the order in which a person meets them."""
    return [
        File(name=INCLUDE, text=_signed(include_text(site, cluster, shapes))),
        File(name=GRES, text=_signed(gres_text(cluster, shapes, site.folder if site.sandbox else ""))),
        *([] if site.sandbox else [File(name="hosts", text=_signed(hosts_text(cluster)))]),
        *(File(name=name, text=_signed(program_text(site, name)), mode=0o755) for name in PROGRAMS),
        File(name=ENVIRONMENT, text=environment_text(site), mode=0o600, theirs=True),
        File(name=SUBMIT_FILTER, text=_signed(filter_text(cluster, shapes), "--")),
        *timer_files(site, cluster),
        *(
            File(name=f"batch/{name}.sh", text=_signed(template(name, shapes)), mode=0o755)
            for name in TEMPLATES
        ),
    ]


def is_edited(text: str) -> bool:
    """Whether somebody has changed a file since it was written."""
    lines = text.splitlines(keepends=True)
    digests = [number for number, line in enumerate(lines) if WRITTEN in line]
    if not digests:
        return True
    written = lines.pop(digests[0]).partition(WRITTEN)[2].strip()
    return written != _digest("".join(lines))


# --- slurm.conf


def include_text(site: ControllerHost, cluster: Cluster, shapes: Sequence[SlurmShape]) -> str:
    """What slurm.conf includes: settings for nodes that come and go, the nodes and the partitions."""
    idle_s, names = (
        int(cluster.idle.total_seconds()),
        ",".join(hostlist(cluster, s.node_class) for s in shapes),
    )
    prolog = [f"TaskProlog={TASK_PROLOG}"] if any(shape.sliced for shape in shapes) else []
    overrides = [
        "# The boxes of the sandbox are this machine: its cores and memory are not those that were rented.",
        "SlurmdParameters=config_overrides",
    ]
    return "\n".join(
        [
            f"# Nodes of cluster {cluster.name} for slurm.conf: Include {site.folder}/{INCLUDE}",
            "# A key that slurm.conf has too counts where it is written last.",
            *_settings(site),
            *(overrides if site.sandbox else []),
            *prolog,
            "",
            "# The least that every machine of the class has. Weight is its price in tenths of a cent: the",
            "# cheapest is used first; `gpucloud slurm sync` moves it with the prices.",
            *_nodes(site, cluster, shapes),
            "",
            f"# Nodes that are idle for {idle_s} s end. A job of several nodes is of one class, in one zone.",
            *(
                f"PartitionName={shape.node_class} Nodes={hostlist(cluster, shape.node_class)} "
                f"SuspendTime={idle_s} MaxTime=INFINITE State=UP"
                for shape in shapes
            ),
            f"PartitionName={cluster.name} Nodes={names} Default=YES MaxNodes=1 "
            f"SuspendTime={idle_s} MaxTime=INFINITE State=UP",
            "",
        ]
    )


def _settings(site: ControllerHost) -> list[str]:
    addresses = "cloud_dns" if site.sandbox else "cloud_reg_addrs"
    reasons = (
        "# All nodes have the address of this machine, each a port of its own."
        if site.sandbox
        else "# cloud_reg_addrs: the address of a node is the one that it registers from."
    )
    return [
        f"ResumeProgram={site.folder}/resume",
        f"SuspendProgram={site.folder}/suspend",
        "# Without it, a node that never registers stays down for ever.",
        f"ResumeFailProgram={site.folder}/fail",
        "# A box with GPUs boots for minutes, and several places may be tried before.",
        "ResumeTimeout=1800",
        "# Covers the deletion of a box: only then is its name free.",
        "SuspendTimeout=120",
        "# Only the partitions below suspend nodes, and no rate holds back a burst.",
        "SuspendTime=INFINITE",
        "ResumeRate=0",
        "SuspendRate=0",
        "BatchStartTimeout=120",
        "# idle_on_node_suspend: a node that was down is idle again once it is suspended.",
        reasons,
        f"SlurmctldParameters=idle_on_node_suspend,{addresses}",
        "# Nodes that are powered down are shown.",
        "PrivateData=cloud",
        "CommunicationParameters=NoAddrCache",
        "# Nothing is passed on through nodes of other clouds.",
        "TreeWidth=65533",
        "# A node that registers again is used again.",
        "ReturnToService=2",
        "# Also the pause before a job that was requeued starts again, plus a second; the default is 120.",
        "AuthInfo=cred_expire=70",
        "# A job whose node is lost is queued again, and starts when all of its nodes are up.",
        "JobRequeue=1",
        "SchedulerParameters=salloc_wait_nodes,sbatch_wait_nodes,bf_continue",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "GresTypes=gpu",
        "# The file of a node is a copy with its own paths.",
        "DebugFlags=NO_CONF_HASH",
        f"# {SUBMIT_FILTER} lies beside slurm.conf: it refuses what costs more than --comment=max-usd=…",
        "JobSubmitPlugins=lua",
        "",
    ]


def _nodes(site: ControllerHost, cluster: Cluster, shapes: Sequence[SlurmShape]) -> Iterable[str]:
    numbers = ports(cluster, PORTS[int(_digest(site.folder), 16) % len(PORTS)])
    for shape in shapes:
        first, last = numbers[shape.node_class]
        where = f" NodeAddr=127.0.0.1 NodeHostname={site.host} Port=[{first}-{last}]" if site.sandbox else ""
        yield (
            f"NodeName={hostlist(cluster, shape.node_class)}{where} CPUs={shape.cpus} "
            f"RealMemory={shape.memory_mib} Gres=gpu:{shape.gres}:{shape.gpus} Weight={shape.market.weight} "
            f"Feature={shape.features} State=CLOUD"
        )


def gres_text(cluster: Cluster, shapes: Sequence[SlurmShape], devices: str = "") -> str:
    """gres.conf: which device files the GPUs of a class are; slices are counted by files of our own.

    Args:
        cluster: the cluster.
        shapes: its classes.
        devices: a folder before these paths.
    """
    lines = [f"# GPUs of cluster {cluster.name}: gres.conf includes this file; nodes get it when they join."]
    for shape in shapes:
        path = f"{devices}{SLICES if shape.sliced else '/dev/nvidia'}"
        last = f"[0-{shape.gpus - 1}]" if shape.gpus > 1 else "0"
        nodes = hostlist(cluster, shape.node_class)
        lines.append(f"NodeName={nodes} Name=gpu Type={shape.gres} File={path}{last}")
    return "\n".join([*lines, ""])


def hosts_text(cluster: Cluster) -> str:
    """An address for every node that is not up: slurmctld waits ten seconds for a name that has none."""
    lines = [
        "# For /etc/hosts of the controller. A node that is powered down has only its name, and slurmctld",
        "# waits ten seconds, with all commands, for a name that it cannot resolve. This address refuses at",
        "# once.",
        *(f"127.0.0.1 {slot}" for name in cluster.classes for slot in cluster.slots(name)),
    ]
    return "\n".join([*lines, ""])


# --- programs


def program_text(site: ControllerHost, name: str) -> str:
    """A program that slurmctld or a timer starts."""
    what = ("slurm", name, "--cluster", site.cluster_file)
    return "\n".join(
        [
            "#!/bin/sh",
            "# Slurm starts programs with descriptors 0 to 2 closed and no environment; gpucloud itself",
            "# unblocks the signals that Slurm blocks.",
            f"exec </dev/null >>{shlex.quote(f'{site.folder}/{LOG}')} 2>&1",
            "set -a",
            f". {shlex.quote(f'{site.folder}/{ENVIRONMENT}')}",
            "set +a",
            f'exec {shlex.join([*site.program, *what])} "$@"',
            "",
        ]
    )


def environment_text(site: ControllerHost) -> str:
    """The environment of the programs, in the syntax of a shell; the user adds to it."""
    lines = [
        "# The environment of the programs beside this file: SlurmUser's, readable by nobody else (0600).",
        "# Add what your clouds' own tools would need: names of profiles, or keys. Nothing of it reaches a",
        "# node. `gpucloud slurm init` never replaces this file.",
        *(f"{name}={shlex.quote(value)}" for name, value in site.variables.items()),
    ]
    return "\n".join([*lines, ""])


def timer_files(site: ControllerHost, cluster: Cluster) -> list[File]:
    """What starts ``sync`` each minute: a systemd timer, or one line for cron or scrontab."""
    name = f"gpucloud-slurm-{cluster.name}"
    service = [
        "[Unit]",
        f"Description=gpucloud looks after the nodes of cluster {cluster.name}",
        "",
        "[Service]",
        "Type=oneshot",
        f"User={site.user}",
        f"ExecStart={site.folder}/sync",
        "TimeoutStartSec=1h",
        "",
    ]
    timer = [
        "[Unit]",
        f"Description=gpucloud looks after the nodes of cluster {cluster.name} each minute",
        "",
        "[Timer]",
        "OnBootSec=1min",
        "OnUnitActiveSec=1min",
        "AccuracySec=5s",
        "",
        "[Install]",
        "WantedBy=timers.target",
        "",
    ]
    line = f"# For `crontab -e` of {site.user}, where there is no systemd.\n* * * * * {site.folder}/sync\n"
    return [
        File(name=f"{name}.service", text=_signed("\n".join(service))),
        File(name=f"{name}.timer", text=_signed("\n".join(timer))),
        File(name="crontab", text=_signed(line)),
    ]


# --- the submit filter


def filter_text(cluster: Cluster, shapes: Sequence[SlurmShape]) -> str:
    """``job_submit.lua``: refuses a job that may cost more than its ``--comment=max-usd=…``."""
    rows = [
        f'  {{name = "{shape.node_class}", gres = "{shape.gres}", usd = {shape.limit_usd or "nil"}}},'
        for shape in shapes
    ]
    several = ",".join(shape.node_class for shape in shapes)
    return _FILTER % {"cluster": cluster.name, "rows": "\n".join(rows), "several": several}


_FILTER = """\
-- Refuses a job that may cost more than it says in --comment=max-usd=AMOUNT: nodes x time limit x max_price
-- of the dearest class that it may use. Without that comment nothing is refused.
local classes = {
%(rows)s
}
local NOT_SET = 4294967290 -- NO_VAL and INFINITE lie above it

local function has(list, word)
  return list ~= nil and string.find("," .. list .. ",", "," .. word .. ",", 1, true) ~= nil
end

-- The classes that a job may use, by partition, feature and type of GPU.
local function usable(job)
  local gres = ":" .. (job.tres_per_node or "") .. ":" .. (job.tres_per_job or "") .. ":"
  local found, by_type = {}, {}
  for _, class in ipairs(classes) do
    local all = job.partition == nil or has(job.partition, "%(cluster)s")
    if all or has(job.partition, class.name) then
      if job.features == nil or not string.find(job.features, "^[%%w-]+$") or job.features == class.name then
        table.insert(found, class)
        if string.find(gres, ":" .. class.gres .. ":", 1, true) then table.insert(by_type, class) end
      end
    end
  end
  return #by_type > 0 and by_type or found
end

local function refuse(text)
  slurm.log_user("gpucloud: " .. text)
  return slurm.ERROR
end

local function check(job)
  local limit = tonumber(string.match(job.comment or "", "max%%-usd=([%%d.]+)"))
  if limit == nil then
    if string.find(job.comment or "", "max-usd", 1, true) then
      return refuse("max-usd is no number, such as --comment=max-usd=12.50")
    end
    return slurm.SUCCESS
  end
  if job.time_limit == nil or job.time_limit >= NOT_SET then
    return refuse("max-usd needs a time limit: add --time")
  end
  local nodes, dearest = 1, 0
  if job.min_nodes ~= nil and job.min_nodes < NOT_SET then nodes = job.min_nodes end
  if job.max_nodes ~= nil and job.max_nodes < NOT_SET then nodes = math.max(nodes, job.max_nodes) end
  for _, class in ipairs(usable(job)) do
    if class.usd == nil then
      return refuse("class " .. class.name .. " has no max_price in cluster.yaml, so max-usd cannot be kept")
    end
    dearest = math.max(dearest, class.usd)
  end
  local most = nodes * job.time_limit / 60 * dearest
  if most > limit then
    local words = "%%d node(s) for %%d min may cost %%.2f USD, more than max-usd=%%.2f"
    return refuse(string.format(words, nodes, job.time_limit, most, limit))
  end
  return slurm.SUCCESS
end

function slurm_job_submit(job, partitions, uid)
  -- The nodes of a job are of one class: where no partition is named, any class will do, one alone.
  if job.partition == nil and job.min_nodes ~= nil and job.min_nodes > 1 and job.min_nodes < NOT_SET then
    job.partition = "%(several)s"
  end
  return check(job)
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
"""


# --- whether a file was edited


def _signed(text: str, comment: str = "#") -> str:
    """A text with the line that tells whether it was edited since: its second, after what a shell reads."""
    first, newline, rest = text.partition("\n")
    return f"{first}{newline}{comment} {WRITTEN}{_digest(text)}\n{rest}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
