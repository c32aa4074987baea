"""The flags that stand for a spec, and what ``--help`` shows of every command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator

import pytest
from typer.core import TyperGroup

from gpucloud.__main__ import main
from gpucloud.cli.app import COMMANDS, load
from gpucloud.cli.examples import examples_of
from gpucloud.spec.declarations import ALIASES, FIELDS
from gpucloud.spec.file import flag_of
from gpucloud.spec.flags import PANELS

INTERNAL = re.compile(r"<(?:str|int|float|path|uuid|datetime|filename)\b|\b(?:TEXT|INTEGER|FLOAT)\b| range>")
"""What click and typer show of an option whose value nobody has named."""


def command_lines() -> Iterator[tuple[str, ...]]:
    for name in COMMANDS:
        command = load(name)
        yield (name,)
        if isinstance(command, TyperGroup):
            yield from ((name, each) for each in command.commands)


@pytest.fixture
def help_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setenv("COLUMNS", "200")

    def shown(*words: str) -> str:
        with pytest.raises(SystemExit):
            main([*words] if "--help-all" in words else [*words, "--help"])
        return capsys.readouterr().out

    return shown


@pytest.mark.parametrize("words", tuple(command_lines()), ids=" ".join)
def test_help_says_what_each_value_is(words: tuple[str, ...], help_of: Callable[..., str]) -> None:
    assert not INTERNAL.findall(help_of(*words))


def test_every_field_of_a_spec_has_a_flag_that_help_shows_with_its_description(
    help_of: Callable[..., str],
) -> None:
    text = " ".join(help_of("offers", "--help-all").split())
    for name, field in FIELDS.items():
        flag = field.flag
        assert flag.panel in PANELS
        written = ", ".join(flag.names_for(name))
        value = "" if flag.metavar is None else f" {flag.metavar}"
        assert f"{written}{value} {field.description}" in text
        for value, what in flag.switches.items():
            assert f"--{value} {what}" in text
    assert not [alias for alias in ALIASES if flag_of(alias) in text]


@pytest.mark.parametrize("name", ["launch", "offers"])
def test_help_shows_the_common_options_first_and_names_the_rest(
    name: str, help_of: Callable[..., str]
) -> None:
    text = help_of(name)
    assert text.index("\nExamples:") < text.index("\nCommon options:") < text.index("\nOptions:")
    shown, _, folded = text.partition(f"More options (gpucloud {name} --help-all):")
    described = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", shown, re.MULTILINE))
    assert {"--gpu", "--spot", "--cloud", "--region", "--max-price", "--file", "--json"} <= described
    assert ("--ttl" in described) == (name == "launch")
    named = set(folded.split())
    assert {"--rdma", "--ssh-key"} <= named
    whole = set(re.findall(r"(--[a-z][a-z-]+)", help_of(name, "--help-all")))
    assert described | named <= whole
    assert not described & named


def test_help_for_all_options_is_not_meant_by_a_remote_command(
    help_of: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["exec", "nobody", "--", "ls", "--help-all"])
    assert ended.value.code == 125
    assert "Usage" not in capsys.readouterr().out
    assert "More options" not in help_of("exec"), "all options of a command without a spec are shown"


@pytest.mark.parametrize("words", tuple(command_lines()), ids=" ".join)
def test_every_command_has_two_examples_that_are_valid(
    words: tuple[str, ...], help_of: Callable[..., str]
) -> None:
    text, loaded = help_of(*words), load(words[0])
    members = loaded.commands if isinstance(loaded, TyperGroup) else {}
    examples = examples_of(members[words[1]] if words[1:] else loaded)
    assert len(examples) == 2
    for example in examples:
        assert f"\n  {example}\n" in text
        program, name, *arguments = shlex.split(example)
        assert (program, example.startswith(f"gpucloud {' '.join(words)}")) == ("gpucloud", True)
        if isinstance(loaded, TyperGroup):
            loaded.commands[arguments[0]].make_context(arguments[0], arguments[1:])
        else:
            loaded.make_context(name, arguments)


def test_a_field_is_a_switch_exactly_where_it_is_yes_or_no() -> None:
    switches = {name for name, field in FIELDS.items() if field.flag.metavar is None}
    assert switches == {name for name, field in FIELDS.items() if field.default is False}
