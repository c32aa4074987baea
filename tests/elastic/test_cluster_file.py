"""cluster.yaml: what is wrong with it is told with file and line, before anything is asked."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from gpucloud import Cluster, NodeClass, Spec, UsageError
from gpucloud.elastic.cluster_file import load_cluster

LAB = """\
cluster: lab
classes:
  t4: {gpu: "T4:1", purchase: [spot, on-demand], max_price: 0.60, max: 16}
  a100:
    gpu: A100-80GB:8
    preset: train
    max: 4
lease: 2h
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "cluster.yaml"
    file.write_text(text)
    return file


def test_a_cluster_is_read_as_it_is_written_in_python(tmp_path: Path) -> None:
    cluster = load_cluster(written(tmp_path, LAB))
    assert cluster == Cluster(
        name="lab",
        classes={
            "t4": NodeClass(spec=Spec(gpu="T4:1", purchase="spot,on-demand", max_price="0.60"), max=16),
            "a100": NodeClass(spec=Spec(gpu="A100-80GB:8", preset="train"), max=4),
        },
        lease=timedelta(hours=2),
        source=str(tmp_path / "cluster.yaml"),
    )
    assert cluster.idle == timedelta(minutes=10)
    assert cluster.slots("a100") == [f"lab-a100-{n}" for n in range(1, 5)]
    assert [cluster.class_of(name) for name in ("lab-t4-16", "lab-a100-1")] == ["t4", "a100"]


def test_the_box_of_a_gang_has_its_nodes_and_lives_for_a_lease(tmp_path: Path) -> None:
    """A preset's idle time would end nodes that work: the guard knows nothing of an engine's work."""
    spec = load_cluster(written(tmp_path, LAB)).spec_of(["lab-a100-2", "lab-a100-4"])
    assert (spec.name, spec.nodes, spec.ttl) == ("lab-a100-2", 2, timedelta(hours=2))
    assert spec.idles_out_after() is None
    assert (spec.gpu, spec.image) == ("A100-80GB:8", "pytorch")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lease: 2h", "leese: 2h", ":8: unknown key 'leese'; did you mean lease?"),
        ("max: 16", "maks: 16", ":3: unknown field 'maks'; did you mean max?"),
        ("cluster: lab\n", "", ":1: cluster is missing"),
        ("cluster: lab", "cluster: [lab]", ":1: an entry must be a mapping of fields"),
        ("cluster: lab", "cluster:", ":1: cluster must be a single value"),
        ("cluster: lab", "cluster: Lab", ":1: 'Lab' is not a name of a cluster"),
        ("  t4:", "  T4:", ":3: T4: 'T4' is not a name of a class"),
        ("classes:\n", "classes: {}\nclassez:\n", ":3: unknown key 'classez'"),
        ("    max: 4\n", "", ":4: a100: max is missing"),
        ("max: 4", "max: all", ":7: max: 'all' is not a whole number"),
        ("max: 4", "max: 1001", ":4: a100: max 1001 is not allowed; allowed: 1 to 1000"),
        ("max: 4", "max: 4\n    ttl: 3h", ":8: ttl is not allowed here: a node lives as long as the lease"),
        ("max: 4", "max: 4\n    name: x", ":8: name is not allowed here"),
        ("max: 4", "max: 4\n    run: make", ":8: run is not allowed here: the engine runs the commands"),
        ("max: 4", "max: 4\n    disk: none", ":8: disk: 'none'"),
        ('gpu: "T4:1", ', "", ":3: t4: gpu is missing"),
        ("gpu: A100-80GB:8", "gpu: A10O:8", ":5: gpu: unknown GPU 'A10O'; did you mean A100?"),
        ("lease: 2h", "lease: none", ":8: lease: 'none' is not allowed"),
        ("lease: 2h", "lease: 5m", ":8: the lease is too short; allowed: 10m or more"),
        ("lease: 2h", "lease: 2h\nidle: soon", ":9: idle: 'soon' is not a duration"),
        ("cluster: lab", f"cluster: {'l' * 35}", "-t4-16', has 41 characters; allowed: 40"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in LAB
    with pytest.raises(UsageError) as refused:
        load_cluster(written(tmp_path, LAB.replace(old, new)))
    assert refused.value.exit_code == 2
    assert message in refused.value.message


def test_a_program_gets_the_same_refusals() -> None:
    with pytest.raises(UsageError, match="t4: nodes is not allowed here: the engine says how many"):
        Cluster(name="lab", classes={"t4": NodeClass(spec=Spec(gpu="T4", nodes=2), max=2)})
    with pytest.raises(UsageError, match="classes are missing"):
        Cluster(name="lab", classes={})
