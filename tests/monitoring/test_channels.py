"""Messages arrive whole, once, and with nothing of an address in what is said when they do not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud.config import CHANNELS, CHANNELS_VARIABLE
from gpucloud.errors import UsageError
from gpucloud.monitor.channels import Channel, NotSentError, signature
from gpucloud.monitor.delivery import CLAIM_S, Sent, deliver, send
from gpucloud.monitor.notices import Notice, Occasion
from gpucloud.monitor.settings import read_channels
from gpucloud_pricing.values import Money
from tests.builders import START
from tests.monitoring.receivers import HANG, Receiver, certificate, mailbox, receiving
from tests.waiting import PATIENCE_S, until

NOTICE = Notice(
    key="e-1",
    occasion=Occasion.OVERDUE,
    text="demo (aws) has passed its deadline by 5 min.",
    at=START,
    box="demo",
    cloud="aws",
    cost=Money(amount=Decimal("1.5"), currency="USD"),
    command="gpucloud down demo --yes",
)


def channels(text: str, **variables: str) -> tuple[Channel, ...]:
    return read_channels(Path("nowhere"), {CHANNELS_VARIABLE: f"channels: {{{text}}}", **variables})


def sent(channel: Channel) -> None:
    send(channel, NOTICE, pause=lambda _: None)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def test_a_webhook_gets_the_notice_as_json_signed_with_the_time(receiver: Receiver) -> None:
    [channel] = channels(f"ops: {{webhook: '{receiver.url}hook', secret: a-secret}}")
    sent(channel)
    [got] = receiver.got
    assert got.path == "/hook"
    told = json.loads(got.body)
    assert (told["schema"], told["id"], told["occasion"]) == ("gpucloud.notice/v1", "e-1", "overdue")
    assert (told["box"], told["command"]) == ("demo", "gpucloud down demo --yes")
    assert told["cost"] == {"amount": "1.5", "currency": "USD"}
    stamp = got.headers["x-gpucloud-timestamp"]
    assert got.headers["x-gpucloud-signature"] == signature("a-secret", stamp, got.body)
    assert signature("a-secret", "0", got.body) != signature("a-secret", stamp, got.body), "of another time"
    assert abs(int(stamp) - datetime.now(UTC).timestamp()) < 60


def test_slack_gets_a_text_in_which_nothing_is_markup(receiver: Receiver) -> None:
    [channel] = channels(f"chat: {{slack: '{receiver.url}'}}")
    send(channel, Notice(key="k", occasion=Occasion.READY, text="<!channel> & co", at=START))
    assert json.loads(receiver.got[0].body) == {"text": "&lt;!channel&gt; &amp; co"}


def test_a_server_that_fails_is_tried_three_times_and_one_that_refuses_once(receiver: Receiver) -> None:
    [channel] = channels(f"ops: {{webhook: '{receiver.url}token-in-the-path'}}")
    receiver.answers[:] = [500, 503]
    sent(channel)
    assert len(receiver.got) == 3
    for answers, tries, words in (([500] * 3, 3, "HTTP 500"), ([403], 1, "HTTP 403"), ([302], 1, "HTTP 302")):
        receiver.got.clear()
        receiver.answers[:] = answers
        with pytest.raises(NotSentError, match=words) as error:
            sent(channel)
        assert [got.path for got in receiver.got] == ["/token-in-the-path"] * tries, "no redirect is followed"
        assert error.value.message.startswith("channel 'ops'")
        assert "token" not in error.value.message
    with receiving() as gone:
        [channel] = channels(f"ops: {{webhook: '{gone.url}'}}")
    with pytest.raises(NotSentError, match="cannot be reached: Connection refused"):
        sent(channel)


def test_https_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, context = certificate(tmp_path)
    with receiving(context) as receiver:
        [channel] = channels(f"ops: {{webhook: '{receiver.url}'}}")
        with pytest.raises(NotSentError, match="cannot be reached"):
            sent(channel)
        assert receiver.got == []
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        sent(channel)
        assert len(receiver.got) == 1


def test_mail_is_sent_by_starttls_with_the_name_and_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, context = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with mailbox(context) as box:
        url = box.url.replace("smtp://", "smtp://me%40x:pass%20word@")
        [channel] = channels(f"mail: {{smtp: '{url}', from: a@example.org, to: [b@example.org]}}")
        sent(channel)
        [letter] = box.letters
        assert "Subject: gpucloud: demo (aws) has passed its deadline by 5 min." in letter
        assert "Next: gpucloud down demo --yes" in letter.replace("=\n", "")
        assert (box.encrypted, len(box.logins)) == ([True], 1)
        box.refuse = "550 no such user"
        with pytest.raises(NotSentError) as error:
            sent(channel)
        assert "pass" not in error.value.message
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "key.pem"))
    with mailbox(context) as box:
        [channel] = channels(f"mail: {{smtp: '{box.url}', from: a@example.org, to: b@example.org}}")
        with pytest.raises(NotSentError):
            sent(channel)
        assert box.letters == [], "a server with another certificate gets nothing"


@pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")  # on Python 3.11 and 3.12
def test_apprise_sends_to_whatever_it_knows(receiver: Receiver) -> None:
    pytest.importorskip("apprise")
    [channel] = channels(f"any: {{apprise: '{receiver.url.replace('http', 'json')}'}}")
    sent(channel)
    assert "Next: gpucloud down demo" in json.loads(receiver.got[0].body)["message"]
    receiver.answers[:] = [500] * 3
    with pytest.raises(NotSentError, match="channel 'any': apprise could not send it"):
        sent(channel)
    with pytest.raises(NotSentError, match="does not know"):
        sent(channels("any: {apprise: 'nothing-of-the-kind'}")[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ops: {webhook: 'http://example.org/secret-path'}", "must begin with https://"),
        ("ops: {webhook: 'ftp://127.0.0.1/secret-path'}", "must begin with https:// or http://"),
        ("ops: {webhook: 'https://'}", "must begin with"),
        ("ops: {webhook: 'https://[x/secret-path'}", "must begin with"),
        ("mail: {smtp: 'https://secret-path', from: a, to: b}", "must begin with smtp://"),
        ("mail: {smtp: 'smtp://h', from: a}", "to: at least one address"),
        ("mail: {smtp: 'smtp://h', to: a}", "from must be a text"),
        (
            "ops: {webhook: 'https://e.org/secret-path', sekret: x}",
            "unknown key 'sekret'; did you mean secret",
        ),
        ("ops: {slack: 'https://e.org/secret-path', only: [raedy]}", "unknown 'raedy'"),
        ("ops: {secret: x}", "needs one of webhook, slack, smtp, apprise"),
        ("ops: {webhook: 'https://e.org', slack: 'https://e.org'}", "needs one of"),
    ],
)
def test_what_cannot_be_a_channel_is_refused_without_its_address(text: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        channels(text)
    assert words in error.value.message
    assert "secret-path" not in str(error.value)


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / CHANNELS
    file.write_text("channels:\n  ops: {webhook: 'https://example.org/'}\n")
    file.chmod(0o640)
    with pytest.raises(UsageError, match="others can read") as error:
        read_channels(tmp_path, {})
    assert error.value.hint == f"chmod 600 {file}"
    file.chmod(0o600)
    [channel] = read_channels(tmp_path, {})
    assert channel.name == "ops"
    assert "example.org" not in repr(channel), "an address is a secret"
    assert read_channels(tmp_path / "empty", {}) == ()


# --- once


def test_each_channel_gets_a_notice_once_however_many_send_it(receiver: Receiver, tmp_path: Path) -> None:
    found = channels(f"a: {{webhook: '{receiver.url}a'}}, b: {{webhook: '{receiver.url}b', only: ready}}")
    record = Sent(tmp_path / "notices.db")
    complaints: list[str] = []

    def tell() -> None:
        deliver(found, record, [NOTICE], within_s=PATIENCE_S, complain=complaints.append)

    rivals = [threading.Thread(target=tell) for _ in range(8)]
    for rival in rivals:
        rival.start()
    for rival in rivals:
        rival.join()
    assert [got.path for got in receiver.got] == ["/a"], "b wants other occasions"
    assert complaints == []
    assert (tmp_path / "notices.db").stat().st_mode & 0o777 == 0o600


def test_what_was_not_sent_is_said_and_sent_by_the_next_one(receiver: Receiver, tmp_path: Path) -> None:
    found = channels(f"ops: {{webhook: '{receiver.url}'}}")
    record, complaints = Sent(tmp_path / "notices.db"), list[str]()
    receiver.answers[:] = [400]
    deliver(found, record, [NOTICE], within_s=PATIENCE_S, complain=complaints.append)
    assert complaints == [f"channel 'ops': it answered with HTTP 400; not sent: {NOTICE.text}"]
    deliver(found, record, [NOTICE], within_s=PATIENCE_S, complain=complaints.append)
    assert (len(receiver.got), len(complaints)) == (2, 1)


def test_who_died_while_sending_is_followed_by_another_a_minute_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [channel] = channels("ops: {webhook: 'https://example.org/'}")
    record = Sent(tmp_path / "notices.db")
    assert record.begin(NOTICE, channel)
    assert not record.begin(NOTICE, channel)
    later = datetime.now(UTC) + timedelta(seconds=CLAIM_S + 1)
    monkeypatch.setattr("time.time", later.timestamp)
    assert record.begin(NOTICE, channel)


def test_a_server_that_hangs_keeps_nobody_longer_than_allowed(receiver: Receiver, tmp_path: Path) -> None:
    found = channels(f"slow: {{webhook: '{receiver.url}slow'}}, ops: {{webhook: '{receiver.url}ops'}}")
    receiver.answers[:] = [HANG, 200]
    complaints: list[str] = []
    deliver(found[:1], Sent(tmp_path / "a.db"), [NOTICE], within_s=0.2, complain=complaints.append)
    deliver(found[1:], Sent(tmp_path / "a.db"), [NOTICE], within_s=PATIENCE_S, complain=complaints.append)
    assert complaints == ["channel 'slow' has not answered within 0 s"]
    until(lambda: {got.path for got in receiver.got} == {"/slow", "/ops"}, "both requests")


def test_a_full_disk_or_a_record_that_is_no_database_is_said_and_fails_nothing(
    receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "notices.db").write_text("no database, but longer than its header needs to be" * 20)
    complaints: list[str] = []
    [channel] = channels(f"ops: {{webhook: '{receiver.url}'}}")
    deliver(
        [channel], Sent(tmp_path / "notices.db"), [NOTICE], within_s=PATIENCE_S, complain=complaints.append
    )
    assert complaints == [f"channel 'ops': DatabaseError; not sent: {NOTICE.text}"]
