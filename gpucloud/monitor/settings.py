"""The channels for notices: a file that only its user can read, or a variable with the same text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from gpucloud.clouds.profile import is_loopback
from gpucloud.config import CHANNELS, CHANNELS_VARIABLE
from gpucloud.errors import UsageError
from gpucloud.monitor.channels import (
    Apprise,
    Channel,
    Http,
    Mail,
    Slack,
    Way,
    Webhook,
    refuse_apprise,
)
from gpucloud.monitor.notices import Occasion
from gpucloud.spec.fields import nearest
from gpucloud.spec.yaml import SpecFile, parse_outline

HINT = "docs/monitoring.md has an example"
MOST_BYTES = 65536
KEYS: Mapping[str, frozenset[str]] = {
    "webhook": frozenset({"secret"}),
    "slack": frozenset(),
    "smtp": frozenset({"from", "to"}),
    "apprise": frozenset(),
}
"""The kinds of channels, each the key of its URL, and the keys that belong to it, beside ``only``."""


def read_channels(config: Path, variables: Mapping[str, str]) -> tuple[Channel, ...]:
    """The channels of the variable, else of the file; none without both.

    Args:
        config: the configuration folder.
        variables: the variables of the environment.

    Raises:
        UsageError: naming the place, and what is allowed; never a secret.
    """
    if text := variables.get(CHANNELS_VARIABLE):
        return _channels(text.encode(), CHANNELS_VARIABLE, variables)
    file = config / CHANNELS
    try:
        with file.open("rb") as stream:
            if os.fstat(stream.fileno()).st_mode & 0o077:
                raise UsageError(
                    f"others can read {file}, and its addresses are secrets", hint=f"chmod 600 {file}"
                )
            data = stream.read(MOST_BYTES)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from error
    return _channels(data, str(file), variables)


def _channels(data: bytes, source: str, variables: Mapping[str, str]) -> tuple[Channel, ...]:
    outline = parse_outline(data, source)
    outline.check({"channels": (outline.sections, "a mapping of channels, each with its keys")}, HINT)
    sections = outline.sections.get("channels", {})
    return tuple(_channel(name, each, variables) for name, each in sections.items())


def _channel(name: str, section: SpecFile, variables: Mapping[str, str]) -> Channel:
    where = f"{section.source}:{section.line}: channel {name!r}"
    fields = section.fields
    kinds = [kind for kind in KEYS if kind in fields]
    if len(kinds) != 1:
        raise UsageError(f"{where} needs one of {', '.join(KEYS)}", hint=HINT)
    allowed = KEYS[kinds[0]] | {kinds[0], "only"}
    for key in fields:
        if key not in allowed:
            raise UsageError(f"{where}: unknown key {key!r}{nearest(key, allowed)}", hint=HINT)
    only = frozenset(_texts(section, "only", where))
    if strange := sorted(only - set(Occasion)):
        raise UsageError(f"{where}: only: unknown {strange[0]!r}; allowed: {', '.join(Occasion)}")
    return Channel(name=name, way=_way(kinds[0], section, where, variables), only=only)


def _way(kind: str, section: SpecFile, where: str, variables: Mapping[str, str]) -> Way:
    url = _text(section, kind, where)
    match kind:
        case "apprise":
            refuse_apprise()
            return Apprise(url=url)
        case "smtp":
            _refuse_url(url, where, ("smtp", "smtps"))
            sender, recipients = _text(section, "from", where), _texts(section, "to", where)
            if not recipients or any("\n" in each for each in (sender, *recipients)):
                raise UsageError(f"{where}: to: at least one address is needed", hint=HINT)
            return Mail(url=url, sender=sender, recipients=recipients)
        case _:
            _refuse_url(url, where, ("https", "http") if is_loopback(url) else ("https",))
            http = Http(url=url, proxies=_proxies(variables))
            if kind == "slack":
                return Slack(http=http)
            return Webhook(
                http=http, secret=_text(section, "secret", where) if "secret" in section.fields else None
            )


def _proxies(variables: Mapping[str, str]) -> dict[str, str]:
    found = variables.get("https_proxy") or variables.get("HTTPS_PROXY")
    return {"https": found} if found else {}


def _refuse_url(url: str, where: str, schemes: tuple[str, ...]) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in schemes and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        begins = " or ".join(f"{scheme}://" for scheme in schemes)
        raise UsageError(f"{where}: its address must begin with {begins}", hint=HINT)


def _text(section: SpecFile, key: str, where: str) -> str:
    value = section.fields.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where}: {key} must be a text", hint=HINT)
    return value


def _texts(section: SpecFile, key: str, where: str) -> tuple[str, ...]:
    """A list of texts, or one; empty where there is none."""
    value = section.fields.get(key)
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(item, str) for item in items):
        raise UsageError(f"{where}: {key} must be a list of texts", hint=HINT)
    return tuple(str(item) for item in items)
