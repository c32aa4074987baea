"""What travels of a folder: what git would keep, without what the user's own rules leave out."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpucloud.errors import UsageError
from gpucloud.sources.selection import EntryKind, Selection, read_source, select, select_all

NOBODY = 65534
KEY = "PRIVATE KEY"
TREE = (
    *("a.py", "m.ckpt", "data/big.bin", "data/keep.csv", "data/sub/x", "out/log", "out/keep/log", ".env"),
    *("src/out/b.py", "src/a b.py", "src/deep/er/c.log", "src/deep/keep.log", "#hash", "!bang", "trailing "),
    *("new\nline", "x/.hidden", "über/é", "docs/build/index.html", "docs/build.md", "foo/bar/baz/q"),
)
RULES = {
    ".gitignore": "data/*\n!data/keep.csv\n*.ckpt\n/out\n!/out/keep/\n.env\n\\#hash\n\\!bang\ntrailing\\ \n"
    "foo/**/baz\n# a comment\n\n*.log\n!src/deep/keep.log\n",
    "docs/.gitignore": "/build\n",
    "x/.gitignore": ".*\n!.gitignore\n",
}
IDENTITY = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "protocol.file.allow=always")


def grown(root: Path, files: Sequence[str] = TREE) -> Path:
    """A folder with these files, and the rules of git above."""
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("1")
    for name, text in RULES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


def git(folder: Path, *words: str) -> str:
    line = ["git", *IDENTITY, "-C", str(folder), *words]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout


def travels(chosen: Selection) -> set[str]:
    return {entry.path for entry in chosen.entries if entry.kind is not EntryKind.FOLDER}


def selected(item: str | Path, *exclude: str) -> Selection:
    return select(read_source(str(item)), exclude)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository."""
    root = grown(tmp_path / "project")
    git(root, "init", "--quiet")
    return root


def test_inside_and_outside_of_a_repository_what_git_would_keep_travels(
    project: Path, tmp_path: Path
) -> None:
    kept = {name for name in git(project, "ls-files", "-co", "--exclude-standard", "-z").split("\0") if name}
    assert {"data/keep.csv", "a.py", "new\nline"} <= kept
    inside = selected(f"{project}/")
    assert travels(inside) == kept
    assert inside.left_files == len(TREE) + len(RULES) - len(kept)
    (project / ".git").rename(tmp_path / "elsewhere")
    assert travels(selected(f"{project}/")) == kept
    assert selected(f"{project}/").left_files == inside.left_files


def test_git_that_cannot_be_asked_changes_nothing_also_for_a_part_of_the_repository(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".git" / "info" / "exclude").write_text("*.py\n")
    asked = [travels(selected(project / each)) for each in ("src", "docs", "x/")]
    monkeypatch.setenv("PATH", "/nonexistent")
    assert [travels(selected(project / each)) for each in ("src", "docs", "x/")] == asked


def test_what_is_named_itself_travels_though_git_leaves_it_out(project: Path) -> None:
    (project / "ignored").mkdir()
    (project / "ignored" / "x").write_text("1")
    (project / ".git" / "info" / "exclude").write_text("ignored/\n")
    assert travels(selected(project / "ignored")) == {"ignored/x"}
    assert travels(selected(project / "m.ckpt")) == {"m.ckpt"}


def test_files_that_git_has_and_that_were_deleted_are_passed_over(project: Path) -> None:
    git(project, "add", "a.py")
    (project / "a.py").unlink()
    assert "a.py" not in travels(selected(project))


def test_submodules_and_other_repositories_inside_travel_by_their_own_rules_and_without_git(
    project: Path, tmp_path: Path
) -> None:
    library = grown(tmp_path / "library", ("code.py", "m.ckpt"))
    git(library, "init", "--quiet")
    git(library, "add", "code.py", ".gitignore")
    git(library, "commit", "--quiet", "-m", "x")
    git(project, "submodule", "--quiet", "add", str(library), "library")
    grown(project / "other", ("code.py", "m.ckpt"))
    git(project / "other", "init", "--quiet")
    (project / "library" / "m.ckpt").write_text("1")
    names = travels(selected(f"{project}/"))
    assert {"library/code.py", "other/code.py", ".gitmodules"} <= names
    assert not {name for name in names if name.endswith((".ckpt", "/.git")) or ".git/" in name}


def test_the_users_own_rules_come_on_top_and_may_bring_something_back(project: Path) -> None:
    (project / ".gpucloudignore").write_text("*.csv\n!m.ckpt\n")
    (project / "src" / ".gpucloudignore").write_text("deep/\n")
    names = travels(selected(f"{project}/", "docs/"))
    assert "m.ckpt" in names
    assert not {name for name in names if name.startswith(("docs/", "src/deep")) or name.endswith(".csv")}
    assert ".git/HEAD" in travels(selected(f"{project}/", "!.git/"))


@pytest.mark.parametrize("inside", [True, False])
def test_git_and_virtual_environments_stay_here_unless_they_are_asked_for(
    tmp_path: Path, inside: bool
) -> None:
    for name in ("venv/pyvenv.cfg", "venv/lib/x.py", "sub/.git/config", "a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("token")
    if inside:
        git(tmp_path, "init", "--quiet")
    assert travels(selected(f"{tmp_path}/")) == {"a.py"}
    assert travels(selected(tmp_path / "venv")) == {"venv/pyvenv.cfg", "venv/lib/x.py"}
    assert "venv/lib/x.py" in travels(selected(f"{tmp_path}/", "!venv/"))


def test_secrets_links_that_lead_out_and_what_is_no_file_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p/in").mkdir(parents=True)
    for name, text in (
        (".env", "A=1"),
        (".env.example", "A="),
        ("id", f"-----BEGIN OPENSSH {KEY}-----\n"),
    ):
        Path("p", name).write_text(text)
    Path("p/in/up").symlink_to("../..")
    Path("p/in/key").symlink_to("../id")
    Path("p/etc").symlink_to("/etc")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("p/socket")
        chosen = selected("p")
    assert (sorted(chosen.secrets), sorted(chosen.out)) == (["p/.env", "p/id"], ["p/etc", "p/in/up"])
    assert chosen.special == ["p/socket"]
    assert travels(chosen) == {"p/.env", "p/.env.example", "p/id", "p/in/up", "p/in/key", "p/etc"}


def test_sources_go_where_rsync_would_put_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p" / "src").mkdir(parents=True)
    (tmp_path / "p" / "src" / "a.py").write_text("1")
    monkeypatch.chdir(tmp_path / "p")
    places = {
        "src": ["src/a.py"],
        "src/": ["a.py"],
        ".": ["src/a.py"],
        "..": ["p/src/a.py"],
        "src:work": ["work/src/a.py"],
        "src/:work": ["work/a.py"],
        "src/:/opt/x": ["/opt/x/a.py"],
        "src/a.py": ["a.py"],
        "src/a.py:b.py": ["b.py"],
    }
    for item, expected in places.items():
        chosen = selected(item)
        assert [chosen.there(each) for each in chosen.entries if each.kind is EntryKind.FILE] == expected


def test_an_empty_folder_is_one_on_the_box_too_but_for_the_home_folder_which_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who copies into the home folder leaves its mode alone: ssh asks for that."""
    monkeypatch.chdir(tmp_path)
    Path("work").mkdir()
    for item, there in (("work/:work", ["work"]), ("work", ["work"]), ("work/:/data/x", ["/data/x"])):
        [chosen] = select_all((item,))
        assert [chosen.there(each) for each in chosen.entries] == there
    for item in ("work/", "work/:~/"):
        [chosen] = select_all((item,))
        assert chosen.entries == []


def test_two_sources_for_the_same_place_are_refused_and_folders_may_be_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/x/1", "b/x/2", "c/x/1"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("1")
    monkeypatch.chdir(tmp_path)
    for pair in (("a/x", "b/x"), ("a/", "c/"), ("a/x/1", "c/x/1")):
        with pytest.raises(UsageError, match="would both be"):
            select_all(pair)
    assert [travels(each) for each in select_all(("a/", "b/"))] == [{"x/1"}, {"x/2"}]


def test_what_is_not_there_cannot_be_read_or_would_lead_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        selected(tmp_path / "no")
    with pytest.raises(UsageError, match="leads out of a folder"):
        selected(f"{tmp_path}:work/../../x")
    assert selected(f"{tmp_path}/").entries == []


@contextmanager
def as_nobody() -> Generator[Path]:
    """A folder, and a user whom its rights hold for."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        if os.getuid():
            yield Path(name)
            return
        os.setresuid(NOBODY, NOBODY, 0)
        try:
            yield Path(name)
        finally:
            os.setresuid(0, 0, 0)


def test_a_file_or_folder_that_cannot_be_read_is_named() -> None:
    with as_nobody() as folder:
        (folder / "p" / "closed").mkdir(parents=True)
        (folder / "p" / "file").write_text("1")
        (folder / "p" / "file").chmod(0)
        with pytest.raises(UsageError, match="file cannot be read"):
            selected(folder / "p")
        (folder / "p" / "file").unlink()
        (folder / "p" / "closed").chmod(0)
        with pytest.raises(UsageError, match="closed cannot be read"):
            selected(folder / "p")
        assert travels(selected(folder / "p", "closed/")) == set()
        (folder / "p" / "closed").chmod(0o700)
