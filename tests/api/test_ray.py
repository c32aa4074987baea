"""What Ray's autoscaler loads, with a Ray whose own modules are not those that it was written for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from gpucloud.errors import UsageError

PUBLIC = {
    "ray/__init__.py": "__version__ = '3.0'",
    "ray/autoscaler/__init__.py": "",
    "ray/autoscaler/node_provider.py": "class NodeProvider: pass",
    "ray/autoscaler/node_launch_exception.py": "class NodeLaunchException(Exception): pass",
}
AS_TODAY = """
class GcsClient:
    def __init__(self, address): self.cluster_id = address.encode()
"""
OTHERWISE = {
    "gone": "",
    "asked otherwise": "class GcsClient: pass",
    "told otherwise": AS_TODAY.replace("cluster_id", "session"),
}


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the public modules of a later Ray, which is imported instead of any other."""
    for name, text in PUBLIC.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name == "gpucloud.api.ray" or name.partition(".")[0] == "ray":
            del sys.modules[name]


def provider() -> ModuleType:
    return importlib.import_module("gpucloud.api.ray")


def test_a_head_is_known_by_the_id_of_its_cluster(later: Path) -> None:
    (later / "ray/_raylet.py").write_text(AS_TODAY)
    assert provider().session_of("10.0.0.1:6379", {}) == b"10.0.0.1:6379".hex()


@pytest.mark.parametrize("module", [*OTHERWISE.values(), None], ids=[*OTHERWISE, "no such module"])
def test_a_ray_that_tells_its_cluster_otherwise_is_known_by_the_folder_of_its_session(
    later: Path, module: str | None
) -> None:
    if module is not None:
        (later / "ray/_raylet.py").write_text(module)
    sessions, ids = later / "tmp/ray", set[str]()
    sessions.mkdir(parents=True)
    for name in ("session_2026-11-29_1", "session_2026-11-29_2"):
        (sessions / "session_latest").unlink(missing_ok=True)
        (sessions / "session_latest").symlink_to(sessions / name)
        ids.add(provider().session_of("10.0.0.1:6379", {"TMPDIR": str(later / "tmp")}))
    assert len(ids) == 2, "a head that is started anew is another one"
    assert all(int(each, 16) and len(each) >= 16 for each in ids)


def test_a_head_that_cannot_be_told_from_the_one_before_it_is_refused(later: Path) -> None:
    with pytest.raises(UsageError, match=r"Ray 3\.0 does not tell its session"):
        provider().session_of("10.0.0.1:6379", {"RAY_TMPDIR": str(later)})
