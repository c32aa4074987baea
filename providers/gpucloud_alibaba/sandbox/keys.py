"""Key pairs. gpucloud makes none; users' own scripts may."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from gpucloud.sandbox.database import Document
from gpucloud_alibaba.sandbox.region import Region, asked_tags, ecs_tags, has_tags, page_by_number, shown
from gpucloud_alibaba.sandbox.wire import AlibabaError, json_list, true


def import_key_pair(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ImportKeyPair."""
    name = parameters["KeyPairName"]
    if name in region.all("keypair"):
        raise AlibabaError("KeyPair.AlreadyExist", "The key pair already exist.")
    kind, _, rest = parameters["PublicKeyBody"].strip().partition(" ")
    try:
        body = base64.b64decode(rest.split(" ")[0], validate=True)
    except binascii.Error:
        body = b""
    if (
        kind not in {"ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"}
        or not body
    ):
        raise AlibabaError("InvalidPublicKeyBody.ValueNotSupported", "The public key is not supported.")
    digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
    pair = region.put(
        "keypair",
        {
            "KeyPairName": name,
            "KeyPairFingerPrint": digest,
            "PublicKey": parameters["PublicKeyBody"],
            "CreationTime": region.second,
            "Tags": ecs_tags(asked_tags(parameters)),
        },
    )
    return {"KeyPairName": name, "KeyPairFingerPrint": pair["KeyPairFingerPrint"]}


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
    """DeleteKeyPairs: what is not there is no error."""
    for name in json_list(parameters["KeyPairNames"], "KeyPairNames") or ():
        region.drop("keypair", name)
    return {}
