"""The READMEs: what they show is what appears, and both say the same."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gpucloud.cli.app import COMMANDS
from gpucloud.spec.yaml import read_file
from gpucloud_sandbox.client import Endpoint
from tests.pages import ROOT, examples, shape
from tests.shell import Shell

READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]
COMMANDS_PAGE, PRICES_PAGE = ROOT / "docs" / "commands.md", ROOT / "docs" / "prices.md"
MOST_LINES = 150


def text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def blocks(file: Path) -> list[str]:
    return re.findall(r"```(?:sh|console|yaml|python)\n(.*?)```", text(file), re.DOTALL)


def session() -> list[tuple[str, list[str]]]:
    """The commands of the terminal session, each with the lines that it shows."""
    [console] = re.findall(r"```console\n(.*?)```", text(READMES[0]), re.DOTALL)
    parts = re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]
    return [(part.splitlines()[0], part.splitlines()[1:]) for part in parts]


def test_both_readmes_have_the_same_blocks_headings_and_links() -> None:
    """The Chinese one is no lesser one."""
    english, chinese = READMES
    assert blocks(english) == blocks(chinese)
    counted = [
        [len(re.findall(rule, text(file), re.MULTILINE)) for file in READMES] for rule in (r"^#+ ", r"^\| ")
    ]
    assert all(first == second for first, second in counted)
    links = [
        sorted(set(re.findall(r"\]\(([^)]+)\)", text(file))) - {f.name for f in READMES}) for file in READMES
    ]
    assert links[0] == links[1]
    assert all((ROOT / link).exists() for link in links[0])
    assert all(len(text(file).splitlines()) <= MOST_LINES for file in READMES)


@pytest.mark.parametrize("file", [*READMES, COMMANDS_PAGE], ids=["en", "zh", "page"])
def test_the_tables_name_commands_of_the_program_alone(file: Path) -> None:
    """The list of all is made from the code: ``docs/reference/commands/index.md``."""
    table = text(file).rpartition("| --- | --- |")[2].partition("\n\n")[0]
    column = 1 if file == COMMANDS_PAGE else 2
    cells = [row.split(" | ")[column - 1] for row in table.strip().splitlines()]
    named = {word.split()[0] for cell in cells for word in re.findall(r"`([a-z0-9 -]+)`", cell)}
    assert len(named) > 40
    assert named <= set(COMMANDS)


def test_the_session_is_what_appears(cli: Shell) -> None:
    """Each command of the session gives the lines that the README shows, but for what differs each time."""
    steps = session()
    assert steps[0][0].startswith("export GPUCLOUD_SANDBOX=1")
    for command, shown in steps[1:]:
        program, *arguments = shlex.split(command)
        assert program == "gpucloud"
        ran = cli(*arguments)
        assert ran.code == 0, ran.err
        appeared = {shape(line) for line in (ran.out + ran.err).splitlines()}
        missing = [line for line in shown if shape(line) not in appeared]
        assert not missing, f"{command} showed {ran.out}{ran.err}"


def test_the_examples_of_files_can_be_used(tmp_path: Path, cli: Shell) -> None:
    """The spec can be read, and asked for; the conditions are counted."""
    pages = READMES[0], PRICES_PAGE
    examples = [re.findall(r"```yaml\n(.*?)```", text(page), re.DOTALL)[0] for page in pages]
    box, own = tmp_path / "box.yaml", tmp_path / "conditions.yaml"
    for file, example in zip((box, own), examples, strict=True):
        file.write_text(example, encoding="utf-8")
    assert read_file(box).fields["name"] == "trainer"
    assert cli("offers", "-f", str(box), "--limit", "1").code in {0, 7}
    counted = cli("cost", "--gpu", "H100:8", "--cloud", "aws", "--conditions", str(own), "--json")
    on_demand = next(o for o in counted.json["options"] if o["purchase"] == "on_demand")
    assert on_demand["offer"]["own_discount_percent"] == 12


def test_the_library_examples_run(
    capsys: pytest.CaptureFixture[str], endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, cli: Shell
) -> None:
    """As they stand there: the market's, and the one that launches on the sandbox."""
    monkeypatch.setenv("GPUCLOUD_HOME", str(cli.home))
    [market], [launch] = examples(PRICES_PAGE), examples(READMES[0])
    exec(compile(market[0], "README.md", "exec"), {})  # noqa: S102
    assert "p4d.24xlarge" in capsys.readouterr().out
    exec(compile(launch[0], "README.md", "exec"), {})  # noqa: S102
    assert capsys.readouterr().out.splitlines()[-1] == "deleted"
    assert endpoint.client.status()["billing"] == []
