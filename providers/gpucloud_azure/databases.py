"""Logins at Azure Database."""

from __future__ import annotations

from gpucloud.clouds.abilities import DatabaseLogin, DatabaseLogins
from gpucloud_azure.account import AzureAccount

DATABASES = "https://ossrdbms-aad.database.windows.net/.default"
"""The scope of tokens for databases, in the public cloud."""


class AzureDatabaseLogins(DatabaseLogins):
    """Tokens of Entra."""

    def __init__(self, account: AzureAccount) -> None:
        self._account = account

    def database_token(self, login: DatabaseLogin, /) -> str:  # noqa: ARG002  (it is for any server)
        """An Entra token for Azure Database, for about an hour.

        Source: learn.microsoft.com, "Use Microsoft Entra ID for authentication with Azure Database for
        PostgreSQL". UNVERIFIED with a real server.
        """
        return self._account.clients.credential.get_token(DATABASES).token
