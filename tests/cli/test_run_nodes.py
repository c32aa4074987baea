"""``run --nodes``: a command on all nodes of a box at the same time."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.test_tend import the_run
from tests.ports import free_port
from tests.processes import command_lines
from tests.shell import Shell
from tests.waiting import until

PAIR = ("run", "--gpu", "T4:4", "--cloud", "aws", "--nodes", "2")
MEET = """
import os, socket, sys, time
rank, there = int(os.environ["NODE_RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
print(rank, os.environ["NNODES"], os.environ["GPUS_PER_NODE"], os.environ["GPUCLOUD_RESTARTS"], flush=True)
if rank == 0:
    with socket.create_server(there) as server:
        met, _ = server.accept()
    print("heard", met.recv(100).decode(), flush=True)
else:
    met = socket.socket()
    while met.connect_ex(there):
        met.close(); time.sleep(0.05); met = socket.socket()
    met.sendall(b"rank 1")
"""
"""Stands for torchrun: the first node listens where all are told that it does, and the other one finds it."""
SSH = "ssh -o BatchMode=yes"
STAY = """
if os.environ["GPUCLOUD_RESTARTS"] == "0":
    met.settimeout(120)
    met.recv(1)  # until the other node is gone
    sys.exit(1)
"""


def meeting(cli: Shell, script: str) -> Sequence[str]:
    """Options that bring the script to the nodes, with a port that nobody else here has."""
    (cli.home / "src").mkdir()
    (cli.home / "src" / "meet.py").write_text(script)
    return ("--sync", "src/", "--env", f"MASTER_PORT={free_port()}")


def test_the_nodes_of_a_run_meet_and_each_line_has_its_node(cli: Shell) -> None:
    """Files go to all nodes, and come from the first."""
    line = meeting(cli, MEET)
    ran = cli(*PAIR, *line, "--fetch", "rank", "--", "sh", "-c", "echo $NODE_RANK >rank; python3 meet.py")
    assert ran.code == 0, ran.err
    assert sorted(ran.out.splitlines()) == ["[0] 0 2 4 0", "[0] heard rank 1", "[1] 1 2 4 0"]
    assert (cli.home / "rank").read_text() == "0\n"
    assert cli.sandbox.status()["billing"] == []


@pytest.mark.parametrize("cloud", ["aws", "azure", "alibaba"])
def test_the_nodes_log_in_to_each_other_and_nobody_else_does_with_their_keys(cli: Shell, cloud: str) -> None:
    """A program on the first node starts others there, as mpirun does; back, and by name, too."""
    box = cli.launch("--gpu", "T4" if cloud != "alibaba" else "V100", "--cloud", cloud, "--nodes", "2")
    for node in ("0", "1"):
        assert cli("exec", box["name"], "--node", node, "--", "sh", "-c", f"echo {node} >rank").code == 0
    there = f"{SSH} {box['nodes'][1]['private_ip']} 'cat rank; {SSH} node0 cat rank'"
    met = cli("exec", box["name"], "--node", "0", "--", "sh", "-c", there)
    assert met.out == "1\n0\n", met.err
    key = next((cli.endpoint.folder / "boxes").glob("*/root/home/*/.ssh/gpucloud_nodes"))
    ways = cli("ssh-config").out.splitlines(keepends=True)
    hosts = cli.home / "hosts"
    hosts.write_text("".join(line for line in ways if "IdentityFile" not in line))
    elsewhere = ("/usr/bin/env", "ssh", "-F", str(hosts), "-i", str(key), "-o", "IdentitiesOnly=yes")
    refused = cli.run(*elsewhere, "-o", "IdentityAgent=none", f"node1.{box['name']}.gpucloud", "true")
    assert refused.code == 255
    assert "Permission denied" in refused.err


def test_the_first_failure_is_that_of_the_run_and_ends_the_others(cli: Shell) -> None:
    script = "trap 'echo asked; exit 9' TERM; [ $NODE_RANK = 0 ] || exit 5; sleep 600 & wait"
    ran = cli(*PAIR, "--", "bash", "-c", script)
    assert (ran.code, ran.out) == (5, "[0] asked\n"), ran.err
    assert "failed on node 1 with exit code 5" in ran.err
    assert cli.sandbox.status()["billing"] == []


def test_a_signal_ends_all(cli: Shell) -> None:
    process = cli.start(*PAIR, "--", "sh", "-c", "echo begun; sleep 600")
    assert process.stdout is not None
    assert {process.stdout.readline() for _ in range(2)} == {"[0] begun\n", "[1] begun\n"}
    process.send_signal(signal.SIGINT)
    assert cli.finish(process).code == 130
    assert cli.sandbox.status()["billing"] == []


def test_the_first_node_alone_is_one_node_and_its_output_is_unchanged(cli: Shell) -> None:
    ran = cli(*PAIR, "--first-node-only", "--", "sh", "-c", "echo $NNODES; printf end; exit 4")
    assert (ran.code, ran.out) == (4, "1\nend"), ran.err


def test_a_node_that_is_taken_back_is_the_loss_of_the_run_not_a_failure_of_its_peer(cli: Shell) -> None:
    """The command on the first node fails, as its peer is gone, and is begun anew on two new nodes.

    The connection to the lost node is not noticed to be broken: that takes a minute where a machine vanishes.
    """
    line = meeting(cli, MEET + STAY)
    process = cli.start(*PAIR, *line, "--spot", "--restarts", "1", "--", "python3", "meet.py")
    assert process.stdout is not None
    begun = [process.stdout.readline() for _ in range(3)]
    assert "[0] heard rank 1\n" in begun
    for pid in followers(cli, node=1):
        os.kill(pid, signal.SIGSTOP)
    cli.sandbox.interrupt(second_node(cli), notice_s=0)
    out, err = process.communicate(timeout=240)
    assert process.wait() == 0, err
    assert "failed on node 0 with exit code 1" in err
    assert "node 1 of box" in err
    assert sorted(out.splitlines()) == ["[0] 0 2 4 1", "[0] heard rank 1", "[1] 1 2 4 1"]
    assert len(cli.boxes("--all")) == 2
    assert cli.sandbox.status()["billing"] == []


def followers(cli: Shell, node: int) -> list[int]:
    """The ssh processes that bring the output of a node of the only box."""
    [box] = cli.boxes()
    name = f"{box['id']}.{node}\0".encode()
    found = [pid for pid, line in command_lines().items() if name in line and b"tail" in line]
    assert len(found) == 2, "one for each stream"
    return found


def second_node(cli: Shell) -> str:
    """The machine of node 1 of the only box."""
    [box] = cli.boxes()
    return str(box["nodes"][1]["instance_id"])


@pytest.fixture
def done(cli: Shell) -> Path:
    """Where nodes of a detached run find that they are to end."""
    return cli.home / "done"


def test_a_detached_run_is_on_all_nodes_lost_with_one_and_ended_by_the_first_failure(
    cli: Shell, done: Path
) -> None:
    script = (
        'echo rank $NODE_RANK; [ $NODE_RANK = 0 ] || while :; do [ -e "$1" ] && exit 3; sleep 0.1; done; '
    )
    line = ("--spot", "--restarts", "1", "--run-id", "r", "--detach", "--")
    begun = cli(*PAIR, *line, "sh", "-c", f"{script} sleep 600", "sh", str(done))
    assert begun.code == 0, begun.err
    assert cli("runs", "logs", "r", "--node", "1").out == "rank 1\n"
    cli.sandbox.interrupt(second_node(cli), notice_s=0)
    until(lambda: cli("tend").code == 0 and len(the_run(cli)["attempts"]) == 2, "the second attempt")
    [lost, _] = the_run(cli)["attempts"]
    assert (lost["loss"], "node 1 of box" in lost["message"]) == ("interruption", True)
    done.touch()
    until(lambda: cli("tend").code == 0 and the_run(cli)["state"] == "ended", "the command to end")
    assert the_run(cli)["exit_code"] == 3
    assert cli.sandbox.status()["billing"] == []


def test_ctrl_c_ends_the_command_on_every_node_though_the_cloud_is_slow_to_end_the_box(cli: Shell) -> None:
    hung = cli.home / "hung"
    script = f"trap 'echo $NODE_RANK >>{hung}; exit' HUP; echo begun; sleep 600 & wait"
    process = cli.start(*PAIR, "--", "bash", "-c", script)
    assert process.stdout is not None
    assert all("begun" in process.stdout.readline() for _ in range(2)), "on both nodes"
    cli.sandbox.fault(effect="delay", seconds=10.0, cloud="aws", action="TerminateInstances")
    process.send_signal(signal.SIGINT)
    ended = cli.finish(process)
    assert (ended.code, "ending the command" in ended.err) == (130, True), ended.err
    assert sorted(hung.read_text().split()) == ["0", "1"]
    assert cli.sandbox.status()["billing"] == []
