"""Changes of instances that go on to exist: stop, start, restart, other attributes, another type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.alibaba import bills, boxes
from gpucloud_sandbox.alibaba.groups import find_group
from gpucloud_sandbox.alibaba.instances import end_dry_run, find_instance, ids_of
from gpucloud_sandbox.alibaba.interfaces import check_count, check_traffic, interfaces_of
from gpucloud_sandbox.alibaba.launch import hardware
from gpucloud_sandbox.alibaba.names import check_names
from gpucloud_sandbox.alibaba.order import read_user_data, release_at
from gpucloud_sandbox.alibaba.prices import price_of
from gpucloud_sandbox.alibaba.region import Region, tags_of
from gpucloud_sandbox.alibaba.stock import alive, free
from gpucloud_sandbox.alibaba.tokens import once
from gpucloud_sandbox.alibaba.wire import AlibabaError, true
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.market import Price

_STOPPED_MODES = ("KeepCharging", "StopCharging")


# --- stopping and starting


def stop_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """StopInstances, and StopInstance. Only ``StopCharging`` ends what the instance itself costs."""
    found = _in_state(region, parameters, "Running")
    mode = parameters.get("StoppedMode", "KeepCharging")
    if mode not in _STOPPED_MODES:
        raise AlibabaError("InvalidStoppedMode", f"The specified StoppedMode {mode} is not valid.")
    end_dry_run(parameters)
    for instance in found:
        _stop(region, instance, mode)
    return _responses(found, "Running", "Stopping")


def start_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """StartInstances, and StartInstance: one whose bill was stopped needs stock again."""
    found = _in_state(region, parameters, "Stopped")
    end_dry_run(parameters)
    for instance in found:
        if instance["StoppedMode"] == "StopCharging":
            _check_stock(region, instance, instance["InstanceType"])
            price = price_of(region, instance["ZoneId"], instance["InstanceType"], instance["_purchase"])
            if price is None:
                raise _out_of_stock()
            _bill(region, instance, price)
        region.put("instance", {**instance, "Status": "Running", "StoppedMode": "Not-applicable"})
        boxes.boot(region, instance)
    return _responses(found, "Stopped", "Starting")


def reboot_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """RebootInstances, and RebootInstance."""
    found = _in_state(region, parameters, "Running")
    end_dry_run(parameters)
    for instance in found:
        boxes.restart(region, instance)
    return _responses(found, "Running", "Starting")


def power_off(region: Region, instance: Document) -> None:
    """The guest switched itself off: the instance is stopped, and billed on."""
    if alive(instance) and instance["Status"] in {"Running", "Pending"}:
        _stop(region, instance, "KeepCharging")


def _in_state(region: Region, parameters: Mapping[str, Any], state: str) -> list[Document]:
    """The instances of a call: all of them are in a state, or none is touched."""
    found = [find_instance(region, id_) for id_ in ids_of(parameters)]
    if any(each["Status"] != state for each in found):
        raise AlibabaError(
            "IncorrectInstanceStatus",
            "The current status of the resource does not support this operation.",
            403,
        )
    return found


def _stop(region: Region, instance: Document, mode: str) -> None:
    """Stops an instance. A type with disks of its host is billed on, and no error tells it.

    Source: ECS user guide, "Economical mode".
    """
    type_ = region.type_of(instance["InstanceType"])
    if type_ is not None and type_.local_ssd_gib:
        mode = "Not-applicable"
    region.put("instance", {**instance, "Status": "Stopped", "StoppedMode": mode})
    boxes.stop(region, instance)
    if mode == "StopCharging":
        bills.end(region, instance["InstanceId"], "stopped charging")


def _check_stock(region: Region, instance: Document, type_name: str) -> None:
    if free(region, instance["ZoneId"], type_name, instance["_purchase"]) == 0:
        raise _out_of_stock()


def _out_of_stock() -> AlibabaError:
    text = "The resource is out of stock in the specified zone."
    return AlibabaError("OperationDenied.NoStock", text, 403)


def _bill(region: Region, instance: Document, price: Price) -> None:
    bills.begin(
        region,
        "instance",
        instance["InstanceId"],
        price,
        tags=tags_of(instance),
        zone=instance["ZoneId"],
        token=instance["_token"],
    )


def _responses(instances: list[Document], before: str, now: str) -> Document:
    """What the calls for several instances answer. Those for one have no such member, and nobody reads it."""
    return {
        "InstanceResponses": {
            "InstanceResponse": [
                {
                    "InstanceId": each["InstanceId"],
                    "PreviousStatus": before,
                    "CurrentStatus": now,
                    "Code": "200",
                    "Message": "success",
                }
                for each in instances
            ]
        }
    }


# --- attributes


def set_release_time(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ModifyInstanceAutoReleaseTime: without a time, no release."""
    instance = find_instance(region, parameters["InstanceId"])
    moment = release_at(region, parameters.get("AutoReleaseTime"))
    region.put("instance", {**instance, "AutoReleaseTime": moment or ""})
    return {}


def modify_attribute(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ModifyInstanceAttribute: names, protection, groups, and the user data of a stopped instance."""
    instance = find_instance(region, parameters["InstanceId"])
    check_names(parameters, "InstanceName", "Description")
    changes: Document = {
        name: parameters[name] for name in ("InstanceName", "Description") if name in parameters
    }
    if "DeletionProtection" in parameters:
        changes["DeletionProtection"] = true(parameters["DeletionProtection"])
    if groups := list[str](parameters.get("SecurityGroupIds") or ()):
        if any(find_group(region, id_)["VpcId"] != instance["VpcAttributes"]["VpcId"] for id_ in groups):
            text = "The security group and the instance are not in one VPC."
            raise AlibabaError("InvalidParameter.Mismatch", text)
        changes["SecurityGroupIds"] = {"SecurityGroupId": groups}
        primary = interfaces_of(region, instance["InstanceId"])[0]
        region.put("nic", {**primary, "SecurityGroupIds": changes["SecurityGroupIds"]})
    if "UserData" in parameters:
        if instance["Status"] != "Stopped":
            text = "The current status of the resource does not support this operation."
            raise AlibabaError("IncorrectInstanceStatus", text, 403)
        changes["_user_data"] = read_user_data(parameters["UserData"])
    region.put("instance", {**instance, **changes})
    return {}


def modify_spec(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ModifyInstanceSpec: another type for a stopped instance that pays as it goes."""
    instance = find_instance(region, parameters["InstanceId"])
    name, zone = parameters.get("InstanceType"), instance["ZoneId"]
    if not name:
        raise AlibabaError("MissingParameter", 'The input parameter "InstanceType" is mandatory.')

    def make() -> Document:
        _in_state(region, parameters, "Stopped")
        type_, price = region.type_of(name), price_of(region, zone, name, instance["_purchase"])
        before = region.type_of(instance["InstanceType"])
        fits = type_ is not None and before is not None and type_.arch == before.arch
        if type_ is None or price is None or not fits or zone not in region.zones_of(name):
            raise AlibabaError(
                "InvalidInstanceType.ValueNotSupported",
                "The specified InstanceType does not exist or beyond the permitted range.",
                403,
            )
        attached = interfaces_of(region, instance["InstanceId"])
        check_count(name, len(attached))
        check_traffic(name, (each["NetworkInterfaceTrafficMode"] for each in attached))
        _check_stock(region, instance, name)
        changed = region.put("instance", {**instance, **hardware(type_)})
        if instance["StoppedMode"] != "StopCharging":
            bills.end(region, instance["InstanceId"], "another type")
            _bill(region, changed, price)
        return {"OrderId": ""}

    return once(region, "ModifyInstanceSpec", parameters, make)
