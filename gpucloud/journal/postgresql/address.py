"""Where a journal is, from its URL; and what protects the connection on the way."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import parse_qsl, quote, urlencode

from gpucloud.errors import UsageError

DEFAULT_SCHEMA = "gpucloud"
VERIFY = "verify-full"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class LoginTokens(Protocol):
    """Gives what logs in at a server in place of a password, from a cloud of this name; it does not last."""

    def __call__(self, cloud: str, *, host: str, port: int, user: str) -> str:
        """A new token. Raises :class:`gpucloud.errors.GpucloudError` if the cloud gives none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A journal in a database.

    Attributes:
        parameters: of the connection, in libpq's words; there may be a password among them.
        schema: the schema that its tables are in.
        auth: the cloud whose tokens log in; empty where libpq's ways do.
        tokens: gives them.
    """

    parameters: Mapping[str, str] = field(repr=False)
    schema: str
    auth: str = ""
    tokens: LoginTokens | None = field(default=None, repr=False)

    def token(self) -> str | None:
        """A new token for a connection; ``None`` where none is used.

        Raises:
            GpucloudError: the cloud gives none.
        """
        if not self.auth or self.tokens is None:
            return None
        host, user = self.parameters["host"], self.parameters["user"]
        return self.tokens(self.auth, host=host, port=int(self.parameters["port"]), user=user)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may show."""
        names = ("password", "sslpassword")
        return tuple(self.parameters[name] for name in names if self.parameters.get(name))

    def __str__(self) -> str:
        """The address without its secrets, as messages show it."""
        shown = {
            name: self.parameters.get(name, "") for name in ("user", "host", "port", "dbname", "service")
        }
        place = f"{shown['host']}:{shown['port']}" if shown["port"] else shown["host"]
        user = f"{shown['user']}@" if shown["user"] else ""
        service = f"?service={shown['service']}" if shown["service"] else ""
        return f"postgresql://{user}{place}/{shown['dbname']}{service} (schema {self.schema})"


def read_address(url: str, tokens: LoginTokens | None = None) -> Address:
    """Reads the URL of a journal: one of libpq, with ``schema`` and ``auth`` as further parameters.

    What it does not name comes from where libpq looks for it: ``PGHOST``, ``PGSERVICE``, ``PGPASSFILE`` …

    Args:
        url: the URL; no message shows it, as there may be a password in it.
        tokens: gives what logs in, for ``auth``.

    Raises:
        UsageError: it is no such URL, or the connection would not be protected.
    """
    from psycopg import ProgrammingError, pq
    from psycopg.conninfo import conninfo_to_dict

    try:
        place, _, parameters = url.partition("?")
        query = dict(parse_qsl(parameters, strict_parsing=bool(parameters)))
        schema, auth = query.pop("schema", DEFAULT_SCHEMA), query.pop("auth", "")
        given = conninfo_to_dict(f"{place}?{urlencode(query, quote_via=quote)}")
        found = pq.Conninfo.get_defaults()
    except (ProgrammingError, ValueError):  # their words may repeat the password
        raise UsageError(
            "the journal's URL (GPUCLOUD_JOURNAL) cannot be read",
            hint="give postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full&sslrootcert=FILE",
        ) from None
    if not _SCHEMA.fullmatch(schema):
        raise UsageError(
            f"the journal's URL: {schema[:80]!r} is no name of a schema",
            hint="give 1-63 small letters, digits and _: schema=gpucloud",
        )
    named = {name: str(value) for name, value in given.items() if value is not None}
    defaults = {each.keyword.decode(): each.val.decode() for each in found if each.val}
    if auth:
        named = _for_tokens(named, defaults)
    return Address(parameters=protected(named, defaults), schema=schema, auth=auth, tokens=tokens)


def _for_tokens(named: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The parameters of a login by token: for one host and user, and over TLS also on loopback (a tunnel).

    Raises:
        UsageError: host or user are not known, or there is a password.
    """
    every = {**defaults, **named}
    host, port = every.get("host", ""), every.get("port", "")
    if not host or "," in host or host[0] in "/@" or not port.isdecimal() or "user" not in named:
        raise UsageError(
            "the journal's URL: auth= needs one USER@HOST:PORT: the token is for these alone",
            hint="give postgresql://USER@HOST:5432/DATABASE?auth=CLOUD&sslrootcert=FILE",
        )
    if "password" in named or every.get("sslmode") not in {None, "prefer", VERIFY}:
        raise UsageError(
            f"the journal's URL: auth= sends a token as the password, with sslmode={VERIFY} alone",
            hint="leave the password and sslmode out of the URL",
        )
    return {**named, "host": host, "port": port, "sslmode": VERIFY}


def protected(named: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The parameters of a connection with ``sslmode=verify-full``, unless nobody can listen on the way.

    Args:
        named: the parameters that its URL names.
        defaults: what libpq takes for the others.

    Raises:
        UsageError: a weaker mode is asked for.
    """
    every = {**defaults, **named}
    hosts = [*every.get("hostaddr", "").split(","), *every.get("host", "").split(",")]
    # A file of services may name another host, and its mode does not count.
    is_service = bool(every.get("service"))
    if all(map(_is_here, hosts)) and not is_service:
        return dict(named)
    of_default = defaults.get("sslmode", "")
    mode = named.get("sslmode") or ("" if is_service or of_default == "prefer" else of_default)
    if mode not in {"", VERIFY}:
        raise UsageError(
            f"the journal's URL: sslmode={mode} does not prove that the right server answers",
            hint=f"use sslmode={VERIFY} with sslrootcert=FILE (its authority) or sslrootcert=system",
        )
    return {**named, "sslmode": VERIFY}


def _is_here(host: str) -> bool:
    """Whether a host is this machine: a socket, or a loopback address."""
    if not host or host == "localhost" or host[0] in "/@":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
