"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import gpucloud

CLOUD_NAMES = re.compile(r"\b(aws|azure|alibaba|aliyun)\b", re.IGNORECASE)


def _docstring_lines(source: str) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def named_clouds(source: str) -> list[str]:
    """The lines of code, comments and docstrings left out, that name a cloud."""
    if not CLOUD_NAMES.search(source):
        return []
    prose = _docstring_lines(source)
    return [
        f"{token.start[0]}: {token.line.strip()}"
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type != tokenize.COMMENT and token.start[0] not in prose and CLOUD_NAMES.search(token.string)
    ]


def test_the_core_names_no_cloud() -> None:
    """What a cloud does differently is in its provider: a fourth one changes nothing here."""
    found = {
        f"{path.name}:{line}"
        for path in Path(gpucloud.__file__).parent.rglob("*.py")
        for line in named_clouds(path.read_text(encoding="utf-8"))
    }
    assert not found


def test_a_named_cloud_would_be_seen() -> None:
    assert named_clouds('"""Of AWS."""\n# azure\nx = "aws"\n') == ['3: x = "aws"']


# --- the command line stands on the library

PACKAGE = Path(gpucloud.__file__).parent
ROOT = PACKAGE.parent
LONGEST = 59
"""Lines of a function of the command line, without its docstring: parse, one call, print."""
FILES_OUTSIDE_ROOMS = 8
PRODUCT = [PACKAGE, *(ROOT / name for name in ("providers", "pricing", "templates", "sandbox"))]
LONGEST_FILE = 600
UNCOUNTED = ("sandbox/", "templates/")
"""Each emulated cloud, and each program for boxes, stands for itself."""
TWO_THINGS = frozenset(
    {
        # a namespace or value of the client, and the ability of a provider that it asks
        *("Commitments", "Prices", "Snapshots", "Volumes"),
        # a part of the dashboard's page, and the document of a command: their rooms tell them apart
        *("AttemptDocument", "ShareDocument", "SourceDocument", "TroubleDocument", "UnreadDocument"),
        "CallDocument",  # a call that the sandbox received, and one that was audited
        *("Part", "Snapshot"),  # of the public library of prices, and of the public API
        *("Box", "Run", "Volume"),  # what the journal has of it, and what a program does with it
        *("Price", "Usage"),  # as the journal keeps it, and of the library of prices
        "Recovered",  # what the journal notes of a box, and what the call returns
        *("Database", "Writer"),  # what the journal asks of a database, and what each database has
    }
)
"""The names that several classes have."""


def long_functions(source: str, longest: int = LONGEST) -> list[str]:
    """The functions of a module that are longer, their signature included and their docstring not."""
    return [
        f"{node.name}: {lines} lines"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := _lines_of(node) - sum(map(_lines_of, node.body[:1])) * bool(ast.get_docstring(node)))
        > longest
    ]


def _lines_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def imported(source: str) -> set[str]:
    """The modules that a module imports, wherever in it, and the names that it takes from them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def uses_the_command_line(source: str) -> bool:
    return "cli" in source and any(f"{name}.".startswith("gpucloud.cli.") for name in imported(source))


def test_a_command_is_short() -> None:
    """What a program would need too is in the library, and not in a command."""
    found = {
        f"{path.name} {function}"
        for path in (PACKAGE / "cli").glob("*.py")
        for function in long_functions(path.read_text(encoding="utf-8"))
    }
    assert not found


def test_only_the_program_uses_the_command_line() -> None:
    """``gpucloud.cli`` stands above everything; ``__main__`` starts it, the sandbox brings a command."""
    files = {path for folder in PRODUCT for path in folder.rglob("*.py")}
    brought = ROOT / "sandbox" / "gpucloud_sandbox" / "command.py"
    allowed = {PACKAGE / "__main__.py", brought, *(PACKAGE / "cli").rglob("*.py")}
    assert [path.name for path in files - allowed if uses_the_command_line(path.read_text("utf-8"))] == []


def test_a_file_is_short_enough_to_read() -> None:
    """What is longer does more than one thing, and a reader finds neither by the file's name."""
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in PRODUCT
        for path in folder.rglob("*.py")
        if path.read_text(encoding="utf-8").count("\n") > LONGEST_FILE
    }
    assert found == set()


def shared_names(sources: dict[str, str]) -> set[str]:
    """The names of classes in several of these files, by path. Each provider may have one of its own."""
    found: dict[str, list[str]] = {}
    for file, source in sources.items():
        names = {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)}
        for name in names:
            found.setdefault(name, []).append(file)
    shared: set[str] = set()
    for name, files in found.items():
        packages = {file.split("/")[1] for file in files if file.startswith("providers/")}
        if len(files) > max(1, len(packages)):
            shared.add(name)
    return shared


def test_one_name_is_one_class() -> None:
    """A reader who looks for a name finds one thing."""
    paths = [path for folder in PRODUCT for path in folder.rglob("*.py")]
    sources = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    counted = {file: source for file, source in sources.items() if not file.startswith(UNCOUNTED)}
    assert shared_names(counted) <= TWO_THINGS


def test_a_second_class_of_a_name_would_be_seen() -> None:
    one = "class Part: ..."
    assert shared_names({"gpucloud/a.py": one, "gpucloud/b.py": one}) == {"Part"}
    assert shared_names({"providers/x/a.py": one, "providers/x/b.py": one}) == {"Part"}
    assert shared_names({"providers/x/a.py": one, "providers/y/a.py": one}) == set()


def test_modules_lie_in_rooms() -> None:
    """What everybody uses lies at the top, and nothing else."""
    assert len(list(PACKAGE.glob("*.py"))) <= FILES_OUTSIDE_ROOMS


def test_a_long_function_and_a_wrong_import_would_be_seen() -> None:
    assert long_functions("def f(\n    a: int,\n):\n    pass\n", longest=3) == ["f: 4 lines"]
    assert long_functions('def f():\n    """A.\n\n    B.\n    """\n    pass\n', longest=2) == []
    assert uses_the_command_line("def f():\n    from gpucloud import cli\n")
    assert uses_the_command_line("import gpucloud.cli.app")
    assert not uses_the_command_line("from gpucloud.client import cli")
