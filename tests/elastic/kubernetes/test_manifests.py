"""``gpucloud k8s manifests``: what it prints is what Kubernetes and the other projects take."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from gpucloud.elastic.cluster_file import load_cluster
from gpucloud.elastic.kubernetes.groups import CLASS_LABEL, CLUSTER_LABEL
from tests.pages import ROOT
from tests.shell import Run, run

__all__ = ["run"]

SCHEMAS = Path(__file__).parent / "schemas"
LAB = """\
cluster: lab
classes:
  t4: {gpu: T4, clouds: aws, max: 16}
  a100: {gpu: "A100-80GB:8", max: 4}
idle: 7m
"""
CORE = {"v1": "core.v1", "rbac.authorization.k8s.io/v1": "rbac.v1"}


def printed(run: Run, tmp_path: Path, *more: str) -> list[dict[str, Any]]:
    """The documents of the command's answer."""
    (tmp_path / "cluster.yaml").write_text(LAB)
    line = ("--image", "registry.lab/gpucloud:0.1.0", "--server", "https://10.0.0.5:6443", *more)
    code, out, err = run("k8s", "manifests", str(tmp_path / "cluster.yaml"), *line)
    assert code == 0, err
    return list(yaml.safe_load_all(out))


def problems(document: dict[str, Any]) -> list[str]:
    """What a schema says against a document: Kubernetes' own, or that of the project that has the kind."""
    version, kind = document["apiVersion"], document["kind"]
    name = CORE.get(version) or version.partition(".")[0].partition("/")[0] + "." + version.rpartition("/")[2]
    core = json.loads((SCHEMAS / "kubernetes.json").read_text())
    own = f"io.k8s.api.{name}.{kind}"
    if own in core["$defs"]:
        schema = {**core, "$ref": f"#/$defs/{own}"}
    else:
        others = json.loads((SCHEMAS / "resources.json").read_text())["$defs"]
        whole = {
            "apiVersion": {"const": version},
            "kind": {"const": kind},
            "metadata": others["metadata"],
            "spec": {"type": "object", **others[f"{version}/{kind}"]},
        }
        schema = {"properties": whole, "required": list(whole), "additionalProperties": False}
    found = jsonschema.Draft202012Validator(schema).iter_errors(document)
    return [f"{kind} {document['metadata']['name']}: {error.json_path}: {error.message}" for error in found]


def of_kind(documents: Sequence[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    """The documents of a kind, by name."""
    return {each["metadata"]["name"]: each for each in documents if each["kind"] == kind}


def test_every_document_is_what_its_schema_says(run: Run, tmp_path: Path) -> None:
    documents = printed(run, tmp_path, "--scale", "inference")
    assert [problem for each in documents for problem in problems(each)] == []
    broken = of_kind(documents, "Deployment")["gpucloud"]
    broken["spec"]["template"]["spec"]["containers"][0]["imagePullPolcy"] = "Always"
    assert problems(broken), "a misspelt field is found"


def test_the_autoscaler_finds_the_server_beside_it_and_no_secret_is_printed(run: Run, tmp_path: Path) -> None:
    documents = printed(run, tmp_path)
    pod = of_kind(documents, "Deployment")["gpucloud"]["spec"]["template"]["spec"]
    autoscaler, server = pod["containers"]
    config = of_kind(documents, "ConfigMap")["gpucloud"]["data"]
    (tmp_path / "again.yaml").write_text(config["cluster.yaml"])
    again, first = load_cluster(tmp_path / "again.yaml"), load_cluster(tmp_path / "cluster.yaml")
    assert (again.name, again.classes, again.idle) == (first.name, first.classes, first.idle)
    cloud = yaml.safe_load(config["cloud-config.yaml"])
    mounts = {each["mountPath"]: each["name"] for each in autoscaler["volumeMounts"]}
    secrets = {each["name"]: each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each}
    certificates = {
        each["spec"]["secretName"]: each["spec"] for each in of_kind(documents, "Certificate").values()
    }
    client = certificates[secrets[mounts[cloud["cert"].rpartition("/")[0]]]]
    assert client["usages"] == ["client auth"]
    words = dict(zip(server["args"], server["args"][1:], strict=False))
    mounts = {each["mountPath"]: each["name"] for each in server["volumeMounts"]}
    own = certificates[secrets[mounts[words["--cert"].rpartition("/")[0]]]]
    assert own["dnsNames"] == [cloud["address"].partition(":")[0]]
    assert cloud["address"].rpartition(":")[2] == "8086", "where serve listens by default"
    assert words["--server"] == "https://10.0.0.5:6443"
    assert of_kind(documents, "Secret") == {}
    assert "--scale-down-unneeded-time=420s" in autoscaler["args"]


def test_no_image_is_latest_and_each_has_a_source(run: Run, tmp_path: Path) -> None:
    text = json.dumps(printed(run, tmp_path))
    found = re.findall(r'"image": "([^"]+)"', text)
    assert len(found) == 4
    assert all(re.fullmatch(r"[a-z0-9./-]+/[a-z0-9-]+:v?\d[\w.-]+", each) for each in found)
    data = (ROOT / "gpucloud/elastic/kubernetes/images.toml").read_text()
    assert data.count("source = ") == data.count("image = ") == 3


def test_each_class_has_a_queue_of_what_its_nodes_have(run: Run, tmp_path: Path) -> None:
    documents = printed(run, tmp_path, "--part", "kueue", "--json")[0]["manifests"]
    flavours, queues = of_kind(documents, "ResourceFlavor"), of_kind(documents, "ClusterQueue")
    assert flavours["lab-t4"]["spec"]["nodeLabels"] == {CLUSTER_LABEL: "lab", CLASS_LABEL: "t4"}
    quotas = {
        name: {each["name"]: int(each["nominalQuota"]) for each in of_queue["resources"]}
        for name, queue in queues.items()
        for of_queue in queue["spec"]["resourceGroups"][0]["flavors"]
    }
    assert (quotas["lab-t4"]["nvidia.com/gpu"], quotas["lab-a100"]["nvidia.com/gpu"]) == (16, 32)
    assert quotas["lab-t4"]["cpu"] == 16 * 4
    assert {each["spec"]["clusterQueue"] for each in of_kind(documents, "LocalQueue").values()} == set(queues)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--image", "gpucloud"), "not pinned"),
        (("--image", "registry.lab:5000/gpucloud"), "not pinned"),
        (("--image", "gpucloud:latest"), "not pinned"),
        (("--part", "karpenter"), "allowed: autoscaler, gpu, kueue, keda, alerts"),
        (("--scale", "a b"), "not the name of a Deployment"),
        (("--join", "kubeadm"), "sha256:HEX"),
    ],
)
def test_what_cannot_be_is_refused(run: Run, tmp_path: Path, words: Sequence[str], said: str) -> None:
    (tmp_path / "cluster.yaml").write_text(LAB)
    line = ("--image", "gpucloud:1", "--server", "https://10.0.0.5:6443", *words)
    code, out, err = run("k8s", "manifests", str(tmp_path / "cluster.yaml"), *line)
    assert (code, out, said in err) == (2, "", True), err
