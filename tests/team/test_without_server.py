"""The server of a team's journal is away: boxes end all the same, and it is told when it is back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journals import Postgres, a_server, url_of
from tests.shell import Shell


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Postgres]:
    """A server of this test's own, which it may stop."""
    with a_server() as own:
        monkeypatch.setenv("TEAM_JOURNAL", own.url)
        yield own


@pytest.mark.parametrize("how", ["it is stopped", "it only reads"])
def test_what_was_ended_without_the_journal_is_told_by_the_next_command(
    how: str, server: Postgres, own_clouds: Shell, tmp_path: Path
) -> None:
    shared = {"GPUCLOUD_JOURNAL": url_of(tmp_path / "sandbox", kind="sandbox")}
    for name in ("x", "y"):
        made = own_clouds(
            "launch", "--gpu", "T4", "--cloud", "aws", "--name", name, "--ttl", "2h", "--yes", **shared
        )
        assert made.code == 0, made.err
    server.stop()
    if how == "it only reads":
        mark = server.folder / "data" / "standby.signal"
        mark.touch(mode=0o666)
        server.start()
    ended = own_clouds("down", "x", "--yes", "--json", **shared)
    assert (ended.code, [box["state"] for box in ended.json["boxes"]]) == (0, ["deleted"]), ended.err
    if how == "it only reads":
        server.stop()
        mark.unlink(missing_ok=True)
    server.start()
    assert [box["name"] for box in own_clouds("list", "--json", **shared).json["boxes"]] == ["x", "y"]
    assert own_clouds("sweep", "--yes", **shared).code == 0
    assert [box["name"] for box in own_clouds("list", "--json", **shared).json["boxes"]] == ["y"]
    verified = own_clouds("journal", "verify", "--json", **shared)
    assert (verified.code, verified.json["differences"]) == (0, [])
    assert list(own_clouds.home.rglob("ended-without-*")) == []
