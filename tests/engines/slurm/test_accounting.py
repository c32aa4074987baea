"""With slurmdbd: fair shares, preemption by QOS on nodes that are up, and what accounting keeps."""

from __future__ import annotations

import getpass
import subprocess
from collections.abc import Iterator
from socket import gethostname

import pytest

from tests.engines.slurm.lab import CLUSTER, Lab, laboratory, lines
from tests.engines.slurm.programs import FOLDER, plugins, unpack
from tests.examples.play import example
from tests.waiting import until

MORE = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge/socket
AccountingStorageEnforce=associations,limits,qos
PreemptType=preempt/qos
PreemptMode=REQUEUE
PriorityType=priority/multifactor
PriorityWeightFairshare=10000
"""
SLURMDBD = """\
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=slurm
StoragePass=slurm
StorageLoc=accounts
PluginDir={plugins}
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
"""


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A cluster with accounting."""
    unpack(accounting=True)
    cluster = CLUSTER.replace("max: 8", "max: 2").replace("idle: 8s", "idle: 40s")  # more than cred_expire
    with laboratory(cluster, MORE, _account) as started:
        yield started


def _account(lab: Lab, port: int, database_port: int) -> None:
    """Starts MariaDB and slurmdbd, and makes the accounts of the example."""
    root, data = FOLDER / "root", lab.folder / "data"
    user = getpass.getuser()
    install = root / "usr/bin/mariadb-install-db"
    options = ["--no-defaults", f"--basedir={root / 'usr'}", f"--datadir={data}", f"--user={user}"]
    libraries = {"LD_LIBRARY_PATH": str(plugins().parent), **lab.variables}
    made = subprocess.run(
        [str(install), *options, "--auth-root-authentication-method=normal", "--skip-test-db"],
        env=libraries,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    statements = lab.folder / "init.sql"
    statements.write_text(
        "CREATE DATABASE accounts;\n"
        "CREATE USER slurm@localhost IDENTIFIED BY 'slurm';\n"
        "GRANT ALL ON accounts.* TO slurm@localhost;\n"
    )
    socket = ["--bind-address=127.0.0.1", f"--port={database_port}", f"--socket={lab.folder}/db"]
    more = [f"--init-file={statements}", f"--pid-file={lab.folder}/db.pid", "--innodb-buffer-pool-size=32M"]
    lab.start("mariadbd", *options, *socket, *more)
    until((lab.folder / "db").exists, "MariaDB")
    file = lab.folder / "slurmdbd.conf"
    values = {"folder": lab.folder, "plugins": plugins(), "user": user, "host": gethostname()}
    file.write_text(SLURMDBD.format(port=port, database_port=database_port, **values))
    file.chmod(0o600)
    lab.start("slurmdbd", "-D")
    until(lambda: lab.answers("sacctmgr", "-n", "show", "qos"), "slurmdbd")
    lab.run("sacctmgr", "-i", "add", "cluster", "lab")
    lab.run(str(example("slurm") / "preemption.sh"), user)


def test_a_job_of_a_higher_qos_requeues_another_which_runs_again_after_it(lab: Lab) -> None:
    """Both need all GPUs that there may be: no node is launched but the first two."""
    node = (
        "--partition=t4",
        "--nodes=2",
        "--gpus-per-node=1",
        "--requeue",
        "--open-mode=append",
        "--account=research",
    )
    low = lab.submit(
        "echo low=${SLURM_RESTART_COUNT:-0}; [ $SLURM_RESTART_COUNT ] || sleep 600", *node, "--qos=low"
    )
    until(lambda: lab.state(low) == "R", "the first job")
    high = lab.submit("echo high", *node, "--qos=high")
    until(lambda: lab.state(high) == "CD", "the job of the higher QOS")
    until(lambda: lab.state(low) == "CD", "the job that was queued again")
    assert len(_launched(lab)) == 2
    assert lines(lab.output(low), "low=") == ["low=0", "low=1"]
    until(lambda: _machines(lab, low) == ["aws use1-az1 g4dn.xlarge on_demand 0.526 USD/h"] * 2, "accounting")
    shares = lab.run("sshare", "-n", "-P", "-o", "Account,RawShares")
    assert {"research|80", "teaching|20"} <= {line.strip() for line in shares.splitlines()}
    lab.settle()


def _machines(lab: Lab, job: str) -> list[str]:
    """What accounting has of the machines of each run of a job; it comes when the run has ended."""
    return lab.run("sacct", "-n", "-X", "-P", "-D", "-j", job, "-o", "AdminComment").splitlines()


def _launched(lab: Lab) -> list[str]:
    """The machines that there ever were."""
    ledger = lab.shell.sandbox.ledger()
    return [each["id"] for each in ledger if each["kind"] == "instance" and each["event"] == "born"]
