"""The files of ``slurm init``: all of them, the same each time, and never over what somebody has edited."""

from __future__ import annotations

import os
from pathlib import Path

from gpucloud.elastic.slurm.commands import configuration_lines
from gpucloud.elastic.slurm.node import node_configuration
from tests.shell import Shell, cli

__all__ = ["cli"]

CLUSTER = """\
cluster: lab
classes:
  t4: {gpu: "T4:1", purchase: [spot, on-demand], max_price: 0.60, max: 16}
  mig: {gpu: "A100/1g.5gb:7", max: 2}
idle: 10m
"""


def test_files_are_written_once_kept_if_they_are_the_users_and_not_replaced_if_edited(cli: Shell) -> None:
    file = cli.home / "cluster.yaml"
    file.write_text(CLUSTER)
    first = cli("slurm", "init", "--json").json
    assert {each["state"] for each in first["files"]} == {"written"}
    paths = {Path(each["path"]).name: Path(each["path"]) for each in first["files"]}
    assert paths.keys() >= {
        "gpucloud.conf",
        "gres.conf",
        "resume",
        "sync",
        "crontab",
        "job_submit.lua",
        "train.sh",
    }
    assert paths["environment"].stat().st_mode & 0o777 == 0o600
    paths["environment"].write_text(paths["environment"].read_text() + "KEY=secret\n")
    again = cli("slurm", "init", "--json").json
    assert {each["state"] for each in again["files"]} == {"same", "kept"}
    file.write_text(CLUSTER.replace("max: 16", "max: 8"))
    assert "lab-t4-[1-8]" not in paths["gpucloud.conf"].read_text()
    assert cli("slurm", "init").code == 0
    assert "lab-t4-[1-8]" in paths["gpucloud.conf"].read_text()
    assert paths["environment"].read_text().endswith("KEY=secret\n")
    paths["resume"].write_text(paths["resume"].read_text() + "# mine\n")
    refused = cli("slurm", "init", "--json")
    assert (refused.code, str(paths["resume"]) in refused.error["message"]) == (2, True)
    assert cli("slurm", "init", "--force").code == 0
    assert "# mine" not in paths["resume"].read_text()
    assert cli.changes_asked() == [], "nothing is bought"


def test_nodes_have_the_least_of_their_class_and_slices_are_gres(cli: Shell) -> None:
    (cli.home / "cluster.yaml").write_text(CLUSTER)
    assert cli("slurm", "init").code == 0
    [t4, mig] = [
        line for line in configuration_lines(cli.home / "slurm/gpucloud.conf") if line.startswith("NodeName=")
    ]
    assert t4.startswith("NodeName=lab-t4-[1-16] ")
    assert " CPUs=4 RealMemory=14592 Gres=gpu:t4:1 " in t4
    assert " Gres=gpu:1g.5gb:7 " in mig
    assert "/slice[0-6]" in (cli.home / "slurm/gres.conf").read_text()


def test_a_node_has_its_own_paths_and_no_secret_of_the_controller(tmp_path: Path) -> None:
    (tmp_path / "more.conf").write_text("# a comment\nAuthInfo=socket=/here,cred_expire=70\nNodeName=n1\n")
    (tmp_path / "slurm.conf").write_text(
        "ClusterName=lab\nAccountingStoragePass=secret\nSlurmdSpoolDir=/there\nInclude more.conf\n"
    )
    assert node_configuration(configuration_lines(tmp_path / "slurm.conf")).splitlines() == [
        "ClusterName=lab",
        "NodeName=n1",
        "AuthInfo=socket=/run/gpucloud/slurm/munge.socket,cred_expire=70",
        "SlurmdSpoolDir=/var/lib/gpucloud/slurmd",
        "SlurmdPidFile=/run/gpucloud/slurm/slurmd.pid",
        "SlurmdLogFile=/var/log/gpucloud/slurmd.log",
    ]


def test_nothing_is_wanted_where_no_node_could_join(cli: Shell) -> None:
    """A box costs from its first second: what its node needs is looked at before."""
    (cli.home / "cluster.yaml").write_text(CLUSTER)
    scontrol = cli.home / "bin" / "scontrol"
    scontrol.parent.mkdir()
    path = f"{scontrol.parent}:{os.environ['PATH']}"
    elsewhere = cli("slurm", "resume", "lab-t4-1", "--json")
    assert (elsewhere.code, "no scontrol here" in elsewhere.error["message"]) == (2, True)
    scontrol.write_text('#!/bin/sh\necho "$@" >>"${0%/*}/told"\n')
    scontrol.chmod(0o755)
    early = cli("slurm", "resume", "lab-t4-1", "--foreground", "--json", PATH=path)
    assert (early.code, early.error["hint"]) == (2, "write it: gpucloud slurm init")
    assert cli("slurm", "init").code == 0
    for wrong in ("lab-t4-[", "lab-t4-[-1]", "lab-t4-1 lab-t4-2", ""):
        for program in ("resume", "suspend", "fail"):
            refused = cli("slurm", program, wrong, "--json", PATH=path)
            assert (refused.code, "is no list of nodes" in refused.error["message"]) == (2, True), wrong
    assert cli("slurm", "resume", "rack[1-2]node[3-4],else-1", PATH=path).code == 0, "somebody else's"
    assert not (scontrol.parent / "told").exists()
    assert cli("slurm", "resume", "lab-t4-[17-18]", PATH=path).code == 0
    told = (scontrol.parent / "told").read_text().splitlines()
    assert [line.split()[:3] for line in told] == [
        ["update", "nodename=lab-t4-17,lab-t4-18", f"state={state}"] for state in ("down", "power_down")
    ]
    assert "cluster.yaml has no such node" in told[0]
    assert cli("runs", "list", "--active", "--json").json["runs"] == []
    assert cli.changes_asked() == []
