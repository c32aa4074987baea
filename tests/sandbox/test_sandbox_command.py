"""``gpucloud sandbox`` as people and programs use it."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpucloud_sandbox.client import find
from tests.sandbox.running import SPOT, client, launch, make_group
from tests.waiting import PATIENCE_S

OF_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}
"""Python ignores them, and restores them for what it starts."""


class Person:
    """Somebody at a terminal, with a home folder of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def run(self, *words: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        argv = [*before, sys.executable, "-m", "gpucloud", "sandbox", *words]
        environment = {**os.environ, "GPUCLOUD_HOME": str(self.home)}
        return subprocess.run(
            argv,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    yield Person(tmp_path)
    running = find(tmp_path / "sandbox")
    if running is not None:
        running.stop(force=True)


def test_the_printed_lines_let_a_vendors_tool_in(person: Person) -> None:
    started = person.run("start", "--pace", "0")
    assert started.returncode == 0, started.stderr
    question = "import boto3; print(boto3.client('sts').get_caller_identity()['Account'])"
    script = f'{started.stdout}\nexec {sys.executable} -c "{question}"'
    theirs = {**os.environ, "AWS_PROFILE": "mine"}
    shell = subprocess.run(
        ["sh", "-c", script], env=theirs, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert shell.stdout.strip() == "123456789012", shell.stderr


def test_what_its_boxes_run_ignores_no_signal_that_whoever_started_it_ignores(person: Person) -> None:
    """A program that is started with a signal ignored cannot be told otherwise, and starts others so."""
    ignoring = ["sh", "-c", 'trap "" HUP INT QUIT TERM; exec "$@"', "sh"]
    assert person.run("start", before=ignoring).returncode == 0
    running = find(person.home / "sandbox")
    assert running is not None
    status = Path(f"/proc/{running.pid}/status").read_text()
    ignored = int(re.findall(r"SigIgn:\t(\w+)", status)[0], 16)
    assert not [each for each in signal.Signals if ignored >> each - 1 & 1 and each not in OF_PYTHON]


@pytest.mark.parametrize(
    ("shell", "set_", "unset"),
    [
        ("posix", "export AWS_REGION=us-east-1", "unset AWS_PROFILE"),
        ("fish", "set -gx AWS_REGION 'us-east-1'", "set --erase AWS_PROFILE"),
        ("powershell", "$Env:AWS_REGION = 'us-east-1'", "Remove-Item -ErrorAction Ignore Env:AWS_PROFILE"),
    ],
)
def test_the_lines_are_those_of_the_shell(tmp_path: Path, shell: str, set_: str, unset: str) -> None:
    person = Person(tmp_path / "the cat's \\ home")
    try:
        lines = person.run("start", "--shell", shell).stdout.splitlines()
        said = person.json("start")
    finally:
        person.run("stop")
    assert {set_, unset} <= set(lines)
    assert "AWS_PROFILE" not in said["environment"]
    assert said["unset"] == ["AWS_DEFAULT_PROFILE", "AWS_PROFILE"]
    (config,) = [line for line in lines if "AWS_CONFIG_FILE" in line]
    quoted = {
        "posix": "the cat'\"'\"'s \\ home",
        "fish": "the cat\\'s \\\\ home",
        "powershell": "the cat''s \\ home",
    }
    assert quoted[shell] in config


def test_the_certificates_of_the_printed_lines_are_the_systems_and_the_sandboxs(person: Person) -> None:
    bundle = person.json("start", "--pace", "0")["environment"]["REQUESTS_CA_BUNDLE"]
    named = [each["subject"] for each in ssl.create_default_context(cafile=bundle).get_ca_certs()]
    assert ((("commonName", "gpucloud sandbox CA"),),) in named
    usual = ssl.create_default_context(cafile=ssl.get_default_verify_paths().cafile).get_ca_certs()
    assert {str(each["subject"]) for each in usual} <= set(map(str, named))


def test_status_is_the_documented_document_whether_it_runs_or_not(person: Person) -> None:
    stopped = person.json("status")
    assert stopped == {
        "schema": "gpucloud.sandbox/v1",
        "running": False,
        "endpoints": {"aws": None, "azure": None, "alibaba": None},
        "billed_per_hour": {"amount": "0", "currency": "USD"},
        "billing": [],
        "clock_ahead_s": None,
        "review": None,
    }
    person.json("start", "--pace", "0")
    running = person.json("status")
    assert running["running"]
    assert running["endpoints"]["aws"].startswith("http://127.0.0.1:")
    assert running["review"] == "own"
    person.json("start", "--review", "all")
    assert person.json("status")["review"] == "all"
    assert "review    all" in person.run("status").stdout


def test_stop_names_what_is_billed_and_leaves_it_alone(person: Person) -> None:
    person.json("start", "--pace", "0")
    endpoint = find(person.home / "sandbox")
    assert endpoint is not None
    ec2 = client(endpoint)
    made = ec2.run_instances(**launch(make_group(ec2), InstanceMarketOptions=SPOT))["Instances"][0][
        "InstanceId"
    ]
    refused = person.run("stop")
    assert refused.returncode == 8
    assert made in refused.stderr
    billing = person.json("status")["billing"]
    (instance,) = [each for each in billing if each["kind"] == "instance"]
    assert (instance["id"], instance["cloud"], instance["box"]) == (made, "aws", "b")
    person.json("interrupt", made, "--notice", "0")
    assert person.json("status")["billing"] == []
    assert person.run("stop").returncode == 0
    assert find(person.home / "sandbox") is None


def test_the_clouds_are_steered_by_words(person: Person) -> None:
    person.json("start", "--pace", "0")
    assert person.json("stock", "0", "--cloud", "aws", "--zone", "use1-az1")["rules"][0]["count"] == 0
    assert person.json("price", "x1.5", "--type", "g4dn.*")["moves"][0]["factor"] == "1.5"
    assert person.json("fault", "kill", "--action", "RunInstances")["faults"][0]["effect"] == "kill"
    assert person.json("fault", "--clear")["faults"] == []
    assert person.json("address", "198.51.100.9")["address"] == "198.51.100.9"
    before = person.json("clock")["now"]
    assert person.json("clock", "3600")["now"] > before
    assert "deletes all emulated resources" in person.run("reset").stderr
    person.json("reset", "--yes")
    assert person.json("stock")["rules"] == []


def test_a_moved_clock_is_named_and_a_reset_takes_it_back_for_good(person: Person) -> None:
    person.json("start", "--pace", "0")
    assert "clock" not in person.run("status").stdout
    before = datetime.fromisoformat(person.json("clock", "86400")["now"])
    assert person.json("status")["clock_ahead_s"] == 86400
    assert "clock     86400 s ahead" in person.run("status").stdout
    person.json("reset", "--yes")
    assert person.json("status")["clock_ahead_s"] == 0
    assert datetime.fromisoformat(person.json("clock")["now"]) < before - timedelta(hours=23)
    person.json("stop")
    person.json("start")
    assert datetime.fromisoformat(person.json("clock")["now"]) < before - timedelta(hours=23)


def test_what_only_one_cloud_has_is_set_by_name(person: Person) -> None:
    person.json("start", "--pace", "0")
    place = ("region=us-east-1", "zone=use1-az1", "instance_type=g4dn.xlarge", "count=2")
    assert person.json("control", "aws", "reserve", *place)["answer"].startswith("cr-")
    unknown = person.run("control", "aws", "weather")
    assert (unknown.returncode, "it has" in unknown.stderr, "quota" in unknown.stderr) == (2, True, True)
    assert "there are" in person.run("control", "moon", "quota").stderr
    assert person.run("control", "aws", "quota", "value").returncode == 2


@pytest.mark.parametrize(
    "words", [("price", "-1"), ("price", "x"), ("stock", "-1"), ("fault", "explode"), ("address", "home")]
)
def test_a_wrong_word_is_a_usage_error(person: Person, words: tuple[str, ...]) -> None:
    person.json("start", "--pace", "0")
    done = person.run(*words)
    assert done.returncode == 2
    assert "unexpected" not in done.stderr


def test_without_a_sandbox_it_says_how_to_start_one(person: Person) -> None:
    done = person.run("stock")
    assert done.returncode == 2
    assert "gpucloud sandbox start" in done.stderr


def test_the_pace_of_running_clouds_is_shown_and_set(person: Person) -> None:
    person.json("start", "--pace", "0")
    assert person.json("pace")["pace"]["latency_s"] == 0
    changed = person.json("pace", "--latency", "0.25", "--transition", "2")["pace"]
    assert changed == {"transition_s": 2, "latency_s": 0.25, "lag_s": 0, "lag_calls": 0}
    endpoint = find(person.home / "sandbox")
    assert endpoint is not None
    client(endpoint, "sts").get_caller_identity()
    [call] = person.json("calls")["calls"]
    assert call["milliseconds"] >= 250
    assert "latency     0.25 s" in person.run("pace").stdout


def test_the_calls_that_the_clouds_received_are_shown(person: Person) -> None:
    person.json("start", "--pace", "0")
    endpoint = find(person.home / "sandbox")
    assert endpoint is not None
    client(endpoint, "sts").get_caller_identity()
    shown = person.run("calls").stdout
    assert "CONCURRENT" in shown
    assert "GetCallerIdentity" in shown
    [call] = person.json("calls", "--clear")["calls"]
    assert (call["cloud"], call["status"], call["concurrent"]) == ("aws", 200, 1)
    assert person.json("calls")["calls"] == []
