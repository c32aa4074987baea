"""Parsers of a spec's fields: from text or a plain Python value to a checked value.

Every parser raises ``ValueError`` with the given value, the allowed ones, and the nearest valid choice.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from decimal import ROUND_DOWN, Decimal
from typing import Literal, cast

from gpucloud.spec.presets import NAMES as PRESETS
from gpucloud_pricing.demand import ANY_RDMA, INTERCONNECTS, RDMA
from gpucloud_pricing.gpu_models import BY_NAME
from gpucloud_pricing.gpus import BadGpuError, in_grammar, parse_requirements
from gpucloud_pricing.purchases import Purchase
from gpucloud_pricing.suggestions import closest


class UnknownNameError(ValueError):
    """A name that does not exist.

    Attributes:
        hint: the names that do.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


ARCHES = ("x86_64", "arm64")
PURCHASES = {"on-demand": Purchase.ON_DEMAND, "spot": Purchase.SPOT, "reserved": Purchase.RESERVED}
SPREADS = {"cloud": 1, "region": 2, "zone": 3}
"""What the places of several boxes may differ in, and how many parts of a place that takes."""
ON_UNHEALTHY = ("keep", "replace")
"""What to do with the box of a run whose guard reports faulty hardware."""
NAME = "^[a-z0-9][a-z0-9-]{0,39}$"
LONGEST = timedelta(days=3650)
"""The longest duration: a longer one is a typing error, and may exceed the range of dates."""

WIDEST_V4, WIDEST_V6 = 8, 32
"""The shortest prefix lengths that ``allow_from`` allows."""

_DIGITS_OF_USD, _DIGITS_OF_GIB = 9, 6
"""How many digits after the point a document has at most."""
_MOST_USD, _MOST_GIB = 10**12, 10**9
LEAST_USD = Decimal(1).scaleb(-_DIGITS_OF_USD)
"""The smallest amount of money that a spec holds."""
_DURATION = re.compile(
    r"(?:(\d{1,6})y)?(?:(\d{1,6})w)?(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?", re.ASCII
)
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(?:(g|gb|gib)|(t|tb|tib))?", re.ASCII)
_MONEY = re.compile(r"\$?\s*(\d{1,12}(?:\.\d{1,9})?|\.\d{1,9})\s*(?:usd)?", re.ASCII)
_PATTERN = re.compile(r"!?[A-Za-z0-9*?\[\]._-]{1,64}")
_IMAGE = re.compile(r"[A-Za-z0-9/][A-Za-z0-9._:/@-]{0,255}")
_STORE_URL = re.compile(r"[a-z][a-z0-9]{1,9}:/(/[A-Za-z0-9._=-]{1,128}){1,16}")
_ENV_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_TAG_KEY = re.compile(
    r"[\w .:/=\-+@]{1,128}"
)  # the characters that all AWS services allow; Azure allows fewer
_TAG_VALUE = re.compile(r"[\w .:/=\-+@]{0,256}")
_MOST_TAGS = 40  # AWS allows 50 per resource (EC2 user guide, "Tag restrictions"); gpucloud sets five
_LONGEST_TEXT = 8192  # user-data holds 16 KiB on AWS, bootstrap included
LONGEST_SCRIPT = 1 << 20
"""Set-up commands go over ssh, and stay in the journal."""


def shown(value: object) -> str:
    """A value for a message: quoted, and cut if it is long."""
    text = value if isinstance(value, str) else str(value)
    return repr(text if len(text) <= 60 else text[:60] + "…")


def nearest(value: str, choices: Iterable[str]) -> str:
    """``; did you mean x?``, or nothing if no choice is similar."""
    close = closest(value.lower()[:100], choices, least=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def scalar(value: object, allowed: str) -> str:
    """A value as stripped text. Booleans and lists are refused."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float, Decimal)):
        raise ValueError(f"{shown(value)} is not a single value; allowed: {allowed}")
    return (format(value, "f") if isinstance(value, Decimal) else str(value)).strip()


def _computed(value: object, digits: int, most: int) -> Decimal | None:
    """A number of a program, which no form of text binds: as finely as a document writes it, rounded down.

    Returns:
        Zero for one that is not above zero and below ``most``; ``None`` for what is no number.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    number, finest = Decimal(str(value)), Decimal(1).scaleb(-digits)
    if not number.is_finite() or not finest <= number < most:
        return Decimal(0)
    is_short = len(f"{number:f}".partition(".")[2]) <= digits
    return number if is_short else number.quantize(finest, rounding=ROUND_DOWN)


def listed(value: object) -> list[object]:
    """The elements of a list, or a single value as a list."""
    return list(cast("Iterable[object]", value)) if isinstance(value, (list, tuple)) else [value]


def _items(value: object, allowed: str) -> list[str]:
    """A list, or comma-separated text, as stripped texts without duplicates."""
    texts = [part.strip() for each in listed(value) for part in scalar(each, allowed).split(",")]
    if any(not text for text in texts):
        raise ValueError(f"{shown(value)} has an empty part; allowed: {allowed}")
    if len(texts) > 256:
        raise ValueError(f"{len(texts)} values are too many; allowed: at most 256")
    return list(dict.fromkeys(texts))


def choice(*choices: str, **also: str) -> Callable[[object], str]:
    """Makes a parser of one of these words; ``also`` maps other spellings."""

    def read(value: object) -> str:
        allowed = ", ".join(choices)
        word = scalar(value, allowed).lower()
        word = also.get(word, word)
        if word not in choices:
            raise ValueError(f"unknown value {shown(value)}; allowed: {allowed}{nearest(word, choices)}")
        return word

    return read


arch = choice(*ARCHES, amd64="x86_64", aarch64="arm64")
interconnect = choice(*INTERCONNECTS)
rdma = choice(*RDMA, ANY_RDMA)
preset = choice(*PRESETS)
spread = choice(*SPREADS)
on_unhealthy = choice(*ON_UNHEALTHY)


def whole(low: int, high: int, what: str) -> Callable[[object], int]:
    """Makes a parser of a whole number within bounds."""

    def read(value: object) -> int:
        allowed = f"{what}, {low} to {high}"
        word = scalar(value, allowed)
        if not re.fullmatch(r"[0-9]{1,12}", word) or not low <= int(word) <= high:
            raise ValueError(f"{shown(value)} is not allowed; allowed: {allowed}")
        return int(word)

    return read


_sets = whole(1, 1_000_000, "how many sets to keep, or all")


def kept_sets(value: object) -> int | Literal["all"]:
    """How many sets of checkpoints are kept: ``2``, or ``all``."""
    return "all" if value == "all" else _sets(value)


_percent = whole(1, 100, "a whole number of per cent")


def percent(value: object) -> int:
    """Reads a share: ``30`` and ``30%``."""
    word = value.strip().removesuffix("%") if isinstance(value, str) else value
    return _percent(word)


def gib(value: object) -> Decimal:
    """Reads a size: ``40``, ``40GB`` and ``40GiB`` are 40 GiB, ``1TB`` is 1024."""
    allowed = "GiB above 0, such as 40, 80GB or 1TB"
    size = _computed(value, _DIGITS_OF_GIB, _MOST_GIB)
    if size is None:
        found = _SIZE.fullmatch(scalar(value, allowed).lower())
        size = Decimal(found[1]) * (1024 if found[3] else 1) if found else Decimal(0)
    if not 0 < size < _MOST_GIB:
        raise ValueError(f"{shown(value)} is not a size; allowed: {allowed}")
    return size


def disk_gib(value: object) -> int:
    """Reads a root disk's size: 8 GiB to 64 TiB."""
    size = gib(value)
    if size != size.to_integral_value() or not 8 <= size <= 65536:
        raise ValueError(f"{shown(value)} is not a disk size; allowed: whole GiB, 8 to 65536")
    return int(size)


def usd(value: object) -> Decimal:
    """Reads an amount above zero; ``$`` and ``USD`` may be written."""
    allowed = "USD above 0, such as 2.50"
    amount = _computed(value, _DIGITS_OF_USD, _MOST_USD)
    if amount is None:
        found = _MONEY.fullmatch(scalar(value, allowed).lower())
        amount = Decimal(found[1]) if found else Decimal(0)
    if amount <= 0:
        raise ValueError(f"{shown(value)} is not an amount of money; allowed: {allowed}")
    return amount


def switch(value: object) -> bool:
    """Reads yes or no."""
    words = {"true": True, "yes": True, "false": False, "no": False}
    found = words.get(str(value).strip().lower())
    if found is None:
        raise ValueError(f"{shown(value)} is not yes or no; allowed: {', '.join(words)}")
    return found


def end(value: object) -> timedelta | Literal["none"]:
    """Reads ``90m``, ``24h``, ``1h30m``, ``2d`` or ``none``. Computed ones are rounded down to seconds.

    A week, ``1w``, has 7 days, and a year, ``1y``, 365.
    """
    allowed = "90m, 24h, 1h30m, 2d (units y w d h m s), or none"
    if isinstance(value, timedelta):
        duration = value - timedelta(microseconds=value.microseconds)
    else:
        word = scalar(value, allowed).lower().replace(" ", "")
        if word == "none":
            return "none"
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?", word):
            near = f"; did you mean {word}h?" if float(word) else ""
            raise ValueError(f"{shown(value)} has no unit; allowed: {allowed}{near}")
        found = _DURATION.fullmatch(word)
        if not found or not word:
            raise ValueError(f"{shown(value)} is not a duration; allowed: {allowed}")
        years, weeks, days, hours, minutes, seconds = (int(group or 0) for group in found.groups())
        days += 365 * years
        duration = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    if not timedelta() < duration <= LONGEST:
        raise ValueError(
            f"{shown(value)} is out of range; allowed: a duration above 0, at most {LONGEST.days}d"
        )
    return duration


def interval(value: object) -> timedelta:
    """Reads ``30m`` or ``1h30m``: at least a second."""
    found = end(value)
    if found == "none" or found < timedelta(seconds=1):
        raise ValueError(f"{shown(value)} is not allowed; allowed: a duration of at least 1s, such as 30m")
    return found


def store_url(value: object) -> str:
    """Reads the address of a folder in an object store, without a slash at its end."""
    allowed = "SCHEME://BUCKET/PATH, such as s3://bucket/lab"
    word = scalar(value, allowed).rstrip("/")
    if not _STORE_URL.fullmatch(word) or {".", ".."} & set(word.split("/")):
        raise ValueError(f"{shown(value)} is not an address in an object store; allowed: {allowed}")
    return word


def format_end(value: timedelta | Literal["none"] | None) -> str:
    """The duration as :func:`end` reads it again."""
    if value is None or value == "none":
        return "none"
    seconds = int(value.total_seconds())
    parts = (
        (seconds // 86400, "d"),
        (seconds // 3600 % 24, "h"),
        (seconds // 60 % 60, "m"),
        (seconds % 60, "s"),
    )
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def name(value: object) -> str:
    """Reads a box's name."""
    allowed = "1-40 of a-z 0-9 -, the first a letter or digit"
    word = scalar(value, allowed)
    if not re.fullmatch(NAME.strip("^$"), word):
        near = re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-")[:40]
        hint = f"; did you mean {near}?" if near else ""
        raise ValueError(f"{shown(value)} is not a name; allowed: {allowed}{hint}")
    return word


def encryption(value: object) -> str:
    """Reads ``kms:KEY``."""
    word = scalar(value, "kms:KEY")
    if not re.fullmatch(r"kms:[A-Za-z0-9][A-Za-z0-9:/_-]{0,511}", word):
        raise ValueError(f"{shown(value)} is not allowed; allowed: kms: and the ID, alias or ARN of a key")
    return word


def folder(value: object) -> str:
    """Reads the path of a folder on a box: absolute, or in the home folder."""
    word = scalar(value, "the path of a folder on the box").rstrip("/")
    inside = word.removeprefix("~/")
    if not inside or inside.startswith(("-", "~")) or re.search(r"[\0\n\r]", word) or len(word) > 1024:
        raise ValueError(f"{shown(value)} is not a folder; allowed: a path on the box, such as checkpoints")
    begins = posixpath.normpath(inside).split("/")[0]
    if begins in {".", "..", ".gpucloud"}:
        raise ValueError(f"{shown(value)} has files of gpucloud itself; allowed: a folder in the home folder")
    return word


def marker(value: object) -> str:
    """Reads the pattern of a file in the folder of checkpoints."""
    word = scalar(value, "a pattern of a path in the folder")
    parts = word.split("/")
    if {"", ".", "..", "**"} & set(parts) or not word.isprintable() or len(word) > 1024:
        raise ValueError(
            f"{shown(value)} is no pattern of a path in the folder; allowed: such as done, */done, *.index"
        )
    return word


def gpu(value: object) -> str:
    """Checks a GPU demand and keeps its text, in the grammar. Lists are alternatives."""
    word = in_grammar(",".join(_items(value, "MODEL[-MEMORYGB][:COUNT], such as A100:8")))
    try:
        parse_requirements(word)
    except BadGpuError as error:
        if error.types is not None:
            use = f"use --instance-type {shlex.quote(error.types)}, in a file instance_types"
            raise ValueError(f"{error}: {use}") from None
        if error.allowed == tuple(BY_NAME):
            raise UnknownNameError(str(error), f"GPU models: {', '.join(sorted(BY_NAME))}") from None
        raise
    return word


def purchases(value: object) -> tuple[Purchase, ...]:
    """Reads purchase options."""
    allowed = ", ".join(PURCHASES)
    found: list[Purchase] = []
    for item in _items(value, allowed):
        word = item.lower().replace("_", "-")
        if word not in PURCHASES:
            raise ValueError(
                f"unknown purchase option {shown(item)}; allowed: {allowed}{nearest(word, PURCHASES)}"
            )
        found.append(PURCHASES[word])
    return tuple(dict.fromkeys(found))


def patterns(value: object) -> tuple[str, ...]:
    """Reads names, globs and exclusions of clouds, regions, zones or instance types."""
    if value in ((), []):
        return ()
    items = _items(value, "names, globs such as us-*, !x to exclude x")
    for item in items:
        if not _PATTERN.fullmatch(item):
            raise ValueError(
                f"{shown(item)} is not a name or pattern; allowed: names, globs such as us-*, !x to exclude x"
            )
    return tuple(items)


def image(value: object) -> str:
    """Reads a recipe's name or a cloud's image id; only the cloud knows whether it exists."""
    word = scalar(value, "a recipe such as cuda-12.4, or an image id")
    if not _IMAGE.fullmatch(word):
        raise ValueError(
            f"{shown(value)} is not an image; allowed: cuda-12.4, pytorch, ubuntu-22.04, or an image id"
        )
    return word


def text(value: object) -> str:
    """Reads shell text: not empty, no NUL, at most 8 KiB."""
    return _commands(value, _LONGEST_TEXT)


def script(value: object) -> str:
    """Reads a shell script: not empty, no NUL, at most 1 MiB."""
    return _commands(value, LONGEST_SCRIPT)


def _commands(value: object, most_bytes: int) -> str:
    word = scalar(value, "shell commands")
    if not word or "\0" in word or len(word.encode(errors="replace")) > most_bytes:
        raise ValueError(f"{shown(value)} is not allowed; allowed: shell commands of 1 to {most_bytes} bytes")
    return word


def _pairs(value: object, allowed: str) -> dict[str, str | None]:
    """A mapping, or ``K=V`` texts. A key without ``=`` has no value."""
    pairs: dict[str, str | None] = {}
    if isinstance(value, Mapping):
        for key, each in cast("Mapping[object, object]", value).items():
            pairs[scalar(key, allowed)] = None if each is None else str(each)
        return pairs
    for item in listed(value):
        key, separator, each = scalar(item, allowed).partition("=")
        pairs[key] = each if separator else None
    return pairs


def env(value: object) -> dict[str, str | None]:
    """Reads variables. Values may be secrets: messages never show them."""
    pairs = _pairs(value, "KEY=VALUE")
    for key, each in pairs.items():
        if not _ENV_KEY.fullmatch(key):
            raise ValueError(
                f"{shown(key)} is not a variable name; allowed: letters, digits and _, the first not a digit"
            )
        if each is not None and ("\0" in each or len(each) > _LONGEST_TEXT):
            raise ValueError(
                f"the value of {key} is not allowed; allowed: at most {_LONGEST_TEXT} characters, no NUL"
            )
    return pairs


def tags(value: object) -> dict[str, str]:
    """Reads tags whose keys and values every cloud allows."""
    pairs = {key: each or "" for key, each in _pairs(value, "KEY=VALUE").items()}
    if len(pairs) > _MOST_TAGS:
        raise ValueError(f"{len(pairs)} tags are too many; allowed: at most {_MOST_TAGS}")
    for key, each in pairs.items():
        if not _TAG_KEY.fullmatch(key) or not _TAG_VALUE.fullmatch(each):
            raise ValueError(
                f"the tag {shown(f'{key}={each}')} is not allowed; allowed: keys of 1-128 and values of "
                "up to 256 letters, digits, spaces and . : / = - + @ _"
            )
        if key.lower().startswith("gpucloud:"):
            raise ValueError(f"the tag {shown(key)} is not allowed: gpucloud: is reserved")
    return pairs


def sync(value: object) -> tuple[str, ...]:
    """Reads ``LOCAL`` or ``LOCAL:REMOTE`` paths; commas belong to the paths."""
    paths = [scalar(item, "LOCAL or LOCAL:REMOTE") for item in listed(value)]
    for path in paths:
        if not path or path.startswith(("-", ":")) or path.endswith(":") or re.search(r"[\0\n]", path):
            raise ValueError(
                f"{shown(path)} is not a path; allowed: LOCAL or LOCAL:REMOTE, not beginning with -"
            )
    return tuple(dict.fromkeys(paths))


def ignored(value: object) -> tuple[str, ...]:
    """Reads patterns of ``.gitignore``; commas belong to them."""
    found = [scalar(item, "a pattern as in .gitignore") for item in listed(value)]
    for pattern in found:
        if not pattern.strip() or re.search(r"[\0\n]", pattern):
            raise ValueError(
                f"{shown(pattern)} is not a pattern; allowed: one as in .gitignore: *.ckpt, data/"
            )
    return tuple(dict.fromkeys(found))


def ports(value: object) -> tuple[int, ...]:
    """Reads TCP ports."""
    if value in ((), []):
        return ()
    read = whole(1, 65535, "a TCP port")
    return tuple(sorted({read(item) for item in _items(value, "TCP ports, 1 to 65535")}))


def cidrs(value: object) -> tuple[str, ...]:
    """Reads the addresses and networks that may connect; never the whole internet, nor large parts of it."""
    if value in ((), []):
        return ()
    allowed = "addresses such as 203.0.113.7/32"
    return tuple(dict.fromkeys(_cidr(item, allowed) for item in _items(value, allowed)))


def _cidr(item: str, allowed: str) -> str:
    if "%" in item:
        raise ValueError(f"{shown(item)} is not a network; allowed: {allowed}")
    try:
        network = ipaddress.ip_network(item, strict=False)
        address = ipaddress.ip_address(item.partition("/")[0])
    except ValueError:
        raise ValueError(f"{shown(item)} is not a network; allowed: {allowed}") from None
    widest = WIDEST_V4 if network.version == 4 else WIDEST_V6
    mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    if network.prefixlen < widest or mapped:
        raise ValueError(
            f"{shown(item)} allows too many addresses; allowed: {allowed}, "
            f"no network wider than /{WIDEST_V4} (IPv4) or /{WIDEST_V6} (IPv6)"
        )
    if address != network.network_address:
        raise ValueError(
            f"{shown(item)} is an address within a network; did you mean {network} or {address}?"
        )
    return str(network)


def ssh_key(value: object) -> str:
    """Reads a public key, or the path of one. Refuses a private key without printing it."""
    word = scalar(value, "a public key, or its file")
    if "PRIVATE KEY" in word:
        raise ValueError("this is a private key; allowed: a public key, or its file (id_ed25519.pub)")
    if not word or re.search(r"[\0\n\r]", word) or word.startswith("-"):
        raise ValueError(
            f"{shown(value)} is not a public key; allowed: a public key, or its file (id_ed25519.pub)"
        )
    return word
