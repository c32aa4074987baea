"""The GPU grammar: ``MODEL[-MEMORYGB][:COUNT]``, alternatives with ``,``.

``A100``, ``A100-80GB:8``, ``T4:1..4``, ``A100:8,H100:4``, ``24GB..:1``, ``A10:1/6``, ``A100/1g.5gb:7``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cache

from gpucloud_pricing.gpu_models import BY_NAME, MODELS, GpuModel
from gpucloud_pricing.suggestions import closest

__all__ = [
    "BadGpuError",
    "GpuModel",
    "GpuRequirement",
    "format_requirement",
    "in_grammar",
    "parse_requirements",
]

MAX_COUNT = 1024
MAX_DENOMINATOR = 100
_SHARE_DIGITS = Decimal("0.000001")  # the price data writes a sixth of a GPU as 0.166667
_GB = r"-?gi?b?"


class BadGpuError(ValueError):
    """A GPU demand that cannot be read.

    Attributes:
        value: the invalid part.
        allowed: the valid choices.
        nearest: the nearest valid choice, if one is near.
        types: the pattern for instance types that the value is, or begins, if it is no GPU but such a name.
    """

    def __init__(
        self,
        message: str,
        *,
        value: str,
        allowed: Iterable[str] = (),
        nearest: str | None = None,
        types: str | None = None,
    ):
        hint = f"; did you mean {nearest}?" if nearest else ""
        super().__init__(f"{message}{hint}")
        self.value = value
        self.allowed = tuple(allowed)
        self.nearest = nearest
        self.types = types


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequirement:
    """One alternative of a GPU demand.

    ``model`` is a name of the vocabulary, ``None`` for any model. Memory is in GiB of one whole GPU, both
    bounds included. Counts are GPUs of the instance, both bounds included: a share of a GPU is below 1. With
    ``mig`` the counts are slices of that profile.
    """

    model: str | None
    min_memory_gib: Decimal | None
    max_memory_gib: Decimal | None
    min_count: Decimal
    max_count: Decimal
    mig: str | None = None


def parse_requirements(text: str) -> tuple[GpuRequirement, ...]:
    """Reads a GPU demand: its alternatives in the order written.

    Raises:
        BadGpuError: a part cannot be read.
    """
    if len(text) > 1000:
        raise BadGpuError("a GPU demand of over 1000 characters", value=text[:40] + "…")
    return tuple(_parse_requirement(part.strip()) for part in text.split(","))


def in_grammar(text: str) -> str:
    """A GPU demand, with what other tools write put into the grammar: ``8xH100``, ``H100x8`` and ``H100*8``.

    What is neither stays as it is; :func:`parse_requirements` says what is wrong with it.
    """
    return ",".join(_in_grammar(part.strip()) for part in text.split(","))


def _in_grammar(part: str) -> str:
    if found := re.fullmatch(r"([0-9]{1,4})\s*[x*]\s*(.+)|(.+?)\s*[x*]\s*([0-9]{1,4})", part, re.IGNORECASE):
        name, count = found[2] or found[3], found[1] or found[4]
        if _names().fullmatch(_plain(name)) and not _names().fullmatch(_plain(part)):
            return f"{name}:{count}"
    return part


def format_requirement(w: GpuRequirement) -> str:
    """The requirement in the grammar; parsing it returns the same requirement."""
    if w.model is None:
        low, high = w.min_memory_gib, w.max_memory_gib
        name = (
            f"{low}GB"
            if low == high
            else f"{'' if low is None else f'{low}GB'}..{'' if high is None else f'{high}GB'}"
        )
    else:
        name = w.model if w.min_memory_gib is None else f"{w.model}-{w.min_memory_gib}GB"
    profile = f"/{w.mig}" if w.mig else ""
    return f"{name}{profile}{_format_count(w.min_count, w.max_count)}"


def _parse_requirement(part: str) -> GpuRequirement:
    name, colon, count = part.partition(":")
    name, slash, profile = name.partition("/")
    low, high = _parse_count(count.strip(), part) if colon else (Decimal(1), Decimal(1))
    model, min_memory, max_memory = _parse_model(name.strip(), part)
    mig = _parse_mig(profile, model, min_memory, low) if slash else None
    return GpuRequirement(
        model=model,
        min_memory_gib=min_memory,
        max_memory_gib=max_memory,
        min_count=low,
        max_count=high,
        mig=mig,
    )


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.lower()).strip("-")


def _parse_model(name: str, part: str) -> tuple[str | None, Decimal | None, Decimal | None]:
    text = _plain(name)
    if not text:
        raise BadGpuError(f"no GPU model in {part!r}", value=part, allowed=BY_NAME)
    if memory := re.fullmatch(
        rf"([0-9]{{1,4}}){_GB}(-?\.\.)?|([0-9]{{1,4}})?(?:{_GB})?-?\.\.-?([0-9]{{1,4}}){_GB}", text
    ):
        exact, open_end, low, high = memory.groups()
        if exact:
            return None, Decimal(exact), None if open_end else Decimal(exact)
        if low and int(low) > int(high):
            raise BadGpuError(f"the memory range {name!r} is reversed", value=name)
        return None, Decimal(low) if low else None, Decimal(high)
    named = _names().fullmatch(text)
    if named is None:
        raise _unknown(name, text)
    model, size = _aliases()[named[1].replace("-", "")]
    if named[2]:
        size = model.memory_names.get(int(named[2]), int(named[2]))
        if size not in model.memory_gib:
            sizes = [f"{model.name}-{gib}GB" for gib in model.memory_gib]
            raise BadGpuError(
                f"{model.name} has no {named[2]} GB variant; there is {' and '.join(sizes)}",
                value=name,
                allowed=sizes,
            )
    memory_gib = None if size is None else Decimal(size)
    return model.name, memory_gib, memory_gib


def _parse_mig(profile: str, model: str | None, memory: Decimal | None, low: Decimal) -> str:
    text = profile.strip().lower()
    known = BY_NAME[model].mig if model else {}
    allowed = sorted({p for size, table in known.items() if memory in {None, Decimal(size)} for p in table})
    if text not in allowed:
        what = model or "a GPU of any model"
        has = f"it has {', '.join(allowed)}" if allowed else "no MIG profiles are known for it"
        raise BadGpuError(f"{what} has no MIG profile {profile!r}; {has}", value=profile, allowed=allowed)
    if low < 1:
        raise BadGpuError("a share of a MIG slice does not exist", value=profile)
    return text


def _parse_count(text: str, part: str) -> tuple[Decimal, Decimal]:
    low, dots, high = text.partition("..")
    lowest, highest = _parse_number(low, part), _parse_number(high if dots else low, part)
    if lowest > highest:
        raise BadGpuError(f"the range {text!r} is reversed", value=text)
    return lowest, highest


def _parse_number(text: str, part: str) -> Decimal:
    allowed = ("8", "1..4", "1/6")
    number = re.fullmatch(r"\s*([0-9]{1,4})(?:/([0-9]{1,2}))?\s*", text)
    if number is None:
        raise BadGpuError(
            f"{text!r} in {part!r} is no count of GPUs; a count is 8, 1..4 or a share like 1/6",
            value=text,
            allowed=allowed,
        )
    top, bottom = int(number[1]), int(number[2] or 1)
    if bottom == 0 or top == 0 or top > MAX_COUNT or (number[2] and top >= bottom):
        raise BadGpuError(
            f"{text!r} in {part!r}: a count is 1 to {MAX_COUNT}, a share is between 0 and 1",
            value=text,
            allowed=allowed,
        )
    return (Decimal(top) / bottom).quantize(_SHARE_DIGITS).normalize() if number[2] else Decimal(top)


def _format_count(low: Decimal, high: Decimal) -> str:
    if low == high:
        return "" if low == 1 else f":{format_count(low)}"
    return f":{format_count(low)}..{format_count(high)}"


def format_count(count: Decimal) -> str:
    """A count for people: ``8``; a share as the simplest fraction that rounds to it, ``1/6``."""
    digits = f"{count.normalize():f}"
    exact = Fraction(count)
    if count >= 1 or exact.denominator < MAX_DENOMINATOR:
        return digits if count >= 1 else str(exact)
    half_a_digit = Fraction(1, 2 * 10 ** len(digits.partition(".")[2]))
    shares = (Fraction(round(exact * bottom), bottom) for bottom in range(2, MAX_DENOMINATOR))
    return next((str(share) for share in shares if abs(share - exact) <= half_a_digit), digits)


@cache
def _aliases() -> dict[str, tuple[GpuModel, int | None]]:
    """Every name without separators, with its model and the memory size that the name implies."""
    names: dict[str, tuple[GpuModel, int | None]] = {}
    for model in MODELS:
        for alias, size in {model.name: None, **model.aliases}.items():
            names[alias.lower().replace("-", "")] = (model, size)
    return names


@cache
def _names() -> re.Pattern[str]:
    """Any model's name, longest first, then perhaps a memory size."""
    written = [alias for model in MODELS for alias in (model.name, *model.aliases)]
    patterns = [name.lower().replace("-", "-?") for name in sorted(written, key=len, reverse=True)]
    form = r"(?:-?(?:sxm[0-9]?|pcie|nvl))?"  # as nvidia-smi, Slurm and Kubernetes name them: A100-SXM4-80GB
    memory = rf"(?:-?([0-9]{{1,4}}){_GB}(?:-?hbm[0-9]e?)?)?"
    return re.compile(rf"(?:nvidia-?)?(?:tesla-?)?({'|'.join(patterns)}){form}{memory}")


def _unknown(name: str, text: str) -> BadGpuError:
    """The error of a name that is no GPU: it may be that of an instance type, or begin the names of some."""
    from gpucloud_pricing.snapshot import shipped_type_names  # nothing else here needs the data

    low = name.lower()
    alike = [known for known in shipped_type_names() if fnmatchcase(known.lower(), f"{low}*")]
    exact = next((known for known in alike if known.lower() == low), None)
    if exact:
        return BadGpuError(f"{exact} is an instance type", value=name, types=exact)
    if len(low) > 1 and alike:
        types = f"{name.rstrip('*')}*"
        what = f"{name!r} begins the names of instance types, such as {alike[0]}"
        return BadGpuError(what, value=name, types=types)
    if _ELSEWHERE.fullmatch(text):
        return BadGpuError(f"no {name} here: only NVIDIA's GPUs for servers", value=name, allowed=BY_NAME)
    return BadGpuError(f"unknown GPU {name!r}", value=name, allowed=BY_NAME, nearest=_nearest(text))


_ELSEWHERE = re.compile(
    r"(amd-)?(instinct-)?mi-?[0-9]{2,3}[ax]?|(nvidia-)?(geforce-)?[gr]tx-?[1-5]0[0-9]0(-?(ti|super|d))*"
    r"|(rtx-?)?a[2456][05]00(-?ada)?|radeon.*|(google-)?tpu.*|(intel-)?gaudi-?[0-9]?"
    r"|(aws-)?(trainium|inferentia)-?[0-9]?|ascend.*"
)
"""What people ask for, and these clouds do not rent, or not as GPUs with NVIDIA's driver."""


def _nearest(text: str) -> str | None:
    """The model that was probably meant: first by look-alike characters (O for 0), then by similarity."""
    alike = str.maketrans("oil", "011")
    plain = re.sub(r"^(nvidia-?)?(tesla-?)?", "", text)
    compact = re.sub(rf"-[0-9]{{1,4}}{_GB}$", "", plain).replace("-", "")
    looks = {name.translate(alike): model.name for name, (model, _) in _aliases().items()}
    if found := looks.get(compact.translate(alike)):
        return found
    if (sized := f"{plain}gb") != plain and (named := _names().fullmatch(sized)) and named[2]:
        model, _ = _aliases()[named[1].replace("-", "")]
        if int(named[2]) in model.memory_gib:
            return f"{model.name}-{named[2]}GB"
    close = closest(compact, _aliases())
    return _aliases()[close[0]][0].name if close else None
