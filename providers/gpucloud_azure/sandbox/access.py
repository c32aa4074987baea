"""What roles and registrations allow: everything, but what a test or a user has taken away."""

from __future__ import annotations

from fnmatch import fnmatchcase

from gpucloud_azure.sandbox.entra import OBJECT
from gpucloud_azure.sandbox.subscription import Subscription
from gpucloud_azure.sandbox.wire import AzureError

_DENIED, _UNREGISTERED = "azure_denied", "azure_unregistered"
NAMESPACES = (
    "Microsoft.Authorization",
    "Microsoft.Compute",
    "Microsoft.ComputeSchedule",
    "Microsoft.DevTestLab",
    "Microsoft.Features",
    "Microsoft.Network",
    "Microsoft.Resources",
)


def deny(subscription: Subscription, actions: list[str]) -> None:
    """Denies the actions (globs such as ``Microsoft.Compute/*/write``); none lifts it."""
    subscription.world.database.keep_setting(_DENIED, actions)


def denied(subscription: Subscription) -> list[str]:
    """The globs of what is denied."""
    actions: list[str] = subscription.world.database.setting(_DENIED) or []
    return actions


def allows(subscription: Subscription, action: str) -> bool:
    """Whether the roles allow an action."""
    return not any(fnmatchcase(action.lower(), glob.lower()) for glob in denied(subscription))


def check(subscription: Subscription, action: str, scope: str, client: str) -> None:
    """Passes what the roles allow.

    Raises:
        AzureError: they do not.
    """
    if not allows(subscription, action):
        text = (
            f"The client '{client}' with object id '{OBJECT}' does not have authorization to perform "
            f"action '{action}' over scope '{scope}' or the scope is invalid. If access was recently "
            "granted, please refresh your credentials."
        )
        raise AzureError("AuthorizationFailed", text, 403)


def register(subscription: Subscription, namespace: str, *, registered: bool) -> None:
    """Registers a resource provider, or takes that back."""
    unregistered: list[str] = subscription.world.database.setting(_UNREGISTERED) or []
    left = [each for each in unregistered if each.lower() != namespace.lower()]
    subscription.world.database.keep_setting(_UNREGISTERED, left if registered else [*left, namespace])


def is_registered(subscription: Subscription, namespace: str) -> bool:
    """Whether a resource provider is registered."""
    unregistered: list[str] = subscription.world.database.setting(_UNREGISTERED) or []
    return namespace.lower() not in {each.lower() for each in unregistered}


def check_registered(subscription: Subscription, namespace: str) -> None:
    """Passes calls to resource providers that are registered.

    Raises:
        AzureError: this one is not.
    """
    if not is_registered(subscription, namespace):
        text = (
            f"The subscription is not registered to use namespace '{namespace}'. See "
            "https://aka.ms/rps-not-found for how to register subscriptions."
        )
        raise AzureError("MissingSubscriptionRegistration", text, 409)


def forget(subscription: Subscription) -> None:
    """As on the first day."""
    for setting in (_DENIED, _UNREGISTERED):
        subscription.world.database.keep_setting(setting, None)
