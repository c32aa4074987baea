"""Names and descriptions: what each API takes, as data.

Sources: the request models of alibabacloud-ecs20140526 7.11.8 and alibabacloud-vpc20160428 7.2.2, which say
the forms; the error tables of the calls, which say the codes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.alibaba.wire import AlibabaError

_NOT_WEB = r"(?!https?://)"
_ECS = re.compile(rf"{_NOT_WEB}[^\W\d_][\w.:\-]{{1,127}}")
_VPC = re.compile(rf"{_NOT_WEB}.{{1,128}}", re.DOTALL)

_FORMS: Mapping[str, tuple[re.Pattern[str], str, int]] = {
    "InstanceName": (
        re.compile(r"[^\W\d_](?!.*://)[\w.:\-\[\],]{1,127}"),
        "InvalidInstanceName.Malformed",
        400,
    ),
    "HostName": (
        re.compile(r"(?=.{2,64}$)[A-Za-z0-9]+([.-][A-Za-z0-9]+)*"),
        "InvalidHostName.Malformed",
        400,
    ),
    "SecurityGroupName": (_ECS, "InvalidSecurityGroupName.Malformed", 400),
    "DeploymentSetName": (_ECS, "InvalidDeploymentSetName.Malformed", 400),
    "KeyPairName": (_ECS, "InvalidKeyPairName.Malformed", 400),
    "NetworkInterfaceName": (_ECS, "InvalidParams.NetworkInterfaceName", 403),
    "VpcName": (_VPC, "InvalidVpcName.Malformed", 400),
    "VSwitchName": (_VPC, "InvalidVSwitchName.Malformed", 400),
    "Description": (
        re.compile(rf"{_NOT_WEB}.{{2,256}}", re.DOTALL),
        "InvalidDescription.Malformed",
        400,
    ),
}
"""The form of each member, and the code and HTTP status with which another is refused."""


def check_names(parameters: Mapping[str, Any], *members: str) -> None:
    """Refuses a name or a description that the cloud does not take; one that is left out is none.

    Args:
        parameters: those of a call.
        members: which of them.

    Raises:
        AlibabaError: says which.
    """
    for member in members:
        form, code, status = _FORMS[member]
        given = parameters.get(member)
        if given and not form.fullmatch(given):
            raise AlibabaError(code, f"The specified {member} is not valid.", status)
