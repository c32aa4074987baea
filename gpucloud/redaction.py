"""Removes credentials and private keys from text that is printed or stored."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "[hidden]"
SHORTEST_VALUE = 4
"""A shorter value is no secret, and replacing it everywhere would make a text unreadable."""

_SECRETS = re.compile(
    # A name that always denotes a secret, with the value after it.
    r"(?P<name>(?:secret|password|passwd|access_?key)[\w-]*[\"']?\s*[=:]\s*[\"']?"
    # A name that also occurs in error codes ("InvalidToken: The ..."): only what looks like a value.
    r"|(?:token|signature|credential|authorization)[\w-]*[\"']?\s*"
    r"(?:=\s*[\"']?|:\s*[\"']?(?:bearer|basic)\s+|:\s*[\"']?(?=[A-Za-z0-9+/=_.~-]{16})))[^\s\"',;&}]+"
    r"|\b(?:AKIA|ASIA|LTAI)[A-Za-z0-9]{12,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.IGNORECASE | re.DOTALL,
)


def redact(text: str, values: Iterable[str] = ()) -> str:
    """Replaces what looks like a credential or a private key, and these values wherever they occur."""
    for value in sorted(values, key=len, reverse=True):  # a value may be a part of another one
        if len(value) >= SHORTEST_VALUE:
            text = text.replace(value, HIDDEN)
    return _SECRETS.sub(lambda found: (found["name"] or "") + HIDDEN, text)
