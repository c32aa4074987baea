"""A colleague's key on a box, with the real ssh."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpucloud_sandbox.client import Endpoint
from tests.shell import Result, Shell, newcomer


@pytest.fixture(scope="module")
def work(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell whose user has a box ``work``."""
    with newcomer(endpoint, tmp_path_factory.mktemp("user")) as shell:
        shell.launch("--gpu", "T4", "--name", "work")
        yield shell


@pytest.fixture(scope="module")
def bob(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The private key of a colleague."""
    key = tmp_path_factory.mktemp("bob") / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bob@lab", "-f", key], check=True)
    return key


def enter(shell: Shell, key: Path, host_key: str) -> Result:
    """Bob's own ssh, which knows the host key that he was told."""
    [node] = shell("hosts", "work", "--format", "json").json["nodes"]
    known = key.with_name("known_hosts")
    known.write_text(f"{node['address']} {host_key}\n")
    options = {"ProxyCommand": node["proxy_command"], "UserKnownHostsFile": str(known), "BatchMode": "yes"}
    options |= {"StrictHostKeyChecking": "yes", "IdentitiesOnly": "yes", "IdentityFile": str(key)}
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return shell.run(
        str(shutil.which("ssh")),
        "-F",
        "/dev/null",
        *words,
        f"{node['user']}@{node['address']}",
        "id -un; echo in",
    )


def test_a_colleague_enters_once_the_box_was_shared_and_no_longer_once_that_was_taken_back(
    work: Shell, bob: Path
) -> None:
    share = ("share", "work", "--key", f"{bob}.pub", "--json")
    [before] = work("hosts", "work", "--format", "json").json["nodes"]
    [pinned] = before["host_keys"]
    assert enter(work, bob, pinned).code == 255
    first = work(*share, "--allow-from", "192.0.2.9/32")
    assert first.code == 0, first.err
    assert (first.json["changed"], first.json["command"]) == (True, None)
    assert [node["host_key"] for node in first.json["nodes"]] == [pinned]
    assert "192.0.2.9/32" in first.json["allow_from"]
    assert len(first.json["allow_from"]) == 2
    assert enter(work, bob, pinned).out.endswith("in\n")
    keys = ("exec", "work", "--", "cat", ".ssh/authorized_keys")
    once = work(*keys).out
    assert once == f"{bob.with_suffix('.pub').read_text()}"
    with TemporaryDirectory(prefix="run-") as runtime:  # without the connection that is open
        elsewhere = replace(work, runtime=Path(runtime))
        work.sandbox.address("198.51.100.99")
        assert elsewhere("exec", "work", "--", "true").code == 0
    again = work(*share)
    assert set(again.json["allow_from"]) == {"198.51.100.99/32", "192.0.2.9/32"}, "a guest's address stays"
    assert (again.code, again.json["changed"], work(*keys).out) == (0, False, once)
    gone = work(*share, "--remove", "--allow-from", "192.0.2.9/32")
    assert (gone.code, gone.json["changed"], work(*keys).out) == (0, True, ""), gone.err
    assert len(gone.json["allow_from"]) == 1
    assert enter(work, bob, pinned).code == 255
    assert work("exec", "work", "--", "true").code == 0


def test_what_the_colleague_needs_is_shown(work: Shell, bob: Path) -> None:
    said = work("share", "work", "--key", f"{bob}.pub")
    command, host = said.out.splitlines()
    assert command.startswith("ssh gpucloud@")
    assert host.startswith(f"{command.partition('@')[2]} ssh-ed25519 ")
    assert "work lets SHA256:" in said.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not one public key"),
        ("{key}\n{key}", "not one public key"),
        ('command="id" {key}', "not one public key"),
        ("{key}\tx", "not one public key"),
        ("ssh-dss AAAAB3NzaC1kc3M=", "not one public key"),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA", "cannot read"),
        ("{private}", "private key"),
    ],
)
def test_only_one_public_key_is_taken(work: Shell, bob: Path, tmp_path: Path, text: str, words: str) -> None:
    key = bob.with_suffix(".pub").read_text().strip()
    file = tmp_path / "key"
    file.write_text(text.format(key=key, private=bob.read_text()))
    refused = work("share", "work", "--key", str(file), "--json")
    assert (refused.code, words in refused.error["message"]) == (2, True), refused.err


def test_without_a_teams_journal_a_login_has_no_key(work: Shell) -> None:
    for line in (("share", "work", "--user", "bob"), ("journal", "users", "key", "bob.pub")):
        refused = work(*line, "--json")
        assert refused.code == 2
    refused = work("share", "work", "--user", "bob", "--json")
    assert "no team's journal" in refused.error["message"]


def test_the_boxs_own_key_and_wide_networks_are_refused(work: Shell, bob: Path) -> None:
    [node] = work("hosts", "work", "--format", "json").json["nodes"]
    own = work("share", "work", "--key", f"{node['identity_file']}.pub", "--remove", "--json")
    assert (own.code, "itself reaches" in own.error["message"]) == (2, True), own.err
    wide = work("share", "work", "--key", f"{bob}.pub", "--allow-from", "0.0.0.0/0", "--json")
    assert (wide.code, "too many addresses" in wide.error["message"]) == (2, True), wide.err
