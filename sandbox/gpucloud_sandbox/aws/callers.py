"""Who sends a request: the account's user, or a session with a key and a token of its own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gpucloud_sandbox.aws.region import ACCOUNT
from gpucloud_sandbox.clock import stamp

USER = f"arn:aws:iam::{ACCOUNT}:user/sandbox"
_USER_ID = "AIDASANDBOXSANDBOXSAN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One holder of a key.

    Attributes:
        arn: of the user or the session.
        id: what STS calls the UserId.
        key: the access key's id.
        secret: the access key's secret.
        token: the session's token, which each request must carry; empty for the user.
        ends: when the session's key ends by the clouds' clock, RFC 3339; empty for the user.
        role: the ARN of the session's role; empty for the user, and for a federated user.
        policy: the session policy, as JSON; empty without one.
    """

    arn: str
    id: str
    key: str
    secret: str
    token: str = ""
    ends: str = ""
    role: str = ""
    policy: str = ""

    def expired(self, now: datetime) -> bool:
        """Whether the key has ended."""
        return bool(self.ends) and self.ends <= stamp(now)


def user(key: str, secret: str) -> Caller:
    """The user of the account, whose key the sandbox prints."""
    return Caller(arn=USER, id=_USER_ID, key=key, secret=secret)
