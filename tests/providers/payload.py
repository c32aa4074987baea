"""The bytes of an answer that a test has written."""

from __future__ import annotations

import json
from typing import Any


def payload_of(content: Any) -> bytes:
    """Bytes as they are, a text in UTF-8, and anything else as JSON."""
    if isinstance(content, bytes):
        return content
    return (content if isinstance(content, str) else json.dumps(content)).encode()
