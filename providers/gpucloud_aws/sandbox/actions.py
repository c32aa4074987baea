"""Which function answers which call. One line for each emulated call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpucloud.sandbox.database import Document
from gpucloud_aws.sandbox import (
    attributes,
    blocks,
    elastic,
    groups,
    images,
    instances,
    launch,
    network,
    power,
    prices,
    quotas,
    reservations,
    reserved,
    routes,
    savings,
    schedules,
    sessions,
    spot,
    storage,
    tags,
)
from gpucloud_aws.sandbox.region import Region

Action = Callable[[Region, Mapping[str, Any]], Document]

ACTIONS: dict[tuple[str, str], Action] = {
    ("ec2", "AllocateAddress"): elastic.allocate_address,
    ("ec2", "AssociateAddress"): elastic.associate_address,
    ("ec2", "AuthorizeSecurityGroupEgress"): groups.authorize_egress,
    ("ec2", "AuthorizeSecurityGroupIngress"): groups.authorize_ingress,
    ("ec2", "CancelSpotInstanceRequests"): spot.cancel_spot_instance_requests,
    ("ec2", "CreateSecurityGroup"): groups.create_security_group,
    ("ec2", "CreateTags"): tags.create_tags,
    ("ec2", "DeleteNetworkInterface"): network.delete_network_interface,
    ("ec2", "DeleteSecurityGroup"): groups.delete_security_group,
    ("ec2", "DeleteTags"): tags.delete_tags,
    ("ec2", "DeleteVolume"): network.delete_volume,
    ("ec2", "DescribeAddresses"): elastic.describe_addresses,
    ("ec2", "DescribeAvailabilityZones"): network.describe_availability_zones,
    ("ec2", "DescribeCapacityBlockOfferings"): blocks.describe_capacity_block_offerings,
    ("ec2", "DescribeCapacityReservations"): reservations.describe_capacity_reservations,
    ("ec2", "DescribeImages"): images.describe_images,
    ("ec2", "DescribeInstanceAttribute"): attributes.describe_instance_attribute,
    ("ec2", "DescribeInstanceStatus"): instances.describe_instance_status,
    ("ec2", "DescribeInstanceTypeOfferings"): network.describe_instance_type_offerings,
    ("ec2", "DescribeInstanceTypes"): network.describe_instance_types,
    ("ec2", "DescribeInstances"): instances.describe_instances,
    ("ec2", "DescribeNetworkInterfaces"): network.describe_network_interfaces,
    ("ec2", "DescribeInternetGateways"): routes.describe_internet_gateways,
    ("ec2", "DescribePlacementGroups"): lambda _region, _parameters: {"PlacementGroups": []},
    ("ec2", "DescribeRegions"): network.describe_regions,
    ("ec2", "DescribeReservedInstances"): reserved.describe_reserved_instances,
    ("ec2", "DescribeRouteTables"): routes.describe_route_tables,
    ("ec2", "DescribeSecurityGroupRules"): groups.describe_security_group_rules,
    ("ec2", "DescribeSecurityGroups"): groups.describe_security_groups,
    ("ec2", "DescribeSnapshots"): lambda _region, _parameters: {"Snapshots": []},
    ("ec2", "DescribeSpotInstanceRequests"): spot.describe_spot_instance_requests,
    ("ec2", "DescribeSpotPriceHistory"): spot.describe_spot_price_history,
    ("ec2", "DescribeSubnets"): network.describe_subnets,
    ("ec2", "DescribeTags"): tags.describe_tags,
    ("ec2", "DescribeVolumes"): network.describe_volumes,
    ("ec2", "DescribeVpcAttribute"): routes.describe_vpc_attribute,
    ("ec2", "DescribeVpcs"): network.describe_vpcs,
    ("ec2", "DisassociateAddress"): elastic.disassociate_address,
    ("ec2", "GetConsoleOutput"): instances.get_console_output,
    ("ec2", "ModifyInstanceAttribute"): attributes.modify_instance_attribute,
    ("ec2", "MonitorInstances"): power.monitor_instances,
    ("ec2", "RebootInstances"): power.reboot_instances,
    ("ec2", "ReleaseAddress"): elastic.release_address,
    ("ec2", "RevokeSecurityGroupEgress"): groups.revoke_egress,
    ("ec2", "RevokeSecurityGroupIngress"): groups.revoke_ingress,
    ("ec2", "RunInstances"): launch.run_instances,
    ("ec2", "StartInstances"): power.start_instances,
    ("ec2", "StopInstances"): power.stop_instances,
    ("ec2", "TerminateInstances"): instances.terminate_instances,
    ("ec2", "UnmonitorInstances"): power.unmonitor_instances,
    ("pricing", "GetProducts"): prices.get_products,
    ("savingsplans", "DescribeSavingsPlans"): savings.describe_savings_plans,
    ("savingsplans", "DescribeSavingsPlansOfferingRates"): savings.describe_offering_rates,
    ("scheduler", "CreateSchedule"): schedules.create_schedule,
    ("scheduler", "DeleteSchedule"): schedules.delete_schedule,
    ("scheduler", "GetSchedule"): schedules.get_schedule,
    ("scheduler", "UpdateSchedule"): schedules.update_schedule,
    ("servicequotas", "GetServiceQuota"): quotas.get_service_quota,
    ("servicequotas", "ListServiceQuotas"): quotas.list_service_quotas,
    ("ssm", "GetParameter"): images.get_parameter,
    ("ssm", "GetParameters"): images.get_parameters,
    ("ssm", "GetParametersByPath"): images.get_parameters_by_path,
    ("sts", "AssumeRole"): sessions.assume_role,
    ("sts", "GetCallerIdentity"): sessions.get_caller_identity,
}

EMULATED = frozenset(ACTIONS) | {("s3", call) for call in storage.CALLS}
"""All calls that have a row in ``honoured.toml``; S3's own wire format is why it is not among the actions."""

DRY_RUNS_ITSELF = frozenset({"RunInstances", "TerminateInstances"})
"""What looks at ``DryRun`` after its own checks; for all else it is looked at before."""
