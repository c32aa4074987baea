"""Two people with one database and one account: each sees and ends the other's boxes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpucloud_sandbox.client import Endpoint
from tests.forked import ForkServer
from tests.journals import psql, url_of
from tests.shell import Result, Shell
from tests.waiting import until


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a home of their own, and with what both share."""

    shell: Shell
    shared: Mapping[str, str]

    def __call__(self, *line: str, **variables: str) -> Result:
        return self.shell(*line, **{**self.shared, **variables})


@pytest.fixture
def journal(tmp_path: Path) -> str:
    """A journal of the sandbox, with the tables that its owner made."""
    return url_of(tmp_path / "sandbox", kind="sandbox")


@pytest.fixture
def people(endpoint: Endpoint, tmp_path: Path, forks: ForkServer, journal: str) -> Iterator[list[Person]]:
    """Two homes that share the journal and the sandbox."""
    endpoint.client.reset()
    with ExitStack() as stack:

        def person(name: str) -> Person:
            home = tmp_path / name
            home.mkdir()
            shell = Shell(home, Path(stack.enter_context(TemporaryDirectory(prefix="run-"))), endpoint, forks)
            shared = {"GPUCLOUD_JOURNAL": journal, "GPUCLOUD_SANDBOX_HOME": str(endpoint.folder)}
            return Person(shell, shared)

        yield [person("anna"), person("ben")]
    endpoint.client.reset()


LAUNCH = ("launch", "--gpu", "T4", "--cloud", "aws", "--yes", "--json", "--name")


def test_smoke_one_launches_and_the_other_sees_and_ends_the_box(people: list[Person], journal: str) -> None:
    anna, ben = people
    box = anna(*LAUNCH, "x").box
    assert box["owner"] == "gpucloud"
    assert [each["name"] for each in ben("list", "--json").json["boxes"]] == ["x"]
    assert ben(*LAUNCH, "x").error["message"].startswith("a box named 'x' exists already")
    assert ben("sweep", "--dry-run", "--json", "--older-than", "0s").json["found"] == []
    ended = ben("down", "x", "--yes", "--json")
    assert (ended.code, ended.json["boxes"][0]["state"]) == (0, "deleted"), ended.err
    assert anna("list", "--json").json["boxes"] == []
    verified = anna("journal", "verify", "--json")
    assert (verified.code, verified.json["differences"]) == (0, [])
    psql(journal, "UPDATE states SET document = replace(document, 'deleted', 'failed')")
    damaged = anna("journal", "verify", "--json")
    assert (damaged.code, len(damaged.json["differences"])) == (1, 1)


def test_who_slept_while_a_colleague_ended_the_box_is_refused_at_the_next_write(
    people: list[Person], endpoint: Endpoint
) -> None:
    """A laptop that is closed in a launch, just after its machine was made."""
    anna, ben = people
    endpoint.client.fault(
        effect="kill", stage="answered", signal="SIGSTOP", cloud="aws", action="RunInstances"
    )
    process = anna.shell.start(*LAUNCH, "x", **anna.shared)
    until(lambda: not endpoint.client.fault(), "the machine")
    ended = ben("down", "x", "--yes")
    assert ended.code == 0, ended.err
    process.send_signal(signal.SIGCONT)
    late = anna.shell.finish(process)
    assert (late.code, late.error["class"]) == (1, "taken_over"), late.err
    assert endpoint.client.status()["billing"] == []
    assert ben("journal", "verify").code == 0


def test_boxes_of_a_file_go_on_in_the_teams_journal(
    people: list[Person], journal: str, tmp_path: Path
) -> None:
    """The owner's id of the file is that of the login from then on; copying again adds nothing."""
    anna, ben = people
    box = anna(*LAUNCH, "x", GPUCLOUD_JOURNAL="").box
    first = anna("journal", "copy", "--to", journal, "--json", GPUCLOUD_JOURNAL="")
    assert (first.code, first.json["owner"], first.json["events"] > 10) == (0, box["owner"], True), first.err
    again = anna(
        "journal", "copy", "--from", str(tmp_path / "anna" / "state-sandbox" / "journal.db"), "--json"
    )
    assert again.json["events"] == 0, again.err
    refused = ben("journal", "copy", "--to", journal, GPUCLOUD_JOURNAL="", GPUCLOUD_OWNER=box["owner"])
    assert refused.code == 0, "the same login: nothing is new"
    secret = ben("journal", "copy", "--to", journal.replace("@", ":s3cret@"), GPUCLOUD_JOURNAL="")
    assert (secret.code, "PGPASSFILE" in secret.err, "s3cret" in secret.err) == (2, True, False)
    assert [(each["id"], each["owner"]) for each in ben("list", "--json").json["boxes"]] == [
        (box["id"], box["owner"])
    ]
    assert anna("sweep", "--dry-run", "--json", "--older-than", "0s").json["found"] == []
    assert anna("down", "x", "--yes").code == 0
    assert ben("journal", "verify").code == 0


def test_the_boxes_of_two_machines_of_one_person_are_found_swept_and_ended_together(
    people: list[Person], journal: str, endpoint: Endpoint
) -> None:
    """Each machine had a file and an owner ID of its own; both are copied, with one login."""
    anna, ben = people
    for person, name in ((anna, "old"), (ben, "older")):
        assert person(*LAUNCH, name, GPUCLOUD_JOURNAL="").code == 0
        assert person("journal", "copy", "--to", journal, GPUCLOUD_JOURNAL="").code == 0
    shown = ben("list", "--json", "--live").json
    assert {each["name"] for each in shown["boxes"]} == {"old", "older"}
    assert len({each["owner"] for each in shown["boxes"]}) == 2
    assert shown["strangers"] == []
    assert anna(*LAUNCH, "older").error["message"].startswith("a box named 'older' exists already")
    assert anna("sweep", "--dry-run", "--json", "--older-than", "0s").json["found"] == []
    assert ben(*LAUNCH, "lost", GPUCLOUD_JOURNAL="").code == 0
    found = anna("sweep", "--dry-run", "--json", "--older-than", "0s").json["found"]
    assert {each["reason"] for each in found} == {"not_in_journal"}
    assert [each["name"] for each in anna("recover", "--json").json["boxes"]] == ["lost"]
    assert anna("down", "--all", "--yes").code == 0
    assert [each["kind"] for each in endpoint.client.status()["billing"]] == []


def test_who_may_not_end_a_box_in_the_journal_deletes_nothing_in_the_cloud(
    people: list[Person], journal: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    """An operator and a viewer are refused; an administrator ends the box of somebody else."""
    anna, ben = people
    users = tmp_path / "users.yaml"
    users.write_text("users: {}")  # roles are the server's: an earlier test may have given some
    assert anna("journal", "users", "apply", str(users)).code == 0
    users.write_text("users: {alice: operator, bob: operator, vera: viewer, adam: admin}")
    applied = anna("journal", "users", "apply", str(users), "--json")
    assert (applied.code, "grant viewer: vera" in applied.json["changes"]) == (0, True), applied.err

    def login(name: str, **variables: str) -> dict[str, str]:
        return {"GPUCLOUD_JOURNAL": journal.replace("gpucloud@", f"{name}@"), **variables}

    assert anna(*LAUNCH, "x", **login("alice")).box["owner"] == "alice"
    for name in ("bob", "vera"):
        as_alice = login(name, GPUCLOUD_OWNER="alice")
        assert [each["name"] for each in ben("list", "--json", "--live", **as_alice).json["boxes"]] == ["x"]
        for line in (("down", "x"), ("extend", "x", "--ttl", "9h"), ("stop", "x")):
            refused = ben(*line, "--yes", "--json", **as_alice)
            assert (refused.code, refused.error["class"]) == (4, "auth"), refused.err
    assert ben(*LAUNCH, "y", **login("vera")).error["class"] == "auth"
    assert [each["kind"] for each in endpoint.client.status()["billing"]].count("instance") == 1
    assert ben("down", "x", "--yes", **login("adam", GPUCLOUD_OWNER="alice")).code == 0
    assert anna("list", "--json", **login("alice")).json["boxes"] == []


def key_of(folder: Path) -> Path:
    """A key pair of somebody's own; the private key's file."""
    key = folder / "own_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key], check=True)
    return key


def test_a_box_that_one_launched_is_entered_extended_and_ended_by_another(
    people: list[Person], journal: str, tmp_path: Path, endpoint: Endpoint
) -> None:
    """Once it was shared; a viewer sees it and can do none of that. No private key leaves its home."""
    anna, ben = people
    users = tmp_path / "users.yaml"
    users.write_text("users: {alice: operator, vera: viewer, adam: admin}")
    assert anna("journal", "users", "apply", str(users)).code == 0
    key = key_of(tmp_path / "ben")
    alice, adam, vera = (
        {"GPUCLOUD_JOURNAL": journal.replace("gpucloud@", f"{name}@"), "GPUCLOUD_IDENTITY": str(key)}
        for name in ("alice", "adam", "vera")
    )
    anna_s = {"GPUCLOUD_JOURNAL": alice["GPUCLOUD_JOURNAL"]}
    of_alice = {"GPUCLOUD_OWNER": "alice"}
    box = anna(*LAUNCH, "x", **anna_s).box
    sweep = ("sweep", "--dry-run", "--json", "--older-than", "0s")

    early = ben("exec", "x", "--json", "--", "true", **adam, **of_alice)
    assert early.error["class"] == "ssh_host_key"
    assert f"gpucloud share {box['id']} --key {key}.pub" in early.error["hint"]
    shared = anna("share", "x", "--key", f"{key}.pub", "--json", **anna_s)
    assert shared.code == 0, shared.err
    assert shared.json["command"] == "GPUCLOUD_OWNER=alice gpucloud ssh x"
    other = key_of(tmp_path / "anna")
    home_address = endpoint.client.address()
    endpoint.client.address("198.51.100.99")
    outside = ben("exec", "x", "--json", "--", "true", **adam, **of_alice)
    assert "does not accept your address 198.51.100.99" in outside.error["message"]
    assert "--allow-from 198.51.100.99/32" in outside.error["hint"]
    endpoint.client.address(home_address)
    unknown = ben(
        "exec", "x", "--json", "--", "true", **{**adam, **of_alice, "GPUCLOUD_IDENTITY": str(other)}
    )
    assert unknown.error["class"] == "ssh_auth"
    assert "ask its owner" in unknown.error["hint"]
    assert ben("ssh", "x", "--", "echo", "in", **adam, **of_alice).out == "in\n"
    assert ben("exec", "x", "--", "echo", "in", **adam, **of_alice).out == "in\n"
    assert ben("logs", "x", "--boot", **adam, **of_alice).code == 0
    [host] = ben("ssh-config", "--json", **adam, **of_alice).json["hosts"]
    assert (host["host"], host["identity_file"]) == ("x.gpucloud", str(key))
    shown = ben("show", "x", "--live", "--json", **adam, **of_alice).box
    assert (shown["id"], shown["guards"][0] is not None) == (box["id"], True)

    for line in (
        ("share", "x", "--key", f"{other}.pub"),
        ("extend", "x", "--ttl", "9h", "--yes"),
        ("down", "x", "--yes"),
    ):
        refused = ben(*line, "--json", **vera, **of_alice)
        assert (refused.code, refused.error["class"]) == (4, "auth"), refused.err

    assert anna(*sweep, **anna_s).json["found"] == []
    assert ben(*sweep, **adam).json["found"] == []
    later = ben("extend", "x", "--ttl", "+1h", "--json", **adam, **of_alice)
    assert later.code == 0, later.err
    assert anna("show", "x", "--json", **anna_s).box["expires_at"] == later.json["box"]["expires_at"]
    ended = ben("down", "x", "--yes", "--json", **adam, **of_alice)
    assert (ended.code, ended.json["boxes"][0]["state"]) == (0, "deleted"), ended.err
    assert [each["kind"] for each in endpoint.client.status()["billing"]] == []
    assert anna("list", "--json", **anna_s).json["boxes"] == []
    files = [file for file in (tmp_path / "ben").rglob("*") if file.is_file()]
    assert [file.name for file in files if b"PRIVATE KEY" in file.read_bytes()] == ["own_key"]
    assert ben("journal", "verify", **adam).code == 0


def test_a_colleague_is_let_in_by_login_with_the_key_that_the_journal_has(
    people: list[Person], journal: str, tmp_path: Path
) -> None:
    anna, ben = people
    users = tmp_path / "users.yaml"
    users.write_text("users: {alice: operator, bob: viewer}")
    assert anna("journal", "users", "apply", str(users)).code == 0
    key = key_of(tmp_path / "ben")
    alice, bob = ({"GPUCLOUD_JOURNAL": journal.replace("gpucloud@", f"{name}@")} for name in ("alice", "bob"))
    bob |= {"GPUCLOUD_IDENTITY": str(key), "GPUCLOUD_OWNER": "alice"}
    anna(*LAUNCH, "x", **alice)
    share = ("share", "x", "--user", "bob", "--json")
    early = anna(*share, **alice)
    assert (early.code, "journal users key" in early.error["hint"]) == (2, True), early.err
    private = ben("journal", "users", "key", str(key), **bob)
    assert (private.code, "private key" in private.err) == (2, True)
    assert ben("journal", "users", "key", f"{key}.pub", **bob).code == 0
    shared = anna(*share, **alice)
    assert (shared.code, shared.json["changed"]) == (0, True), shared.err
    assert ben("exec", "x", "--", "echo", "in", **bob).out == "in\n"
    assert anna("share", "x", "--user", "bob", "--remove", **alice).code == 0
    other = Path(f"{key_of(tmp_path / 'anna')}.pub").read_text()
    users.write_text(f"users: {{alice: operator, bob: viewer}}\nkeys:\n  bob: {other}")
    assert "key of bob set" in anna("journal", "users", "apply", str(users)).out
    assert "The key of bob was set by gpucloud" in anna("share", "x", "--user", "bob", **alice).err
    both = anna("share", "x", "--user", "bob", "--key", f"{key}.pub")
    assert (both.code, "one of --key and --user" in both.err) == (2, True)


def test_a_budget_counts_what_both_launch(people: list[Person], journal: str) -> None:
    anna, ben = people
    assert anna("budget", "set", "lab", "8", "--per", "month").code == 0
    capped = (*LAUNCH[:-1], "--ttl", "10h", "--max-price", "0.6", "--name")
    assert anna(*capped, "x").code == 0
    refused = ben(*capped, "y")
    assert (refused.code, refused.error["class"]) == (7, "budget")
    [shown] = ben("budget", "list", "--json").json["budgets"]
    assert (shown["name"], shown["by"]) == ("lab", "gpucloud")
    assert anna("journal", "verify").code == 0


def test_a_policy_of_an_admin_refuses_in_both_homes(
    people: list[Person], journal: str, tmp_path: Path
) -> None:
    """A viewer and an operator cannot apply one; nothing of it keeps a box from ending."""
    anna, ben = people
    users = tmp_path / "users.yaml"
    users.write_text("users: {alice: operator, vera: viewer, adam: admin}")
    assert anna("journal", "users", "apply", str(users)).code == 0
    alice, vera, adam = (
        {"GPUCLOUD_JOURNAL": journal.replace("gpucloud@", f"{name}@")} for name in ("alice", "vera", "adam")
    )
    rules = tmp_path / "policy.yaml"
    rules.write_text("boxes: 1\ntags: [team]\nttl: 24h\n")
    for login in (vera, alice):
        refused = ben("policy", "apply", str(rules), "--json", **login)
        assert (refused.code, refused.error["class"]) == (4, "auth"), refused.err
    assert ben("policy", "show", "--json", **vera).json["policy"] is None
    assert ben("policy", "apply", str(rules), **adam).code == 0
    assert anna("policy", "show", "--json", **vera).json["policy"]["by"] == "adam"
    tagged = (*LAUNCH[:-1], "--tag", "team=a", "--name")
    for person, line in ((anna, (*LAUNCH, "x")), (ben, (*tagged, "x", "--ttl", "none"))):
        refused = person(*line, **alice)
        assert (refused.code, refused.error["class"]) == (4, "policy"), refused.err
    assert anna(*tagged, "x", **alice).code == 0
    second = ben(*tagged, "y", **alice)
    assert (second.code, "`boxes: 1` forbids one more box of 'alice'" in second.error["message"]) == (4, True)
    assert ben(*tagged, "y", **adam).code == 0, "of each person by itself"
    assert anna("down", "x", "--yes", **alice).code == 0
    assert ben("down", "y", "--yes", **adam).code == 0
    assert anna("journal", "verify", **adam).code == 0
