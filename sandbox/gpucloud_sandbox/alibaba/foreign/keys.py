"""Key pairs, and who logs in with them. gpucloud makes none; users' own scripts may."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import asyncssh

from gpucloud_sandbox.alibaba.names import check_names
from gpucloud_sandbox.alibaba.region import Region, asked_tags, ecs_tags, has_tags, page_by_number, shown
from gpucloud_sandbox.alibaba.stock import alive
from gpucloud_sandbox.alibaba.wire import AlibabaError, json_list, true
from gpucloud_sandbox.database import Document

KEY_PAIRS = 500
"""Key pairs of an account in a region. Source: ECS user guide, "Limits", key pairs."""

MOST_INSTANCES = 50
"""Instances of one call. Source: ECS API reference, AttachKeyPair, ``InstanceIds``."""

_TYPES = ("ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
_RSA_BITS = 2048


def create_key_pair(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateKeyPair: the private key is told here, and never again."""
    _check_new(region, parameters)
    key = asyncssh.generate_private_key(  # pyright: ignore[reportUnknownMemberType]
        "ssh-rsa", key_size=_RSA_BITS
    )
    pair = _keep(region, parameters, key.export_public_key().decode().strip())
    private = key.export_private_key("pkcs8-pem").decode()
    return {**_named(pair), "KeyPairId": pair["KeyPairId"], "PrivateKeyBody": private}


def import_key_pair(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ImportKeyPair."""
    _check_new(region, parameters)
    body: str = parameters["PublicKeyBody"].strip()
    try:
        asyncssh.import_public_key(body)
    except asyncssh.KeyImportError:
        body = ""
    if not body.startswith(_TYPES):
        raise AlibabaError("InvalidPublicKeyBody.ValueNotSupported", "The public key is not supported.")
    return _named(_keep(region, parameters, body))


def _check_new(region: Region, parameters: Mapping[str, Any]) -> None:
    check_names(parameters, "KeyPairName")
    if parameters["KeyPairName"] in region.all("keypair"):
        raise AlibabaError("KeyPair.AlreadyExist", "The key pair already exist.")
    if len(region.all("keypair")) >= KEY_PAIRS:
        raise AlibabaError("QuotaExceed.KeyPair", "The key pair quota exceeds.", 403)


def _keep(region: Region, parameters: Mapping[str, Any], public_key: str) -> Document:
    data = asyncssh.import_public_key(public_key).public_data
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return region.put(
        "keypair",
        {
            "KeyPairId": region.new_id("keypair"),
            "KeyPairName": parameters["KeyPairName"],
            "KeyPairFingerPrint": ":".join(digest[at : at + 2] for at in range(0, len(digest), 2)),
            "PublicKey": public_key,
            "CreationTime": region.second,
            "Tags": ecs_tags(asked_tags(parameters)),
        },
    )


def _named(pair: Document) -> Document:
    return {name: pair[name] for name in ("KeyPairName", "KeyPairFingerPrint")}


def describe_key_pairs(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeKeyPairs."""
    found = [
        each
        for each in region.all("keypair").values()
        if fnmatchcase(each["KeyPairName"], parameters.get("KeyPairName") or "*")
        and parameters.get("KeyPairFingerPrint") in {None, each["KeyPairFingerPrint"]}
        and has_tags(each, parameters)
    ]
    hidden = () if true(parameters.get("IncludePublicKey")) else ("PublicKey",)
    items, about = page_by_number(found, parameters, 50)
    return {"KeyPairs": {"KeyPair": [_without(each, hidden) for each in items]}, **about}


def _without(pair: Document, hidden: Sequence[str]) -> Document:
    return {name: value for name, value in shown(pair).items() if name not in hidden}


def delete_key_pairs(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteKeyPairs: what is not there is no error. Instances keep the key."""
    for name in json_list(parameters["KeyPairNames"], "KeyPairNames") or ():
        region.drop("keypair", name)
    return {}


# --- on instances


def attach_key_pair(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AttachKeyPair, in place of another one. A running instance has the key after its next restart."""
    pair = region.all("keypair").get(parameters["KeyPairName"])
    if pair is None:
        text = "The specified KeyPairName does not exist in our records."
        raise AlibabaError("InvalidKeyPairName.NotFound", text)
    return _change(region, parameters, {"KeyPairName": pair["KeyPairName"], "_public_key": pair["PublicKey"]})


def detach_key_pair(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DetachKeyPair. A running instance takes the key until its next restart."""
    name = parameters["KeyPairName"]
    held = {each["InstanceId"] for each in region.all("instance").values() if each["KeyPairName"] == name}
    return _change(region, parameters, {"KeyPairName": "", "_public_key": ""}, only=held)


def _change(
    region: Region, parameters: Mapping[str, Any], changes: Document, *, only: set[str] | None = None
) -> Document:
    """Changes the key of instances, and answers for each of them; those that are not among ``only`` fail."""
    ids = json_list(parameters["InstanceIds"], "InstanceIds") or []
    known = region.all("instance")
    if not ids or any(id_ not in known or not alive(known[id_]) for id_ in ids):
        text = "The specified parameter InstanceIds is not valid."
        raise AlibabaError("InvalidInstanceIds.ValueNotSupported", text)
    if len(ids) > MOST_INSTANCES:
        text = "The specified instances are beyond the permitted range."
        raise AlibabaError("InstanceKeyPairLimitExceeded", text, 403)
    done = [id_ for id_ in ids if only is None or id_ in only]
    for id_ in done:
        region.put("instance", {**known[id_], **changes})
    return {
        "KeyPairName": parameters["KeyPairName"],
        "TotalCount": len(ids),
        "FailCount": len(ids) - len(done),
        "Results": {"Result": [_result(id_, success=id_ in done) for id_ in ids]},
    }


def _result(id_: str, *, success: bool) -> Document:
    """How it went with one instance; the code of a failure is UNVERIFIED."""
    said = {"Code": "200", "Message": "successful"}
    if not success:
        said = {"Code": "InvalidKeyPairName.NotFound", "Message": "The instance does not have the key pair."}
    return {"InstanceId": id_, "Success": str(success).lower(), **said}
