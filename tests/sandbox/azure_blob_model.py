"""What requests to the blob service can have: the vendor's SDK is made to build them with every value."""

from __future__ import annotations

import datetime
import inspect
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from io import BytesIO
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from azure.core.rest import HttpRequest

from tests.sandbox import azure_model

_PACKAGE = "azure.storage.blob._generated.operations"
_DEPTHS = {
    "_service_operations": 0,
    "_container_operations": 1,
    "_blob_operations": 2,
    "_block_blob_operations": 2,
    "_append_blob_operations": 2,
    "_page_blob_operations": 2,
}
"""How many names (container, blob) the addresses of a module's requests have."""
_OF_EVERY_REQUEST = {"x-ms-version", "x-ms-client-request-id", "timeout", "accept"}
_OF_THE_BODY = {"content-length", "content-type"}
_OF_THE_OPERATION = {"comp", "restype"}


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a request, with a value.

    Attributes:
        place: ``params`` or ``headers``.
        name: as the SDK writes it.
        value: as it is on the wire.
    """

    place: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Builder:
    """One of the SDK's functions that make a request.

    Attributes:
        name: of the function.
        depth: how many names the address has.
        build: the function.
    """

    name: str
    depth: int
    build: Callable[..., HttpRequest]

    @property
    def plain(self) -> HttpRequest:
        """The request with what it must have."""
        return self.build("", **{name: _samples(hint)[0] for name, hint in self._needed})

    @property
    def key(self) -> tuple[str, int, str]:
        """What makes a request this operation: method, depth and ``comp``."""
        return self.plain.method, self.depth, str(_said(self.plain, "params").get("comp", ""))

    @property
    def restype(self) -> str:
        """The ``restype`` of the address."""
        return str(_said(self.plain, "params").get("restype", ""))

    @property
    def _needed(self) -> list[tuple[str, Any]]:
        return [(name, hint) for name, hint, needed in self._parameters if needed]

    @property
    def _parameters(self) -> Iterator[tuple[str, Any, bool]]:
        hints = typing.get_type_hints(self.build)
        for name, parameter in inspect.signature(self.build).parameters.items():
            if parameter.kind is parameter.KEYWORD_ONLY:
                yield name, hints[name], parameter.default is parameter.empty

    def members(self) -> Iterator[Member]:
        """What a request can have, each member with all its values; without what every request may have."""
        needed = {name: _samples(hint)[0] for name, hint in self._needed}
        for name, hint, _ in self._parameters:
            for value in _samples(hint):
                request = self.build("", **{**needed, name: value})
                for place in ("params", "headers"):
                    for said, text in _said(request, place).items():
                        if said.lower() not in _OF_EVERY_REQUEST | _OF_THE_BODY | _OF_THE_OPERATION:
                            yield Member(place, said, text)


def _said(request: HttpRequest, place: str) -> dict[str, str]:
    if place == "headers":
        return dict(request.headers)
    return dict(parse_qsl(urlsplit(request.url).query, keep_blank_values=True))


def _samples(hint: Any) -> list[Any]:
    """Values of a parameter's type."""
    choices = [each for each in typing.get_args(hint) if each is not type(None)]
    if typing.get_origin(hint) is typing.Union and len(choices) == 1:
        return _samples(choices[0])
    plain: dict[Any, list[Any]] = {
        bytes: [b"0123456789abcdef"],
        datetime.datetime: [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)],
        typing.IO[bytes]: [BytesIO()],
    }
    return plain.get(hint) or azure_model.samples(hint)


@cache
def builders() -> tuple[Builder, ...]:
    """All of the SDK's functions that make requests to the blob service."""
    return tuple(
        Builder(f"{module.strip('_').removesuffix('_operations')}.{name}", depth, build)
        for module, depth in _DEPTHS.items()
        for name, build in inspect.getmembers(import_module(f"{_PACKAGE}.{module}"), inspect.isfunction)
        if name.startswith("build_")
    )
