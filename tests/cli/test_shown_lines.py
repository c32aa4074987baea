"""The command lines that help and documents show: what they start is on the box, with the files it reads."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from gpucloud.cli.app import COMMANDS, load
from gpucloud.cli.examples import examples_of
from tests.pages import ROOT
from tests.sandbox.running import client
from tests.shell import Shell

SHELL = frozenset({"cat", "echo", "exit", "sh", "sleep", "ssh", "true"})
ON_IMAGES = {
    "": SHELL | {"nvidia-smi", "python3"},
    "pytorch": SHELL | {"nvidia-smi", "python3", "python", "pip", "torchrun"},
}
"""The programs of the images (docs/boxes.md): none is Ubuntu 22.04 with a driver, which has no ``python``."""
OF_PACKAGES = {"python3-pip": "pip", "python3-pytest": "pytest"}
"""Programs of packages of Ubuntu that a line installs by its --setup."""
_BLOCK = re.compile(r"^ *```[a-z]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"gpucloud\"? (?:run|launch|exec) [^\n&]*")


@dataclass(frozen=True)
class Shown:
    """A command line, as a reader would copy it, and the others that stand before it."""

    where: str
    line: str
    before: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line)

    @property
    def command(self) -> list[str]:
        """What is started on the box."""
        words = self.words
        return words[words.index("--") + 1 :] if "--" in words else []

    def given(self, flag: str) -> list[str]:
        """The values of an option; of ``exec`` those of the launch before it."""
        found: list[str] = []
        for line in (*(each for each in self.before if self.words[1] == "exec"), self.line):
            words = shlex.split(line)
            words = words[: words.index("--")] if "--" in words else words
            found += [after for word, after in pairwise(words) if word == flag]
            found += [word.partition("=")[2] for word in words if word.startswith(f"{flag}=")]
        return found


def shown() -> Iterator[Shown]:
    """All lines of help and of documents that start something on a box."""
    for command in map(load, COMMANDS):
        for each in getattr(command, "commands", {"": command}).values():
            own = [line for line in examples_of(each) if " -- " in line and _LINE.fullmatch(line)]
            yield from (Shown(f"help of {command.name}", line) for line in own)
    app = (ROOT / "gpucloud/cli/app.py").read_text(encoding="utf-8")
    yield from (Shown("help", line) for line in _LINE.findall(app) if " -- " in line)
    for page in pages():
        before: list[str] = []
        for line in lines_of(page.read_text(encoding="utf-8"), whole=page.suffix != ".md"):
            if " -- " in line:
                yield Shown(str(page.relative_to(ROOT)), line, tuple(before))
            before.append(line)


def pages() -> list[Path]:
    """The pages that are written by hand, and the files of the examples."""
    docs = ROOT / "docs"
    written = [each for each in docs.rglob("*.md") if not {"locale", "reference"} & set(each.parts)]
    recipes = [*docs.glob("examples/*/*.yml"), *docs.glob("examples/*/Jenkinsfile")]
    return [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted(written), *sorted(recipes)]


def lines_of(text: str, *, whole: bool) -> list[str]:
    """The command lines in the blocks of a page, or in a whole file, each in one line."""
    blocks = [text] if whole else _BLOCK.findall(text)
    joined = (re.sub(r"(?: \\\n|(?<=\S)\n(?= +--)) *", " ", block) for block in blocks)
    found = [line.replace('gpucloud" ', "gpucloud ", 1) for each in joined for line in _LINE.findall(each)]
    return [each for each in found if each.count("'") % 2 == 0]


def programs(command: list[str]) -> set[str]:
    """The programs that a command starts itself."""
    if command[:2] == ["sh", "-c"]:
        parts = re.split(r"&&|;|\|", command[2])
        return {"sh", *(shlex.split(each)[0] for each in parts if each.strip())}
    return {command[0]}


def missing(line: Shown) -> list[str]:
    """What a line starts or reads on its box that is not there."""
    [image] = line.given("--image")[:1] or [""]
    there = set(ON_IMAGES[image])
    there |= {
        program for package, program in OF_PACKAGES.items() if package in " ".join(line.given("--setup"))
    }
    found = [f"{each} is not on the image" for each in sorted(programs(line.command) - there)]
    scripts = [each for each in line.command if re.fullmatch(r"(\./)?[\w-]+\.(py|sh)", each)]
    if not line.given("--sync"):
        found += [f"{each} does not travel: no --sync" for each in scripts]
    return found


def test_every_line_starts_what_is_there() -> None:
    """Else it would buy a box, and end with 127."""
    lines = list(shown())
    assert len(lines) > 25, "they are found"
    assert {each.where for each in lines} >= {"help of run", "README.md", "docs/runs.md", "docs/ci.md"}
    wrong = {f"{each.where}: {each.line}": problems for each in lines if (problems := missing(each))}
    assert not wrong


@pytest.mark.parametrize(
    "line",
    [
        "gpucloud run --gpu T4 -- pytest -m gpu",
        "gpucloud run --gpu T4 --image pytorch -- python train.py",
        "gpucloud run --gpu T4 --sync . -- torchrun train.py",
        "gpucloud run --gpu T4 --sync . -- sh -c 'pip install x && python3 x.py'",
        "gpucloud exec box -- ./train.sh",
    ],
)
def test_a_line_that_would_end_with_127_is_noticed(line: str) -> None:
    assert missing(Shown("here", line))


REAL = [
    each
    for each in shown()
    if each.where in {"help of run", "docs/runs.md", "docs/checkpoints.md", "docs/data.md"}
]


@pytest.mark.parametrize(
    "line",
    [each for each in REAL if "torchrun" not in each.line],  # the sandbox plays no torchrun
    ids=lambda each: f"{each.where.removeprefix('docs/')}-{each.line.count('-')}".replace(" ", "-"),
)
def test_a_line_for_a_run_succeeds_as_it_stands(cli: Shell, line: Shown) -> None:
    """In a folder with the program that it names, and with its buckets."""
    train = "import pathlib; pathlib.Path('out').mkdir(); pathlib.Path('out/model').touch()"
    (cli.home / "train.py").write_text(train, encoding="utf-8")
    s3 = client(cli.endpoint, "s3")
    for bucket in set(re.findall(r"s3://([a-z-]+)", line.line)):
        s3.create_bucket(Bucket=bucket)
        s3.put_object(Bucket=bucket, Key="imagenet/one", Body=b"1")
    ran = cli(*line.words[1:])
    assert ran.code == 0, ran.err
