"""The folders of docs/examples: each is listed, told in the same way, and tested, and its commands exist."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from typer.core import TyperGroup

from gpucloud.cli.app import load
from tests.examples.play import EXAMPLES, commands, example
from tests.pages import ROOT

NAMES = sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir())
LINE = re.compile(r"^(?:\w+=\$\(|until )?\s*gpucloud (.+)", re.MULTILINE)
"""A command of gpucloud in a script, with what the shell does with it."""


def words(line: str) -> list[str]:
    """The words of a command up to the first that is the shell's."""
    found = list[str]()
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for word in lexer:
        if set(word) <= set("();<>|&"):
            return found[:-1] if ">" in word and found[-1].isdecimal() else found
        found.append(word)
    return found


def test_every_example_is_listed_once() -> None:
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \[(.+?)\]\(\1\) \| .+ \|$", index, re.MULTILINE)) == NAMES
    assert len(NAMES) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_an_example_says_what_it_does_what_it_costs_and_how_it_is_run(name: str) -> None:
    page = (example(name) / "README.md").read_text(encoding="utf-8")
    assert page.startswith("# ")
    assert re.findall(r"^(?:\*\*It costs\*\*|## .+)", page, re.MULTILINE) == [
        "**It costs**",
        "## In the sandbox",
        "## On a cloud",
    ]
    linked = set(re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page))
    assert all((example(name) / link).exists() for link in linked)
    files = {file.name for file in example(name).iterdir()} - {"README.md"}
    assert files <= linked | set(re.findall(r"\./(\S+)", page)), "a file that the page does not mention"


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_run_by_a_test(name: str) -> None:
    mention = re.compile(rf'\b(?:example|play|start)\((?:\w+, )?"{name}"')
    found = [file for file in (ROOT / "tests").rglob("*.py") if mention.search(file.read_text("utf-8"))]
    assert found


@pytest.mark.parametrize("name", NAMES)
def test_the_scripts_of_an_example_can_be_read_by_their_shells(name: str) -> None:
    for file in example(name).glob("*.sh"):
        first = file.read_text(encoding="utf-8").splitlines()[0]
        assert file.stat().st_mode & 0o111, f"{file.name} cannot be started"
        subprocess.run([first.split("/")[-1].split()[-1], "-n", str(file)], check=True)
    for heading in ("In the sandbox", "On a cloud"):
        subprocess.run(["bash", "-n", "-c", commands(name, heading)], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_of_an_example_are_those_of_the_program(name: str) -> None:
    """Those for a cloud, which are never run, and those that only ``make thorough`` runs."""
    scripts = [file.read_text(encoding="utf-8") for file in example(name).glob("*.sh")]
    for text in (*scripts, commands(name), commands(name, "On a cloud")):
        for line in LINE.findall(text.replace("\\\n", "")):
            command, *arguments = words(line)
            loaded = load(command)
            if isinstance(loaded, TyperGroup):
                loaded.commands[arguments[0]].make_context(arguments[0], arguments[1:])
            else:
                loaded.make_context(command, arguments)
