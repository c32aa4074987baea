"""The guard's settings: how a box queries its cloud's metadata service, and how it deletes itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """A cloud's metadata service, as seen from its boxes. Its answers carry the cloud's time (``Date``).

    Attributes:
        url: where it is, without a path.
        notice: the path that tells when a spot box is taken back; anything but 200 means not yet. What may
            be answered is told at ``guard.rules.notice_time``.
        notice_s: how long before that it tells, in seconds.
        headers: sent with every request.
        token_path: where a PUT gives the token that questions need; empty for clouds without.
        token_ttl_header: the PUT's header for the token's lifetime in seconds.
        token_header: the header for the token.
    """

    url: str
    notice: str
    notice_s: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    token_path: str = ""
    token_ttl_header: str = ""
    token_header: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfDelete:
    """How a box that has an identity of its own deletes itself.

    Attributes:
        url: the metadata service, without a path.
        headers: sent with every request to it.
        token: the path that answers ``access_token``, in JSON.
        name: the path that answers the machine's own path at ``endpoint``.
        endpoint: the cloud's API, without a path.
        query: what follows the machine's path in the call that deletes it.
    """

    url: str
    headers: Mapping[str, str]
    token: str
    name: str
    endpoint: str
    query: str
