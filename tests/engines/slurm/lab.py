"""A cluster: real slurmctld, real slurmd in the boxes of a sandbox, and somebody who submits jobs."""

from __future__ import annotations

import getpass
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

from gpucloud_sandbox.boxes_services import end_processes
from gpucloud_sandbox.client import Endpoint, ensure_started
from tests.engines.slurm.programs import plugins, unpack
from tests.shell import Result, Shell
from tests.waiting import until

CLUSTER = """\
cluster: lab
classes:
  t4: {gpu: "T4:1", clouds: [aws], purchase: on-demand, max_price: 1.00, max: 8}
lease: 1h
idle: 8s
"""
BASE = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
PluginDir={plugins}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
MailProg=/bin/true
Include {home}/slurm/gpucloud.conf
# The same with less patience.
AuthInfo=socket={folder}/munge/socket,cred_expire=20
SlurmctldParameters=idle_on_node_suspend,cloud_dns,power_save_interval=2
SchedulerParameters=salloc_wait_nodes,sbatch_wait_nodes,bf_continue,sched_interval=5
SuspendTimeout=20
KillWait=5
"""


@dataclass
class Lab:
    """The cluster. Whatever it starts ends with it."""

    shell: Shell
    folder: Path
    variables: Mapping[str, str]
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def run(self, *command: str, **variables: str) -> str:
        """What a command of Slurm prints; one that fails fails the test."""
        done = subprocess.run(
            command,
            env={**self.variables, **variables},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr or done.stdout}"
        return done.stdout

    def gpucloud(self, *arguments: str) -> Result:
        """Runs a command of gpucloud as SlurmUser."""
        return self.shell(*arguments, **self.variables)

    def sync(self) -> Result:
        """One look, as the timer makes it."""
        return self.gpucloud("slurm", "sync", "--cluster", str(self.shell.home / "cluster.yaml"))

    def submit(self, script: str, *options: str) -> str:
        """Submits a job and gives its id; its output is :meth:`output`."""
        file = self.folder / f"{secrets.token_hex(4)}.sh"
        file.write_text(f"#!/bin/bash\n{script}\n")
        output = (
            f"--output={self.folder}/out.%A.%a"
            if "--array" in " ".join(options)
            else (f"--output={self.folder}/out.%j")
        )
        return self.run("sbatch", "--parsable", output, *options, str(file)).strip()

    def output(self, job: str) -> str:
        """What a job has written so far."""
        return "".join(file.read_text() for file in sorted(self.folder.glob(f"out.{job}*")))

    def state(self, job: str) -> str:
        """The state of a job: ``PD``, ``CF``, ``R``, ``CD`` …"""
        return self.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%t").strip()

    def nodes(self) -> dict[str, str]:
        """The nodes that are not simply powered down, with their states as ``sinfo`` shows them."""
        rows = [line.split() for line in self.run("sinfo", "-h", "-N", "-o", "%N %t").splitlines()]
        return {name: state for name, state in rows if state != "idle~"}

    def reasons(self) -> str:
        """Why nodes are down or drained."""
        return self.run("sinfo", "-h", "-R", "-o", "%E|%N")

    def settle(self) -> None:
        """Waits until no node is up, and nothing is billed."""
        until(lambda: self.nodes() == {} and self.shell.sandbox.status()["billing"] == [], "an empty cluster")

    # --- daemons

    def start(self, name: str, *options: str) -> None:
        """Starts a daemon, which stays a child of this process."""
        with (self.folder / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                [name, *options], env=dict(self.variables), cwd=self.folder, stdout=out, stderr=out
            )

    def start_controller(self) -> None:
        """Starts slurmctld and waits until it answers."""
        self.start("slurmctld", "-D")
        until(self._is_up, "slurmctld")

    def stop(self, name: str, signum: int = signal.SIGTERM) -> None:
        """Ends a daemon."""
        daemon = self.daemons.pop(name)
        daemon.send_signal(signum)
        daemon.wait(60)

    def end(self) -> None:
        """Ends all daemons."""
        for name in list(self.daemons):
            self.stop(name, signal.SIGKILL)

    def answers(self, *command: str) -> bool:
        """Whether a command succeeds."""
        done = subprocess.run(command, env=dict(self.variables), capture_output=True, check=False)
        return done.returncode == 0

    def _is_up(self) -> bool:
        assert self.daemons["slurmctld"].poll() is None, (self.folder / "slurmctld.out").read_text()
        return self.answers("scontrol", "show", "config")


@contextmanager
def laboratory(
    cluster: str = CLUSTER, more: str = "", before: Callable[[Lab, int, int], None] | None = None
) -> Generator[Lab]:
    """A cluster with nothing in it.

    Args:
        cluster: ``cluster.yaml``.
        more: the end of slurm.conf, with ``{folder}`` and ``{port}``.
        before: is called before slurmctld starts, with that port and another one.
    """
    programs = unpack()
    # Not where the tests are told to have their files: sockets lie in boxes, and their paths must be short.
    folder = Path(mkdtemp(prefix="sl-", dir="/tmp"))
    with ExitStack() as left:
        left.callback(shutil.rmtree, folder, ignore_errors=True)
        home, runtime, work = folder / "h", folder / "r", folder / "w"
        for each in (home, runtime, work, work / "munge", work / "state"):
            each.mkdir(mode=0o700)
        path = f"{programs}:{os.environ['PATH']}"
        with _path(path):  # its boxes have the programs of this machine
            endpoint = ensure_started(home / "sandbox", transition_s=0.0)
        left.callback(_end_sandbox, endpoint)
        key = work / "munge" / "key"
        key.write_bytes(secrets.token_bytes(64))
        key.chmod(0o400)
        variables = {
            "PATH": path,
            "HOME": str(home),
            "GPUCLOUD_HOME": str(home),
            "GPUCLOUD_SANDBOX": "1",
            "GPUCLOUD_MUNGE_KEY": str(key),
            "XDG_RUNTIME_DIR": str(runtime),
            "SLURM_CONF": str(work / "slurm.conf"),
            "SSL_CERT_FILE": os.devnull,
            "LC_ALL": "C.UTF-8",
        }
        lab = Lab(Shell(home, runtime, endpoint), work, variables)
        (home / "cluster.yaml").write_text(cluster)
        assert lab.gpucloud("slurm", "init", str(home / "cluster.yaml")).code == 0
        values = {"host": socket.gethostname(), "port": _free_port(), "user": getpass.getuser()}
        text = BASE.format(folder=work, home=home, plugins=plugins(), **values)
        port = _free_port()
        (work / "slurm.conf").write_text(text + more.format(folder=work, port=port))
        (work / "gres.conf").write_text(f"Include {home}/slurm/gres.conf\n")
        (work / "job_submit.lua").symlink_to(home / "slurm/job_submit.lua")
        left.callback(lab.end)
        files = [f"--{name}-file={work}/munge/{name}" for name in ("key", "pid", "log", "seed")]
        lab.start("munged", "--foreground", "--force", f"--socket={work}/munge/socket", *files)
        until((work / "munge/socket").exists, "munged")
        if before is not None:
            before(lab, port, _free_port())
        lab.start_controller()
        yield lab


@contextmanager
def _path(path: str) -> Generator[None]:
    before = os.environ["PATH"]
    os.environ["PATH"] = path
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _end_sandbox(endpoint: Endpoint) -> None:
    end_processes(f"GPUCLOUD_HOME={endpoint.folder.parent}")  # what programs have left behind
    endpoint.client.stop(force=True)
    os.waitpid(endpoint.pid, 0)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def lines(text: str, pattern: str) -> list[str]:
    """The lines of a text in which a pattern is found, in order of their text."""
    return sorted(line for line in text.splitlines() if re.search(pattern, line))
