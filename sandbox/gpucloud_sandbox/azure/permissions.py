"""What roles and registrations allow: everything, except what a test or a user has taken away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from gpucloud_sandbox.azure import roles
from gpucloud_sandbox.azure.entra import OBJECT
from gpucloud_sandbox.azure.subscription import Subscription
from gpucloud_sandbox.azure.wire import AzureError

_ROLE, _DENIED, _UNREGISTERED = "azure_role", "azure_denied", "azure_unregistered"
NAMESPACES = (
    "Microsoft.Authorization",
    "Microsoft.Compute",
    "Microsoft.ComputeSchedule",
    "Microsoft.DevTestLab",
    "Microsoft.Features",
    "Microsoft.Network",
    "Microsoft.Resources",
    "Microsoft.Storage",
)


def forget(subscription: Subscription) -> None:
    """As on the first day."""
    for setting in (_ROLE, _DENIED, _UNREGISTERED):
        subscription.world.database.keep_setting(setting, None)


def set_policy(subscription: Subscription, document: Mapping[str, Any] | None) -> None:
    """Allows what a role's definition allows, and nothing else; ``None`` lifts it."""
    role = document and {name: list(document[name]) for name in ("Actions", "NotActions")}
    subscription.world.database.keep_setting(_ROLE, role)


def deny(subscription: Subscription, actions: Sequence[str]) -> None:
    """Denies the actions (globs such as ``Microsoft.Compute/*/write``); none lifts it."""
    subscription.world.database.keep_setting(_DENIED, list(actions))


def role(subscription: Subscription) -> Mapping[str, Any]:
    """What the client was given, as Microsoft.Authorization returns it."""
    given = subscription.world.database.setting(_ROLE) or {"Actions": ["*"], "NotActions": []}
    denied: list[str] = subscription.world.database.setting(_DENIED) or []
    return {
        "actions": given["Actions"],
        "notActions": [*given["NotActions"], *denied],
        "dataActions": [],
        "notDataActions": [],
    }


def allows(subscription: Subscription, action: str) -> bool:
    """Whether the roles allow an action."""
    given = role(subscription)

    def fits(globs: Sequence[str]) -> bool:
        return any(fnmatchcase(action.lower(), glob.lower()) for glob in globs)

    return fits(given["actions"]) and not fits(given["notActions"])


def check(subscription: Subscription, action: str, scope: str) -> None:
    """Passes what the roles allow.

    Raises:
        AzureError: they do not.
    """
    own = subscription.principal
    allowed = allows(subscription, action) if own is None else roles.allows(subscription, own, action, scope)
    if not allowed:
        text = (
            f"The client '{subscription.client}' with object id '{own or OBJECT}' does not have "
            f"authorization to perform action '{action}' over scope '{scope}' or the scope is invalid. "
            "If access was recently granted, please refresh your credentials."
        )
        raise AzureError("AuthorizationFailed", text, 403)


def check_linked(subscription: Subscription, action: str, scope: str, linked: Mapping[str, str]) -> None:
    """Passes what may be joined to what is made.

    Args:
        subscription: the subscription.
        action: what is done.
        scope: to what.
        linked: by the action that each needs, the ids of what it names.

    Raises:
        AzureError: the roles do not allow one of them.
    """
    refused = [each for each in linked if not allows(subscription, each)]
    if refused:
        text = (
            f"The client '{subscription.client}' with object id '{OBJECT}' has permission to perform action "
            f"'{action}' on scope '{scope}'; however, it does not have permission to perform action(s) "
            f"'{', '.join(refused)}' on the linked scope(s) '{', '.join(linked[each] for each in refused)}' "
            "(respectively) or the linked scope(s) are invalid."
        )
        raise AzureError("LinkedAuthorizationFailed", text, 403)


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
