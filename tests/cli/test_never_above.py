"""Never above the price, as a user has it: prompts, quotes that age, saved plans, this machine's clock."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.shell import PROGRAMS, Shell
from tests.waiting import until

REGION = {"aws": "us-east-1", "azure": "eastus", "alibaba": "us-east-1"}
CREATES = {"aws": "RunInstances", "azure": "PUT virtualMachines", "alibaba": "RunInstances"}
AT_MOST = re.compile(
    r"up to \$([0-9.]+) per hour for ([0-9]+) nodes?, everything included, until ([0-9TZ:-]+)"
)


def wanted(cloud: str, *more: str) -> tuple[str, ...]:
    return (
        "--gpu",
        "T4",
        "--cloud",
        cloud,
        "--region",
        REGION[cloud],
        "--allow-from",
        "198.51.100.7/32",
        *more,
    )


def nothing_was_bought(cli: Shell) -> bool:
    """No machine was ever billed."""
    return not [event for event in cli.sandbox.ledger() if event["kind"] == "instance"]


class Person:
    """Somebody at a terminal, who reads a question and answers it."""

    def __init__(self, cli: Shell, *line: str) -> None:
        ours, theirs = pty.openpty()
        self._terminal, self.said = ours, ""
        self._process = subprocess.Popen(
            [str(PROGRAMS / "gpucloud"), *line],
            env={**cli.environ, "TERM": "dumb"},
            cwd=cli.home,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                self.said += os.read(self._terminal, 4096).decode()
            except OSError:
                return

    def asked(self) -> str:
        """Waits for the question; what was said until then, as one line: a question wraps."""
        until(lambda: "[y/N]" in self.said or self._process.poll() is not None)
        assert "[y/N]" in self.said
        return " ".join(self.said.split())

    def answers(self, text: str) -> int:
        """Answers, and waits for the command's end; its exit code."""
        os.write(self._terminal, f"{text}\n".encode())
        return self._process.wait(timeout=120)


def test_a_price_that_moves_while_the_question_waits_buys_nothing(cli: Shell) -> None:
    person = Person(cli, "launch", *wanted("aws"), "--max-price", "0.6")
    person.asked()
    cli.sandbox.price(factor="5")
    assert person.answers("y") == 7
    assert "2.63 USD per hour" in person.said
    assert nothing_was_bought(cli)


def test_the_question_names_the_most_that_all_nodes_may_cost_and_until_when(cli: Shell) -> None:
    line = wanted("aws", "--nodes", "2", "--ttl", "1h", "--name", "pair", "--max-price", "0.6")
    person = Person(cli, "launch", *line)
    found = AT_MOST.search(person.asked())
    assert found
    assert found[2] == "2"
    assert person.answers("y") == 0
    [box] = cli.boxes()
    assert box["expires_at"] == found[3]
    status = cli.sandbox.status()
    assert len([each for each in status["billing"] if each["kind"] == "instance"]) == 2
    paid = Decimal(status["billed_per_hour"]["amount"])
    above = (Decimal("0.6") - Decimal("0.526")) * 2
    assert paid <= Decimal(found[1]) <= paid + above + Decimal("0.001")


def test_a_plan_says_the_same_sentence_and_its_documents_hold_the_ceilings(cli: Shell) -> None:
    """The dearest attempt at its ceiling, per node."""
    line = ("plan", *wanted("aws", "--spot", "--nodes", "3"))
    found = AT_MOST.search(cli(*line).err)
    assert found
    document = cli(*line, "--json").json
    assert document["at_most"]["per_hour"] == {"amount": found[1], "currency": "USD"}
    assert (document["at_most"]["nodes"], document["at_most"]["without"]) == (3, [])
    ceilings = [Decimal(each["ceiling_usd"]["amount"]) for each in document["attempts"]]
    assert all(
        Decimal(each["price_usd"]["amount"]) <= Decimal(each["ceiling_usd"]["amount"])
        for each in document["attempts"]
    )
    assert max(ceilings) * 3 < Decimal(found[1]) < max(ceilings) * 3 + Decimal("0.1")


@pytest.mark.parametrize("cloud", REGION)
@pytest.mark.parametrize("paid", ["--on-demand", "--spot"])
def test_a_price_that_rises_between_the_quote_and_the_create_call_is_not_paid(
    cli: Shell, cloud: str, paid: str
) -> None:
    """On demand it is noticed and ended; spot is refused by the cloud, as its bid is the ceiling."""
    cli.sandbox.fault(
        cloud=cloud, action=CREATES[cloud], effect="delay", stage="received", seconds=3, times=1
    )
    launch = cli.start("launch", *wanted(cloud, paid), "--yes", "--json")
    until(lambda: CREATES[cloud] in cli.changes_asked() or launch.poll() is not None)
    cli.sandbox.price(cloud=cloud, factor="5")
    ended = cli.finish(launch)
    assert (ended.code, ended.error["class"]) == (7, "price"), ended.error
    assert cli.sandbox.status()["billing"] == []
    assert nothing_was_bought(cli) or paid == "--on-demand"


STARTS = {"aws": "StartInstances", "azure": "POST virtualMachines/start", "alibaba": "StartInstance"}


def a_stopped_box(cli: Shell, cloud: str) -> None:
    cli.launch(*wanted(cloud), "--name", "x", "--ttl", "2h")
    assert cli("stop", "x", "--yes").code == 0


def is_stopped(cli: Shell) -> bool:
    """Whether the journal and the bill both say so."""
    return bool(cli("show", "x", "--json").box["state"] == "stopped") and cli.billed() == []


@pytest.mark.parametrize("cloud", REGION)
def test_a_price_that_moves_while_the_question_of_a_start_waits_starts_nothing(
    cli: Shell, cloud: str
) -> None:
    a_stopped_box(cli, cloud)
    person = Person(cli, "start", "x")
    assert "at most" in person.asked()
    cli.sandbox.price(cloud=cloud, factor="5")
    assert person.answers("y") == 7, person.said
    assert STARTS[cloud] not in cli.changes_asked()
    assert is_stopped(cli)


@pytest.mark.parametrize("cloud", REGION)
def test_a_price_that_rises_with_the_call_that_starts_a_box_stops_it_again(cli: Shell, cloud: str) -> None:
    a_stopped_box(cli, cloud)
    cli.sandbox.fault(cloud=cloud, action=STARTS[cloud], effect="delay", stage="received", seconds=3, times=1)
    start = cli.start("start", "x", "--yes", "--json")
    until(lambda: STARTS[cloud] in cli.changes_asked() or start.poll() is not None)
    cli.sandbox.price(cloud=cloud, factor="5")
    ended = cli.finish(start)
    assert (ended.code, ended.error["class"]) == (7, "price"), ended.error
    assert is_stopped(cli)


EDITS: dict[str, Callable[[Any], Any]] = {
    "a price in USD": lambda plan: plan["attempts"][0]["price_usd"].update(amount="0.001"),
    "a ceiling": lambda plan: plan["attempts"][0]["ceiling_usd"].update(amount="99"),
    "a zone": lambda plan: plan["attempts"][0].update(zone="use1-az9"),
    "a price of a later attempt": lambda plan: plan["attempts"][-1]["price_usd"].update(amount="0.001"),
    "the budget": lambda plan: plan["spec"].update(budget="1000"),
    "an attempt left out": lambda plan: plan["attempts"].pop(),
    "the order": lambda plan: plan["attempts"].reverse(),
    "how a box ends": lambda plan: plan["endings"].update(aws="never"),
}


@pytest.fixture(scope="module")
def saved() -> dict[str, str]:
    """The text of a saved plan, made once."""
    return {}


@pytest.mark.parametrize("edit", EDITS)
def test_a_saved_plan_that_was_edited_is_refused_before_anything_is_asked(
    cli: Shell, saved: dict[str, str], edit: str
) -> None:
    file = cli.home / "plan.json"
    if not saved:
        assert cli("plan", *wanted("aws", "--spot", "--budget", "1"), "--save", str(file)).code == 0
        saved["text"] = file.read_text()
        cli.sandbox.calls(clear=True)
    plan = json.loads(saved["text"])
    EDITS[edit](plan)
    file.write_text(json.dumps(plan))
    refused = cli("launch", str(file), "--yes", "--json")
    assert (refused.code, refused.error["class"]) == (2, "usage")
    assert "edited" in refused.error["message"]
    assert cli.sandbox.calls() == []


# --- the clock


def test_a_clock_that_is_off_buys_nothing_and_moves_no_end(own_clouds: Shell) -> None:
    """This machine is half an hour behind: said with both times and the fix, before anything is changed."""
    own_clouds.launch(*wanted("aws"), "--name", "x", "--ttl", "8h")
    own_clouds.sandbox.clock(advance_s=1800)
    own_clouds.sandbox.calls(clear=True)
    for cloud in REGION:
        refused = own_clouds("launch", *wanted(cloud), "--yes", "--json")
        assert (refused.code, refused.error["class"]) == (2, "usage")
        times = re.findall(r"[0-9-]+T[0-9:]+Z", refused.error["message"])
        assert len(times) == 2
        assert f"behind that of {cloud}" in refused.error["message"]
        assert "sandbox reset" in refused.error["hint"]
        assert "gpucloud check" in refused.error["hint"]
    ran = own_clouds("run", *wanted("aws"), "--json", "--", "true")
    assert (ran.code, ran.error["class"]) == (125, "usage")
    moved = own_clouds("extend", "x", "--ttl", "9h", "--yes", "--json")
    assert (moved.code, moved.error["class"]) == (2, "usage")
    assert own_clouds.changes_asked() == []
    planned = own_clouds("plan", *wanted("aws"))
    assert planned.code == 0, "a plan is only read"
    assert "behind that of aws" in planned.err


@pytest.mark.parametrize(
    "life",
    [("--ttl", "1s"), ("--ttl", "59s"), ("--budget", "0.001")],
    ids=" ".join,
)
def test_a_life_that_no_boot_can_meet_is_refused_when_it_is_planned(
    cli: Shell, life: tuple[str, str]
) -> None:
    for line in (("launch", "--yes"), ("plan",)):
        refused = cli(*line, *wanted("aws"), *life, "--json")
        assert (refused.code, refused.error["class"]) == (2, "usage")
        assert life[0] in refused.error["message"]
    ran = cli("run", *wanted("aws"), *life, "--json", "--", "true")
    assert (ran.code, ran.error["class"]) == (125, "usage")
    assert cli.changes_asked() == []


def test_an_end_that_is_seconds_away_is_not_given_to_a_box(cli: Shell) -> None:
    refused = cli("extend", "x", "--ttl", "1s", "--json")
    assert refused.code == 2
    assert "the minimum is 1m" in refused.error["message"]
