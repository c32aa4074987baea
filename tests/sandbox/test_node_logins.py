"""Logins between nodes, on one box of the sandbox; tests/cli/test_run_nodes.py has two that meet."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from gpucloud.ssh.client import Target, run
from gpucloud.ssh.node_logins import Neighbour, NoLoginError, introduce, make_key
from tests.sandbox.box_rental import CLIENTS_GO_AWAY, Rental

pytestmark = CLIENTS_GO_AWAY


@pytest.fixture
def target(tmp_path: Path) -> Generator[Target]:
    rental = Rental(tmp_path)
    yield rental.boot(rental.spec())
    rental.close()


def shown(target: Target, file: str) -> list[str]:
    return run(target, ["cat", f".ssh/{file}"]).out.decode().splitlines()


def test_an_introduction_that_is_repeated_replaces_its_own_lines_and_keeps_the_users(target: Target) -> None:
    """As after a node was replaced: it has another address and other keys."""
    run(
        target,
        ["sh", "-c", "mkdir -p .ssh; echo 'Host mine' >.ssh/config; echo '# mine' >.ssh/authorized_keys"],
    )
    own = make_key(target)
    assert make_key(target) == own, "it is made once"
    for address in ("10.0.0.5", "10.0.0.6"):
        other = Neighbour(node=1, address=address, host_keys=["ssh-ed25519 AAAA"], key=own)
        introduce(target, [other])
    include, *rest = shown(target, "config")
    assert include.startswith("Include /")
    assert rest == ["Host mine"]
    assert shown(target, "authorized_keys") == [
        "# mine",
        f'from="10.0.0.6",restrict,pty {own} gpucloud_nodes',
    ]
    assert shown(target, "gpucloud_nodes.hosts") == ["node1,10.0.0.6 ssh-ed25519 AAAA"]


def test_what_a_node_calls_its_key_and_is_none_reaches_no_other_node(target: Target) -> None:
    hostile = 'command="true" ssh-ed25519 AAAA'
    script = "mkdir -p .ssh; touch .ssh/gpucloud_nodes; printf '%s\\n' \"$1\" >.ssh/gpucloud_nodes.pub"
    run(target, ["sh", "-c", script, "sh", hostile])
    with pytest.raises(NoLoginError, match="no public key"):
        make_key(target)
