"""How a box asks its cloud's metadata service: what the guard on it is told."""

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
        headers: what every question carries.
        token_path: where a PUT gives the token that questions need; empty for clouds without.
        token_ttl_header: how the PUT says for how many seconds.
        token_header: how questions carry it.
    """

    url: str
    notice: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    token_path: str = ""
    token_ttl_header: str = ""
    token_header: str = ""
