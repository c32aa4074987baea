"""A launch on Alibaba Cloud with its SDK alone."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from functools import cache
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


@cache
def generic(region: str) -> Any:
    """The client that takes any call of a region."""
    return Client(config(region))


def call(product: str, region: str, action: str, **query: Any) -> Any:
    """A call for which there is no typed client; its answer's body."""
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
    sent = shapes.OpenApiRequest(query=Utils.query({"RegionId": region, **query}))
    return generic(region).call_api(asked, sent, RuntimeOptions())["body"]


def launch(box: BareBox) -> None:
    """Prices, network, group, instance, address, ssh, ``nvidia-smi``."""
    region = box.offer["region"]
    call("sts", region, "GetCallerIdentity")
    ask_prices(box)
    caller, ecs = box.caller(), Ecs(config(region))
    image = image_with_driver(box, ecs)
    vpc, vswitch = make_network(box)
    group = make_group(box, ecs, vpc, caller)
    instance = make_instance(box, ecs, image=image, vswitch=vswitch, group=group)
    box.wait_for_gpus(wait_for_address(ecs, region, instance))


def ask_prices(box: BareBox) -> None:
    """The price in each region of the offer."""
    for where in box.offer["regions"]:
        Ecs(config(where)).describe_price(
            models.DescribePriceRequest(
                region_id=where,
                resource_type="instance",
                instance_type=box.offer["instance_type"],
                price_unit="Hour",
                amount=1,
            )
        )


def image_with_driver(box: BareBox, ecs: Any) -> str:
    """An image of the vendor's that has NVIDIA's driver."""
    images = ecs.describe_images(
        models.DescribeImagesRequest(
            region_id=box.offer["region"],
            image_owner_alias="system",
            ostype="linux",
            instance_type=box.offer["instance_type"],
        )
    ).body.images.image
    return str(next(each.image_id for each in images if "NVIDIA" in each.image_name))


def make_network(box: BareBox) -> tuple[str, str]:
    """A network with one switch; their ids."""
    region, tags = box.offer["region"], tags_of(box)
    vpc = call("vpc", region, "CreateVpc", VpcName=box.id, CidrBlock="10.42.0.0/16", Tag=tags)["VpcId"]
    while call("vpc", region, "DescribeVpcs", VpcId=vpc)["Vpcs"]["Vpc"][0]["Status"] != "Available":
        pass
    vswitch = call(
        "vpc",
        region,
        "CreateVSwitch",
        VpcId=vpc,
        ZoneId=box.offer["zone"],
        CidrBlock="10.42.0.0/24",
        VSwitchName=box.id,
        Tag=tags,
    )["VSwitchId"]
    while (
        call("vpc", region, "DescribeVSwitches", VSwitchId=vswitch)["VSwitches"]["VSwitch"][0]["Status"]
        != "Available"
    ):
        pass
    return vpc, vswitch


def make_group(box: BareBox, ecs: Any, vpc: str, caller: str) -> str:
    """A group that lets the caller in over ssh; its id."""
    region = box.offer["region"]
    group = ecs.create_security_group(
        models.CreateSecurityGroupRequest(
            region_id=region,
            vpc_id=vpc,
            security_group_name=f"bare-{box.id}",
            tag=[models.CreateSecurityGroupRequestTag(key=t["Key"], value=t["Value"]) for t in tags_of(box)],
        )
    ).body.security_group_id
    rule = models.AuthorizeSecurityGroupRequestPermissions(
        ip_protocol="TCP", port_range="22/22", source_cidr_ip=caller, policy="accept", priority="1"
    )
    ecs.authorize_security_group(
        models.AuthorizeSecurityGroupRequest(region_id=region, security_group_id=group, permissions=[rule])
    )
    return str(group)


def make_instance(box: BareBox, ecs: Any, *, image: str, vswitch: str, group: str) -> str:
    """The billable call; the instance's id."""
    offer = box.offer
    request = {
        "RegionId": offer["region"],
        "ZoneId": offer["zone"],
        "InstanceType": offer["instance_type"],
        "ImageId": image,
        "Amount": 1,
        "MinAmount": 1,
        "ClientToken": box.id,
        "InstanceName": f"bare-{box.id}",
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
        "Tag": tags_of(box),
    }
    ids = ecs.run_instances(models.RunInstancesRequest().from_map(request)).body.instance_id_sets
    return str(ids.instance_id_set[0])


def wait_for_address(ecs: Any, region: str, instance: str) -> str:
    """The public address of the instance, once it has one."""
    asked = models.DescribeInstancesRequest(region_id=region, instance_ids=json.dumps([instance]))
    while True:
        [seen] = ecs.describe_instances(asked).body.instances.instance
        if seen.public_ip_address.ip_address:
            return str(seen.public_ip_address.ip_address[0])


def tags_of(box: BareBox) -> list[dict[str, str]]:
    """The box's tags as the API takes them."""
    return [{"Key": key, "Value": value} for key, value in box.tags.items()]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        launch(BareBox(Path(folder)))
