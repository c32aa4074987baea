"""Azure Compute Gallery: galleries, and definitions of images in them; neither costs anything.

Words, where not marked: azure-compute-docs, troubleshooting-shared-images.md, read 2026-11-26.
"""

from __future__ import annotations

import re

from gpucloud_sandbox.azure.members import not_emulated
from gpucloud_sandbox.azure.subscription import (
    BY_NAME,
    DEFINITION,
    GALLERY,
    SUBSCRIPTION,
    VERSION,
    Subscription,
    canonical,
    part,
    tail,
)
from gpucloud_sandbox.azure.wire import AzureError, Json
from gpucloud_sandbox.database import Document

TRUSTED, EITHER, STANDARD = "TrustedLaunch", "TrustedLaunchSupported", "Standard"
_GALLERY_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.]{0,78}[A-Za-z0-9])?")
_DEFINITION_NAME = re.compile(r"[^_\W][\w\-.]{0,79}(?<![-.])", re.ASCII)
_LABEL = re.compile(r"[\w\-.]*[\w\-]", re.ASCII)
_LABELS = {"publisher": 128, "offer": 64, "sku": 64}
_FIXED = ("osType", "osState", "hyperVGeneration", "identifier", "architecture", "features")


def make_gallery(subscription: Subscription, document: Document, body: Json) -> None:
    """The rules of a gallery."""
    name = document["name"]
    if not _GALLERY_NAME.fullmatch(name):
        raise invalid(
            "Gallery name is invalid. Allowed characters are English alphanumeric characters, with "
            "underscores, and periods allowed in the middle, up to 80 characters total. All other special "
            "characters, including dashes, are disallowed."
        )
    for id_, each in subscription.all(GALLERY).items():
        if each["name"].lower() == name.lower() and id_ != canonical(document["id"]):
            text = (
                f"The gallery name {name} is not unique within the subscription {SUBSCRIPTION}. "
                "Please pick another gallery name"
            )
            raise AzureError("Conflict", text, 409)  # UNVERIFIED: code
    document["properties"]["identifier"] = {"uniqueName": f"{SUBSCRIPTION}-{name.upper()}"}


def delete_gallery(subscription: Subscription, gallery: Document) -> None:
    """DELETE of a gallery, which must be empty."""
    _check_empty(subscription, gallery, DEFINITION)
    subscription.drop(GALLERY, gallery["id"])


def invalid(text: str) -> AzureError:
    """The refusal of a value; UNVERIFIED that it has this code, where nothing else is said."""
    return AzureError("InvalidParameter", text)


def _check_empty(subscription: Subscription, parent: Document, kind: str) -> None:
    """Passes what has nothing in it. Code and words: gardenlinux#2036, jenkins-infra/azure#1544."""
    inside = _within(subscription, kind, canonical(parent["id"]))
    if inside:
        names = ", ".join(each["id"].partition("/providers/")[2] for each in inside)
        text = (
            "Cannot delete resource while nested resources exist. Some existing nested resource IDs "
            f"include: '{names}'. Please delete all nested resources before deleting this resource."
        )
        raise AzureError("CannotDeleteResource", text, 409)


def _within(subscription: Subscription, kind: str, parent: str) -> list[Document]:
    """The resources of a type in another one, by its canonical id."""
    return [each for id_, each in subscription.all(kind).items() if id_.startswith(f"{parent}/")]


def check_parent(subscription: Subscription, kind: str, id_: str) -> None:
    """Passes a resource that is in no other one, or in one that is there.

    Raises:
        AzureError: it is not there.
    """
    above = kind.rpartition("/")[0]
    if above not in BY_NAME.values():
        return
    parent = id_.rsplit("/", 2)[0]
    if subscription.find(above, parent) is None:
        text = (
            "Can not perform requested operation on nested resource. "
            f"Parent resource '{tail(parent)}' not found."
        )
        raise AzureError("ParentResourceNotFound", text, 404)


def make_definition(subscription: Subscription, document: Document, body: Json) -> None:
    """The rules of a definition; what it says of its images stays as it is."""
    properties = document["properties"]
    old = subscription.find(DEFINITION, document["id"])
    if old is not None:
        for name in _FIXED:
            if properties.setdefault(name, old["properties"][name]) != old["properties"][name]:
                text = f"Changing property 'galleryImage.properties.{name}' is not allowed."
                raise AzureError("PropertyChangeNotAllowed", text, 409)  # UNVERIFIED: code
        return
    if not _DEFINITION_NAME.fullmatch(document["name"]):
        rule = r"^[^_\W][\w-._]{0,79}(?<![-.])$"
        raise invalid(
            f"The entity name '{document['name']}' is invalid according to its validation rule: {rule}."
        )
    _check_identifier(subscription, document)
    for name in ("osType", "osState"):
        if not properties.get(name):
            raise invalid(f"Required parameter 'galleryImage.properties.{name}' is missing (null).")
    security = security_of(document)
    if "hyperVGeneration" not in properties or security is None:
        # Since API version 2025-03-03 their defaults are other ones (azure-compute-gallery.md).
        raise not_emulated(f"PUT {DEFINITION} without hyperVGeneration, or without the feature SecurityType")
    if properties["hyperVGeneration"] == "V1" and security != STANDARD:
        raise invalid(f"The security type '{security}' is not supported with Hypervisor generation 'V1'.")
    properties.setdefault("architecture", "x64")


def _check_identifier(subscription: Subscription, document: Document) -> None:
    identifier = part(document, "properties", "identifier")
    for name, most in _LABELS.items():
        value = str(identifier.get(name) or "")
        if not _LABEL.fullmatch(value) or len(value) > most:
            raise invalid(
                f"Asset name galleryImage.properties.identifier.{name} is not valid. It cannot be empty. "
                "Allowed characters are uppercase or lowercase letters, digits, hyphen(-), period (.), "
                "underscore (_). Names are not allowed to end with period(.). The length of the name cannot "
                f"exceed {most} characters."
            )
    for each in _within(subscription, DEFINITION, canonical(document["id"]).rpartition("/images/")[0]):
        if part(each, "properties", "identifier") == identifier:
            said = ", ".join(f"{name}:{identifier[name]}" for name in _LABELS)
            text = (
                f"Gallery image: {each['name']} identified by ({said}) already exists. Choose a different "
                "publisher, offer, sku combination."
            )
            raise AzureError("Conflict", text, 409)  # UNVERIFIED: code


def security_of(definition: Document) -> str | None:
    """The security type of a definition; ``None`` where it does not say."""
    features: list[Json] = definition["properties"].get("features") or []
    return next((str(each.get("value")) for each in features if each.get("name") == "SecurityType"), None)


def delete_definition(subscription: Subscription, definition: Document) -> None:
    """DELETE of a definition, which must be empty."""
    _check_empty(subscription, definition, VERSION)
    subscription.drop(DEFINITION, definition["id"])
