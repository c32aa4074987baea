"""What Slurm says is read as it is printed, by the versions that print it."""

from __future__ import annotations

import pytest

from gpucloud import GpucloudError
from gpucloud.elastic.slurm.states import (
    SlurmJob,
    SlurmNode,
    expand,
    gangs,
    jobs_nodes,
    read_jobs,
    read_nodes,
    version,
)

UP = (
    "NodeName=lab-t4-1 Arch=x86_64 CoresPerSocket=1 CPUAlloc=0 CPUTot=4 AvailableFeatures=t4,spot "
    "ActiveFeatures=t4,spot Gres=gpu:t4:1 NodeAddr=127.0.0.1 NodeHostName=vm Port=27011 Version=22.05.8 "
    "OS=Linux 6.1 #1 SMP @0  RealMemory=14000 State=IDLE+CLOUD+DRAIN+INVALID_REG ThreadsPerCore=1 Weight=526 "
    "Owner=N/A Partitions=t4,gpu  BootTime=2026-11-26T04:23:37 ExtSensorsTemp=n/s "
    "Reason=gres/gpu count reported lower than configured (0 < 1) [root@2026-11-26T04:23:37] "
    "Comment=aws use1-az1 g4dn.xlarge spot 0.158 USD/h"
)
DOWN = "NodeName=lab-t4-2 State=IDLE+CLOUD+POWERED_DOWN Weight=1 BootTime=None"


def test_nodes_are_read_with_states_reason_and_note() -> None:
    assert read_nodes(f"{UP}\n{DOWN}\n") == [
        SlurmNode(
            name="lab-t4-1",
            states=frozenset({"IDLE", "CLOUD", "DRAIN", "INVALID_REG"}),
            reason="gres/gpu count reported lower than configured (0 < 1)",
            weight=526,
            features="t4,spot",
            note="aws use1-az1 g4dn.xlarge spot 0.158 USD/h",
        ),
        SlurmNode(name="lab-t4-2", states=frozenset({"IDLE", "CLOUD", "POWERED_DOWN"})),
    ]


@pytest.mark.parametrize(
    ("states", "wanted", "registered"),
    [
        ("IDLE+CLOUD+POWERED_DOWN", False, False),
        ("IDLE+CLOUD+POWERING_DOWN", False, False),
        ("DOWN+CLOUD+POWER_DOWN+NOT_RESPONDING", False, False),
        ("MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", True, False),
        ("ALLOCATED*+CLOUD", True, True),
        ("DOWN*+CLOUD", True, True),
    ],
)
def test_a_node_is_wanted_until_slurm_has_powered_it_down(
    states: str, wanted: bool, registered: bool
) -> None:
    [node] = read_nodes(f"NodeName=lab-t4-1 State={states} Weight=1")
    assert (node.is_wanted, node.is_registered) == (wanted, registered)


def test_the_file_of_slurm_22_and_that_of_later_ones_say_which_job_starts_which_nodes() -> None:
    old = '{"jobs":[{"job_id":1,"nodes":"lab-t4-[1-2]"},{"job_id":2,"nodes":"lab-m-1"}],"all_nodes":"…"}'
    new = '{"jobs":[{"job_id":1,"nodes_alloc":"lab-t4-[1-3]","nodes_resume":"lab-t4-[1-2]"}]}'
    assert jobs_nodes(old) == ["lab-t4-[1-2]", "lab-m-1"]
    assert jobs_nodes(new) == ["lab-t4-[1-2]"]
    with pytest.raises(GpucloudError, match="another format"):
        jobs_nodes("[]")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("lab-t4-1", ["lab-t4-1"]),
        ("lab-t4-[1-3,7],lab-m-2", ["lab-t4-1", "lab-t4-2", "lab-t4-3", "lab-t4-7", "lab-m-2"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("", []),
    ],
)
def test_a_host_list_is_expanded_as_scontrol_does(text: str, names: list[str]) -> None:
    assert expand(text) == names


def test_the_nodes_of_a_job_are_one_gang_for_each_class_and_each_node_is_in_one() -> None:
    def class_of(name: str) -> str:
        return name.split("-", maxsplit=1)[0]

    jobs = [["a-1", "a-2", "b-1", "a-9"], ["a-2"]]
    assert gangs(["a-1", "a-2", "a-3", "b-1"], jobs, class_of) == [("a-1", "a-2"), ("b-1",), ("a-3",)]


def test_jobs_are_read_with_what_accounting_has_of_them() -> None:
    text = "1|R|lab-t4-[1-2]|(null)\n2|PD||(null)\n3|CF|lab-t4-3|aws g4dn.xlarge\n"
    assert read_jobs(text) == [
        SlurmJob(id="1", state="R", nodes="lab-t4-[1-2]"),
        SlurmJob(id="3", state="CF", nodes="lab-t4-3", note="aws g4dn.xlarge"),
    ]


def test_a_version_is_read() -> None:
    assert version("slurm-wlm 22.05.8\n") == (22, 5)
    assert version("slurm 23.11.4") == (23, 11)
