"""STS: sessions of roles and federated users, with keys of their own that end.

Limits and refusals: STS API Reference, AssumeRole; IAM User Guide, "Request temporary security credentials"
(a session that a session asks for lasts an hour at most; what a federated user may not call) and "IAM JSON
policy elements: Principal".
Codes: ``MalformedPolicyDocument`` from the errors of AssumeRole in botocore's model of STS, which has neither
``AccessDenied`` nor ``ValidationError``. UNVERIFIED: that STS answers with these two, and the texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, cast

from gpucloud_sandbox.aws import moto_backend
from gpucloud_sandbox.aws.callers import Caller
from gpucloud_sandbox.aws.region import ACCOUNT, Region
from gpucloud_sandbox.aws.wire import AwsError, not_emulated
from gpucloud_sandbox.database import Document, Shelf
from gpucloud_sandbox.policy import Statement, holding, statements_of, words

DEFAULT_S = 3600
DEFAULT_FEDERATED_S = 43200
SHORTEST_S = 900
LONGEST_CHAINED_S = 3600
LONGEST_POLICY = 2048
_NAME = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)
_ROLE = re.compile(r"arn:aws:iam::(\d{12}):role/.+")


def get_caller_identity(region: Region, parameters: Mapping[str, Any]) -> Document:
    """GetCallerIdentity."""
    caller = _caller(region)
    return {"Account": ACCOUNT, "Arn": caller.arn, "UserId": caller.id}


def assume_role(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AssumeRole: a key, a secret and a token that end; the session policy only narrows what the role may."""
    caller, name = _caller(region), parameters["RoleSessionName"]
    if not _NAME.fullmatch(name):
        raise _invalid(f"Value '{name}' at 'roleSessionName' failed to satisfy [\\w+=,.@-]{{2,64}}")
    role = _role(parameters["RoleArn"], caller, parameters.get("ExternalId"))
    seconds = _duration(parameters.get("DurationSeconds", DEFAULT_S), role, caller)
    path = role["Arn"].rpartition("/")[2]
    who = {
        "_arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{path}/{name}",
        "_id": f"{role['RoleId']}:{name}",
        "_role": role["Arn"],
    }
    answer = _begin(region, who, parameters, seconds)
    return {**answer, "AssumedRoleUser": {"AssumedRoleId": who["_id"], "Arn": who["_arn"]}}


def get_federation_token(region: Region, parameters: Mapping[str, Any]) -> Document:
    """GetFederationToken: keys with the rights that both the user and the session policy give."""
    if _caller(region).token:
        raise AwsError("AccessDenied", "Cannot call GetFederationToken with session credentials", 403)
    name, seconds = parameters["Name"], parameters.get("DurationSeconds", DEFAULT_FEDERATED_S)
    who = {
        "_arn": f"arn:aws:sts::{ACCOUNT}:federated-user/{name}",
        "_id": f"{ACCOUNT}:{name}",
        "_role": "",
    }
    answer = _begin(region, who, parameters, seconds)
    return {**answer, "FederatedUser": {"FederatedUserId": who["_id"], "Arn": who["_arn"]}}


def find(shelf: Shelf, key: str) -> Caller | None:
    """The session with an access key, ended or not."""
    for _, each in shelf.everywhere("session"):
        if each["AccessKeyId"] == key:
            return Caller(
                arn=each["_arn"],
                id=each["_id"],
                key=key,
                secret=each["SecretAccessKey"],
                token=each["SessionToken"],
                ends=each["Expiration"],
                role=each["_role"],
                policy=each["_policy"],
            )
    return None


def grants(caller: Caller) -> Iterator[list[Statement]]:
    """The statements of a session's role, and those of its session policy: both must allow an action.

    A federated user has no role, and may do nothing without a session policy.

    Raises:
        AwsError: one has a condition that the sandbox does not understand.
    """
    if caller.role:
        role = moto_backend.role(caller.role)
        documents: list[Document] = [] if role is None else role["_policies"]
        yield [each for document in documents for each in _statements(document)]
    if caller.policy:
        yield _statements(json.loads(caller.policy))
    elif not caller.role:
        yield []


def _begin(region: Region, who: Mapping[str, str], parameters: Mapping[str, Any], seconds: int) -> Document:
    """A new session: its keys begin like AWS's, because scanners of logs and code know them by that."""
    policy = _session_policy(parameters.get("Policy", ""))
    credentials = {
        "AccessKeyId": f"ASIA{region.world.token(16).upper()}",
        "SecretAccessKey": region.world.token(40),
        "SessionToken": f"IQoJ{region.world.token(300)}",
        "Expiration": region.later(seconds),
    }
    region.put("session", {**credentials, **who, "_policy": policy})
    packed = {"PackedPolicySize": len(policy) * 100 // LONGEST_POLICY} if policy else {}
    return {"Credentials": credentials, **packed}


def _role(arn: str, caller: Caller, external_id: str | None) -> Document:
    """The role, if its trust policy lets the caller in. STS says the same of one that does not exist."""
    named = _ROLE.fullmatch(arn)
    if named is None:
        raise _invalid(f"{arn} is invalid")
    role = moto_backend.role(arn) if named[1] == ACCOUNT else None
    keys = {} if external_id is None else {"sts:ExternalId": external_id}
    if role is None or not _trusts(_statements(role["AssumeRolePolicyDocument"]), caller, keys):
        text = f"User: {caller.arn} is not authorized to perform: sts:AssumeRole on resource: {arn}"
        raise AwsError("AccessDenied", text, 403)
    return role


def _trusts(statements: list[Statement], caller: Caller, keys: Mapping[str, str]) -> bool:
    effects = {
        statement["Effect"]
        for statement in holding(statements, keys)
        if any(fnmatchcase("sts:AssumeRole", glob) for glob in words(statement.get("Action", [])))
        and _names(statement.get("Principal"), caller)
    }
    return effects == {"Allow"}


def _names(principal: object, caller: Caller) -> bool:
    """Whether a trust policy's Principal is the caller: itself, its role, or its whole account."""
    if isinstance(principal, dict):
        principal = cast("dict[str, Any]", principal).get("AWS", [])
    trusted = words(cast("str | list[str]", principal or []))
    account = {"*", ACCOUNT, f"arn:aws:iam::{ACCOUNT}:root"}
    return not account.isdisjoint(trusted) or caller.arn in trusted or caller.role in trusted


def _session_policy(text: str) -> str:
    if len(text) > LONGEST_POLICY:
        raise _invalid(f"Value at 'policy' is longer than {LONGEST_POLICY} characters")
    if text:
        try:
            document: Any = json.loads(text)
            _statements(document)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise AwsError("MalformedPolicyDocument", "The session policy is not in valid JSON") from None
    return text


def _duration(seconds: int, role: Document, caller: Caller) -> int:
    """How long the session lasts. Shorter than the least is refused before, by the model."""
    if caller.role and seconds > LONGEST_CHAINED_S:
        limit = "the 1 hour session limit for roles assumed by role chaining"
        raise _invalid(f"The requested DurationSeconds exceeds {limit}")
    if seconds > role["MaxSessionDuration"]:
        raise _invalid("The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
    return seconds


def _statements(document: Mapping[str, Any]) -> list[Statement]:
    listed: Any = document["Statement"]
    try:
        return statements_of({"Statement": [listed] if isinstance(listed, dict) else listed})
    except ValueError as problem:
        raise not_emulated(f"a policy: {problem}") from None


def _caller(region: Region) -> Caller:
    assert region.caller is not None  # noqa: S101  (each call has one)
    return region.caller


def _invalid(text: str) -> AwsError:
    return AwsError("ValidationError", text)
