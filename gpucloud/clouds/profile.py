"""The account of a provider and the way to it (endpoints, proxies), as settings that the caller passes.

A provider reads a profile instead of its process's environment, so that one process can use several accounts,
and several sandboxes, at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

CA_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""The variables for further certificate authorities, as ``requests`` reads them."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Settings by the names of the environment variables that the vendors' tools read.

    Attributes:
        variables: credentials or where they are kept, endpoints, proxies, certificate authorities. Never
            printed: they hold secrets.
    """

    variables: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        """Keeps a copy: an environment that changes later changes nothing here."""
        object.__setattr__(self, "variables", dict(self.variables))

    def get(self, name: str) -> str | None:
        """A setting; ``None`` where it is missing or empty."""
        return self.variables.get(name) or None

    def is_on(self, name: str) -> bool:
        """Whether a setting is ``true``."""
        return (self.get(name) or "").lower() == "true"

    @property
    def home(self) -> Path:
        """The folder in which the vendors' tools keep their files."""
        return Path(self.get("HOME") or Path.home())

    @property
    def ca_bundle(self) -> str | None:
        """The file of certificate authorities to trust; ``None`` for the usual ones."""
        return next(filter(None, map(self.get, CA_BUNDLES)), None)

    def proxies(self, url: str) -> dict[str, str]:
        """The proxies for a URL, by scheme; none for this machine itself."""
        known: dict[str, str] = {}
        for name, value in sorted(self.variables.items()):  # lower case comes last and wins
            scheme, _, what = name.lower().rpartition("_")
            if what == "proxy" and value:
                known[scheme] = value
        excluded = known.pop("no", "")
        if "REQUEST_METHOD" in self.variables and "http_proxy" not in self.variables:
            known.pop("http", None)  # in a CGI script, whoever asks could set it by a header
        return {} if is_loopback(url) or _is_excluded(url, excluded) else known


def _is_excluded(url: str, excluded: str) -> bool:
    """Whether ``no_proxy`` lists a URL's host, one of its domains, or everything."""
    parts = urlsplit(url)
    hosts = {(parts.hostname or "").lower(), parts.netloc.rpartition("@")[2].lower()}
    for each in excluded.lower().split(","):
        name = each.strip().lstrip(".")
        if name == "*" or (name and any(host == name or host.endswith(f".{name}") for host in hosts)):
            return True
    return False


def is_loopback(url: str) -> bool:
    """Whether a URL points to this machine, by its text alone: no name is resolved."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
