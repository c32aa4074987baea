"""``gpucloud ray init``: the configuration of Ray's autoscaler, from the classes of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.shell import Run, run

__all__ = ["run"]

CLUSTER = """
cluster: lab
classes:
  t4: {gpu: "T4:1", clouds: aws, max: 3, ports: [7001, 7002, 7003, 7004, 7005, 7006, 7007]}
  a100: {gpu: "A100:8,T4:4", max: 2}
idle: 90s
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A cluster of two classes."""
    written = tmp_path / "cluster.yaml"
    written.write_text(CLUSTER)
    return written


def test_each_class_is_a_node_type_with_the_least_that_its_offers_have(run: Run, file: Path) -> None:
    code, out, err = run("ray", "init", str(file), "--head", "10.0.0.5")
    assert (code, "10.0.0.5 --port=6379" in err) == (0, True)
    assert "Nodes of a100 name no ports" in err
    config: dict[str, Any] = yaml.safe_load(out)
    types = config["available_node_types"]
    assert (config["cluster_name"], config["max_workers"], config["idle_timeout_minutes"]) == ("lab", 5, 1.5)
    assert {name: each["max_workers"] for name, each in types.items()} == {
        config["head_node_type"]: 0,
        "t4": 3,
        "a100": 2,
    }
    assert types["t4"]["resources"].items() >= {"CPU": 4, "GPU": 1, "accelerator_type:T4": 1}.items()
    assert types["a100"]["resources"]["GPU"] == 4
    assert not any("accelerator" in name for name in types["a100"]["resources"]), "it may be either"
    assert config["provider"]["cluster_file"] == str(file)
    assert (config["provider"]["head"], config["provider"]["sandbox"]) == ("10.0.0.5:6379", False)


def test_the_document_has_the_configuration_and_the_command_of_the_head(run: Run, file: Path) -> None:
    code, out, _ = run("--sandbox", "ray", "init", str(file), "--head", "10.0.0.5:7000", "--json")
    assert code == 0
    answer = yaml.safe_load(out)
    assert answer["configuration"]["provider"]["sandbox"]
    assert answer["head_command"].endswith(
        "RAY_CLOUD_INSTANCE_ID=lab.head RAY_NODE_TYPE_NAME=ray.head.default"
        " ray start --head --node-ip-address=10.0.0.5 --port=7000 --autoscaling-config=ray.yaml"
    )


@pytest.mark.parametrize(
    ("classes", "code", "said"),
    [
        ("{t4: {gpu: T4, max: 1, ports: [7001]}}", 2, "1 ports are too few"),
        ("{t4: {gpu: T4, max: 1, max_price: 0.01}}", 7, "class t4: "),
        ("{t4: {gpu: T4, maxx: 1}}", 2, "maxx"),
    ],
)
def test_what_no_node_could_be_launched_with_is_refused(
    run: Run, file: Path, classes: str, code: int, said: str
) -> None:
    file.write_text(f"cluster: lab\nclasses: {classes}\n")
    refused, out, err = run("ray", "init", str(file), "--head", "10.0.0.5")
    assert (refused, out, said in err) == (code, "", True), err


def test_a_head_that_others_could_reach_is_refused(run: Run, file: Path) -> None:
    code, out, err = run("ray", "init", str(file), "--head", "8.8.8.8")
    assert (code, out, "8.8.8.8 is a public address" in err) == (2, "", True)
