"""What each role may do in a team's journal: the database itself refuses the rest."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from gpucloud.errors import UsageError
from gpucloud.journal.budgets import BudgetAction, Match, Per, Terms
from gpucloud.journal.errors import ForbiddenError, JournalError
from gpucloud.journal.events import Extended, StateChanged
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import BoxState, Claim
from gpucloud.journal.policy import Rules
from gpucloud.journal.postgresql.address import read_address
from gpucloud.journal.postgresql.migration import migrate
from gpucloud.journal.postgresql.users import apply_users, changes, read_keys, read_users
from gpucloud.journal.records import Box, PublishedKey
from gpucloud.journal.store import Journal
from tests.journal.test_store import a_lease, clock
from tests.journals import OWNER, POOLER, psql

USERS = {"vera": "viewer", "alice": "operator", "bob": "operator", "adam": "admin"}


@pytest.fixture
def url(url: str) -> str:
    """A journal with a user of each role."""
    apply_users(read_address(url), USERS)
    return url


def journal_of(url: str, login: str) -> Journal:
    return Journal.connect(url.replace(f"{OWNER}@", f"{login}@"), clock, kind="real")


def plan(journal: Journal, owner: str, name: str = "x") -> Box:
    return journal.plan(
        Box,
        id=f"b-{owner}-{name}",
        name=name,
        owner=owner,
        run_id=None,
        op="op",
        expires_at=None,
        facts=Facts(),
        lease=a_lease(),
    )


BUDGET = Terms(
    amount=Decimal(5), currency="USD", per=Per.DAY, match=Match(), warn=(), action=BudgetAction.REFUSE
)
ACTIONS: dict[str, Callable[[Journal, Box], object]] = {
    "look": lambda journal, _: journal.boxes(owner=None)[0],
    "plan its own": lambda journal, _: plan(journal, str(journal.identity), "new"),
    "plan in another's name": lambda journal, _: plan(journal, "carol"),
    "extend": lambda journal, box: journal.write(box, Extended(expires_at=None)),
    "take": lambda journal, box: journal.take(box, a_lease(pid=2), claim=lambda _: Claim.FREE),
    "observe": lambda journal, box: journal.observe(box, Facts(replaced="x")),
    "share": lambda journal, box: journal.tell(box, Facts(host_keys=("ssh-ed25519 AAAA",))),
    "set a budget": lambda journal, _: journal.set_budget("lab", BUDGET, by="x"),
    "apply a policy": lambda journal, _: journal.apply_policy(Rules(ttl_s=60), by="x"),
    "remove a budget": lambda journal, _: journal.set_budget("day", None, by="x"),
    "end": lambda journal, box: journal.write(box, StateChanged(state=BoxState.FAILED)),
}
MAY = {
    "vera": {"look"},
    "bob": {"look", "plan its own"},
    "alice": {"look", "plan its own", "extend", "take", "observe", "share", "end"},
    "adam": set(ACTIONS),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("login", MAY)
def test_a_login_does_with_the_box_of_alice_what_its_role_allows(login: str, action: str, url: str) -> None:
    box = plan(journal_of(url, "alice"), "alice")
    journal_of(url, "adam").set_budget("day", BUDGET, by="adam")
    journal = journal_of(url, login)
    before = psql(url, "SELECT count(*) FROM events")
    if action in MAY[login]:
        assert ACTIONS[action](journal, box) is not False
        if action != "look":
            [(actor,)] = psql(url, "SELECT actor FROM events ORDER BY seq DESC LIMIT 1")
            assert actor == login
    else:
        if action == "observe":  # a look at a cloud needs no right to write it down
            assert ACTIONS[action](journal, box) is False
        else:
            with pytest.raises(ForbiddenError, match="permission denied") as caught:
                ACTIONS[action](journal, box)
            assert "users apply" in str(caught.value.hint)
        assert psql(url, "SELECT count(*) FROM events") == before


FORGED = {
    "an event in another's name": "INSERT INTO events (id, at, box, number, type, version, data, actor)"
    " VALUES ('e', '', 'b-alice-x', 2, 'seen', 2, '{}', 'vera')",
    "a changed event": "UPDATE events SET data = '{}'",
    "a deleted event": "DELETE FROM events",
    "no events at all": "TRUNCATE events",
    "another's identity": "INSERT INTO identities (login, owner) VALUES ('vera', 'x')",
    "the identity of a colleague": "INSERT INTO identities (owner) VALUES ('carol')",
    "another version": "INSERT INTO schema_version (version) VALUES (9)",
    "another schema": "ALTER TABLE states ADD COLUMN x text",
    "a changed state": "UPDATE states SET living = 0",
    "a state of its own": "INSERT INTO states SELECT * FROM states",
    "a lease": "UPDATE states SET lease = NULL",
}


@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize("login", USERS)
def test_nobody_forges_the_past(login: str, forged: str, url: str) -> None:
    plan(journal_of(url, "alice"), "alice")
    plan(journal_of(url, OWNER), "carol")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        psql(url, FORGED[forged], user=login)


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
FORGED_KEYS = {
    "the first key of somebody": "INSERT INTO public_keys (login, key) VALUES ('vera', 'forged')",
    "another key of somebody": "INSERT INTO public_keys (login, key) VALUES ('bob', 'forged')"
    " ON CONFLICT (login) DO UPDATE SET key = 'forged'",
    "a changed key": "UPDATE public_keys SET key = 'forged', by = session_user WHERE login = 'bob'",
    "an own key under another's name": "UPDATE public_keys SET login = 'bob' WHERE login = 'alice'",
    "an own key that another has set": "UPDATE public_keys SET by = 'adam' WHERE login = 'alice'",
    "no key": "DELETE FROM public_keys",
    "a key without an end": "UPDATE public_keys SET key = repeat('x', 20000) WHERE login = 'alice'",
}


@pytest.mark.parametrize("forged", FORGED_KEYS)
def test_nobody_says_which_key_another_has(forged: str, url: str) -> None:
    for login in ("alice", "bob"):
        journal_of(url, login).publish_key(f"{KEY} {login}")
    with suppress(psycopg.errors.InsufficientPrivilege, psycopg.errors.CheckViolation):
        assert psql(url, FORGED_KEYS[forged], user="alice") == [0]
    kept = psql(url, "SELECT login, key, by FROM public_keys ORDER BY login")
    assert kept == [(login, f"{KEY} {login}", login) for login in ("alice", "bob")]


def test_a_key_is_published_by_its_login_or_an_admin_and_is_that_of_nobody_without_a_role(url: str) -> None:
    alice, vera = journal_of(url, "alice"), journal_of(url, "vera")
    assert alice.key_of("vera") is None
    vera.publish_key("old")
    vera.publish_key(KEY)
    assert alice.key_of("vera") == PublishedKey(key=KEY, by="vera")
    address = read_address(url)
    assert apply_users(address, USERS, {"bob": KEY, "vera": KEY}) == ["key of bob set"]
    assert alice.key_of("bob") == PublishedKey(key=KEY, by=OWNER)
    apply_users(address, {name: role for name, role in USERS.items() if name != "vera"})
    assert alice.key_of("vera") is None
    with pytest.raises(JournalError):
        vera.publish_key(KEY)
    bad: object
    for bad in ([], {"carol": KEY}, {"bob": 1}):
        with pytest.raises(UsageError, match="keys"):
            read_keys(bad, USERS)


def test_a_login_has_the_owner_ids_of_all_its_former_journals_and_of_nobody_elses(url: str) -> None:
    """As of two machines, one after the other; new boxes have the first one."""
    alice = journal_of(url, "alice")
    early = plan(alice, "alice", "early")
    for owner in ("u-1", "u-2", "u-1"):
        alice.identify(owner)
    boxes = [early, plan(alice, "u-1", "one"), plan(alice, "u-2", "two")]
    again = journal_of(url, "alice")
    assert (again.identity, again.aliases("u-1")) == ("u-1", ("alice", "u-2"))
    for owner in ("alice", "u-1", "u-2"):
        assert {box.id for box in again.boxes(owner=owner)} == {box.id for box in boxes}
    assert [box.id for box in again.named("u-1", "two")] == [boxes[2].id]
    again.write(boxes[2], Extended(expires_at=None))
    bob = journal_of(url, "bob")
    assert (bob.boxes(owner="bob"), bob.aliases("bob")) == ([], ())
    for taken in ("u-2", "alice"):
        with pytest.raises(UsageError, match="cannot have the owner ID"):
            bob.identify(taken)
    assert bob.boxes(owner="bob") == []


def test_an_ordinary_login_does_not_migrate(url: str) -> None:
    other = replace(read_address(url.replace(f"{OWNER}@", "adam@")), schema="not_theirs")
    with pytest.raises(UsageError, match="was not changed") as caught:
        migrate(other, kind="real")
    assert "owner" in str(caught.value.hint)


def test_the_file_of_users_is_what_counts(url: str) -> None:
    address = read_address(url)
    assert apply_users(address, USERS) == []
    assert apply_users(address, {**USERS, "bob": "viewer"}) == ["grant viewer: bob", "revoke operator: bob"]
    assert changes({}, [("bob", "viewer")]) == [("revoke", "viewer", "bob")]
    apply_users(address, USERS)
    bad: object
    for bad in (None, {"bob": "king"}, {"b b": "viewer"}, []):
        with pytest.raises(UsageError):
            read_users(bad)
    with pytest.raises(UsageError, match="not changed"):
        apply_users(read_address(url.replace(f"{OWNER}@", "alice@")), {"alice": "admin"})


def session(url: str) -> psycopg.Connection[Any]:
    """A connection in the schema of a journal, whose transaction goes on."""
    server, _, schema = url.partition("?schema=")
    made = psycopg.connect(server, prepare_threshold=None)
    made.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(schema)))
    return made


HOLDS = {
    "the number of the journal": "SELECT pg_advisory_lock(hashtextextended(current_schema(), 0))",
    "rows to read": "SELECT * FROM states",
    "what is settled": "SELECT settled()",
    "the tables, to read": "LOCK TABLE events, states, owners IN ACCESS SHARE MODE",
}
REFUSED = {
    "rows": "SELECT * FROM states FOR KEY SHARE",
    "an owner": "SELECT * FROM owners FOR UPDATE",
    "a table": "LOCK TABLE events IN ROW SHARE MODE",
    "a table alone": "LOCK TABLE states IN ACCESS EXCLUSIVE MODE",
}


@pytest.mark.parametrize("held", HOLDS)
def test_what_a_viewer_may_lock_keeps_no_writer_waiting(held: str, url: str) -> None:
    alice, vera = journal_of(url, "alice"), url.replace(f"{OWNER}@", "vera@")
    box = plan(alice, "alice")
    with session(vera) as viewer:
        viewer.execute(HOLDS[held].encode())
        alice.write(box, Extended(expires_at=None))
        assert [each.number for each in alice.history(box.id)] == [1, 2]
        found, _ = journal_of(url, "adam").since(0)
        assert len(found) == 2


@pytest.mark.parametrize("refused", REFUSED)
@pytest.mark.parametrize("login", ["vera", "bob", "adam"])
def test_nobody_locks_what_writers_need(login: str, refused: str, url: str) -> None:
    plan(journal_of(url, "alice"), "alice")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        psql(url, REFUSED[refused], user=login)


def test_who_follows_the_journal_misses_no_event_that_is_numbered_and_not_committed_yet(url: str) -> None:
    """And keeps its writer, and all others, from nothing."""
    alice, adam = journal_of(url, "alice"), journal_of(url, "adam")
    box = plan(alice, "alice")
    _, cursor = adam.since(0)
    slow = (
        "INSERT INTO events (id, at, box, number, type, version, data)"
        " SELECT 'slow', at, 'b-carol', 1, type, version, data FROM events LIMIT 1"
    )
    with session(url) as writer, ThreadPoolExecutor(1) as threads:
        writer.execute(slow)
        alice.write(box, Extended(expires_at=None))
        following = threads.submit(adam.since, cursor)
        with pytest.raises(TimeoutError):
            following.result(timeout=0.3)
        writer.commit()
        found, after = following.result(timeout=10)
    assert [each.box for each in found] == ["b-carol", box.id]
    assert adam.since(after) == ([], after)


ROLES = {"viewer": "vera", "operator": "bob", "admin": "adam"}
PRIVILEGES = {
    "read each table": "has_table_privilege(:login, oid, 'SELECT')",
    "insert": "has_table_privilege(:login, oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')"
    " OR has_any_column_privilege(:login, oid, 'INSERT, UPDATE, REFERENCES')",
    "sequence": "has_sequence_privilege(:login, oid, 'USAGE, SELECT, UPDATE')",
}
DOCUMENT = Path(__file__).parents[2] / "docs" / "team.md"


def documented() -> dict[str, list[str]]:
    """The rows of the table of rights in the documents: what each role may, by what is to be done."""
    text = DOCUMENT.read_text(encoding="utf-8").partition("What PostgreSQL itself grants")[2]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {what: may for what, *may in rows[2:7]}


def test_what_each_role_may_in_the_database_is_what_the_documents_say(url: str) -> None:
    said = documented()
    schema = url.partition("?schema=")[2]
    for column, login in enumerate(ROLES.values()):

        def privileged(what: str, kind: str, login: str = login) -> set[bool]:
            """Of all tables, or sequences."""
            query = (
                f"SELECT {PRIVILEGES[what].replace(':login', repr(login))} FROM pg_class"  # noqa: S608
                f" WHERE relnamespace = '{schema}'::regnamespace AND relkind = '{kind}'"
            )
            return {bool(found) for (found,) in psql(url, query)}

        assert privileged("read each table", "r") == {said["read each table"][column] == "yes"}
        [none] = [may for what, may in said.items() if what.startswith("insert into")]
        assert none[column] == "no"
        assert privileged("insert", "r") == privileged("sequence", "S") == {False}
        [(creates,)] = psql(url, f"SELECT has_schema_privilege('{login}', '{schema}', 'CREATE')")
        assert creates is False
        may_call = {
            name
            for what, may in said.items()
            if may[column] == "yes"
            for name in re.findall(r"`(\w+)`", what)
        }
        query = (
            f"SELECT proname, has_function_privilege('{login}', oid, 'EXECUTE') FROM pg_proc"  # noqa: S608
            f" WHERE pronamespace = '{schema}'::regnamespace"
        )
        assert {name for name, found in psql(url, query) if found} == may_call


def test_nobody_takes_the_name_of_a_login_that_is_still_to_come(
    url: str, pytestconfig: pytest.Config
) -> None:
    """Whoever had it would write of that colleague's boxes."""
    if pytestconfig.getoption("--journal") == POOLER:
        pytest.skip("pgbouncer has its users in a file of its own")
    bob = journal_of(url, "bob")
    with pytest.raises(UsageError, match="cannot have the owner ID 'newcomer'"):
        bob.identify("newcomer")
    adam = journal_of(url, "adam")
    adam.identify("newcomer")  # an admin may: of a file with an id of its user's choice
    psql(url, "CREATE ROLE newcomer LOGIN IN ROLE gc_operator")
    try:
        psql(url, "REVOKE gc_admin FROM adam")
        psql(url, "GRANT gc_operator TO adam")
        box = plan(journal_of(url, "newcomer"), "newcomer")
        with pytest.raises(ForbiddenError):
            journal_of(url, "adam").write(box, Extended(expires_at=None))
    finally:
        psql(url, "GRANT gc_admin TO adam")
        psql(url, "DROP ROLE newcomer")
