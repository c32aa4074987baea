"""``gpucloud slurm``: nodes for Slurm, from whichever cloud has them."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.errors import CleanupIncompleteError
from gpucloud.rendering.texts import counted

if TYPE_CHECKING:
    from gpucloud.api.slurm import Slurm, Synced, WrittenFile
    from gpucloud.cli.documents.engines import (
        SlurmInitDocument,
        SlurmNodeDocument,
        SlurmNodesDocument,
        SlurmSyncDocument,
    )
    from gpucloud.elastic.rules import Slot
    from gpucloud.errors import GpucloudError

Hostlist = Annotated[
    str, typer.Argument(help="The nodes, as Slurm writes them: lab-t4-[1-3].", metavar="HOSTLIST")
]
File = Annotated[
    Path, typer.Option("--cluster", help="The file of the cluster.", metavar="FILE", dir_okay=False)
]
Foreground = Annotated[
    bool, typer.Option("--foreground", help="Wait, instead of going on in a process of its own.")
]
DEFAULT = Path("cluster.yaml")


def init(
    app: App,
    file: Annotated[
        Path, typer.Argument(help="The file of the cluster.", metavar="FILE", dir_okay=False)
    ] = DEFAULT,
    force: Annotated[bool, typer.Option("--force", help="Replace files that were edited, too.")] = False,
) -> None:
    """Write the files that slurmctld needs, into the folder slurm beside the file of the cluster.

    Call it as SlurmUser, on the machine of slurmctld; again after each change of the cluster. One file has
    the nodes, the partitions and all settings, for slurm.conf to include; the programs are what slurmctld
    starts. Nothing is changed outside of the folder.

    Examples:
        gpucloud slurm init
        gpucloud slurm init cluster.yaml --force
    """
    slurm = app.client.engines.slurm(file)
    written = slurm.init(force=force)
    if app.output.json:
        document: SlurmInitDocument = {
            "folder": str(slurm.folder),
            "files": [{"path": str(each.path), "state": each.state} for each in written],
        }
        app.output.document("slurm-init", document)
    else:
        for each in written:
            app.output.line(f"{each.state:8}{each.path}")
    _say_next(app, slurm, written)


def _say_next(app: App, slurm: Slurm, written: Sequence[WrittenFile]) -> None:
    """What is to be done with the files."""
    folder, names = slurm.folder, [each.path.name for each in written]
    timer = next(name for name in names if name.endswith(".timer"))
    app.output.say(f"Add to slurm.conf: Include {folder}/gpucloud.conf")
    app.output.say(f"Add to gres.conf: Include {folder}/gres.conf")
    app.output.say(f"Copy beside slurm.conf: {folder}/job_submit.lua")
    if "hosts" in names:
        app.output.say(f"Add to /etc/hosts: cat {folder}/hosts >>/etc/hosts")
    app.output.say(f"Add what your clouds need to {folder}/environment; then restart slurmctld.")
    app.output.say(
        f"Start {folder}/sync each minute: cp {folder}/{timer.removesuffix('timer')}* /etc/systemd/system && "
        f"systemctl enable --now {timer}; or by the line of {folder}/crontab"
    )


def resume(app: App, nodes: Hostlist, cluster: File = DEFAULT, foreground: Foreground = False) -> int:
    """Launch nodes: slurmctld's ResumeProgram. Returns at once; the boxes of a job come together.

    A node that cannot be had is told to slurmctld with the reason: its job is queued again.

    Examples:
        gpucloud slurm resume 'lab-t4-[1-2]'
        gpucloud slurm resume lab-t4-1 --foreground
    """
    _unblock_signals()
    if foreground:
        with app.working() as (client, _):
            return _answer(app, client.engines.slurm(cluster).launch(nodes))
    slurm = app.client.engines.slurm(cluster)
    wanted = slurm.resume(nodes)
    slurm.detach("resume", nodes)
    _answer_nodes(app, wanted)
    return 0


def suspend(app: App, nodes: Hostlist, cluster: File = DEFAULT, foreground: Foreground = False) -> int:
    """End nodes: slurmctld's SuspendProgram. Returns at once.

    With --foreground, returns when nothing is billed for the nodes any more.

    Examples:
        gpucloud slurm suspend 'lab-t4-[1-2]'
        gpucloud slurm suspend lab-t4-1 --foreground
    """
    _unblock_signals()
    if foreground:
        with app.working() as (client, _):
            done = client.engines.slurm(cluster).suspend(nodes)
            _answer_nodes(app, done.slots)
            return _code(app, done.troubles)
    app.client.engines.slurm(cluster).detach("suspend", nodes)
    _answer_nodes(app, ())
    return 0


def fail(app: App, nodes: Hostlist, cluster: File = DEFAULT, foreground: Foreground = False) -> int:
    """End nodes that never registered: slurmctld's ResumeFailProgram. They are idle again afterwards.

    Examples:
        gpucloud slurm fail lab-t4-1
        gpucloud slurm fail lab-t4-1 --cluster lab/cluster.yaml
    """
    _unblock_signals()
    if foreground:
        with app.working() as (client, _):
            return _answer(app, client.engines.slurm(cluster).fail(nodes))
    app.client.engines.slurm(cluster).detach("fail", nodes)
    _answer_nodes(app, ())
    return 0


def sync(app: App, cluster: File = DEFAULT) -> int:
    """Look after all nodes once: call it each minute.

    Compares what slurmctld wants with the journal and the clouds. Renews the leases of wanted nodes, and of
    no others; launches what is missing; ends what nobody wants; tells slurmctld which nodes are gone, and
    which classes cannot be had now; makes nodes idle again that were left down; moves weights and features
    with the prices. Each job's AdminComment names its machines with their prices.

    Examples:
        gpucloud slurm sync
        gpucloud slurm sync --cluster lab/cluster.yaml --json
    """
    _unblock_signals()
    with app.working() as (client, _):
        return _answer(app, client.engines.slurm(cluster).sync())


COMMANDS = {"init": init, "resume": resume, "suspend": suspend, "fail": fail, "sync": sync}


def _unblock_signals() -> None:
    """slurmctld starts its programs with most signals blocked, and they would hand that on."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _answer(app: App, synced: Synced) -> int:
    """Writes what was done about nodes and told to slurmctld."""
    told = [(",".join(each.what), " ".join(each.settings)) for each in synced.told]
    if app.output.json:
        document: SlurmSyncDocument = {
            "nodes": [_node(slot) for slot in synced.done.slots],
            "told": [{"what": what, "settings": settings} for what, settings in told],
            "troubles": [
                {"message": each.message, "hint": each.hint, "owed_command": each.owed_command}
                for each in synced.troubles
            ],
        }
        app.output.document("slurm-sync", document)
    else:
        _show(app, synced.done.slots)
    for what, settings in told:
        app.output.say(f"slurmctld was told: {what} {settings}")
    return _code(app, synced.troubles)


def _answer_nodes(app: App, slots: Sequence[Slot]) -> None:
    if app.output.json:
        document: SlurmNodesDocument = {"nodes": [_node(slot) for slot in slots]}
        app.output.document("slurm-nodes", document)
    else:
        _show(app, slots)


def _show(app: App, slots: Sequence[Slot]) -> None:
    for slot in slots:
        app.output.line(" ".join(filter(None, (slot.name, str(slot.state), slot.cloud, slot.instance_type))))


def _node(slot: Slot) -> SlurmNodeDocument:
    return {
        "name": slot.name,
        "state": str(slot.state),
        "gang": list(slot.gang),
        "reason": slot.reason,
        "cloud": slot.cloud,
        "zone": slot.zone,
        "instance_type": slot.instance_type,
        "purchase": slot.purchase,
        "price": slot.price.document() if slot.price else None,
    }


def _code(app: App, troubles: Sequence[GpucloudError]) -> int:
    """Says what could not be done; the code of what is owed, else of the first."""
    for trouble in troubles:
        app.output.say(f"{trouble.message}{f' ({trouble.hint})' if trouble.hint else ''}")
    if troubles:
        app.output.say(f"{counted(len(troubles), 'thing')} could not be done; the next look goes on with it.")
    codes = [trouble.exit_code for trouble in troubles]
    return (
        CleanupIncompleteError.exit_code
        if CleanupIncompleteError.exit_code in codes
        else next(iter(codes), 0)
    )
