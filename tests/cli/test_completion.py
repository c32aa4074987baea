"""What a shell offers after a tab: in the real bash, zsh and fish, over the real journal."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.command_line import COMMAND_LINE, command_line, written
from gpucloud.cli.completing import completions
from gpucloud.journal.facts import Facts, SnapshotFacts, VolumeFacts
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box, Holding, Snapshot, Volume
from gpucloud.journal.store import Journal
from gpucloud_sandbox.client import Endpoint
from tests.builders import START, some_tags
from tests.forked import ForkServer
from tests.shell import PROGRAMS, Shell, newcomer
from tests.terminal import Terminal


@pytest.fixture(scope="module")
def work(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory, forks: ForkServer) -> Iterator[Shell]:
    """A shell whose user has the boxes ``work`` and ``wide``, and had one named ``worn``."""
    with newcomer(endpoint, tmp_path_factory.mktemp("user"), forks) as shell:
        for name, run in (("work", "ci-7"), ("wide", "ci-8"), ("worn", "ci-9")):
            shell.launch("--gpu", "T4", "--name", name, "--run-id", run)
        assert shell("down", "worn", "--yes").code == 0
        yield shell


def environment(shell: Shell) -> dict[str, str]:
    path = os.pathsep.join((str(PROGRAMS), os.environ["PATH"]))
    return {
        "PATH": path,
        "HOME": str(shell.home),
        "GPUCLOUD_HOME": str(shell.home),
        "GPUCLOUD_SANDBOX": "1",
        "TERM": "xterm",
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "200",
        "LINES": "50",
    }


def bash_env(shell: Shell, line: str) -> list[str]:
    """What bash's own variables get: the words of a line as bash passes them, the last at the cursor."""
    words = line.split(" ")
    asked = {"_GPUCLOUD_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        ["gpucloud"], env={**environment(shell), **asked}, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


@pytest.fixture(params=["bash", "zsh"])
def terminal(request: pytest.FixtureRequest, work: Shell, tmp_path: Path) -> Iterator[Terminal]:
    """A real interactive shell that has read gpucloud's completion script."""
    name = str(request.param)
    program = needs(name)
    inputrc = tmp_path / "inputrc"
    inputrc.write_text("set show-all-if-ambiguous on\nset enable-bracketed-paste off\nset bell-style none\n")
    options = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"]}[name]
    shown = Terminal([program, *options], {**environment(work), "INPUTRC": str(inputrc)}, work.home)
    before = "autoload -Uz compinit && compinit -u -D && setopt no_list_beep && " if name == "zsh" else ""
    shown.type(f'{before}PS1="% " && eval "$(gpucloud completion {name})" && echo "is "ready\n')
    shown.sees("is ready")
    yield shown
    shown.close()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gpucloud ver", ["version"]),
        ("gpucloud sandbox inter", ["interrupt"]),
        ("gpucloud launch --purch", ["--purchase"]),
        ("gpucloud launch --purchase spot,o", ["spot,on-demand"]),
        ("gpucloud launch --gpu a100-", ["A100-40GB", "A100-80GB"]),
        ("gpucloud launch --gpu=A100-", ["--gpu=A100-40GB", "--gpu=A100-80GB"]),
        ("gpucloud launch --gpu L4:1,H10", ["L4:1,H100", "L4:1,H100-80GB", "L4:1,H100-94GB"]),
        ("gpucloud offers --cloud ", ["alibaba", "aws", "azure"]),
        ("gpucloud offers --cloud aws,!az", ["aws,!azure"]),
        ("gpucloud offers --cloud azure --region westu", ["westus", "westus2", "westus3"]),
        ("gpucloud offers --region eu-central-1 --zone euc1-az", ["euc1-az1", "euc1-az2", "euc1-az3"]),
        ("gpucloud launch --image pytorch-2.1", ["pytorch-2.10", "pytorch-2.11", "pytorch-2.12"]),
        ("gpucloud launch --interconnect nv", ["nvlink", "nvswitch"]),
        ("gpucloud --sandbox ssh ", ["wide", "work"]),
        ("gpucloud show w", ["wide", "work"]),
        ("gpucloud down wide wo", ["work"]),
        ("gpucloud down --run-id ", ["ci-7", "ci-8"]),
        ("gpucloud spend --run-id ", ["ci-9", "ci-8", "ci-7"]),
        ("gpucloud sync wo", ["work:"]),
        ("gpucloud completion ", ["bash", "zsh", "fish"]),
        ("gpucloud launch --name ", []),
        ("gpucloud nonsense --", []),
        ("gpucloud exec work -- --", []),
    ],
)  # fmt: skip
def test_bash_is_given_the_words_that_fit(work: Shell, line: str, words: list[str]) -> None:
    assert bash_env(work, line) == words


@pytest.mark.parametrize(
    ("line", "cursor", "words"),
    [
        ("gpucloud launch --gpu A100-80GB :", 4, ["1", "2", "4", "8"]),
        ("gpucloud launch --gpu A100-80GB : 8", 5, ["8"]),
        ("gpucloud launch --gpu = T4", 4, ["T4", "T4G"]),
        ("gpucloud launch --gpu =", 3, None),
    ],
)
def test_words_that_bash_splits_at_its_marks_are_read_as_one(
    work: Shell, line: str, cursor: int, words: list[str] | None
) -> None:
    asked = {"_GPUCLOUD_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(cursor)}
    done = subprocess.run(
        ["gpucloud"], env={**environment(work), **asked}, capture_output=True, text=True, check=False
    )
    found = done.stdout.splitlines()
    assert found == words if words is not None else "H100" in found


def test_a_shell_completes_boxes_and_gpus_on_its_terminal(terminal: Terminal) -> None:
    terminal.type("gpucloud ssh wo\t")
    terminal.sees("gpucloud ssh work ")
    terminal.type("\x15gpucloud launch --gpu A100-80GB:\t")
    terminal.sees("1", "2", "4", "8")
    terminal.type("\x15gpucloud launch --gpu H10\t")
    terminal.sees("gpucloud launch --gpu H100")
    terminal.type("\x15gpucloud down --run-id ci-\t")
    assert "ci-9" not in terminal.sees("ci-7", "ci-8")


def test_a_shell_goes_on_to_the_path_after_the_name_of_a_box(terminal: Terminal, work: Shell) -> None:
    (work.home / "results.csv").touch()
    terminal.type("gpucloud sync wo\tx")
    terminal.sees("gpucloud sync work:x")
    terminal.type("\x15gpucloud sync resu\t")
    terminal.sees("gpucloud sync results.csv")


def fish_offers(shell: Shell, line: str) -> list[str]:
    """What fish itself offers for a line: each word with its description after a tab."""
    script = "gpucloud completion fish | source; complete -C $argv[1]"
    done = subprocess.run(
        [needs("fish"), "--no-config", "-c", script, line],
        env=environment(shell), cwd=shell.home, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("gpucloud ssh wo", ["work\tready"]),
        ("gpucloud down --run-id ", ["ci-7\twork", "ci-8\twide"]),
        ("gpucloud launch --gpu A100-80GB:", [f"A100-80GB:{each}\texactly {each}" for each in (1, 2, 4, 8)]),
        ("gpucloud launch --gpu=H2", ["--gpu=H200\t141 GB"]),
        ("gpucloud launch --file con", ["config/"]),
        ("gpucloud launch --name con", []),
    ],
)  # fmt: skip
def test_fish_completes_with_descriptions(work: Shell, line: str, offered: list[str]) -> None:
    (work.home / "config").mkdir(exist_ok=True)
    assert fish_offers(work, line) == offered


def test_completion_makes_nothing_and_imports_neither_sdk_nor_typer(tmp_path: Path) -> None:
    program = (
        "import sys; from gpucloud.cli.completing import completions\n"
        "import os; found, _ = completions(['gpucloud', 'ssh', ''], 2, os.environ); assert not found\n"
        "heavy = {'typer', 'rich', 'pydantic', 'boto3', 'azure', 'yaml'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    home = tmp_path / "home"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "GPUCLOUD_HOME": str(home)}, check=False
    )
    assert done.returncode == 0
    assert not home.exists()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("launch", "--image", "m"), [("monday", "ready")]),
        (("launch", "--image", "pytorch-2.10"), [("pytorch-2.10", "")]),
        (("snapshot", "create", "s", "--of", ""), [("data", "volume"), ("work", "box")]),
    ],
)
def test_images_of_ones_own_and_what_can_be_copied_are_offered(
    tmp_path: Path, line: tuple[str, ...], words: list[tuple[str, str]]
) -> None:
    """An image, no copy of a volume, beside the recipes; boxes and volumes; no name with a shell's marks."""
    state = tmp_path / "state"
    state.mkdir()
    journal = Journal.open(state / "journal.db", lambda: START)
    holdings: dict[str, tuple[type[Holding], Facts]] = {
        "work": (Box, Facts()),
        "data": (Volume, Facts(volume=VolumeFacts(keep_s=60))),
        "monday": (Snapshot, Facts(snapshot=SnapshotFacts(bootable=True))),
        "middle": (Snapshot, Facts(snapshot=SnapshotFacts(of="data"))),
        **dict.fromkeys(("*", "$(touch x)", "a;b", "x\ny"), (Box, Facts())),  # bash would expand the first
    }
    for name, (kind, facts) in holdings.items():
        journal.recover(
            kind,
            id=f"b-{name}",
            name=name,
            tags=some_tags(owner="u-me"),
            state=BoxState.READY,
            created_at=START,
            expires_at=None,
            facts=facts,
            resources=(),
        )
    journal.close()
    asked = ("gpucloud", *line)
    found, _ = completions(asked, len(asked) - 1, {"GPUCLOUD_HOME": str(tmp_path), "GPUCLOUD_OWNER": "u-me"})
    assert found == words


def test_a_line_with_an_open_quote_is_completed(work: Shell) -> None:
    assert bash_env(work, 'gpucloud ssh "wo') == ["work"]


def test_a_damaged_journal_offers_no_names(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "journal.db").write_text("no database at all " * 100)
    given = {"GPUCLOUD_HOME": str(tmp_path), "GPUCLOUD_OWNER": "me"}
    assert completions(["gpucloud", "ssh", ""], 2, given) == ([], False)


def test_the_file_offers_no_names_where_a_team_s_journal_is_used(work: Shell) -> None:
    line, given = ["gpucloud", "ssh", ""], environment(work)
    assert completions(line, 2, given)[0]
    assert completions(line, 2, {**given, "GPUCLOUD_JOURNAL": "postgresql://127.0.0.1/lab"}) == ([], False)
    defaults = work.home / "config" / "defaults.yaml"
    defaults.parent.mkdir(exist_ok=True)
    defaults.write_text("journal: postgresql://127.0.0.1/lab\n", encoding="utf-8")
    try:
        assert completions(line, 2, given) == ([], False)
    finally:
        defaults.unlink()


def test_the_table_of_the_command_line_is_that_of_the_commands() -> None:
    table = command_line()
    assert COMMAND_LINE.read_text(encoding="utf-8") == written(table), (
        "gpucloud/cli/command_line.json is behind the commands: run `make docs`"
    )
    assert json.loads(written(table)) == table
