"""The commands that make a machine a node of a Ray cluster."""

from __future__ import annotations

import json
import shlex

import pytest

from gpucloud import UsageError
from gpucloud.elastic.ray.starting import Head, head_address, start_command, start_script, version_in

HEAD = Head(address="10.0.0.5:6379", version="2.60.0", session="8befc401f2ecc074", token="a-secret")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("10.0.0.5", "10.0.0.5:6379"),
        ("172.16.0.9:7000", "172.16.0.9:7000"),
        ("127.0.0.2:1", "127.0.0.2:1"),
    ],
)
def test_the_address_of_a_head_has_a_port(given: str, read: str) -> None:
    assert head_address(given) == read


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("8.8.8.8", "is a public address"),
        ("head.example", "is not the address"),
        ("10.0.0.5:port", "is not a port"),
        ("10.0.0.5:70000", "is not a port"),
    ],
)
def test_an_address_that_others_reach_or_that_is_none_is_refused(given: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        head_address(given)


def test_a_node_offers_exactly_what_ray_counts_on() -> None:
    resources = {"CPU": 4, "GPU": 1, "memory": 2**30, "accelerator_type:T4": 1, "disk": 0.5}
    command = start_command(HEAD, resources, ())
    assert command[:4] == ["ray", "start", "--block", "--address=10.0.0.5:6379"]
    assert command[4:7] == ["--num-cpus=4", "--num-gpus=1", "--memory=1073741824"]
    option, _, others = command[7].partition("=")
    assert (option, json.loads(others)) == ("--resources", {"accelerator_type:T4": 1, "disk": 0.5})
    assert len(command) == 8


def test_the_ports_of_a_class_are_all_that_its_nodes_listen_on() -> None:
    command = start_command(HEAD, {}, tuple(range(7001, 7010)))
    assert "--node-manager-port=7001" in command
    assert "--object-manager-port=7002" in command
    assert command[-1] == "--worker-port-list=7007,7008,7009"
    with pytest.raises(UsageError, match="6 ports are too few"):
        start_command(HEAD, {}, tuple(range(7001, 7007)))


def test_the_token_is_a_variable_and_no_argument() -> None:
    script = start_script(HEAD, ["ray", "start"], "lab-t4-1.run-1", "t4")
    words = [shlex.split(line) for line in script.splitlines()]
    assert ["export", "RAY_CLOUD_INSTANCE_ID=lab-t4-1.run-1"] in words
    assert ["export", "RAY_AUTH_TOKEN=a-secret"] in words
    assert words[-1] == ["exec", "ray", "start"]
    assert "a-secret" not in repr(HEAD)


@pytest.mark.parametrize(
    ("said", "version"),
    [("ray, version 2.60.0\n", "2.60.0"), ("bash: ray: command not found", None), ("", None)],
)
def test_the_version_of_a_node_is_read_from_its_own_words(said: str, version: str | None) -> None:
    assert version_in(said) == version
