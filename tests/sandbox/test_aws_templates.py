"""Launch templates and launches from them, as boto3 sees them."""

from __future__ import annotations

from typing import Any

import pytest

from gpucloud_sandbox.client import Endpoint
from gpucloud_sandbox.review import Review
from tests.sandbox.running import IMAGE, shown
from tests.sandbox.test_aws_launch import refused

DATA = {
    "ImageId": IMAGE,
    "InstanceType": "g4dn.xlarge",
    "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": "blue"}]}],
}
ONE = {"MinCount": 1, "MaxCount": 1}


@pytest.fixture
def ec2(ec2: Any, endpoint: Endpoint) -> Any:
    """EC2 for clients that are not gpucloud."""
    endpoint.client.review(Review.OWN)
    return ec2


@pytest.fixture
def template(ec2: Any) -> str:
    """A template of two versions; the first is the default."""
    made = ec2.create_launch_template(LaunchTemplateName="lab", LaunchTemplateData=DATA)["LaunchTemplate"]
    ec2.create_launch_template_version(
        LaunchTemplateName="lab", SourceVersion="1", LaunchTemplateData={"InstanceType": "g4dn.2xlarge"}
    )
    id_: str = made["LaunchTemplateId"]
    return id_


def types(ec2: Any, **named: Any) -> str:
    """The type of an instance that is launched from a template."""
    (made,) = ec2.run_instances(**ONE, LaunchTemplate=named)["Instances"]
    type_: str = made["InstanceType"]
    return type_


def test_a_launch_takes_the_version_that_it_names(ec2: Any, template: str) -> None:
    assert types(ec2, LaunchTemplateId=template) == "g4dn.xlarge"
    assert types(ec2, LaunchTemplateName="lab", Version="$Latest") == "g4dn.2xlarge"
    changed = ec2.modify_launch_template(LaunchTemplateId=template, DefaultVersion="2")["LaunchTemplate"]
    assert (changed["DefaultVersionNumber"], changed["LatestVersionNumber"]) == (2, 2)
    assert types(ec2, LaunchTemplateName="lab") == "g4dn.2xlarge"
    assert types(ec2, LaunchTemplateName="lab", Version="1") == "g4dn.xlarge"


def test_the_request_overrides_the_template(ec2: Any, template: str) -> None:
    named = {"LaunchTemplateId": template}
    (made,) = ec2.run_instances(**ONE, LaunchTemplate=named, InstanceType="g4dn.4xlarge")["Instances"]
    (seen,) = shown(ec2, made["InstanceId"])
    assert seen["InstanceType"] == "g4dn.4xlarge"
    tags = {tag["Key"]: tag["Value"] for tag in seen["Tags"]}
    own = {"aws:ec2launchtemplate:id": template, "aws:ec2launchtemplate:version": "1"}
    assert tags == {"team": "blue", **own}
    ec2.create_tags(Resources=[made["InstanceId"]], Tags=[{"Key": "team", "Value": "red"}])
    ec2.delete_tags(Resources=[made["InstanceId"]])
    (seen,) = shown(ec2, made["InstanceId"])
    assert {tag["Key"]: tag["Value"] for tag in seen["Tags"]} == own, "AWS's own tags stay"


def test_versions_are_listed_newest_first_and_the_default_one_stays(ec2: Any, template: str) -> None:
    versions = ec2.describe_launch_template_versions(LaunchTemplateId=template)["LaunchTemplateVersions"]
    assert [(each["VersionNumber"], each["DefaultVersion"]) for each in versions] == [(2, False), (1, True)]
    assert versions[0]["LaunchTemplateData"] == {**DATA, "InstanceType": "g4dn.2xlarge"}
    done = ec2.delete_launch_template_versions(LaunchTemplateId=template, Versions=["1", "2", "3"])
    kept = [each["VersionNumber"] for each in done["UnsuccessfullyDeletedLaunchTemplateVersions"]]
    assert kept == [1, 3]
    latest = ec2.describe_launch_template_versions(LaunchTemplateId=template, Versions=["1"])
    assert len(latest["LaunchTemplateVersions"]) == 1
    third = ec2.create_launch_template_version(LaunchTemplateId=template, LaunchTemplateData=DATA)
    assert third["LaunchTemplateVersion"]["VersionNumber"] == 3, "numbers are not used again"
    ec2.delete_launch_template(LaunchTemplateId=template)
    assert ec2.describe_launch_templates()["LaunchTemplates"] == []


def test_templates_are_checked(ec2: Any, template: str) -> None:
    launch = {**ONE, "LaunchTemplate": {"LaunchTemplateId": template, "Version": "9"}}
    named = {"LaunchTemplateName": "lab", "LaunchTemplateData": DATA}
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (ec2.create_launch_template, named, "InvalidLaunchTemplateName.AlreadyExistsException"),
        (
            ec2.create_launch_template,
            {**named, "LaunchTemplateName": "a b c"},
            "InvalidLaunchTemplateName.MalformedException",
        ),
        (ec2.run_instances, launch, "InvalidLaunchTemplateId.VersionNotFound"),
        (
            ec2.run_instances,
            {**ONE, "LaunchTemplate": {"LaunchTemplateName": "none"}},
            "InvalidLaunchTemplateName.NotFoundException",
        ),
        (
            ec2.run_instances,
            {**ONE, "LaunchTemplate": {"LaunchTemplateId": "lt-0"}},
            "InvalidLaunchTemplateId.NotFound",
        ),
        (ec2.run_instances, {**ONE, "LaunchTemplate": {"Version": "1"}}, "MissingParameter"),
        (
            ec2.delete_launch_template,
            {"LaunchTemplateId": template, "LaunchTemplateName": "lab"},
            "InvalidParameterCombination",
        ),
        (
            ec2.describe_launch_templates,
            {"LaunchTemplateNames": ["none"]},
            "InvalidLaunchTemplateName.NotFoundException",
        ),
        (ec2.describe_launch_template_versions, {}, "MissingParameter"),
    ]
    answers = [refused(call, **parameters) for call, parameters, _ in wrong]
    assert answers == [(code, 400) for _, _, code in wrong]


def test_what_is_not_emulated_is_refused_in_a_template_too(ec2: Any) -> None:
    data = {**DATA, "CpuOptions": {"CoreCount": 1}}
    answer = refused(ec2.create_launch_template, LaunchTemplateName="lab", LaunchTemplateData=data)
    assert answer == ("UnsupportedOperation", 400)


def test_the_reviewer_looks_into_the_template(ec2: Any, endpoint: Endpoint, template: str) -> None:
    endpoint.client.review(Review.ALL)
    launch = {**ONE, "LaunchTemplate": {"LaunchTemplateId": template}}
    assert refused(ec2.run_instances, **launch) == ("UnauthorizedOperation", 403)
