"""The nodes of a box for other programs: what those read, and that they reach the nodes with it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from gpucloud import Client, UsageError
from gpucloud_sandbox.client import Endpoint
from tests.cli.test_ssh_config import found
from tests.forked import ForkServer
from tests.shell import Shell, newcomer


@pytest.fixture(scope="module")
def pair(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory, forks: ForkServer) -> Iterator[Shell]:
    """A shell whose user has a box ``pair`` of two nodes with four GPUs each."""
    with newcomer(endpoint, tmp_path_factory.mktemp("user with a space"), forks) as shell:
        shell.launch("--gpu", "T4:4", "--name", "pair", "--nodes", "2")
        yield shell


def printed(shell: Shell, form: str) -> str:
    done = shell("hosts", "pair", "--format", form)
    assert done.code == 0, done.err
    return done.out


def nodes_of(shell: Shell) -> Any:
    return shell("show", "pair", "--json").box["nodes"]


def test_mpirun_gets_private_addresses_and_gpus_as_slots(pair: Shell) -> None:
    addresses = [node["private_ip"] for node in nodes_of(pair)]
    assert printed(pair, "hostfile").splitlines() == [f"{address} slots=4" for address in addresses]
    assert pair("hosts", "pair").out == printed(pair, "hostfile")


def test_torchrun_gets_a_command_line_for_each_node(pair: Shell) -> None:
    first = nodes_of(pair)[0]["private_ip"]
    assert printed(pair, "torchrun").splitlines() == [
        f"torchrun --nnodes=2 --node-rank={rank} --nproc-per-node=4 --master-addr={first} --master-port=29500"
        for rank in (0, 1)
    ]


def test_ssh_reaches_each_node_by_the_printed_configuration(pair: Shell) -> None:
    config = pair.home / "hosts"
    config.write_text(printed(pair, "ssh-config"))
    read = pair.run(found("ssh"), "-F", config, "-G", "node1.pair.gpucloud").out.splitlines()
    assert f"hostname {nodes_of(pair)[1]['public_ip']}" in read
    assert "stricthostkeychecking true" in read
    for node, host in enumerate(("pair", "node1.pair.gpucloud")):
        told = pair.run(found("ssh"), "-F", config, host, "cat /var/lib/gpucloud/peers.json")
        assert told.json["rank"] == node


def test_ssh_as_ansible_starts_it_reaches_each_node_and_no_other_machine(pair: Shell) -> None:
    """Ansible's plug-in ssh: the common arguments split as a shell does, then port, key and user."""
    hosts = yaml.safe_load(printed(pair, "ansible"))["gpucloud"]["hosts"]
    assert list(hosts) == ["pair.gpucloud", "node1.pair.gpucloud"]
    lines: list[list[str]] = []
    for node, known in enumerate(hosts.values()):
        assert (known["gpucloud_node"], known["gpucloud_gpus"]) == (node, 4)
        assert known["gpucloud_private_ip"] == nodes_of(pair)[node]["private_ip"]
        key = f'IdentityFile="{known["ansible_ssh_private_key_file"]}"'
        line = ["-F", "/dev/null", *shlex.split(known["ansible_ssh_common_args"]), "-o", key]
        lines.append([*line, "-p", str(known["ansible_port"]), "-l", known["ansible_user"]])
        told = pair.run(found("ssh"), *lines[-1], known["ansible_host"], "cat /var/lib/gpucloud/peers.json")
        assert told.json["rank"] == node, told.err
    other = pair.run(found("ssh"), *lines[0], hosts["node1.pair.gpucloud"]["ansible_host"], "true")
    assert (other.code, "Host key verification failed" in other.err) == (255, True)


def test_skypilot_and_dstack_get_addresses_user_and_key(pair: Shell) -> None:
    nodes = nodes_of(pair)
    [key] = (pair.home / "state-sandbox" / "keys").rglob("id_ed25519")
    assert yaml.safe_load(printed(pair, "sky")) == {
        "pair": {
            "hosts": [
                {"ip": node["public_ip"], "user": "gpucloud", "identity_file": str(key)} for node in nodes
            ]
        }
    }
    assert yaml.safe_load(printed(pair, "dstack")) == {
        "type": "fleet",
        "name": "pair",
        "placement": "cluster",
        "ssh_config": {
            "user": "gpucloud",
            "identity_file": str(key),
            "hosts": [
                {"hostname": node["public_ip"], "port": 22, "internal_ip": node["private_ip"]}
                for node in nodes
            ],
        },
    }


def test_the_document_says_all_and_no_cloud_is_asked(pair: Shell) -> None:
    pair.sandbox.calls(clear=True)
    document = pair("hosts", "pair", "--json").json
    assert pair.sandbox.calls() == []
    assert (document["schema"], document["box"], document["missing"]) == ("gpucloud.hosts/v1", "pair", [])
    assert document == pair("hosts", "pair", "--format", "json").json
    for node, (said, known) in enumerate(zip(document["nodes"], nodes_of(pair), strict=True)):
        assert (said["node"], said["gpus"]) == (node, 4)
        assert (said["address"], said["private_ip"]) == (known["public_ip"], known["private_ip"])
        assert said["host_keys"][0].startswith("ssh-ed25519 ")


def test_programs_ask_for_the_same_texts(pair: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCLOUD_HOME", str(pair.home))
    with Client.sandbox() as client:
        box = client.get("pair")
        assert box.hosts_text("torchrun") == printed(pair, "torchrun")
        assert [member.gpus for member in box.hosts().nodes] == [4, 4]
        with pytest.raises(UsageError, match="unknown format 'slurm'"):
            box.hosts_text("slurm")


def test_a_box_that_cannot_be_reached_from_here_is_refused(pair: Shell) -> None:
    keys = pair.home / "state-sandbox" / "keys"
    moved = keys.rename(keys.with_name("elsewhere"))
    refused = pair("hosts", "pair")
    moved.rename(keys)
    assert (refused.code, "keys are elsewhere" in refused.err) == (2, True)
    [_, known] = sorted(keys.rglob("known_hosts-*"))
    pinned = known.read_text()
    known.unlink()
    rest = pair("hosts", "pair")
    known.write_text(pinned)
    assert rest.out.splitlines() == printed(pair, "hostfile").splitlines()[:1]
    assert "Node 1 of pair is left out" in rest.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("nobody",), "no box named 'nobody'"),
        (("pair", "--format", "slurm"), "slurm"),
        (("pair", "--format", "ansible", "--json"), "leave --format ansible out"),
    ],
)
def test_what_cannot_be_printed_is_refused(pair: Shell, line: tuple[str, ...], said: str) -> None:
    refused = pair("hosts", *line)
    assert (refused.code, said in refused.err + refused.out) == (2, True)
