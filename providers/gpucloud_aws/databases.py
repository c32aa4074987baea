"""Logins at databases of RDS."""

from __future__ import annotations

import re

from gpucloud.clouds.abilities import DatabaseLogin, DatabaseLogins
from gpucloud_aws.account import AwsAccount

_DATABASE = re.compile(r"\.(?P<region>[a-z]{2}(?:-[a-z]+)+-\d+)\.rds\.amazonaws\.com(?:\.cn)?")
"""The end of the name of a database of RDS. Source: RDS User Guide, "Connecting to a DB instance"."""


class AwsDatabaseLogins(DatabaseLogins):
    """Tokens of IAM's database authentication."""

    def __init__(self, account: AwsAccount) -> None:
        self._account = account

    def database_token(self, login: DatabaseLogin, /) -> str:
        """A request to RDS that is signed here, for 15 minutes; nothing is sent.

        The server takes it from a login with the role ``rds_iam``, if the identity may ``rds-db:connect``.
        Source: RDS User Guide, "IAM database authentication". UNVERIFIED with a real server.
        """
        from botocore.signers import generate_db_auth_token

        clients, found = self._account.clients, _DATABASE.search(login.host)
        region = found["region"] if found else clients.home_region
        client = clients.client("sts", region, attempts=1)  # any client: its signer is what is used
        return str(generate_db_auth_token(client, login.host, login.port, login.user, region))
