"""Launch templates: numbered versions of a launch's parameters, one of them the default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.aws.callers import USER
from gpucloud_sandbox.aws.query import Field, page, select
from gpucloud_sandbox.aws.region import Region
from gpucloud_sandbox.aws.tags import tags_for
from gpucloud_sandbox.aws.tokens import idempotent
from gpucloud_sandbox.aws.wire import AwsError, part
from gpucloud_sandbox.database import Document

_NAME = re.compile(r"[a-zA-Z0-9().\-/_]{3,128}")
"""EC2 API Reference, CreateLaunchTemplate."""

_FILTERS: dict[str, Field] = {"create-time": "CreateTime", "launch-template-name": "LaunchTemplateName"}
_VERSION_FILTERS: dict[str, Field] = {
    "create-time": "CreateTime",
    "image-id": "LaunchTemplateData.ImageId",
    "instance-type": "LaunchTemplateData.InstanceType",
    "is-default-version": "DefaultVersion",
}


@idempotent
def create_launch_template(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateLaunchTemplate, with its first version. Nothing of its data is looked up before a launch."""
    name = parameters["LaunchTemplateName"]
    if not _NAME.fullmatch(name):
        text = f"The launch template name '{name}' is not valid"
        raise AwsError("InvalidLaunchTemplateName.MalformedException", text)
    if any(each["LaunchTemplateName"] == name for each in region.all("template").values()):
        text = "Launch template name already in use."
        raise AwsError("InvalidLaunchTemplateName.AlreadyExistsException", text)
    template = region.put(
        "template",
        {
            "LaunchTemplateId": region.new_id("lt"),
            "LaunchTemplateName": name,
            "CreateTime": region.stamp,
            "CreatedBy": region.caller.arn if region.caller else USER,
            "DefaultVersionNumber": 1,
            "LatestVersionNumber": 0,
            "Tags": tags_for(parameters, "launch-template"),
        },
    )
    _add_version(region, template, parameters, parameters["LaunchTemplateData"])
    return {"LaunchTemplate": template}


@idempotent
def create_launch_template_version(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateLaunchTemplateVersion: what it does not say is as in the source version, if one is named."""
    template = _find(region, parameters)
    source = parameters.get("SourceVersion")
    data = dict(parameters["LaunchTemplateData"])
    if source is not None:
        data = {**_version(region, template, source)["LaunchTemplateData"], **data}
    made = _add_version(region, template, parameters, data)
    return {"LaunchTemplateVersion": _shown(region, made)}


@idempotent
def modify_launch_template(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ModifyLaunchTemplate: which version is the default."""
    template = _find(region, parameters)
    if "DefaultVersion" not in parameters:
        raise AwsError("MissingParameter", "The request must contain the parameter DefaultVersion")
    template["DefaultVersionNumber"] = _version(region, template, parameters["DefaultVersion"])[
        "VersionNumber"
    ]
    return {"LaunchTemplate": region.put("template", template)}


def delete_launch_template(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteLaunchTemplate, with all versions."""
    template = _find(region, parameters)
    for version in _versions(region, template):
        region.drop("template_version", version["_key"])
    region.drop("template", template["LaunchTemplateId"])
    return {"LaunchTemplate": template}


def delete_launch_template_versions(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteLaunchTemplateVersions: each by itself; the default one stays."""
    template = _find(region, parameters)
    named = {key: template[key] for key in ("LaunchTemplateId", "LaunchTemplateName")}
    gone: list[Document] = []
    kept: list[Document] = []
    for number in parameters["Versions"]:
        version = region.all("template_version").get(f"{template['LaunchTemplateId']} {number}")
        if version is None:
            error = {"Code": "launchTemplateVersionDoesNotExist", "Message": f"There is no version {number}"}
        elif version["VersionNumber"] == template["DefaultVersionNumber"]:
            error = {
                "Code": "unexpectedError",
                "Message": "The default version cannot be deleted",
            }  # UNVERIFIED
        else:
            region.drop("template_version", version["_key"])
            gone.append({**named, "VersionNumber": version["VersionNumber"]})
            continue
        kept.append({**named, "VersionNumber": number, "ResponseError": error})
    return {
        "SuccessfullyDeletedLaunchTemplateVersions": gone,
        "UnsuccessfullyDeletedLaunchTemplateVersions": kept,
    }


def describe_launch_templates(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeLaunchTemplates."""
    asked = {
        member: {_find(region, {member: value})["LaunchTemplateId"] for value in parameters[f"{member}s"]}
        for member in ("LaunchTemplateId", "LaunchTemplateName")
        if f"{member}s" in parameters
    }
    templates = region.all("template").values()
    found = [each for each in templates if all(each["LaunchTemplateId"] in ids for ids in asked.values())]
    shown, token = page(select(found, parameters.get("Filters"), _FILTERS), parameters, lowest=1, highest=200)
    return {"LaunchTemplates": shown, "NextToken": token}


def describe_launch_template_versions(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeLaunchTemplateVersions: one template's, newest first; or ``$Latest``, ``$Default`` of all."""
    asked: list[str] | None = parameters.get("Versions")
    if "LaunchTemplateId" in parameters or "LaunchTemplateName" in parameters:
        templates = [_find(region, parameters)]
    elif asked and set(asked) <= {"$Latest", "$Default"}:
        templates = list(region.all("template").values())
    else:
        raise AwsError("MissingParameter", _UNNAMED)
    low, high = int(parameters.get("MinVersion", 1)), int(parameters.get("MaxVersion", 1 << 31))
    found = [
        _shown(region, version)
        for template in templates
        for version in (
            [_version(region, template, each) for each in asked]
            if asked
            else reversed(_versions(region, template))
        )
        if low <= version["VersionNumber"] <= high
    ]
    shown, token = page(
        select(found, parameters.get("Filters"), _VERSION_FILTERS), parameters, lowest=1, highest=200
    )
    return {"LaunchTemplateVersions": shown, "NextToken": token}


def with_template(region: Region, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a launch: those of the template that it names, each overridden by the request's own.

    Its ``LaunchTemplate`` names the version by number then.

    Raises:
        AwsError: the template or the version is not there.
    """
    named = part(parameters, "LaunchTemplate")
    if not named:
        return parameters
    template = _find(region, named)
    version = _version(region, template, named.get("Version", "$Default"))
    resolved = {"LaunchTemplateId": template["LaunchTemplateId"], "Version": str(version["VersionNumber"])}
    return {**version["LaunchTemplateData"], **parameters, "LaunchTemplate": resolved}


def template_tags(parameters: Mapping[str, Any]) -> list[dict[str, str]]:
    """The tags by which AWS itself says what an instance was launched from."""
    named = part(parameters, "LaunchTemplate")
    members = {"id": "LaunchTemplateId", "version": "Version"} if named else {}
    return [{"Key": f"aws:ec2launchtemplate:{key}", "Value": named[name]} for key, name in members.items()]


_UNNAMED = "The request must contain the parameter launchTemplateId or launchTemplateName"


def _find(region: Region, parameters: Mapping[str, Any]) -> Document:
    """The template that is named by id or by name."""
    id_, name = parameters.get("LaunchTemplateId"), parameters.get("LaunchTemplateName")
    if id_ is None and name is None:
        raise AwsError("MissingParameter", _UNNAMED)
    if id_ is not None and name is not None:
        text = "The parameters launchTemplateId and launchTemplateName may not be used together"
        raise AwsError("InvalidParameterCombination", text)
    for template in region.all("template").values():
        if template["LaunchTemplateId"] == id_ or template["LaunchTemplateName"] == name:
            return template
    if id_ is not None:
        text = f"The specified launch template, with template ID {id_}, does not exist."
        raise AwsError("InvalidLaunchTemplateId.NotFound", text)
    text = f"The specified launch template, with template name {name}, does not exist."
    raise AwsError("InvalidLaunchTemplateName.NotFoundException", text)


def _versions(region: Region, template: Document) -> list[Document]:
    """The versions of a template, oldest first."""
    versions = region.all("template_version").values()
    return [each for each in versions if each["LaunchTemplateId"] == template["LaunchTemplateId"]]


def _version(region: Region, template: Document, named: str) -> Document:
    """A version by number, or as ``$Latest`` or ``$Default``."""
    numbers = {"$Latest": "LatestVersionNumber", "$Default": "DefaultVersionNumber"}
    number = template[numbers[named]] if named in numbers else named
    version = region.all("template_version").get(f"{template['LaunchTemplateId']} {number}")
    if version is None:
        id_ = template["LaunchTemplateId"]
        text = f"Could not find the specified version {named} for the launch template with ID {id_}."
        raise AwsError("InvalidLaunchTemplateId.VersionNotFound", text)
    return version


def _add_version(
    region: Region, template: Document, parameters: Mapping[str, Any], data: Mapping[str, Any]
) -> Document:
    template["LatestVersionNumber"] += 1
    region.put("template", template)
    number = template["LatestVersionNumber"]
    return region.put(
        "template_version",
        {
            "_key": f"{template['LaunchTemplateId']} {number}",
            "LaunchTemplateId": template["LaunchTemplateId"],
            "LaunchTemplateName": template["LaunchTemplateName"],
            "VersionNumber": number,
            "VersionDescription": parameters.get("VersionDescription"),
            "CreateTime": region.stamp,
            "CreatedBy": region.caller.arn if region.caller else USER,
            "LaunchTemplateData": dict(data),
        },
    )


def _shown(region: Region, version: Document) -> Document:
    template = region.all("template")[version["LaunchTemplateId"]]
    return {**version, "DefaultVersion": version["VersionNumber"] == template["DefaultVersionNumber"]}
