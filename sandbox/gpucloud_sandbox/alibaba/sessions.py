"""STS: sessions of roles, with keys of their own that end.

Source: RAM's API reference, AssumeRole; RAM's FAQ, "STS FAQ" (who may not assume a role, and the codes).
UNVERIFIED: ``EntityNotExist.Role`` from STS, and the texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from gpucloud_sandbox.alibaba.region import ACCOUNT, Region
from gpucloud_sandbox.alibaba.signature import Credential
from gpucloud_sandbox.alibaba.wire import AlibabaError
from gpucloud_sandbox.database import Document, Shelf
from gpucloud_sandbox.policy import Statement, statements_of

SHORTEST_S, LONGEST_S = 900, 3600
"""The longest is the least that a role's ``MaxSessionDuration`` may be, and its default."""
LONGEST_POLICY = 2048
"""UNVERIFIED; the reference of 2020 says 1024."""
_NAME = re.compile(r"[A-Za-z0-9.@_-]{2,32}")
_ROLE = re.compile(r"acs:ram::(\d+):role/[a-z0-9.-]{1,64}")


def make_role(region: Region, values: Mapping[str, Any]) -> str:
    """A role (RAM itself is not emulated): its name, its policy, and whether it trusts the account; its ARN.

    Raises:
        ValueError: the policy says something that the sandbox does not understand.
    """
    policy: Mapping[str, Any] = values.get("document") or {"Statement": []}
    statements_of(policy)
    arn = f"acs:ram::{ACCOUNT}:role/{values['name']}"
    region.put("role", {"Arn": arn, "_policy": policy, "_trusts": bool(values.get("trusts", True))})
    return arn


def assume_role(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AssumeRole: a key, a secret and a token that end; the session policy only narrows what the role may."""
    name, arn = parameters["RoleSessionName"], parameters["RoleArn"]
    if not _NAME.fullmatch(name):
        raise AlibabaError(
            "InvalidParameter.RoleSessionName", "The parameter RoleSessionName is wrongly formed."
        )
    if not _ROLE.fullmatch(arn):
        raise AlibabaError("InvalidParameter.RoleArn", "The parameter RoleArn is wrongly formed.")
    seconds = int(parameters.get("DurationSeconds", LONGEST_S))
    if not SHORTEST_S <= seconds <= LONGEST_S:
        text = f"The Min/Max value of DurationSeconds is {SHORTEST_S}/{LONGEST_S}."
        raise AlibabaError("InvalidParameter.DurationSeconds", text)
    policy = _session_policy(parameters.get("Policy"))
    role = region.all("role").get(arn)
    if role is None:
        raise AlibabaError("EntityNotExist.Role", f"The role not exists: {arn}.", 404)
    if not role["_trusts"]:
        text = "You are not authorized to do this action. You should be authorized by RAM."
        raise AlibabaError("NoPermission", text, 403)
    short = arn.rpartition("/")[2]
    session = region.put(
        "session",
        {
            "AccessKeyId": f"STS.{region.world.token(24)}",
            "AccessKeySecret": region.world.token(44),
            "SecurityToken": f"CAIS{region.world.token(300)}",
            "_until": region.later(seconds),
            "_role": arn,
            "_policy": policy,
        },
    )
    ends = datetime.fromisoformat(session["_until"])
    shown = {member: value for member, value in session.items() if not member.startswith("_")}
    return {
        "Credentials": {**shown, "Expiration": f"{ends:%Y-%m-%dT%H:%M:%SZ}"},
        "AssumedRoleUser": {
            "Arn": f"acs:ram::{ACCOUNT}:role/{short}/{name}",
            "AssumedRoleId": f"300000000000000001:{name}",
        },
    }


def credentials(shelf: Shelf) -> dict[str, Credential]:
    """The sessions' keys, ended or not."""
    roles = {each["Arn"]: each for _, each in shelf.everywhere("role")}
    return {
        each["AccessKeyId"]: Credential(
            secret=each["AccessKeySecret"],
            token=each["SecurityToken"],
            until=datetime.fromisoformat(each["_until"]),
            grants=_grants(roles[each["_role"]], each["_policy"]),
        )
        for _, each in shelf.everywhere("session")
    }


def _grants(role: Document, policy: Document | None) -> Sequence[Sequence[Statement]]:
    """The statements of a role, and those of the session's own policy: both must allow an action."""
    return [statements_of(each) for each in (role["_policy"], policy) if each is not None]


def _session_policy(text: str | None) -> Document | None:
    if text is None:
        return None
    try:
        if len(text) > LONGEST_POLICY:
            raise ValueError(text)
        document: Document = json.loads(text)
        if document["Version"] != "1" or not statements_of(document):
            raise ValueError(text)
        return document
    except (ValueError, KeyError, TypeError, AttributeError):
        raise AlibabaError(
            "InvalidParameter.PolicyGrammar", "The parameter Policy has not passed grammar check."
        ) from None
