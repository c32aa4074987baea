"""What somebody does to a machine in its cloud's console, behind our back: through the vendor's SDK."""

from __future__ import annotations

from typing import Any

from tests.sandbox.alibaba_lab import Alibaba
from tests.sandbox.azure_lab import Azure
from tests.sandbox.running import HollowBoxes
from tests.shell import Shell

LARGER = {"aws": "g4dn.16xlarge", "azure": "Standard_NC64as_T4_v3", "alibaba": "ecs.gn6i-c24g1.12xlarge"}
"""A type of the same family for a T4 box, several times as dear."""


class Console:
    """The console of the cloud of one box."""

    def __init__(self, shell: Shell, name: str) -> None:
        box: Any = shell("show", name, "--json").box
        self._cloud, self._region, self._id = box["cloud"], box["region"], box["nodes"][0]["instance_id"]
        self._shell = shell

    def start(self) -> None:
        """Starts the machine."""
        match self._cloud:
            case "aws":
                self._shell.ec2(self._region).start_instances(InstanceIds=[self._id])
            case "azure":
                self._azure.begin_start(*self._azure_name).result()
            case _:
                self._alibaba("StartInstance")

    def stop(self) -> None:
        """Stops the machine, so that its compute is not billed."""
        match self._cloud:
            case "aws":
                self._shell.ec2(self._region).stop_instances(InstanceIds=[self._id])
            case "azure":
                self._azure.begin_deallocate(*self._azure_name).result()
            case _:
                self._alibaba("StopInstance", StoppedMode="StopCharging")

    def resize(self, instance_type: str) -> None:
        """Gives the stopped machine another type."""
        match self._cloud:
            case "aws":
                self._shell.ec2(self._region).modify_instance_attribute(
                    InstanceId=self._id, InstanceType={"Value": instance_type}
                )
            case "azure":
                size = {"hardwareProfile": {"vmSize": instance_type}}
                self._azure.begin_update(*self._azure_name, {"properties": size}).result()
            case _:
                self._alibaba("ModifyInstanceSpec", InstanceType=instance_type)

    def detach(self, disk: str) -> None:
        """Takes a data disk from the stopped machine."""
        match self._cloud:
            case "aws":
                self._shell.ec2(self._region).detach_volume(VolumeId=disk)
            case "azure":
                none: dict[str, Any] = {"storageProfile": {"dataDisks": []}}
                self._azure.begin_update(*self._azure_name, {"properties": none}).result()
            case _:
                self._alibaba("DetachDisk", DiskId=disk)

    def delete(self, disk: str) -> None:
        """Deletes a data disk that no machine has."""
        match self._cloud:
            case "aws":
                self._shell.ec2(self._region).delete_volume(VolumeId=disk)
            case "azure":
                disks = Azure(self._shell.endpoint, HollowBoxes()).compute.disks
                disks.begin_delete(disk.split("/")[4], disk.rpartition("/")[2]).result()
            case _:
                Alibaba(self._shell.endpoint, HollowBoxes()).ask("DeleteDisk", DiskId=disk)

    @property
    def _azure(self) -> Any:
        return Azure(self._shell.endpoint, HollowBoxes()).compute.virtual_machines

    @property
    def _azure_name(self) -> tuple[str, str]:
        return self._id.split("/")[4], self._id.rpartition("/")[2]

    def _alibaba(self, action: str, **more: Any) -> None:
        lab = Alibaba(self._shell.endpoint, HollowBoxes())
        lab.ask(action, RegionId=self._region, InstanceId=self._id, **more)
