"""The catalogues of translated texts (gettext's ``.po`` files), and what is wrong with them.

``python -m docs.site.translations build/messages`` compares them with the texts of the site: ``make
translations`` does, every week and before a release. A commit may leave a translation behind its page.
docs/locale/README.md says how to translate, and has the table of words.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCALE = ROOT / "docs" / "locale"
CATALOGUES = LOCALE / "zh_CN" / "LC_MESSAGES"
UNTRANSLATED = LOCALE / "untranslated.toml"
WORDS = LOCALE / "README.md"

_CODE = re.compile(r"`+[^`]+`+")
_MARKUP = re.compile(r"`+[^`]+`+|\]\([^)]+\)|<[^>\s]+>|\{\w+\}|\*\*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A text and its translation; one that is obsolete is of no page any more."""

    text: str
    translation: str
    fuzzy: bool = False
    obsolete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The Chinese word for each English one, and the words that none is translated with."""

    held: Mapping[str, str]
    never: Mapping[str, str]


def read_catalogue(content: str) -> list[Message]:
    """The messages of a ``.po`` or ``.pot`` file, without its header.

    Raises:
        ValueError: a line is not one of the format.
    """
    messages: list[Message] = []
    for entry in re.split(r"\n\s*\n", content):
        parts = {"msgid": "", "msgstr": ""}
        part, flags, obsolete = "", "", False
        for line in entry.splitlines():
            if line.startswith("#,"):
                flags += line
            obsolete = obsolete or line.startswith("#~")
            statement = line.removeprefix("#~").strip()
            if not statement or statement.startswith("#"):
                continue
            keyword, _, rest = statement.partition(" ")
            if keyword in parts:
                part, statement = keyword, rest
            if not part or not re.fullmatch(r'"(?:[^"\\]|\\.)*"', statement):
                raise ValueError(f"not a line of a catalogue: {line}")
            parts[part] += ast.literal_eval(statement)
        if parts["msgid"]:
            messages.append(
                Message(
                    text=parts["msgid"],
                    translation=parts["msgstr"],
                    fuzzy="fuzzy" in flags,
                    obsolete=obsolete,
                )
            )
    return messages


def catalogues() -> dict[str, list[Message]]:
    """Every catalogue, by the page that it translates (``docs/index``)."""
    return {
        str(file.relative_to(CATALOGUES).with_suffix("")): read_catalogue(file.read_text(encoding="utf-8"))
        for file in sorted(CATALOGUES.rglob("*.po"))
    }


def read_words(page: str) -> Words:
    """The table of words on the page for translators: English, Chinese, what is never written for it."""
    held: dict[str, str] = {}
    never: dict[str, str] = {}
    for english, chinese, others in re.findall(r"^\| (.+?) \| (.+?) \| (.*?) ?\|$", page, re.MULTILINE)[2:]:
        held[english] = chinese
        never |= dict.fromkeys(others.split("、") if others else [], chinese)
    return Words(held=held, never=never)


def faults(message: Message, words: Words) -> Iterator[str]:
    """What is wrong with a translation, a sentence each."""
    text, translation = message.text, message.translation
    if message.obsolete:
        yield "is on no page any more: remove it"
        return
    if not translation:
        yield "is not translated"
        return
    if message.fuzzy:
        yield "is marked fuzzy: look at it, and remove the mark"
    wanted, found = Counter(_MARKUP.findall(text)), Counter(_MARKUP.findall(translation))
    for part in wanted - found:
        yield f"lacks {part}"
    for part in found - wanted:
        yield f"adds {part}"
    # Markdown ends no emphasis between a mark and a letter: the asterisks would be shown.
    strong = _CODE.sub("code", translation).split("**")
    for bold, after in zip(strong[1::2], strong[2::2], strict=False):
        if re.search(r"\W$", bold) and re.match(r"\w", after):
            yield f"lacks a space after **{bold}**"
    yield from wrong_words(_CODE.sub("", translation), words)
    prose = _MARKUP.sub("", text)
    for english, chinese in words.held.items():
        has = re.compile(rf"\b{re.escape(english)}s?\b", re.IGNORECASE)
        if has.search(prose) and chinese not in translation and not has.search(translation):
            yield f"has another word than {chinese} for {english}"


def wrong_words(text: str, words: Words) -> Iterator[str]:
    """The words of a Chinese text for which another one is agreed."""
    for word, instead in words.never.items():
        if word in text:
            yield f"says {word}: the word is {instead}"


def untranslated() -> dict[str, str]:
    """Pages that need no catalogue, as patterns, each with its reason."""
    return tomllib.loads(UNTRANSLATED.read_text(encoding="utf-8"))


def is_listed(page: str) -> bool:
    """Whether a page needs no catalogue."""
    return any(fnmatchcase(page, pattern) for pattern in untranslated())


def own_faults(found: Mapping[str, list[Message]], words: Words) -> list[str]:
    """What is wrong with catalogues by themselves."""
    return [
        f"{page}: “{message.text}” {fault}"
        for page, messages in found.items()
        for message in messages
        for fault in faults(message, words)
    ]


def pages() -> set[str]:
    """Every page of the project, also those that are made from the code: ``README``, ``docs/index``."""
    from docs.site.pages import made  # imports the whole program

    written = [*ROOT.glob("*.md"), *ROOT.glob("providers/*/README.md"), *ROOT.glob("docs/**/*.md")]
    found = {
        str(file.relative_to(ROOT).with_suffix("")) for file in written if not file.is_relative_to(LOCALE)
    }
    return found | {f"docs/{name.removesuffix('.md')}" for name in made() if name.endswith(".md")}


def idle(patterns: Iterable[str], without_catalogue: Collection[str]) -> list[str]:
    """The patterns of pages without a catalogue that no such page needs any more."""
    return [
        f"{UNTRANSLATED.name}: no page needs “{pattern}”; remove it"
        for pattern in patterns
        if not any(fnmatchcase(page, pattern) for page in without_catalogue)
    ]


def stale(found: Mapping[str, list[Message]], texts: Mapping[str, list[Message]]) -> list[str]:
    """Where catalogues and the texts of the site are not the same pages and texts."""
    problems = [
        f"{page}: has a catalogue, and is no page of the site" for page in found.keys() - texts.keys()
    ]
    for page, messages in texts.items():
        wanted = {each.text for each in messages}
        translated = {each.text for each in found.get(page, []) if not each.obsolete}
        if page not in found:
            problems.append(f"{page}: has no catalogue, and is not in {UNTRANSLATED.name}")
        else:
            problems += [f"{page}: lacks “{text}”" for text in wanted - translated]
            problems += [f"{page}: “{text}” is on the page no more" for text in translated - wanted]
    return sorted(problems)


def main(messages: Path) -> int:
    """Prints what is wrong; the exit code is 1 if anything is."""
    found = catalogues()
    texts = {
        str(file.relative_to(messages).with_suffix("")): read_catalogue(file.read_text(encoding="utf-8"))
        for file in messages.rglob("*.pot")
    }
    problems = [
        *own_faults(found, read_words(WORDS.read_text(encoding="utf-8"))),
        *stale(found, texts),
        *idle(untranslated(), pages() - found.keys()),
    ]
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    if problems:
        sys.stderr.write("`make docs-messages` takes new texts into catalogues; see docs/locale/README.md.\n")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
