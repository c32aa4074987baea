"""Checks whether gpucloud works with these credentials: identity, permissions, registered providers."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, cast

from gpucloud.clouds.abilities import Checkup
from gpucloud.clouds.kit import in_threads
from gpucloud.resources import Identity, Permission
from gpucloud_azure.account import AzureAccount
from gpucloud_azure.clients import Clients
from gpucloud_azure.errors import MalformedAnswerError, reading

PERMISSIONS_API = "2022-04-01"
PROVIDERS_API = "2021-04-01"
DAILY = "Microsoft.DevTestLab"
"""Only for the daily shutdown, which is set in addition to the exact one."""
NAMESPACES = ("Microsoft.Compute", "Microsoft.Network", "Microsoft.ComputeSchedule", DAILY)
HINT = (
    "az login; with several subscriptions also: export AZURE_SUBSCRIPTION_ID=$(az account show --query id "
    "-o tsv); or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET of a service principal"
)


@cache
def policy() -> str:
    """The custom role, as ``az role definition create --role-definition`` takes it."""
    return files("gpucloud_azure").joinpath("policy.json").read_text(encoding="utf-8")


# --- permissions


@reading("a list of permissions")
def allows(granted: Sequence[Mapping[str, Any]], action: str) -> bool:
    """Whether one of the granted roles allows an action, and does not exclude it itself.

    Args:
        granted: the elements of the answer: ``actions`` and ``notActions``, globs with ``*``.
        action: one of Azure's actions.
    """

    def fits(patterns: Any) -> bool:
        return any(fnmatchcase(action.lower(), str(pattern).lower()) for pattern in patterns or ())

    return any(fits(role.get("actions")) and not fits(role.get("notActions")) for role in granted)


def granted(clients: Clients) -> list[Mapping[str, Any]]:
    """The permissions of the credentials in the whole subscription."""
    return list(clients.pages("/providers/Microsoft.Authorization/permissions", api=PERMISSIONS_API))


def may(clients: Clients, action: str) -> bool:
    """Whether the credentials may do something in the whole subscription."""
    return allows(granted(clients), action)


def registration(clients: Clients, namespace: str) -> str:
    """The registration state of a resource provider, in Azure's terms."""
    return str(clients.ask(f"/providers/{namespace}", api=PROVIDERS_API).get("registrationState", "unknown"))


def is_registered(clients: Clients, namespace: str) -> bool:
    """Whether a resource provider is registered for the subscription."""
    return registration(clients, namespace).lower() == "registered"


def claims_of(token: str) -> Mapping[str, Any]:
    """The claims of a token, unverified, as it is our own. Empty for an unreadable one."""
    try:
        payload = token.split(".")[1]
        claims: Any = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, RecursionError, ValueError):
        return {}
    return cast("Mapping[str, Any]", claims) if isinstance(claims, dict) else {}


class AzureCheckup(Checkup):
    """The credentials of the subscription."""

    def __init__(self, account: AzureAccount) -> None:
        self._account = account

    @property
    def credentials_hint(self) -> str:
        """The sign-in of the Azure command line, or a service principal."""
        return HINT

    @property
    def policy(self) -> str:
        """A custom role."""
        return policy()

    def identity(self) -> Identity:
        """The identity of the credentials, and which of the SDK's sources found them."""
        clients = self._account.clients
        credential: Any = clients.credential
        claims = claims_of(credential.get_token(clients.scope).token)
        who = next(
            (str(claims[name]) for name in ("upn", "unique_name", "appid", "azp", "oid") if claims.get(name)),
            "",
        )
        tenant = f" of tenant {claims['tid']}" if claims.get("tid") else ""
        found = getattr(credential, "_successful_credential", None)
        source = type(found).__name__ if found is not None else "DefaultAzureCredential"
        return Identity(account=clients.subscription(), who=f"{who or 'unknown'}{tenant}", source=source)

    def permissions(self, region: str, /) -> Sequence[Permission]:  # noqa: ARG002  (roles know no regions)
        """Every action of the policy, and whether the providers that are needed are registered."""
        clients = self._account.clients
        given = granted(clients)
        role = json.loads(policy())
        grant = (
            "az role definition create --role-definition <(gpucloud check --policy azure), then az role "
            f"assignment create --assignee APPLICATION-ID --role '{role['Name']}' "
            f"--scope /subscriptions/{clients.subscription()}"
        )
        found: list[Permission] = []
        for action in role["Actions"]:
            allowed = allows(given, action)
            said = "granted" if allowed else "no role of these credentials grants it in the subscription"
            found.append(Permission(action=action, allowed=allowed, said=said, fix="" if allowed else grant))
        states = in_threads(lambda namespace: registration(clients, namespace), NAMESPACES)
        for namespace, state in zip(NAMESPACES, states, strict=True):
            ready = state.lower() == "registered"
            fix = "" if ready else f"az provider register --namespace {namespace}"
            found.append(Permission(action=f"use {namespace}", allowed=ready, said=state, fix=fix))
        return found

    def server_time(self) -> datetime:
        """Resource Manager's clock.

        Raises:
            MalformedAnswerError: the answer has no date.
        """
        try:
            return parsedate_to_datetime(self._account.clients.date()).astimezone(UTC)
        except (TypeError, ValueError) as error:
            raise MalformedAnswerError("the answer has no Date") from error
