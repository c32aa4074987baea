"""Answers the shell's requests for completion. Imports little: each import delays a key.

The shells' scripts (``gpucloud completion``) set these variables:

- ``_GPUCLOUD_COMPLETE``: ``complete_bash``, ``complete_zsh`` or ``complete_fish``;
- bash: ``COMP_WORDS``, the words of the line, and ``COMP_CWORD``, the index of the one at the cursor;
- zsh and fish: ``_TYPER_COMPLETE_ARGS``, the line up to the cursor. The names are typer's.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gpucloud.cli.completion_line import joined, typed
from gpucloud.cli.completion_values import FILES, Value, Values

VARIABLE = "_GPUCLOUD_COMPLETE"
TABLE = Path(__file__).with_name("command_line.json")
_PLAIN = re.compile(r"[\w.,!:/@%+=-]+")
NO_FILES, FILES_TOO = 0, 1
"""The exit codes: whether the shell should offer file names as well, if no word fits or beside the words."""


def answer(environment: Mapping[str, str]) -> int:
    """Prints the words for the shell that asks, one on a line; returns the exit code."""
    shell = environment[VARIABLE].removeprefix("complete_")
    words, cursor = _asked(environment, shell)
    found, files = completions(words, cursor, environment)
    lines = {"bash": _bash_lines, "zsh": _zsh_lines}.get(shell, _fish_lines)(found, words, cursor)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return FILES_TOO if files else NO_FILES


def completions(
    words: Sequence[str], cursor: int, environment: Mapping[str, str]
) -> tuple[list[Value], bool]:
    """The words that may stand at the cursor with their help texts, and whether files may, too.

    Args:
        words: the words of the line, the program's name first; bash's marks may be words of their own.
        cursor: the index of the word at the cursor.
        environment: the environment variables.
    """
    before, word = joined(words, cursor)
    asked = typed(json.loads(TABLE.read_bytes()), before, word)
    if asked.kind is None:
        return _fitting(asked.words, word), False
    kind, found = asked.kind, list[Value]()
    if not isinstance(kind, str):
        head, comma, _ = asked.value.rpartition(",")
        kind, found = asked.also or "nothing", [(f"{head}{comma}{each}", "") for each in kind]
    sandbox = "--sandbox" in asked.options or _is_on(environment.get("GPUCLOUD_SANDBOX", ""))
    values = Values(environment, sandbox=sandbox, options=asked.options)
    found += values.of(kind, asked.value)
    return _fitting(_prefixed(asked.start, found), word), kind in FILES


def _prefixed(start: str, values: Iterable[Value]) -> list[Value]:
    return [(start + word, about) for word, about in values]


def _fitting(values: Iterable[Value], word: str) -> list[Value]:
    """The values that begin with a word, in whatever case; each once.

    A name that a shell would read as more than a word (``*`` in bash) is not offered: a journal may have any.
    """
    plain = [each for each in values if _PLAIN.fullmatch(each[0])]
    fitting = [each for each in plain if each[0].lower().startswith(word.lower())]
    return list({each[0]: each for each in fitting}.values())


def _asked(environment: Mapping[str, str], shell: str) -> tuple[list[str], int]:
    """The words of the line, and the index of the one at the cursor."""
    if shell == "bash":
        return _split(environment.get("COMP_WORDS", "")), int(environment.get("COMP_CWORD", "0"))
    line = environment.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)
    return words, len(words) if not words or line[-1:].isspace() else len(words) - 1


def _split(line: str) -> list[str]:
    """The words of a line as a shell reads them; a quote that is still open ends with the line."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:
        words.append(lexer.token or "")
    return words


def _is_on(text: str) -> bool:
    return text.strip().lower() not in {"", "0", "false", "no", "off"}


# --- what each shell reads


def _bash_lines(values: Sequence[Value], words: Sequence[str], cursor: int) -> list[str]:
    """Words alone. Bash replaces only what follows its last mark, so what it keeps is cut off."""
    _, whole = joined(words, cursor)
    own = words[cursor] if cursor < len(words) else ""
    kept = len(whole) - (0 if own in {":", "="} else len(own))
    return [word[kept:] for word, _ in values]


def _zsh_lines(values: Sequence[Value], words: Sequence[str], cursor: int) -> list[str]:  # noqa: ARG001
    """``word:help``, as ``_describe`` reads it."""
    return [word.replace("\\", "\\\\").replace(":", "\\:") + f":{about}" for word, about in values]


def _fish_lines(values: Sequence[Value], words: Sequence[str], cursor: int) -> list[str]:  # noqa: ARG001
    """Words, and after a tab their help."""
    return [f"{word}\t{about}".rstrip("\t") for word, about in values]
