"""The archive of a run's files: the same files give the same one, and unpack as they were."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpucloud.sources.archive import freeze, is_whole, path_of
from gpucloud.sources.selection import select_all


def test_the_same_files_give_the_same_archive_and_unpack_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = ("p/a", "p/new\nline", "p/sub/ü", "p/\udcff raw", "p/" + "x" * 200)
    for name in files:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(name.encode(errors="surrogateescape"))
    Path("p/sub/up").symlink_to("../../elsewhere")
    Path("p/empty").mkdir()
    Path("p/a").chmod(0o755)
    chosen = select_all(("p", "p/a:/opt/a"))
    first, second = (freeze(chosen, tmp_path / "state") for _ in range(2))
    assert first == second
    assert (first.files, first.absolute) == (7, True)
    archive = path_of(tmp_path / "state", first.sha256)
    assert is_whole(archive, first.sha256)
    assert [each.name for each in archive.parent.iterdir()] == [archive.name]
    Path("out").mkdir()
    subprocess.run(["tar", "-xzpf", archive, "-C", "out", "--strip-components=1", "home"], check=True)
    assert sorted(
        str(each.relative_to("out")) for each in Path("out").rglob("*") if each.is_file()
    ) == sorted(files)
    assert Path("out/p/a").stat().st_mode & 0o777 == 0o755
    assert Path("out/p/empty").is_dir()
    assert str(Path("out/p/sub/up").readlink()) == "../../elsewhere"
    Path("p/a").write_text("another")
    assert freeze(select_all(("p",)), tmp_path / "state").sha256 != first.sha256


def test_a_file_that_vanishes_was_deleted_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p").mkdir()
    for name in ("p/a", "p/b"):
        Path(name).write_text("1")
    chosen = select_all(("p",))
    Path("p/a").unlink()
    archive = path_of(tmp_path, freeze(chosen, tmp_path).sha256)
    listed = subprocess.run(["tar", "-tzf", archive], capture_output=True, text=True, check=True).stdout
    assert listed.split() == ["home/", "root/", "home/p/", "home/p/b"]
