"""Mistakes in the command of a run that are certain before a box is bought for it."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence
from itertools import dropwhile, pairwise, takewhile
from pathlib import Path

from gpucloud.errors import UsageError
from gpucloud.sources.selection import Selection
from gpucloud.spec.model import Spec

SCRIPTS = frozenset({".bash", ".jl", ".js", ".lua", ".pl", ".py", ".r", ".rb", ".sh"})
"""How the names of programs end that an interpreter reads."""
SHELLS = frozenset({"bash", "dash", "sh", "zsh"})
_READER = re.compile(
    r"python[0-9.]*|bash|dash|sh|zsh|node|ruby|perl|lua|julia|Rscript|torchrun|accelerate|deepspeed"
)
"""Programs whose first word in the form of a script is one that they read."""
_BEFORE = frozenset({"exec", "nohup", "time"})
"""Words before a program that change nothing of what it reads."""
_MAKES_NO_FILE = frozenset(
    {":", "date", "echo", "export", "hostname", "nvidia-smi", "printf", "set", "sleep", "true", "umask"}
)
_PIP_OPTIONS = frozenset({"-q", "-r", "-U", "--quiet", "--upgrade"})
"""Options of ``pip install`` that put no file into the working folder."""
_OPERATORS = ";&|<>()\n"
_IN_DOUBT = re.compile(rf"""(['"])[\s{_OPERATORS}]+\1|\\[{_OPERATORS}]|`|\$\(|\|\|""")
"""Operators in quotes, commands inside of words, and what is done if a step fails."""
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def refuse_absent(command: Sequence[str] | str, spec: Spec, travelling: Sequence[Selection]) -> None:
    """Refuses a command with a script that is here, and would not be on the box.

    A set-up, an image or a volume of the user's may bring it: with these nothing is refused. Neither is what
    an earlier step of a shell command may bring, or what stands after such a step.

    Args:
        command: a shell command, or the arguments of a program.
        spec: the spec of the box.
        travelling: the files that travel.

    Raises:
        UsageError: so it is.
    """
    if spec.setup or spec.image or spec.volumes or spec.data:
        return
    there = {each.there(entry) for each in travelling for entry in each.entries}
    for word in _read_by(command):
        if not _is_script(word) or posixpath.normpath(word) in there:
            continue
        if any(Path(each.source.local).resolve() in Path(word).resolve().parents for each in travelling):
            raise UsageError(
                f"{word} is here, and would not be at this place on the box",
                hint="see what travels, and where to: add --dry-run",
            )
        raise UsageError(f"{word} is here, not on the box", hint="add --sync .")


def _is_script(word: str) -> bool:
    """Whether a word names a script in or below the working folder."""
    return _looks_like_script(word) and not word.startswith(("/", "-", "../")) and Path(word).is_file()


def _looks_like_script(word: str) -> bool:
    return word.startswith("./") or posixpath.splitext(word)[1].lower() in SCRIPTS


def _read_by(command: Sequence[str] | str) -> Sequence[str]:
    """The words of a command that may name what it reads."""
    text = command if isinstance(command, str) else _shell_text(command)
    if text is not None:
        return _read_by_shell(text)
    return command


def _shell_text(command: Sequence[str]) -> str | None:
    """The text that a shell is given by ``-c``, ``-lc`` and the like; ``None`` for another command."""
    if posixpath.basename(command[0]) not in SHELLS:
        return None
    for option, word in pairwise(command[1:]):
        if not option.startswith("-"):
            return None
        if not option.startswith("--") and "c" in option:
            return word
    return None


def _read_by_shell(text: str) -> Sequence[str]:
    """The script that a shell text certainly reads from where it starts, if there is one.

    Steps before it make no file and stay in the folder. What cannot be told is left alone.
    """
    text = text.replace("\\\n", " ")
    if _IN_DOUBT.search(text):
        return ()
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.whitespace_split = " \t\r", True
    step: list[str] = []
    try:
        for token in (*lexer, ";"):
            if not set(token) <= set(_OPERATORS):
                step.append(token)
            elif set(token) & set("()<"):
                return ()
            elif step and (">" in token or not _makes_no_file(step)):
                return _script_of(step)
            else:
                step = []
    except ValueError:  # a quote is open
        pass
    return ()


def _makes_no_file(step: Sequence[str]) -> bool:
    """Whether a step of a shell neither makes a file in its folder nor leaves that folder."""
    if step[0] in {"pip", "pip3"}:
        options = {word for word in step if word.startswith("-")}
        return step[1:2] == ["install"] and options <= _PIP_OPTIONS
    return step[0] in _MAKES_NO_FILE


def _script_of(step: Sequence[str]) -> Sequence[str]:
    """The script that a step of a shell is, or reads."""
    words = list(dropwhile(lambda word: word in _BEFORE or _ASSIGNMENT.match(word), step))
    if words and not _looks_like_script(words[0]) and not _READER.fullmatch(posixpath.basename(words[0])):
        return ()
    before = list(takewhile(lambda word: not _looks_like_script(word), words))
    if {"-c", "-m"} & set(before):  # what follows belongs to a program of another kind
        return ()
    return words[len(before) :][:1]
