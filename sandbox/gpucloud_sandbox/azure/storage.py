"""Storage accounts: made and deleted by Resource Manager; their keys; the bill for what is in them."""

from __future__ import annotations

import base64
import re
from decimal import Decimal

from gpucloud_sandbox.azure import validation
from gpucloud_sandbox.azure.review import review_tags
from gpucloud_sandbox.azure.subscription import ACCOUNT, Subscription, canonical
from gpucloud_sandbox.azure.wire import Answer, AzureError, Json
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.market import HOURS_PER_MONTH

USD_PER_GIB_MONTH = Decimal("0.0208")
"""Hot blobs with local redundancy. Source: Azure's page of prices for block blobs, UNVERIFIED."""
BLOB, BLOCKS, CONTAINER = "blob", "blocks", "container"
"""The kinds under which what is in accounts is kept."""
TAKEN = frozenset({"api", "common", "console", "metadata", "providers", "subscriptions", "tenants"})
"""Names that the sandbox's own addresses begin with: to a caller, accounts of somebody else."""
_NAME = re.compile(r"[a-z0-9]{3,24}")
_KEYS = ("key1", "key2")
_ENCRYPTION: Json = {
    "keySource": "Microsoft.Storage",
    "services": {"blob": {"enabled": True, "keyType": "Account"}},
}
"""How every account encrypts: with Azure's own key."""


def make_account(subscription: Subscription, document: Document, body: Json) -> None:
    """The rules of an account; what is put into it is billed."""
    review_tags(body, "the storage account")
    old = subscription.find(ACCOUNT, document["id"])
    flaw = _name_flaw(subscription, document["name"], document["id"])
    if flaw is not None:
        raise flaw
    if old is None and not (body.get("sku") and body.get("kind")):
        raise AzureError("InvalidRequestPropertyValue", "A storage account needs sku.name and kind.")
    defaults: Document = {
        "accessTier": "Hot",
        "allowBlobPublicAccess": False,
        "allowSharedKeyAccess": True,
        "isHnsEnabled": False,
        "minimumTlsVersion": "TLS1_2",
        "supportsHttpsTrafficOnly": True,
        "publicNetworkAccess": "Enabled",
        "networkAcls": {"bypass": "AzureServices", "defaultAction": "Allow", "ipRules": []},
        "creationTime": subscription.moment,
        "primaryLocation": document["location"],
        "statusOfPrimary": "available",
    }
    document["sku"] = {"name": "Standard_LRS", "tier": "Standard"}
    document["kind"] = "StorageV2"
    document["_keys"] = old["_keys"] if old else {name: _new_key(subscription) for name in _KEYS}
    kept: Document = old["properties"] if old else defaults
    document["properties"] = {**kept, **document["properties"], "encryption": _ENCRYPTION}
    document["properties"]["primaryEndpoints"] = {"blob": f"{document['_origin']}/{document['name']}/"}


def _new_key(subscription: Subscription) -> str:
    return base64.b64encode(bytes.fromhex(subscription.world.token(128))).decode()


def _name_flaw(subscription: Subscription, name: str, id_: str | None = None) -> AzureError | None:
    """Why an account cannot have a name; nothing where it can.

    Source: azure-docs, "Resolve errors for storage account names"; the statuses are UNVERIFIED.

    Args:
        subscription: the subscription.
        name: the name.
        id_: of the account that may have the name already.
    """
    if not _NAME.fullmatch(name):
        text = (
            f"{name} is not a valid storage account name. Storage account name must be between 3 and 24 "
            "characters in length and use numbers and lower-case letters only."
        )
        return AzureError("AccountNameInvalid", text)
    other = find_account(subscription, name)
    if name in TAKEN or (other is not None and (id_ is None or canonical(other["id"]) != canonical(id_))):
        text = f"The storage account named {name} is already taken."
        return AzureError("StorageAccountAlreadyTaken", text, 409)
    return None


def check_availability(subscription: Subscription, body: Json) -> Answer:
    """``checkNameAvailability``: whether a new account can have a name.

    Source: azure-sdk-for-net, StorageAccountTests (reasons and words); azure-mgmt-storage, ``Reason``.

    Raises:
        AzureError: the body has no name. The code is UNVERIFIED.
    """
    name = body.get("name")
    if not isinstance(name, str):
        raise AzureError("InvalidRequestContent", "The request content was invalid: name is no text.")
    flaw = _name_flaw(subscription, name)
    if flaw is None:
        return Answer(body={"nameAvailable": True})
    reason = "AccountNameInvalid" if flaw.code == "AccountNameInvalid" else "AlreadyExists"
    return Answer(body={"nameAvailable": False, "reason": reason, "message": flaw.message})


def find_account(subscription: Subscription, name: str) -> Document | None:
    """An account by its name, which is unique."""
    return next((each for each in subscription.all(ACCOUNT).values() if each["name"] == name), None)


def keys(subscription: Subscription, account: Document, action: str, body: Json) -> Answer:
    """``listKeys``, and ``regenerateKey``: what the old key signed is refused from then on."""
    if action == "regeneratekey":
        name = validation.read(f"POST {ACCOUNT}/regenerateKey", body).get("keyName")
        if name not in _KEYS:
            text = f"The value '{name}' of keyName is not one of key1, key2."
            raise AzureError("InvalidRequestPropertyValue", text)
        changed = {**account["_keys"], name: _new_key(subscription)}
        account = subscription.put(ACCOUNT, {**account, "_keys": changed})
    shown = [
        {"keyName": name, "value": value, "permissions": "FULL"} for name, value in account["_keys"].items()
    ]
    return Answer(body={"keys": shown})


def bill(subscription: Subscription, account: Document) -> None:
    """The bill of an account follows what is in it; an empty one costs nothing."""
    stored = sum(each["size"] for each in contents(subscription, BLOB, account["name"]))
    subscription.end_billing(account, "holds another amount")
    if stored:
        price = USD_PER_GIB_MONTH * stored / 1024**3 / HOURS_PER_MONTH
        subscription.begin_billing("storage", account, price.quantize(Decimal("1e-12")), "USD")


def contents(subscription: Subscription, kind: str, account: str) -> list[Document]:
    """The containers, or the blobs, of an account, by name."""
    found = [each for each in subscription.all(kind).values() if each["account"] == account]
    return sorted(found, key=lambda each: (each.get("container", ""), each["name"]))


def delete_account(subscription: Subscription, account: Document) -> None:
    """DELETE of an account, with all that is in it."""
    for kind in (BLOB, BLOCKS, CONTAINER):
        for each in contents(subscription, kind, account["name"]):
            subscription.forget(kind, each["key"])
    subscription.end_billing(account, "deleted")
    subscription.drop(ACCOUNT, account["id"])
