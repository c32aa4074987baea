"""Who gets an answer: nobody without the secret, nobody from another site, nobody under another name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucloud import Client, Profile
from gpucloud.config import JOURNAL
from gpucloud.dashboard.access import Access
from gpucloud.dashboard.reading import PageReader
from gpucloud.dashboard.server import serving
from gpucloud.errors import UsageError
from tests.dashboard.conftest import ask, token_of

PATHS = ("/", "/events", "/timeline?box=b-1", "/script.js", "/style.css", "/nothing")
OF_METRICS = ("/metrics", "/sd", "/box/b-1/metrics")


def test_the_token_of_prometheus_leads_to_metrics_alone(tmp_path: Path) -> None:
    bearer = {"Authorization": "Bearer s3cret"}
    with (
        Client(profile=Profile({"GPUCLOUD_HOME": str(tmp_path)})) as client,
        serving(PageReader(client=client), 0, "s3cret") as served,
    ):
        assert [ask(served.port, path, **bearer)[0] for path in OF_METRICS] == [200, 200, 404]
        assert "gpucloud_journal_read_timestamp_seconds" in ask(served.port, "/metrics", **bearer)[2]
        assert ask(served.port, "/sd", **bearer)[2] == "[]"
        assert {ask(served.port, path, **bearer)[0] for path in PATHS} == {401}
        assert ask(served.port, "/metrics", Authorization="Bearer s3cre")[0] == 401
        assert ask(served.port, "/metrics", Authorization="s3cret")[0] == 401
        assert ask(served.port, "/metrics", **bearer, Host="evil.example")[0] == 400
        assert ask(served.port, "/metrics", Cookie=cookie_of(served))[0] == 200, "who sees the page"


@pytest.fixture
def access(tmp_path: Path) -> Iterator[Access]:
    """A page of an empty journal."""
    with (
        Client(profile=Profile({"GPUCLOUD_HOME": str(tmp_path)})) as client,
        serving(PageReader(client=client), 0) as served,
    ):
        yield served


def cookie_of(access: Access) -> str:
    """What a browser sends after it has shown the token."""
    status, headers, _ = ask(access.port, f"/?token={token_of(access.url)}")
    assert (status, headers["location"]) == (303, "/")
    return headers["set-cookie"].partition(";")[0]


def test_the_token_is_exchanged_for_a_cookie_that_no_script_and_no_other_site_has(access: Access) -> None:
    _, headers, _ = ask(access.port, f"/?token={token_of(access.url)}")
    name, *attributes = headers["set-cookie"].split("; ")
    assert name.startswith(f"gpucloud-{access.port}="), "browsers share cookies between ports"
    assert token_of(access.url) not in name
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(attributes)
    assert len(token_of(access.url)) >= 43, "256 bits"


@pytest.mark.parametrize("path", [*PATHS, *OF_METRICS])
def test_without_the_secret_nothing_is_told(access: Access, path: str) -> None:
    assert [ask(access.port, path)[0], ask(access.port, path, Cookie=f"gpucloud-{access.port}=x")[0]] == [
        401,
        401,
    ]
    assert ask(access.port, f"/?token={'x' * 43}")[0] == 401
    assert ask(access.port, "/favicon.ico")[::2] == (204, "")


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (400, {"Host": "rebound.example:{port}"}),
        (400, {"Host": "127.0.0.1"}),
        (400, {"Host": "127.0.0.1:1"}),
        (403, {"Origin": "http://evil.example"}),
        (403, {"Origin": "null"}),
        (403, {"Origin": "http://127.0.0.1:1"}),
        (403, {"Sec_Fetch_Site": "cross-site"}),
        (403, {"Sec_Fetch_Site": "same-site"}),
    ],
)
def test_another_name_and_another_site_are_refused_with_the_secret_too(
    access: Access, status: int, headers: dict[str, str]
) -> None:
    given = {name: value.format(port=access.port) for name, value in headers.items()}
    cookie, token = cookie_of(access), token_of(access.url)
    found = [ask(access.port, path, Cookie=cookie, **given) for path in (*PATHS, f"/?token={token}")]
    assert {each[0] for each in found} == {status}
    assert not any("set-cookie" in each[1] for each in found)


def test_with_the_secret_the_page_its_parts_and_its_stream_are_given(access: Access) -> None:
    for host in (f"127.0.0.1:{access.port}", f"localhost:{access.port}"):
        given = {"Cookie": cookie_of(access), "Host": host, "Sec_Fetch_Site": "same-origin"}
        found = {path: ask(access.port, path, **given) for path in PATHS}
        assert [each[0] for each in found.values()] == [200] * 5 + [404]
        kinds = [each[1]["content-type"].partition(";")[0] for each in found.values()][:5]
        assert kinds == ["text/html", "text/event-stream", "application/json", "text/javascript", "text/css"]
    _, headers, page = found["/"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert headers["cache-control"] == "no-store"
    assert not [name for name in headers if name.startswith("access-control") or name == "server"]
    assert not re.search(r"<script(?! src| type=.application/json)|<style|\son\w+=", page)
    assert token_of(access.url) not in page


def test_the_stream_begins_with_what_the_page_lacks(access: Access) -> None:
    cookie = cookie_of(access)
    ask(access.port, "/", Cookie=cookie)
    assert ask(access.port, "/events?cursor=0", Cookie=cookie)[2] == "event: beat\ndata: \n\n"
    assert ask(access.port, "/events", Cookie=cookie, Last_Event_ID="7")[2].startswith(
        "id: 0\nevent: document\ndata: {"
    )


def test_a_journal_that_was_taken_away_is_said_and_no_beat_hides_it(access: Access, tmp_path: Path) -> None:
    """The file is open and could still be read, but nobody writes to it any more."""
    cookie = cookie_of(access)
    assert ask(access.port, "/", Cookie=cookie)[0] == 200
    next(tmp_path.rglob(JOURNAL)).unlink()
    assert "deleted, moved or replaced" in ask(access.port, "/", Cookie=cookie)[2]
    said = ask(access.port, "/events?cursor=0", Cookie=cookie, first="event: trouble")[2]
    assert "event: trouble\ndata: the journal" in said


def test_nothing_can_be_changed(access: Access) -> None:
    cookie = cookie_of(access)
    methods = ("POST", "PUT", "DELETE", "OPTIONS", "HEAD")
    assert {ask(access.port, "/", method=each, Cookie=cookie)[0] for each in methods} == {405}


def test_an_address_that_a_list_of_processes_shows_leads_in_once(access: Access) -> None:
    token = token_of(access.url_once())
    assert [ask(access.port, f"/?token={token}")[0] for _ in range(2)] == [303, 401]


def test_a_port_that_is_taken_is_named(access: Access, tmp_path: Path) -> None:
    with (
        Client(profile=Profile({"GPUCLOUD_HOME": str(tmp_path)})) as client,
        pytest.raises(UsageError, match=f"port {access.port} cannot be opened"),
        serving(PageReader(client=client), access.port),
    ):
        pass
