"""``audit``: every call that changes something in a cloud is on record, and no secret is."""

from __future__ import annotations

import itertools
import json
import signal
import threading
from collections import Counter
from typing import Any

import pytest

from tests.shell import Shell
from tests.waiting import PATIENCE_S, until

UNKNOWN_ID = "b-" + "0" * 26
CANARY = "canary-6f1d-do-not-tell"


def on_record(cli: Shell, *arguments: str) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = cli("audit", "--json", *arguments).json["calls"]
    return calls


@pytest.mark.parametrize("cloud", ["aws", "azure", "alibaba"])
def test_every_changing_call_that_a_cloud_receives_is_on_record(cli: Shell, cloud: str) -> None:
    """Who, when, for which box, at what price, with the cloud's own request id."""
    box = cli.launch("--gpu", "T4", "--cloud", cloud, "--name", "x")
    assert cli("extend", "x", "--ttl", "2h", "--yes").code == 0
    assert cli("down", "x", "--yes").code == 0
    received = Counter(
        call["cloud"] for call in cli.sandbox.calls() if call["mutating"] for _ in range(call["count"])
    )
    calls = on_record(cli)
    assert Counter(call["cloud"] for call in calls) == received
    assert {call["box"] for call in calls} == {box["id"]}
    assert all(call["outcome"] and call["request_id"] and call["target"] for call in calls), calls
    assert {call["command"] for call in calls} == {"launch", "extend", "down"}
    assert {call["owner"] for call in calls} == {box["owner"]}
    bought = [call["price"] for call in calls if "price" in call]
    assert bought
    assert all(price == box["price"] for price in bought)
    groups = ("CreateSecurityGroup", "networkSecurityGroups/write")
    assert not [call for call in calls if "price" in call and call["action"].endswith(groups)]
    assert cli("audit").out.count("\n") == len(calls) + 1
    assert on_record(cli, "--box", "x") == on_record(cli, "--box", box["id"]) == calls
    assert on_record(cli, "--box", UNKNOWN_ID) == []
    unknown = cli("audit", "--box", "y")
    assert (unknown.code, unknown.out) == (2, "")
    assert "there is no box named 'y'" in unknown.err
    assert on_record(cli, "--since", "2099-01-01T00:00:00Z") == []


def test_reading_commands_leave_no_trace(cli: Shell) -> None:
    for command in (
        ("list", "--live"),
        ("plan", "--gpu", "T4"),
        ("sweep", "--dry-run"),
        ("check", "--gpu", "T4"),
    ):
        cli(*command)
    assert on_record(cli) == []


def test_calls_are_followed_as_they_are_sent_and_answered(cli: Shell) -> None:
    """Also into a file that is made, or replaced, meanwhile."""
    follower = cli.start("audit", "--follow", "--json")
    lines: list[str] = []

    def read() -> None:
        assert follower.stdout is not None
        for line in follower.stdout:
            lines.append(line)

    def calls() -> list[dict[str, Any]]:
        return [json.loads(line) for line in lines]

    def has(action: str) -> bool:
        return any(call["action"] == action and call["outcome"] for call in calls())

    reading, names = threading.Thread(target=read), itertools.count()
    reading.start()
    volume = ("--size", "1", "--near", "T4", "--cloud", "aws", "--region", "us-east-1", "--yes")
    until(lambda: cli("volume", "create", f"v{next(names)}", *volume).code == 0 and lines, "its beginning")
    cli.launch("--gpu", "T4", "--cloud", "aws", "--name", "x")
    until(lambda: has("ec2:RunInstances"), "the launch")
    file = cli.home / "state-sandbox" / "audit.jsonl"
    file.rename(file.with_suffix(".old"))
    assert cli("down", "x", "--yes").code == 0
    until(lambda: has("ec2:TerminateInstances"), "the end")
    told = calls()
    follower.send_signal(signal.SIGINT)
    reading.join()
    follower.communicate(timeout=PATIENCE_S)
    assert {call["schema"] for call in told} == {"gpucloud.audit-call/v1"}
    by_call: dict[str, list[Any]] = {}
    for call in told:
        by_call.setdefault(call["call"], []).append(call["outcome"])
    assert all(outcomes[0] is None for outcomes in by_call.values())
    answered = [outcomes for outcomes in by_call.values() if len(outcomes) > 1]
    assert all(len(outcomes) == 2 and outcomes[1] for outcomes in answered)


def test_a_refusal_is_on_record_in_the_clouds_own_words(cli: Shell) -> None:
    cli.sandbox.stock(cloud="aws", count=0)
    assert cli("launch", "--gpu", "T4", "--cloud", "aws", "--yes").code == 5
    refused = [call for call in on_record(cli) if call["action"] == "ec2:RunInstances"]
    assert {call["outcome"] for call in refused} == {"InsufficientInstanceCapacity"}


@pytest.mark.parametrize(
    ("cloud", "action"),
    [
        ("aws", "RunInstances"),
        ("azure", "PUT virtualMachine*"),
        ("alibaba", "RunInstances"),
    ],
)
def test_a_call_that_its_sender_did_not_survive_is_on_record_without_an_outcome(
    cli: Shell, cloud: str, action: str
) -> None:
    cli.sandbox.fault(effect="kill", cloud=cloud, action=action, stage="received")
    assert cli("launch", "--gpu", "T4", "--cloud", cloud, "--yes").code == -9
    last = on_record(cli)[-1]
    assert (last["cloud"], last["outcome"], last["request_id"]) == (cloud, None, None)
    assert "unanswered" in cli("audit").out


def test_no_secret_is_ever_on_record(cli: Shell) -> None:
    """Planted in variables, the set-up, tags' values, the command: none of it belongs there."""
    ran = cli(
        *("run", "--gpu", "T4", "--cloud", "aws", "--env", f"TOKEN={CANARY}", "--setup", f"echo {CANARY}"),
        *("--tag", f"note={CANARY}", "--", "echo", CANARY),
    )
    assert ran.code == 0, ran.err
    record = (cli.home / "state-sandbox" / "audit.jsonl").read_text()
    assert CANARY not in record
    for name in ("AWS_SECRET_ACCESS_KEY", "AZURE_CLIENT_SECRET", "ALIBABA_CLOUD_ACCESS_KEY_SECRET"):
        assert cli.endpoint.environ[name] not in record
    assert (cli.home / "state-sandbox" / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_torn_line_costs_only_itself(cli: Shell) -> None:
    cli.launch("--gpu", "T4", "--cloud", "aws")
    calls = on_record(cli)
    with (cli.home / "state-sandbox" / "audit.jsonl").open("a") as record:
        record.write('{"at": "2026-\n[1]\n{"call": 7}\n')
    read = cli("audit", "--json")
    assert (read.json["calls"], read.json["damaged"]) == (calls, 2)
    assert "2 lines" in read.err


def test_a_record_that_cannot_be_written_is_said_and_keeps_no_box_running(cli: Shell) -> None:
    cli.launch("--gpu", "T4", "--cloud", "aws", "--name", "x")
    record = cli.home / "state-sandbox" / "audit.jsonl"
    record.unlink()
    record.mkdir()
    ended = cli("down", "x", "--yes")
    assert ended.code == 0
    assert "cannot be written" in ended.err
    assert cli.sandbox.status()["billing"] == []


def test_lines_of_many_writers_stay_whole(cli: Shell) -> None:
    running = [cli.start("launch", "--gpu", "T4", "--cloud", "aws", "--yes") for _ in range(6)]
    for process in running:
        assert cli.finish(process).code == 0
    text = (cli.home / "state-sandbox" / "audit.jsonl").read_text()
    assert all(isinstance(json.loads(line), dict) for line in text.splitlines())
    assert len({call["box"] for call in on_record(cli)}) == 6


def test_the_newest_calls_are_shown_and_that_there_are_more_is_said(cli: Shell) -> None:
    cli.launch("--gpu", "T4", "--cloud", "aws", "--name", "x")
    assert cli("down", "x", "--yes").code == 0
    calls = on_record(cli, "--all")
    newest = cli("audit", "--last", "2", "--json")
    assert (newest.json["calls"], newest.json["more"]) == (calls[-2:], True)
    assert "the newest 2" in newest.err
    assert cli("audit", "-n", "2").out.count("\n") == 3
    assert "the newest" not in cli("audit").err
