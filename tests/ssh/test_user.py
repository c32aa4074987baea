"""A user ID without a name, as OpenShift gives to its containers, gets one for ssh, or a clear refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucloud.errors import UsageError
from gpucloud.ssh.user import ensure_named, name_user

ROOT = "root:x:0:0:root:/root:/bin/bash"
LINE = "gpucloud-1000680000:x:1000680000:0::/work:/bin/sh"


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_user_without_a_name_gets_a_line_of_its_own(tmp_path: Path, end: str) -> None:
    passwd = tmp_path / "passwd"
    passwd.write_text(ROOT + end)
    name_user(passwd, 1000680000, 0, "/work")
    assert passwd.read_text() == f"{ROOT}\n{LINE}\n"


@pytest.mark.parametrize("home", ["/a:b", "/a\nroot::0:0:::", ""])
def test_a_strange_home_does_not_become_a_line(tmp_path: Path, home: str) -> None:
    passwd = tmp_path / "passwd"
    passwd.write_text("")
    name_user(passwd, 7, 0, home)
    assert passwd.read_text().startswith("gpucloud-7:x:7:0::")
    assert passwd.read_text().count(":") == 6
    assert passwd.read_text().count("\n") == 1


def test_where_no_line_can_be_written_the_user_is_told_which(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="1000680000 has no name here") as refused:
        name_user(tmp_path / "nowhere" / "passwd", 1000680000, 0, "/work")
    assert LINE in str(refused.value.hint)


def test_who_has_a_name_keeps_it() -> None:
    before = Path("/etc/passwd").read_bytes()
    ensure_named()
    assert Path("/etc/passwd").read_bytes() == before
