"""Which values complete a command line that is being typed: pure rules over the table of the command line.

The table is ``command_line.json``, which ``python -m docs.generate`` writes from the commands themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Table = Mapping[str, Any]
Kind = str | Sequence[str]
"""What a word is: the name of a kind of value, or the words that are allowed."""


class Typed(NamedTuple):
    """The word at the cursor, and what may stand there.

    Attributes:
        words: words with their help texts that may stand here: commands, or options.
        kind: what the word is, if it is a value.
        start: what of the word is given already: ``--gpu=``.
        value: the rest of the word.
        options: the values of the options before it, by their first name.
        also: a kind of values beside the words that are allowed.
    """

    words: Sequence[tuple[str, str]]
    kind: Kind | None
    start: str
    value: str
    options: Mapping[str, Sequence[str]]
    also: str | None = None


def joined(words: Sequence[str], cursor: int) -> tuple[list[str], str]:
    """The words before the cursor and the one at it, where bash has split words at ``:`` and ``=``.

    A word of its own is neither: what stands beside such a mark belongs to it.

    Args:
        words: the words of the line, the command first.
        cursor: the index of the word at the cursor.
    """
    whole: list[str] = []
    glue = False
    for word in [*words[1:cursor], words[cursor] if cursor < len(words) else ""]:
        mark = word in {":", "="}
        if whole and (glue or mark):
            whole[-1] += word
        else:
            whole.append(word)
        glue = mark
    return whole[:-1], whole[-1]


def typed(table: Table, before: Sequence[str], word: str) -> Typed:
    """What the word at the cursor may be.

    Args:
        table: the table of the command line.
        before: the complete words before it, without the name of the program.
        word: the word at the cursor, perhaps empty.
    """
    place = _Place(table)
    for each in before:
        place.read(each)
    if place.pending is not None:
        return place.value_of(place.pending, "", word)
    if word.startswith("-") and not place.verbatim:
        name, equals, value = word.partition("=")
        if not equals:
            return place.words(place.names())
        option = place.option(name)
        return place.value_of(option, f"{name}=", value) if option else place.words([])
    if place.node.get("commands"):
        return place.words([(name, each["help"]) for name, each in place.node["commands"].items()])
    return place.argument(word)


class _Place:
    """How far a command line was read."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.node: Mapping[str, Any] = {"options": table["root"], "commands": table["commands"]}
        self.pending: Mapping[str, Any] | None = None
        self.verbatim = False
        self._arguments = 0
        self._values: dict[str, list[str]] = {}

    def read(self, word: str) -> None:
        if self.pending is not None:
            self._note(self.pending, word)
            self.pending = None
        elif word == "--" and not self.verbatim:
            self.verbatim = True
        elif word.startswith("-") and len(word) > 1 and not self.verbatim:
            name, equals, value = word.partition("=")
            option = self.option(name)
            if option and equals:
                self._note(option, value)
            elif option and "takes" in option:
                self.pending = option
            elif option:
                self._note(option, "")
        elif "commands" in self.node:
            self.node = self.node["commands"].get(word, {"options": [], "arguments": []})
        else:
            self._arguments += 1

    def names(self) -> list[tuple[str, str]]:
        """The options that may stand here."""
        rows = [self._table["options"][key] for key in self.node["options"]]
        return [(name, row["help"]) for row in rows for name in row["names"] if name.startswith("--")]

    def option(self, name: str) -> Mapping[str, Any] | None:
        rows = (self._table["options"][key] for key in self.node["options"])
        return next((row for row in rows if name in row["names"]), None)

    def words(self, words: Sequence[tuple[str, str]]) -> Typed:
        return Typed(words, None, "", "", self._values)

    def value_of(self, option: Mapping[str, Any], start: str, value: str) -> Typed:
        return Typed((), option.get("takes", "nothing"), start, value, self._values, option.get("also"))

    def argument(self, word: str) -> Typed:
        kinds = self.node.get("arguments") or ["nothing"]
        last = len(kinds) - 1
        there = self._arguments <= last or self.node.get("repeats")
        kind = kinds[min(self._arguments, last)] if there else "nothing"
        return Typed((), kind, "", word, self._values)

    def _note(self, option: Mapping[str, Any], value: str) -> None:
        self._values.setdefault(option["names"][0], []).append(value)
