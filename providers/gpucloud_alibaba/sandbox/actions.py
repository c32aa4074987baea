"""The calls that are emulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpucloud.sandbox.database import Document
from gpucloud_alibaba.sandbox import (
    attachments,
    catalog,
    changes,
    eips,
    groups,
    images,
    instances,
    keys,
    launch,
    network,
    prices,
    quotas,
    reservations,
    reserved,
    rules,
    snapshots,
    tags,
)
from gpucloud_alibaba.sandbox.region import ACCOUNT, USER, Region

Action = Callable[[Region, Mapping[str, Any]], Document]


def get_caller_identity(region: Region, parameters: Mapping[str, Any]) -> Document:
    """GetCallerIdentity."""
    return {
        "AccountId": ACCOUNT,
        "UserId": "216959339000654321",
        "PrincipalId": "216959339000654321",
        "IdentityType": "RAMUser",
        "Arn": f"acs:ram::{ACCOUNT}:user/{USER}",
        "RoleId": "",
    }


ACTIONS: Mapping[tuple[str, str], Action] = {
    ("ecs", "AttachDisk"): attachments.attach_disk,
    ("ecs", "AuthorizeSecurityGroup"): rules.authorize,
    ("ecs", "AuthorizeSecurityGroupEgress"): rules.authorize_egress,
    ("ecs", "CreateDisk"): attachments.create_disk,
    ("ecs", "CreateSecurityGroup"): groups.create_group,
    ("ecs", "DeleteDisk"): attachments.delete_disk,
    ("ecs", "CreateImage"): snapshots.create_image,
    ("ecs", "CreateSnapshot"): snapshots.create_snapshot,
    ("ecs", "DeleteImage"): snapshots.delete_image,
    ("ecs", "DeleteSnapshot"): snapshots.delete_snapshot,
    ("ecs", "DescribeSnapshots"): snapshots.describe_snapshots,
    ("ecs", "DeleteInstance"): instances.delete_instances,
    ("ecs", "DeleteInstances"): instances.delete_instances,
    ("ecs", "DeleteKeyPairs"): keys.delete_key_pairs,
    ("ecs", "DeleteNetworkInterface"): attachments.delete_nic,
    ("ecs", "DeleteSecurityGroup"): groups.delete_group,
    ("ecs", "DescribeAccountAttributes"): quotas.describe_account_attributes,
    ("ecs", "DescribeAvailableResource"): catalog.describe_available_resource,
    ("ecs", "DescribeCapacityReservations"): reservations.describe_capacity_reservations,
    ("ecs", "DescribeDisks"): attachments.describe_disks,
    ("ecs", "DescribeElasticityAssurances"): reservations.describe_elasticity_assurances,
    ("ecs", "DescribeImageFromFamily"): images.describe_image_from_family,
    ("ecs", "DescribeImages"): images.describe_images,
    ("ecs", "DescribeInstanceAttribute"): instances.describe_instance_attribute,
    ("ecs", "DescribeInstanceHistoryEvents"): instances.describe_history,
    ("ecs", "DescribeInstanceStatus"): instances.describe_instance_status,
    ("ecs", "DescribeInstanceTypes"): catalog.describe_instance_types,
    ("ecs", "DescribeInstances"): instances.describe_instances,
    ("ecs", "DescribeKeyPairs"): keys.describe_key_pairs,
    ("ecs", "DescribeNetworkInterfaces"): attachments.describe_nics,
    ("ecs", "DescribePrice"): prices.describe_price,
    ("ecs", "DescribeRegions"): catalog.describe_regions,
    ("ecs", "DescribeReservedInstances"): reserved.describe_reserved_instances,
    ("ecs", "DescribeSecurityGroupAttribute"): groups.describe_group,
    ("ecs", "DescribeSecurityGroups"): groups.describe_groups,
    ("ecs", "DescribeSpotAdvice"): prices.describe_spot_advice,
    ("ecs", "DescribeSpotPriceHistory"): prices.describe_spot_price_history,
    ("ecs", "DescribeZones"): catalog.describe_zones,
    ("ecs", "DetachDisk"): attachments.detach_disk,
    ("ecs", "GetInstanceConsoleOutput"): instances.get_console_output,
    ("ecs", "ImportKeyPair"): keys.import_key_pair,
    ("ecs", "ListTagResources"): tags.list_tag_resources,
    ("ecs", "ModifyInstanceAutoReleaseTime"): changes.set_release_time,
    ("ecs", "ModifyInstanceAttribute"): changes.modify_attribute,
    ("ecs", "ModifyInstanceSpec"): changes.modify_spec,
    ("ecs", "RebootInstance"): changes.reboot_instances,
    ("ecs", "RebootInstances"): changes.reboot_instances,
    ("ecs", "ResizeDisk"): attachments.resize_disk,
    ("ecs", "RevokeSecurityGroup"): rules.revoke,
    ("ecs", "RevokeSecurityGroupEgress"): rules.revoke_egress,
    ("ecs", "RunInstances"): launch.run_instances,
    ("ecs", "StartInstance"): changes.start_instances,
    ("ecs", "StartInstances"): changes.start_instances,
    ("ecs", "StopInstance"): changes.stop_instances,
    ("ecs", "StopInstances"): changes.stop_instances,
    ("ecs", "TagResources"): tags.tag_resources,
    ("ecs", "UntagResources"): tags.untag_resources,
    ("quotas", "ListProductQuotas"): quotas.list_product_quotas,
    ("sts", "GetCallerIdentity"): get_caller_identity,
    ("vpc", "AllocateEipAddress"): eips.allocate,
    ("vpc", "AssociateEipAddress"): eips.associate,
    ("vpc", "CreateVSwitch"): network.create_vswitch,
    ("vpc", "CreateVpc"): network.create_vpc,
    ("vpc", "DeleteVSwitch"): network.delete_vswitch,
    ("vpc", "DeleteVpc"): network.delete_vpc,
    ("vpc", "DescribeEipAddresses"): eips.describe,
    ("vpc", "DescribeVSwitches"): network.describe_vswitches,
    ("vpc", "DescribeVpcs"): network.describe_vpcs,
    ("vpc", "ListTagResources"): tags.list_tag_resources,
    ("vpc", "ReleaseEipAddress"): eips.release,
    ("vpc", "TagResources"): tags.tag_resources,
    ("vpc", "UnTagResources"): tags.untag_resources,
    ("vpc", "UnassociateEipAddress"): eips.unassociate,
}
