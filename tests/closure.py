"""The checks of what changed, in two minutes: lint of those files, and the tests that are nearest by imports.

``make check`` runs it. It is a first answer, and replaces no ``make test``: what it leaves out, it names.
"""

from __future__ import annotations

import argparse
import ast
import heapq
import re
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import grimp

from tests.cpu import costs

ROOT = Path(__file__).parents[1]
PROGRAMS = Path(sysconfig.get_path("scripts"))
COSTS = ROOT / "benchmarks" / "tests.csv"
BUDGET_CPU_S, UNKNOWN_CPU_S = 130.0, 5.0
NAMED = 6
"""Of the files that are left out, those that are named one by one."""
WORKERS, FEW_WORKERS, FEW_CPU_S = 4, 2, 50.0
"""Four use two cores whole, but each starts with 15 CPU seconds: too many for tests that take few."""
NONE_COLLECTED = 5
"""How pytest ends where ``make thorough`` has all tests of a file."""
CLOUDS = ("aws", "azure", "alibaba")
PACKAGES = {f"gpucloud_{cloud}": "providers/" for cloud in CLOUDS} | {
    "gpucloud": "",
    "gpucloud_pricing": "pricing/",
    "gpucloud_sandbox": "sandbox/",
    "gpucloud_templates": "templates/",
}
"""Packages and their source roots, which grimp reads."""
OTHERS = ("tests", "docs", "release", "benchmarks")
"""Folders of Python that are no packages, which ``ast`` reads."""
ROOMS = {
    "boot": "templates/",
    "cli": "none",
    "pricing": "pricing/",
    "sandbox": "sandbox/",
    "templates": "templates/",
}
"""What the tests of a room are about, where it is not gpucloud/ROOM/: those of cli, commands by name."""
OWN, RUNS, NAMES_CLOUD = 1, 2, 3
"""How far a test is from what it is about or imports, a command that it runs, a provider that it names."""
PROVIDER = re.compile(rf"(?:providers/gpucloud_|sandbox/gpucloud_sandbox/)({'|'.join(CLOUDS)})/")
OWN_TEST = re.compile(rf"tests/(?:providers|sandbox)/test_({'|'.join(CLOUDS)})_\w+\.py")
Distances = dict[str, int]


@dataclass(frozen=True, slots=True)
class Tree:
    """A checkout: who uses a file, and how far it is from it; the files of Python, with the texts of tests/.

    Then the rooms of tests that need more than ``make setup``, and the files with tests of ``make thorough``:
    whether it has all of them.
    """

    users: Mapping[str, Distances]
    modules: frozenset[str]
    texts: Mapping[str, str]
    elsewhere: tuple[str, ...]
    thorough: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """Files of tests, the nearest first; ``whole``: run with what ``make thorough`` runs of them."""

    run: list[str]
    whole: set[str]
    left: list[str]
    run_cpu_s: float
    left_cpu_s: float

    def told(self) -> str:
        """What is run, and what is left to ``make test``: the nearest by name, the others by their room."""
        rooms = Counter("/".join(each.split("/")[:-1][:2]) for each in self.left[NAMED:])
        more = [f"{count} in {room}" for room, count in rooms.most_common()]
        told = f"{len(self.run)} files of tests, {self.run_cpu_s:.0f} CPU seconds; left to `make test`: "
        told += f"{len(self.left)} files, {self.left_cpu_s:.0f} CPU seconds"
        return ": ".join([told, *([", ".join(self.left[:NAMED] + more)] if self.left else [])])


# --- what uses what


def is_test(path: str) -> bool:
    """Whether pytest collects it."""
    return re.fullmatch(r"tests/(.+/)?test_\w+\.py", path) is not None


def _files(module: str) -> tuple[str, str]:
    path = PACKAGES.get(module.split(".", maxsplit=1)[0], "") + module.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def used_by(path: str, source: str, modules: Collection[str]) -> Distances:
    """The files that one of :data:`OTHERS` uses, and how far they are; some may be gone."""
    used = Distances()
    if is_test(path):
        used |= {f"{folder}/conftest.py": 1 for folder in PurePosixPath(path).parents[:-1]}
    if path.startswith("tests/cli/test_"):  # the command itself, or the one whose name it begins with
        words = PurePosixPath(path).stem.split("_")[1:]
        commands = [f"gpucloud/cli/{'_'.join(words[:end])}.py" for end in range(len(words), 0, -1)]
        used |= dict.fromkeys([each for each in commands if each in modules][:1], 1)
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom(module=str(module)):
                names = [f"{module}.{alias.name}" for alias in node.names]
                names = [name if any(f in modules for f in _files(name)) else module for name in names]
            case ast.Call(args=[ast.Constant(value=str(command)), *_]):
                used.setdefault(f"gpucloud/cli/{command.replace('-', '_')}.py", RUNS)
            case ast.Constant(value=str(cloud)) if cloud in CLOUDS:
                used.setdefault(f"providers/gpucloud_{cloud}/provider.py", NAMES_CLOUD)
            case _:
                pass
        used |= {file: 1 for name in names for file in _files(name)}
    return used


def read_tree() -> Tree:
    """Reads the checkout: two seconds."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    files = {name: next(f for f in _files(name) if (ROOT / f).exists()) for name in graph.modules}
    others = [p.relative_to(ROOT).as_posix() for folder in OTHERS for p in (ROOT / folder).rglob("*.py")]
    modules = frozenset(others).union(files.values())
    users = defaultdict[str, Distances](dict)
    for name, file in files.items():
        users[file] |= {files[user]: 1 for user in graph.find_modules_that_directly_import(name)}
    lazy = "gpucloud/__init__.py"  # imports by name, and for the type checker
    texts = {each: (ROOT / each).read_text(encoding="utf-8") for each in (*others, lazy)}
    for user, text in texts.items():
        for used, distance in used_by(user, text, modules).items():
            users[used][user] = distance
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    rooms = settings["tool"]["pytest"]["ini_options"]["norecursedirs"]
    thorough = tomllib.loads((ROOT / "tests" / "thorough.toml").read_text(encoding="utf-8"))
    tests = {each: text for each, text in texts.items() if each.startswith("tests/")}
    elsewhere = tuple(f"tests/{room}/" for room in rooms)
    return Tree(
        users, modules, tests, elsewhere, {f"tests/{each}": not had for each, had in thorough.items()}
    )


# --- which tests


def is_page(path: str) -> bool:
    """Whether it is documentation, which tests read and no module does."""
    return path.startswith("docs/") or path.endswith(".md")


def is_about(test: str, path: str) -> bool:
    """Whether a test is about a file by its place and name, whatever it imports."""
    own, cloud, room = OWN_TEST.match(test), PROVIDER.match(path), "/".join(test.split("/")[1:-1])
    same_room = bool(room) and path.startswith(ROOMS.get(room, f"gpucloud/{room}/"))
    return is_test(test) and (same_room or (own is not None and cloud is not None and own[1] == cloud[1]))


def runs_whole(test: str, distance: int, changed: Collection[str], tree: Tree) -> bool:
    """Whether what ``make thorough`` has of a test belongs to a change: it has all of it, and it is near."""
    emulators = [path for path in changed if path.startswith("sandbox/")]
    if tree.thorough.get(test):
        return distance <= OWN
    return test in tree.thorough and (test in changed or any(is_about(test, path) for path in emulators))


def starts(changed: str, tree: Tree) -> Distances:
    """What a change touches by itself: the file, or what reads it where it is no module (any more)."""
    path, found = PurePosixPath(changed), {each: 1 for each in tree.texts if is_about(each, changed)}
    if path.suffix != ".py" or not tree.users.get(changed):  # nothing imports it: who names it?
        name = re.escape(path.name) + (
            f'|"{path.parent.name}"' if is_page(changed) and path.parts[2:] else ""
        )
        names = re.compile(rf"(?<![\w-])(?:{name})(?![\w-])")
        readers = {each for each, text in tree.texts.items() if names.search(text)}
        found |= dict.fromkeys(readers - {"tests/conftest.py"}, 1)  # what that reads is of all tests
    if is_page(changed):
        found |= {each: 1 for each in tree.modules if each.startswith("docs/")}
    elif (changed not in tree.modules or path.name == "__init__.py") and path.parts[1:-1]:
        folders = [{m for m in tree.modules if PurePosixPath(m).parent == f} for f in path.parents[:-1]]
        found |= dict.fromkeys(next((modules for modules in folders if modules), set[str]()), 0)
    return found | {changed: 0}


def spread(near: Distances, users: Mapping[str, Distances]) -> Distances:
    """All that uses these, directly or not, and how far it is."""
    settled = Distances()
    queue = sorted((distance, file) for file, distance in near.items())
    while queue:
        distance, file = heapq.heappop(queue)
        if file not in settled:
            settled[file] = distance
            for user, further in users.get(file, {}).items():
                heapq.heappush(queue, (distance + further, user))
    return settled


def reached(changed: str, tree: Tree) -> Distances:
    """The tests that a change reaches: no cloud's own for another's package, and for a page who reads it."""
    cloud, found = PROVIDER.match(changed), spread(starts(changed, tree), tree.users)
    tests = [each for each in found if each in tree.texts and is_test(each)]
    if cloud:
        tests = [each for each in tests if (own := OWN_TEST.match(each)) is None or own[1] == cloud[1]]
    near = [each for each in tests if found[each] <= 2 or not is_page(changed)]
    return {each: found[each] for each in near if not each.startswith(tree.elsewhere)}


def select(
    changed: Collection[str], tree: Tree, costs: Mapping[str, float], budget_cpu_s: float = BUDGET_CPU_S
) -> Selection:
    """The nearest tests, of equally near ones the cheapest, as far as the budget goes."""
    found = [each for file in changed for each in reached(file, tree).items()]
    whole = {test for test, distance in found if runs_whole(test, distance, changed, tree)}
    found = [each for each in found if each[0] in whole or not tree.thorough.get(each[0])]
    distances = dict(sorted(found, key=lambda each: each[1], reverse=True))  # the nearest is the last
    known = {each: costs.get(each, UNKNOWN_CPU_S) for each in distances}
    run, left, spent = list[str](), list[str](), 0.0
    for each in sorted(distances, key=lambda each: (distances[each], known[each], each)):
        fits = spent + known[each] <= budget_cpu_s
        (run if fits else left).append(each)
        spent += known[each] if fits else 0.0
    return Selection(run, whole.intersection(run), left, spent, sum(known[each] for each in left))


def linters(changed: Collection[str], there: Collection[str]) -> list[list[str]]:
    """The programs that read a change, of which these files are there still."""
    settings, code = "pyproject.toml" in changed, tuple(root or f"{name}/" for name, root in PACKAGES.items())
    python = [each for each in changed if each.endswith((".py", ".pyi"))]
    read = ["."] if settings else [each for each in python if each in there]
    ruff = [["ruff", "check", "--force-exclude"], ["ruff", "format", "--check", "--force-exclude"]]
    found = [[*words, *read] for words in ruff if read] + [["mypy"]] * bool(python or settings)
    return found + [["lint-imports"]] * (settings or any(each.startswith(code) for each in python))


# --- the shell


def changed_files(base: str | None) -> list[str]:
    """What differs, committed or not, from where this branch left the main one, or ``base``."""
    names = [base] if base else ["origin/HEAD", "origin/main", "main", "HEAD"]
    forks = [
        ran.stdout.strip()
        for name in names
        if not (ran := _run("git", "merge-base", "HEAD", name)).returncode
    ]
    if not forks:
        sys.exit(f"git knows no {names[-1]}: name the files that changed")
    differing = _run("git", "diff", "--name-only", "--no-renames", "-z", forks[0]).stdout
    new = _run("git", "ls-files", "--others", "--exclude-standard", "-z").stdout
    return sorted({*(differing + new).split("\0")} - {""})


def _run(program: str | Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  (it is a program)


def run_pytest(files: Sequence[str], workers: int, *more: str) -> tuple[bool, int]:
    """Whether all passed, and how many ran."""
    command = [str(PROGRAMS / "pytest"), "-q", f"-n{workers}", "--dist", "worksteal", *more, *files]
    summary = ""
    if not files:
        return True, 0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            _say(summary := line.rstrip("\n"))
    ran = re.findall(r"(\d+) (?:passed|failed|error)", summary)
    return process.returncode in {0, NONE_COLLECTED}, sum(map(int, ran))


def main() -> None:
    """Lints and tests at the same time: the linters wait for nothing but a core."""
    parser = argparse.ArgumentParser(prog="python -m tests.closure", description=__doc__)
    parser.add_argument("files", nargs="*", help="instead of those that git says have changed")
    parser.add_argument("--base", help="what git compares with, instead of the main branch")
    parser.add_argument("--costs", type=Path, default=COSTS, help="CSV: file,tests,cpu_s")
    asked, begun = parser.parse_args(), time.monotonic()
    changed: list[str] = asked.files or changed_files(asked.base)
    lints = linters(changed, [each for each in changed if (ROOT / each).is_file()])
    known = costs(asked.costs) if asked.costs.exists() else {}
    with ThreadPoolExecutor() as pool:
        linted = [pool.submit(_run, PROGRAMS / words[0], *words[1:]) for words in lints]
        selected = select(changed, read_tree(), known)
        _say(selected.told())
        workers = FEW_WORKERS if selected.run_cpu_s < FEW_CPU_S else WORKERS
        whole = run_pytest([each for each in selected.run if each in selected.whole], workers, "-m", "")
        rest = run_pytest([each for each in selected.run if each not in selected.whole], workers)
    failed = [ran.stdout + ran.stderr for ran in (each.result() for each in linted) if ran.returncode]
    passed = whole[0] and rest[0]
    lint = "lint FAILED" if failed else "lint ok" if lints else "nothing to lint"
    tests = f"{whole[1] + rest[1]} tests of {len(selected.run)} files{'' if passed else ' FAILED'}"
    files = f"{len(changed)} {'file' if len(changed) == 1 else 'files'} changed"
    last = f"{files}: {lint}, {tests} in {time.monotonic() - begun:.0f} s"
    _say("\n".join([*failed, last]))
    sys.exit(bool(failed) or not passed)


if __name__ == "__main__":
    main()
