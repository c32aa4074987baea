"""What an instance's attributes are, and changing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpucloud_sandbox.aws.groups import find_group
from gpucloud_sandbox.aws.instances import find_instances, is_gone, wrong_state
from gpucloud_sandbox.aws.interfaces import group_name
from gpucloud_sandbox.aws.order import encoded_user_data
from gpucloud_sandbox.aws.region import Region
from gpucloud_sandbox.aws.wire import AwsError, part
from gpucloud_sandbox.database import Document


def describe_instance_attribute(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeInstanceAttribute. An attribute without a value is an empty element."""
    (instance,) = find_instances(region, [parameters["InstanceId"]])
    attribute = parameters["Attribute"]
    answer: Document = {"InstanceId": instance["InstanceId"]}
    match attribute:
        case "groupSet":
            answer["Groups"] = instance["SecurityGroups"]
        case "blockDeviceMapping":
            answer["BlockDeviceMappings"] = instance["BlockDeviceMappings"]
        case "productCodes":
            answer["ProductCodes"] = []
        case "enclaveOptions":
            answer["EnclaveOptions"] = instance["EnclaveOptions"]
        case _ if attribute in _VALUES:
            member, field = _VALUES[attribute]
            value = instance.get(field)
            answer[member] = {} if value in {None, ""} else {"Value": value}
        case _:
            text = f"Value ({attribute}) for parameter attribute is invalid. Unknown attribute."
            raise AwsError("InvalidParameterValue", text)
    return answer


def modify_instance_attribute(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ModifyInstanceAttribute: one attribute by its own member, or by ``Attribute`` and ``Value``."""
    (instance,) = find_instances(region, [parameters["InstanceId"]])
    if is_gone(instance):
        raise wrong_state(instance, "modified")
    changes = {
        name: parameters[name] for name in parameters if name not in {"InstanceId", "Attribute", "Value"}
    }
    if attribute := parameters.get("Attribute"):
        if "Value" in parameters:
            changes[_member(attribute)] = {"Value": parameters["Value"]}
        elif attribute != "blockDeviceMapping":
            raise AwsError("MissingParameter", "The request must contain the parameter value")
    if len(changes) != 1:
        text = "Fields for multiple attribute types specified" if changes else "No attributes specified."
        raise AwsError("InvalidParameterCombination", text)
    ((member, change),) = changes.items()
    _change(region, instance, member, change)
    region.put("instance", instance)
    return {}


def _change(region: Region, instance: Document, member: str, change: Any) -> None:
    if member == "Groups":
        _set_groups(region, instance, change)
    elif member == "BlockDeviceMappings":
        _keep_disks(region, instance, change)
    else:
        if member in _STOPPED_ONLY and instance["State"]["Name"] != "stopped":
            text = f"The instance '{instance['InstanceId']}' is not in the 'stopped' state."
            raise AwsError("IncorrectInstanceState", text)
        field = next(field for known, field in _VALUES.values() if known == member)
        if isinstance(instance.get(field), bool):
            change = {"Value": _truth(change.get("Value"))}
        value: Any = change.get("Value")
        match member:
            case "InstanceInitiatedShutdownBehavior" if value not in {"stop", "terminate"}:
                raise _invalid(value, "instanceInitiatedShutdownBehavior")
            case "InstanceType":
                type_ = region.type_of(value)
                if type_ is None or type_.arch != instance["Architecture"]:
                    raise AwsError(
                        "InvalidInstanceAttributeValue", f"Invalid value '{value}' for InstanceType."
                    )
            case "UserData":
                value = encoded_user_data(value)
            case "SourceDestCheck":
                _set_source_dest_check(region, instance, checked=value)
            case _:
                pass
        instance[field] = value


def _set_groups(region: Region, instance: Document, ids: Sequence[str]) -> None:
    groups = [group_name(find_group(region, id_)) for id_ in ids]
    if not groups:
        raise AwsError("InvalidParameterValue", "An instance must have at least one security group")
    instance["SecurityGroups"] = groups
    primary = region.all("interface")[instance["_interfaces"][0]]
    region.put("interface", {**primary, "Groups": groups})


def _set_source_dest_check(region: Region, instance: Document, *, checked: bool) -> None:
    primary = region.all("interface")[instance["_interfaces"][0]]
    region.put("interface", {**primary, "SourceDestCheck": checked})


def _keep_disks(region: Region, instance: Document, mappings: Sequence[Mapping[str, Any]]) -> None:
    """Sets which disks end with the instance."""
    attached = {each["DeviceName"]: each["Ebs"] for each in instance["BlockDeviceMappings"]}
    for each in mappings:
        name = each.get("DeviceName", "")
        if name not in attached:
            text = f"No device is currently mapped at {name}"
            raise AwsError("InvalidInstanceAttributeValue", text)
        ends = part(each, "Ebs").get("DeleteOnTermination", attached[name]["DeleteOnTermination"])
        attached[name]["DeleteOnTermination"] = ends
        volume = region.all("volume")[attached[name]["VolumeId"]]
        volume["Attachments"][0]["DeleteOnTermination"] = ends
        region.put("volume", volume)


def _truth(value: Any) -> bool:
    text = str(value).lower()
    if text not in {"true", "false"}:
        raise _invalid(value, "value")
    return text == "true"


def _member(attribute: str) -> str:
    if attribute not in _VALUES:
        raise _invalid(attribute, "attribute")
    return _VALUES[attribute][0]


def _invalid(value: Any, name: str) -> AwsError:
    return AwsError("InvalidParameterValue", f"Value ({value}) for parameter {name} is invalid.")


_VALUES = {
    "disableApiStop": ("DisableApiStop", "_stop_protected"),
    "disableApiTermination": ("DisableApiTermination", "_protected"),
    "ebsOptimized": ("EbsOptimized", "EbsOptimized"),
    "enaSupport": ("EnaSupport", "EnaSupport"),
    "instanceInitiatedShutdownBehavior": ("InstanceInitiatedShutdownBehavior", "_shutdown_behavior"),
    "instanceType": ("InstanceType", "InstanceType"),
    "kernel": ("KernelId", "_kernel"),
    "ramdisk": ("RamdiskId", "_ramdisk"),
    "rootDeviceName": ("RootDeviceName", "RootDeviceName"),
    "sourceDestCheck": ("SourceDestCheck", "SourceDestCheck"),
    "sriovNetSupport": ("SriovNetSupport", "_sriov"),
    "userData": ("UserData", "_user_data"),
}
"""Attributes of one value: the member of requests and answers, and the field of the instance's document."""

_STOPPED_ONLY = frozenset({"InstanceType", "UserData", "EbsOptimized", "EnaSupport"})
"""What can be changed while an instance is stopped only (EC2 API Reference, ModifyInstanceAttribute)."""
