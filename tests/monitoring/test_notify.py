"""Commands tell people what happened, once, and no command fails or waits for that."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from tests.monitoring.receivers import HANG, Receiver, receiving
from tests.shell import Shell

T4 = ("--gpu", "T4", "--cloud", "aws", "--yes")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def told_to(receiver: Receiver) -> dict[str, str]:
    """The variable that names a webhook."""
    return {"GPUCLOUD_NOTIFY": f"channels: {{ops: {{webhook: '{receiver.url}a-secret', secret: hushed}}}}"}


def notices(receiver: Receiver) -> list[tuple[str, str]]:
    """Occasion and text of what has come, without those before."""
    found = [json.loads(got.body) for got in receiver.got]
    receiver.got.clear()
    return [(each["occasion"], each["text"]) for each in found]


def test_a_box_is_told_when_it_is_ready_and_when_it_has_ended_with_its_cost(
    cli: Shell, receiver: Receiver
) -> None:
    told = told_to(receiver)
    launched = cli("launch", *T4, "--name", "demo", **told)
    assert launched.code == 0, launched.err
    [(occasion, text)] = notices(receiver)
    assert occasion == "ready"
    assert text.startswith("Sandbox: demo is ready on aws ")
    assert "g4dn.xlarge, $0.5260 per hour" in text
    assert cli("list", "--live", **told).code == 0
    assert notices(receiver) == []
    assert cli("down", "demo", "--yes", **told).code == 0
    [(occasion, text)] = notices(receiver)
    assert occasion == "ended"
    assert text.startswith("Sandbox: demo has ended; it has cost $0.")


def test_what_is_left_behind_is_told_once_however_many_see_it(cli: Shell, receiver: Receiver) -> None:
    told = told_to(receiver)
    cli("launch", *T4, "--name", "stuck")
    refusal: dict[str, Any] = {"effect": "error", "code": "UnauthorizedOperation", "status": 403}
    cli.sandbox.fault(**refusal, action="TerminateInstances", times=None)
    rivals = [cli.start("down", "stuck", "--yes", **told), cli.start("tend", **told)]
    assert cli.finish(rivals[0]).code == 8
    cli.finish(rivals[1])
    assert cli("down", "stuck", "--yes", **told).code == 8
    [(occasion, text)] = notices(receiver)
    assert occasion == "left-behind"
    assert text == "Sandbox: 2 things of stuck (aws) may still be billed."
    cli.sandbox.clear_faults()
    assert cli("down", "stuck", "--yes", **told).code == 0
    assert [occasion for occasion, _ in notices(receiver)] == ["ended"]


def test_a_run_is_told_as_one_thing_and_its_interruption_by_whoever_notices(
    cli: Shell, receiver: Receiver
) -> None:
    told = told_to(receiver)
    ran = cli("run", *T4[:-1], "--run-id", "ci-7", "--", "sh", "-c", "exit 3", **told)
    assert ran.code == 3
    [(occasion, text)] = notices(receiver)
    assert occasion == "ended"
    assert text.startswith("Sandbox: Run ci-7 has ended with exit code 3; it has cost $0.")
    cli("launch", *T4, "--spot", "--name", "cheap")
    cli("sandbox", "interrupt", "cheap", "--notice", "0")
    for looker in [cli.start("tend", **told), cli.start("tend", **told)]:
        cli.finish(looker)
    taken = [text for occasion, text in notices(receiver) if occasion == "interrupted"]
    assert taken == ["Sandbox: aws has taken cheap back."]


def test_results_that_are_kept_are_told_once_with_their_price_end_and_command(
    cli: Shell, receiver: Receiver
) -> None:
    told = told_to(receiver)
    ran = cli("run", *T4[:-1], "--run-id", "ci-8", "--fetch", "nothing", "--", "true", **told)
    assert ran.code == 125
    assert cli("tend", **told).code == 8
    told_of = [json.loads(got.body) for got in receiver.got]
    [sent] = [each for each in told_of if each["occasion"] == "not-fetched"]
    [box] = cli.boxes()
    assert (sent["run"], sent["command"]) == ("ci-8", "gpucloud runs fetch ci-8")
    assert box["expires_at"] in sent["text"]
    assert "per hour" in sent["text"]


def test_a_deletion_neither_fails_nor_waits_for_channels_that_do_not_work(cli: Shell) -> None:
    cli("launch", *T4, "--name", "demo")
    bad = {"hangs": [HANG] * 9, "fails": [500] * 9, "moved": [302]}
    with ExitStack() as stack:
        receivers = {name: stack.enter_context(receiving()) for name in bad}
        for name, receiver in receivers.items():
            receiver.answers[:] = bad[name]
        each = (f"{name}: {{webhook: '{found.url}a-secret'}}" for name, found in receivers.items())
        done = cli("down", "demo", "--yes", GPUCLOUD_NOTIFY=f"channels: {{{', '.join(each)}}}")
        tries = {name: len(found.got) for name, found in receivers.items()}
        assert tries.pop("hangs") < 3
        assert tries == {"fails": 3, "moved": 1}
    assert done.code == 0
    assert cli.billed() == []
    for name, words in {"hangs": "has not answered", "fails": "HTTP 500", "moved": "HTTP 302"}.items():
        assert re.search(f"channel '{name}'.*{words}", done.err)
    ours = [file for file in (cli.home / "state-sandbox").rglob("*") if file.is_file()]
    assert b"a-secret" not in b"".join(file.read_bytes() for file in ours)
    assert "a-secret" not in done.out + done.err


def test_settings_that_cannot_be_used_are_said_and_stop_no_launch(cli: Shell) -> None:
    file = cli.home / "config" / "notify.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text("channels: {ops: {webhook: 'http://example.org/a-secret'}}\n")
    file.chmod(0o600)
    launched = cli("launch", *T4, "--name", "demo")
    assert launched.code == 0
    assert "nobody is notified" in launched.err
    assert "must begin with https://" in launched.err
    assert "a-secret" not in launched.err
    assert cli("notify", "test").code == 2


def test_a_budget_is_told_once_at_each_percentage(cli: Shell, receiver: Receiver) -> None:
    told = {
        "GPUCLOUD_NOTIFY": told_to(receiver)["GPUCLOUD_NOTIFY"].replace("hushed}", "hushed, only: [budget]}")
    }
    budget = ("budget", "set", "lab", "9", "--per", "month", "--action", "warn")
    assert cli(*budget).code == 0
    assert cli("launch", *T4, "--name", "demo", "--ttl", "10h", **told).code == 0
    assert cli("tend", **told).code == 0
    [(occasion, text)] = notices(receiver)
    assert occasion == "budget"
    assert text.startswith("Sandbox: budget 'lab' is used to ")
    assert text.endswith(" committed; $9.0000 per month.")
    assert cli("budget", "set", "lab", "6", "--per", "month", "--action", "warn").code == 0
    assert cli("tend", **told).code == 0
    assert [occasion for occasion, _ in notices(receiver)] == ["budget"], "80 % of another amount"


def test_an_offer_below_the_limit_is_told(cli: Shell, receiver: Receiver) -> None:
    watch = ("prices", "watch", "--gpu", "T4", "--cloud", "aws", "--below", "9", "--once")
    assert cli(*watch, **told_to(receiver)).code == 0
    [(occasion, text)] = notices(receiver)
    assert occasion == "price"
    assert text.startswith("Sandbox: Below the limit: ")


def test_a_channel_that_speaks_no_http_keeps_no_other_from_its_test(cli: Shell, receiver: Receiver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    with server.accept()[0] as connection:
                        connection.recv(65536)
                        connection.sendall(b"220 hello\r\n")

        threading.Thread(target=answer, daemon=True).start()
        secret = f"http://127.0.0.1:{server.getsockname()[1]}/hush"
        both = {"wrong": {"webhook": secret}, "right": {"webhook": receiver.url}}
        done = cli("notify", "test", "--json", GPUCLOUD_NOTIFY=json.dumps({"channels": both}))
    told = {each["channel"]: each["error"] for each in done.json["channels"]}
    assert (done.code, told["right"]) == (1, None)
    assert told["wrong"] == "channel 'wrong': it cannot be reached: BadStatusLine"
    assert "hush" not in done.out + done.err


def test_the_channels_can_be_tested(cli: Shell, receiver: Receiver) -> None:
    told = told_to(receiver)
    done = cli("notify", "test", "--json", **told)
    assert done.code == 0
    [channel] = done.json["channels"]
    assert (channel["channel"], channel["kind"], channel["sent"], channel["error"]) == (
        *("ops", "webhook", True, None),
    )
    assert {"ready", "budget", "spend", "price"} < set(channel["occasions"])
    assert [occasion for occasion, _ in notices(receiver)] == ["test"]
    receiver.answers[:] = [403]
    assert cli("notify", "test", "ops", **told).code == 1
    assert "there is no channel 'nobody'" in cli("notify", "test", "nobody", **told).err
    assert "no channel for notices" in cli("notify", "test").err
