"""Reads the fields of a spec's YAML file, and the line of each.

The file is read as events, with every scalar as text: nothing in it is executed, expanded or converted. So
a file and the flags follow the same rules, and ``on``, ``1_000`` and ``60:30`` stay text.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from gpucloud.errors import UsageError
from gpucloud.spec.fields import nearest, shown

MAX_BYTES = 1 << 20
HINT = "`gpucloud schema` prints the fields of a spec file"
T = TypeVar("T")
Item = str | dict[str, str | list[str] | None]
Value = str | None | Sequence[Item] | dict[str, str | None]

_EMPTY = {"", "~", "null", "Null", "NULL"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecFile:
    """The fields of a file, or of a part of it that begins at ``line``, and the line of each."""

    source: str
    line: int = 1
    fields: dict[str, Value] = field(default_factory=dict[str, Value])
    lines: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A file of named sections and lists of entries, each with fields, and the line of each key.

    ``sections`` has the sections of each mapping of the file by name, ``entries`` the items of each list,
    ``texts`` the single values.
    """

    source: str
    sections: dict[str, dict[str, SpecFile]] = field(default_factory=dict[str, dict[str, SpecFile]])
    entries: dict[str, list[SpecFile]] = field(default_factory=dict[str, list[SpecFile]])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    lines: dict[str, int] = field(default_factory=dict[str, int])

    def check(self, forms: Mapping[str, tuple[Container[str], str]], hint: str) -> None:
        """Refuses keys that are unknown or have another form, with file and line.

        Args:
            forms: by key, one of ``sections``, ``entries`` and ``texts``, and what that is in words.
            hint: the hint of the error.

        Raises:
            UsageError: a key is refused.
        """
        for name, line in self.lines.items():
            where = f"{self.source}:{line}"
            if name not in forms:
                raise UsageError(f"{where}: unknown key {shown(name)}{nearest(name, forms)}", hint=hint)
            found, form = forms[name]
            if name not in found:
                raise UsageError(f"{where}: {name} must be {form}", hint=hint)


def read_file(file: Path) -> SpecFile:
    """Reads a YAML file's fields as text.

    Raises:
        UsageError: the file cannot be read, is too large, or is not a plain mapping of fields.
    """
    return parse(_bytes(file), str(file))


def read_outline(file: Path) -> Outline:
    """Reads a YAML file of sections, lists and single values, with all of them as text.

    Raises:
        UsageError: the file cannot be read, is too large, or has another structure.
    """
    return parse_outline(_bytes(file), str(file))


def parse_outline(data: bytes, source: str) -> Outline:
    """As :func:`read_outline`, of a text whose source is named for messages."""
    return _parsed(data, source, _DocumentReader.outline)


def _bytes(file: Path) -> bytes:
    """The content of a file.

    Raises:
        UsageError: it cannot be read, or is too large.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read {str(file)!r}: {reason}") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{file}: larger than {MAX_BYTES >> 20} MiB, the limit for such a file")
    return data


def parse(data: bytes, source: str) -> SpecFile:
    """Reads a YAML document's fields as text.

    Args:
        data: UTF-8.
        source: the file's name, for messages.

    Raises:
        UsageError: the document is not a plain mapping of fields.
    """
    return _parsed(data, source, _DocumentReader.read)


def _parsed(data: bytes, source: str, read: Callable[[_DocumentReader], T]) -> T:
    """What a method of the reader makes of a document.

    Raises:
        UsageError: the document is not such YAML.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{source}:{line}: not UTF-8 text", hint=HINT) from None
    try:
        return read(_DocumentReader(source, text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark is not None else source
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
        raise UsageError(f"{where}: not YAML: {problem}", hint=HINT) from None


class _DocumentReader:
    """Turns the events of one document into fields."""

    def __init__(self, source: str, text: str) -> None:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self.source = source
        self.events: Iterator[Any] = iter(yaml.parse(text, Loader=loader))

    def read(self) -> SpecFile:
        found = SpecFile(source=self.source)
        event = self._next()
        if isinstance(event, yaml.StreamEndEvent) or self._is_empty(event):
            return found
        if not isinstance(event, yaml.MappingStartEvent):
            raise self._error(event, "a spec must be a mapping of fields, such as `gpu: A100:8`")
        found = self._fields()
        self._end()
        return found

    def outline(self) -> Outline:
        """Sections, lists of entries, and single values."""
        found = Outline(source=self.source)
        event = self._next()
        if isinstance(event, yaml.StreamEndEvent) or self._is_empty(event):
            return found
        if not isinstance(event, yaml.MappingStartEvent):
            raise self._error(event, "not a mapping of sections, lists and values")
        for key, event in self._entries():
            found.lines[key.value] = key.start_mark.line + 1
            match event:
                case yaml.MappingStartEvent():
                    found.sections[key.value] = {
                        name.value: self._section(name, event) for name, event in self._entries()
                    }
                case yaml.SequenceStartEvent():
                    found.entries[key.value] = list(self._items())
                case _:
                    if not self._is_empty(event):
                        found.texts[key.value] = event.value
        self._end()
        return found

    def _section(self, name: Any, event: Any) -> SpecFile:
        if not isinstance(event, yaml.MappingStartEvent):
            raise self._error(event, f"{name.value} must be a mapping of fields")
        return self._fields(_line(name))

    def _items(self) -> Iterator[SpecFile]:
        """The entries of a list, each a mapping of fields."""
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            if not isinstance(event, yaml.MappingStartEvent):
                raise self._error(event, "an entry must be a mapping of fields")
            yield self._fields(_line(event))

    def _fields(self, line: int = 1) -> SpecFile:
        """The fields of a mapping that has begun."""
        found = SpecFile(source=self.source, line=line)
        for key, event in self._entries():
            value = self._value(event)
            if value is not None:
                found.fields[key.value] = value
            found.lines[key.value] = key.start_mark.line + 1
        return found

    def _end(self) -> None:
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            raise self._error(event, "a second document; a spec file holds one")

    def _value(self, event: Any) -> Value:
        match event:
            case yaml.ScalarEvent():
                return None if self._is_empty(event) else event.value
            case yaml.SequenceStartEvent():
                items: list[Item] = []
                while not isinstance(event := self._next(), yaml.SequenceEndEvent):
                    items.append(self._item(event))
                return items
            case _:
                return {
                    key.value: None if self._is_empty(value := self._scalar(event)) else value.value
                    for key, event in self._entries()
                }

    def _item(self, event: Any) -> Item:
        """An entry of a list: a value, or keys whose values may be lists."""
        if not isinstance(event, yaml.MappingStartEvent):
            return str(self._scalar(event).value)
        return {key.value: self._texts(value) for key, value in self._entries()}

    def _texts(self, event: Any) -> str | list[str] | None:
        if not isinstance(event, yaml.SequenceStartEvent):
            return None if self._is_empty(self._scalar(event)) else event.value
        texts: list[str] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            texts.append(self._scalar(event).value)
        return texts

    def _entries(self) -> Iterator[tuple[Any, Any]]:
        """Keys, each with its value's first event; the caller reads the rest of the value."""
        seen: dict[str, int] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._scalar(event)
            if key.value in seen:
                raise self._error(key, f"duplicate field {shown(key.value)}, first in line {seen[key.value]}")
            seen[key.value] = key.start_mark.line + 1
            yield key, self._next()

    def _scalar(self, event: Any) -> Any:
        if not isinstance(event, yaml.ScalarEvent):
            raise self._error(
                event, "nested too deeply; allowed: a value, a list of values, or keys with values"
            )
        return event

    def _next(self) -> Any:
        """The next event that carries content. Refuses anchors, aliases and tags."""
        for event in self.events:
            if isinstance(event, (yaml.StreamStartEvent, yaml.DocumentStartEvent, yaml.DocumentEndEvent)):
                continue
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise self._error(event, "anchors and aliases are not allowed")
            if getattr(event, "tag", None):
                raise self._error(event, f"the tag {shown(event.tag)} is not allowed")
            return event
        raise UsageError(f"{self.source}: the file ends too early", hint=HINT)

    @staticmethod
    def _is_empty(event: Any) -> bool:
        return isinstance(event, yaml.ScalarEvent) and not event.style and event.value in _EMPTY

    def _error(self, event: Any, problem: str) -> UsageError:
        return UsageError(f"{self.source}:{event.start_mark.line + 1}: {problem}", hint=HINT)


def _line(event: Any) -> int:
    """The line at which an event begins, from 1."""
    return int(event.start_mark.line) + 1
