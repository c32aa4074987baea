"""The table of supported members, as data."""

from __future__ import annotations

from typing import Any

import pytest

from gpucloud_sandbox.supported import SupportedMembers

TABLE = SupportedMembers.of(
    [
        "ImageId",
        "Disks.Ebs.Size",
        "Disks.Name",
        "Host.Tenancy=default",
        "Host.Tenancy=Host",
        "Tags.*",
    ]
)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"ImageId": "ami-1"},
        {"Disks": [{"Ebs": {"Size": 1}}, {"Name": "b"}]},
        {"Host": {"Tenancy": "Default"}},
        {"Host": {"Tenancy": "host"}},
        {"Tags": {"anybody's": {"own": 1}}},
        {"Tags": {}},
        {"Disks": [], "Host": None},
    ],
    ids=str,
)
def test_supported_members_pass(members: dict[str, Any]) -> None:
    assert TABLE.refused(members) is None


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"ImageId": "ami-1", "Owner": None}, "Owner"),
        ({"ImageId": {"Name": "x"}}, "ImageId.Name"),
        ({"Disks": [{"Name": "a"}, {"Name": "b", "Ebs": {"Iops": 3}}]}, "Disks.Ebs.Iops"),
        ({"Host": {"Tenancy": "dedicated"}}, "Host.Tenancy=dedicated"),
        ({"Tag": {"a": 1}}, "Tag.a"),
        ({"CpuOptions": {}}, "CpuOptions"),
        ({"Disk": []}, "Disk"),
    ],
    ids=str,
)
def test_the_first_other_member_is_named(members: dict[str, Any], path: str) -> None:
    assert TABLE.refused(members) == path
