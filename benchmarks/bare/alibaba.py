"""A launch on Alibaba Cloud with its SDK alone."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.bare.box import BareBox

# The SDK has no types: its modules are taken as they are.
models: Any = import_module("alibabacloud_ecs20140526.models")
Ecs: Any = import_module("alibabacloud_ecs20140526.client").Client
Client: Any = import_module("alibabacloud_tea_openapi.client").Client
Utils: Any = import_module("alibabacloud_tea_openapi.utils").Utils
shapes: Any = import_module("alibabacloud_tea_openapi.utils_models")
RuntimeOptions: Any = import_module("darabonba.runtime").RuntimeOptions

VERSIONS = {"vpc": "2016-04-28", "sts": "2015-04-01"}


def config(region: str) -> Any:
    """Credentials and endpoint out of the environment."""
    url = urlsplit(os.environ["GPUCLOUD_ALIBABA_ENDPOINT"])
    return shapes.Config(
        access_key_id=os.environ["ALIBABA_CLOUD_ACCESS_KEY_ID"],
        access_key_secret=os.environ["ALIBABA_CLOUD_ACCESS_KEY_SECRET"],
        region_id=region,
        endpoint=url.netloc,
        protocol=url.scheme,
    )


def launch(box: BareBox) -> None:
    """Prices, network, group, instance, address, ssh, ``nvidia-smi``."""
    offer = box.offer
    region, zone, kind = offer["region"], offer["zone"], offer["instance_type"]
    tags = [{"Key": key, "Value": value} for key, value in box.tags.items()]
    generic = Client(config(region))

    def call(product: str, action: str, **query: Any) -> Any:
        asked = shapes.Params(
            action=action,
            version=VERSIONS[product],
            protocol="HTTP",
            pathname="/",
            method="POST",
            auth_type="AK",
            style="RPC",
            req_body_type="formData",
            body_type="json",
        )
        query = {"RegionId": region, **query}
        return generic.call_api(asked, shapes.OpenApiRequest(query=Utils.query(query)), RuntimeOptions())[
            "body"
        ]

    call("sts", "GetCallerIdentity")
    for where in offer["regions"]:
        Ecs(config(where)).describe_price(
            models.DescribePriceRequest(
                region_id=where, resource_type="instance", instance_type=kind, price_unit="Hour", amount=1
            )
        )
    caller = box.caller()
    ecs = Ecs(config(region))
    images = ecs.describe_images(
        models.DescribeImagesRequest(
            region_id=region, image_owner_alias="system", ostype="linux", instance_type=kind
        )
    ).body.images.image
    image = next(each.image_id for each in images if "NVIDIA" in each.image_name)  # with its driver
    vpc = call("vpc", "CreateVpc", VpcName=box.id, CidrBlock="10.42.0.0/16", Tag=tags)["VpcId"]
    while call("vpc", "DescribeVpcs", VpcId=vpc)["Vpcs"]["Vpc"][0]["Status"] != "Available":
        pass
    vswitch = call(
        "vpc", "CreateVSwitch", VpcId=vpc, ZoneId=zone, CidrBlock="10.42.0.0/24", VSwitchName=box.id, Tag=tags
    )["VSwitchId"]
    shown = {"VSwitchId": vswitch}
    while call("vpc", "DescribeVSwitches", **shown)["VSwitches"]["VSwitch"][0]["Status"] != "Available":
        pass
    group = ecs.create_security_group(
        models.CreateSecurityGroupRequest(
            region_id=region,
            vpc_id=vpc,
            security_group_name=box.id,
            tag=[models.CreateSecurityGroupRequestTag(key=t["Key"], value=t["Value"]) for t in tags],
        )
    ).body.security_group_id
    rule = models.AuthorizeSecurityGroupRequestPermissions(
        ip_protocol="TCP", port_range="22/22", source_cidr_ip=caller, policy="accept", priority="1"
    )
    ecs.authorize_security_group(
        models.AuthorizeSecurityGroupRequest(region_id=region, security_group_id=group, permissions=[rule])
    )
    request = {
        "RegionId": region,
        "ZoneId": zone,
        "InstanceType": kind,
        "ImageId": image,
        "Amount": 1,
        "MinAmount": 1,
        "ClientToken": box.id,
        "InstanceName": box.id,
        "InstanceChargeType": "PostPaid",
        "VSwitchId": vswitch,
        "SecurityGroupId": group,
        "InternetChargeType": "PayByTraffic",
        "InternetMaxBandwidthOut": 100,
        "SystemDisk": {
            "Category": "cloud_essd",
            "Size": "100",
            "PerformanceLevel": "PL1",
            "Encrypted": "true",
        },
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
        "UserData": base64.b64encode(box.user_data().encode()).decode(),
        "Tag": tags,
    }
    ids = ecs.run_instances(models.RunInstancesRequest().from_map(request)).body.instance_id_sets
    asked = models.DescribeInstancesRequest(
        region_id=region, instance_ids=json.dumps(ids.instance_id_set[:1])
    )
    host = None
    while host is None:
        [seen] = ecs.describe_instances(asked).body.instances.instance
        host = next(iter(seen.public_ip_address.ip_address or ()), None)
    box.wait_for_gpus(host)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        launch(BareBox(Path(folder)))
