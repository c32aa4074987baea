"""The flags that stand for a spec, and what ``--help`` shows of every command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from typer.core import TyperGroup

from gpucloud.cli.app import COMMANDS, load, main
from gpucloud.spec.flags import PANELS
from gpucloud.spec.model import FIELDS

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
            main([*words, "--help"])
        return capsys.readouterr().out

    return shown


@pytest.mark.parametrize("words", tuple(command_lines()), ids=" ".join)
def test_help_says_what_each_value_is(words: tuple[str, ...], help_of: Callable[..., str]) -> None:
    assert not INTERNAL.findall(help_of(*words))


def test_every_field_of_a_spec_has_a_flag_that_help_shows_with_its_description(
    help_of: Callable[..., str],
) -> None:
    text = " ".join(help_of("offers").split())
    for name, field in FIELDS.items():
        flag = field.flag
        assert flag.panel in PANELS
        written = ", ".join(flag.names_for(name))
        value = "" if flag.metavar is None else f" {flag.metavar}"
        assert f"{written}{value} {field.description}" in text
        for value, what in flag.switches.items():
            assert f"--{value} {what}" in text


def test_a_field_is_a_switch_exactly_where_it_is_yes_or_no() -> None:
    switches = {name for name, field in FIELDS.items() if field.flag.metavar is None}
    assert switches == {name for name, field in FIELDS.items() if field.default is False}
