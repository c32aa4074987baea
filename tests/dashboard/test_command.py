"""``gpucloud dashboard``: its address, its end, and what it refuses."""

from __future__ import annotations

import http.client
import re
import signal
import sys
from contextlib import closing
from typing import Any

import pytest

from tests.dashboard.conftest import ask
from tests.shell import Run, Shell
from tests.waiting import PATIENCE_S, until

UNREAD = r'"live_every_s":5\.0,.*"unread":\[\{"cloud":"(\w+)"'
"""What the document of a live page has of a cloud that did not answer."""


def opened(process: Any) -> tuple[int, str, str]:
    """The port, the token and the cookie of a page that was started."""
    line = process.stdout.readline()
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{43,})\n", line)
    assert found is not None, line
    port, token = int(found[1]), found[2]
    return port, token, ask(port, f"/?token={token}")[1]["set-cookie"].partition(";")[0]


def test_its_address_stands_alone_on_a_line_and_it_ends_at_once_with_its_streams(cli: Shell) -> None:
    process = cli.start("dashboard", "-vv")
    port, token, cookie = opened(process)
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
        connection.request("GET", "/events", headers={"Cookie": cookie})
        with connection.getresponse() as stream:
            assert stream.read1(100).startswith(b"id: 0\nevent: document\n")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE_S)  # it does not wait for pages to be closed
    assert (process.wait(), out) == (130, "")
    assert token not in err
    assert cookie.partition("=")[2] not in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--live", "1s"), "'1s' is too often; allowed: 5s or more"),
        (("--live", "soon"), "--live"),
        (("--html", "page.html", "--live", "30s"), "--html writes a file"),
        (("--html", "no/such/folder/page.html"), "no folder"),
    ],
)
def test_what_it_cannot_do_is_refused(run: Run, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = run("dashboard", *arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_without_the_extra_it_says_how_to_install_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gpucloud.dashboard.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, out, err = run("dashboard")
    assert (code, out) == (2, "")
    assert "pip install 'gpucloud[dashboard]'" in err


def test_a_live_page_says_what_the_clouds_did_not_tell(cli: Shell) -> None:
    """The clouds are asked while the page is open; one that fails is named on the page."""
    cli.sandbox.fault(effect="error", cloud="azure", times=None)
    process = cli.start("dashboard", "--live", "5s", "--no-open")
    port, _, cookie = opened(process)
    found = until(lambda: re.search(UNREAD, ask(port, "/", Cookie=cookie)[2]), "the cloud that failed")
    assert found[1] == "azure"
    cli.sandbox.clear_faults()
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.wait() == 143
