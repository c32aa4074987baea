"""Changes inputs at random: texts by their words, JSON and XML by their parts."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator
from typing import Any

MOST_BYTES = 16384
NASTY = (
    *(
        "",
        " ",
        "\0",
        "\n",
        "\r\n",
        "\t",
        "~",
        "null",
        "none",
        "true",
        "no",
        "'",
        '"',
        "\\",
        "%00",
        "%s",
        "$(id)",
    ),
    *(
        "NaN",
        "Infinity",
        "-1",
        "0",
        "00",
        "9" * 400,
        "1e999999",
        "1E-999999",
        "0x10",
        "1_000",
        "\u00b2",
        "\u0663",
    ),
    *("2026-02-30", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59"),
    *("\x1b[2J", "\x1b]0;x\x07", "\x9b31m", "\u202e", "\ufffd", "\U0001f600", "a" * 300),
    *("{", "[", "]", "}", ":", "[" * 3000, '{"a":' * 1500, "&a", "*a", "!!int", "<<"),
    *("&amp;", "&x;", "<!DOCTYPE x>", "<a>", "</a>"),
    *(
        "../..",
        "/etc/passwd",
        "-oProxyCommand=x",
        "file:///etc/passwd",
        "https://",
        "user:secret@host",
        "::1",
    ),
)
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 10**30, float("nan"), float("inf")),
    *([], {}, [None], {"": None}),
)
_WORDS = re.compile(rb"\w+|\s+|[^\w\s]")
_ELEMENT = re.compile(rb"<([\w:]+)[^<>]*>[^<>]*</\1>")


def mutated(data: bytes, dice: random.Random, most: int = MOST_BYTES) -> bytes:
    """An input with one to four changes.

    Args:
        data: the input.
        dice: decides.
        most: the most bytes of the result.
    """
    for _ in range(dice.randint(1, 4)):
        data = dice.choice((_by_words, _by_words, _by_bytes, _by_parts))(data, dice)
    return data[:most]


def _nasty(dice: random.Random) -> bytes:
    return dice.choice(NASTY).encode()


def _by_words(data: bytes, dice: random.Random) -> bytes:
    """Replaces, doubles, removes or moves a word, a space or a mark."""
    words = _WORDS.findall(data) or [b""]
    at, other = dice.randrange(len(words)), dice.randrange(len(words))
    match dice.randrange(5):
        case 0:
            words[at] = _nasty(dice)
        case 1:
            words[at] = words[other]
        case 2:
            words[min(at, other) : max(at, other)] = []
        case 3:
            words[at:at] = words[min(at, other) : max(at, other)]
        case _:
            words[at:at] = [_nasty(dice)]
    return b"".join(words)


def _by_bytes(data: bytes, dice: random.Random) -> bytes:
    """Changes or cuts bytes."""
    if not data:
        return bytes([dice.randrange(256)])
    at = dice.randrange(len(data))
    match dice.randrange(3):
        case 0:
            return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]
        case 1:
            return data[:at]
        case _:
            return data[:at] + data[at + dice.randint(1, 8) :]


def _by_parts(data: bytes, dice: random.Random) -> bytes:
    """Changes a member of JSON (the first line may be something else) or an element of XML."""
    head, line, body = data.partition(b"\n") if data[:1] not in b"{[" else (b"", b"", data)
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return _by_elements(data, dice)
    places = list(_places(value))
    if not places:
        return data
    holder, key = dice.choice(places)
    match dice.randrange(4):
        case 0:
            del holder[key]
        case 1:
            other, name = dice.choice(places)
            holder[key] = json.loads(json.dumps(other[name]))
        case 2:
            holder[key] = dice.choice(VALUES)
        case _:
            holder[key] = dice.choice(NASTY)
    return head + line + json.dumps(value).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each member of each object and list: what holds it, and its key."""
    members: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict | list):
        members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in members:
        yield value, key
        yield from _places(member)


def _by_elements(data: bytes, dice: random.Random) -> bytes:
    found = list(_ELEMENT.finditer(data))
    if not found:
        return _by_words(data, dice)
    one, other = dice.choice(found), dice.choice(found)
    name = one[1]
    new = dice.choice(
        (b"", one[0] * 2, other[0], b"<%b>%b</%b>" % (name, _nasty(dice), name), b"<%b/>" % name)
    )
    return data[: one.start()] + new + data[one.end() :]
