"""Logins from each node of a box to the others: by keys that were made there, and never leave them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpucloud.errors import GpucloudError
from gpucloud.ssh.client import Target, run

_KEY = "gpucloud_nodes"
_PUBLIC = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]{1,200}={0,2}")
_MAKE = f"""
set -e; umask 077; mkdir -p "$HOME/.ssh"; cd "$HOME/.ssh"
[ -e {_KEY} ] || ssh-keygen -q -t ed25519 -N '' -C {_KEY} -f {_KEY}
cat {_KEY}.pub
"""
_MEET = f"""
set -e; umask 077; cd "$HOME/.ssh"
printf '%s' "$1" >{_KEY}.hosts
printf '%s' "$2" | sed "s|~|$HOME|" >{_KEY}.conf
include="Include $HOME/.ssh/{_KEY}.conf"
touch config
grep -qxF "$include" config || {{ {{ echo "$include"; cat config; }} >.config_new; mv .config_new config; }}
exec 9>.authorized_keys.lock
flock 9
touch authorized_keys
{{ grep -v ' {_KEY}$' authorized_keys || true; printf '%s' "$3"; }} >.new_keys
chmod 600 .new_keys
mv .new_keys authorized_keys
"""


class NoLoginError(GpucloudError):
    """A node cannot be set up for logins to or from the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A node as the others reach it: its private address, its host keys, and the public key made there."""

    node: int
    address: str
    host_keys: Sequence[str]
    key: str


def make_key(target: Target) -> str:
    """Makes a node's key for logins to the others, once; returns the public one, without its comment.

    Raises:
        NoLoginError: it cannot be made there.
        ConnectionFailedError: the node could not be reached.
    """
    key = " ".join(_said(target, _MAKE).split()[:2])
    if not _PUBLIC.fullmatch(key):
        raise NoLoginError(f"{target.alias}: what ssh-keygen made there is no public key")
    return key


def introduce(target: Target, neighbours: Sequence[Neighbour]) -> None:
    """Lets a node log in to its neighbours, and them to it. Its own logins do not change. May be repeated.

    There ``ssh node1``, or the private address, is the second node. A key is accepted from the private
    address of its node alone, and opens a shell and nothing else; host keys are pinned.

    Raises:
        NoLoginError: the node cannot be set up so.
        ConnectionFailedError: the node could not be reached.
    """
    hosts = [f"node{each.node},{each.address} {key}" for each in neighbours for key in each.host_keys]
    names = [name for each in neighbours for name in (f"node{each.node}", each.address)]
    settings = [
        f"Host {' '.join(names)}",
        f"  User {target.user}",
        f"  IdentityFile ~/.ssh/{_KEY}",
        "  IdentitiesOnly yes",
        f"  UserKnownHostsFile ~/.ssh/{_KEY}.hosts",
        "  StrictHostKeyChecking yes",
        *(f"Host node{each.node}\n  HostName {each.address}" for each in neighbours),
    ]
    keys = [f'from="{each.address}",restrict,pty {each.key} {_KEY}' for each in neighbours]
    _said(target, _MEET, *("".join(f"{line}\n" for line in lines) for lines in (hosts, settings, keys)))


def _said(target: Target, script: str, *arguments: str) -> str:
    done = run(target, ["bash", "-c", script, "bash", *arguments])
    if done.code:
        raise NoLoginError(f"{target.alias}: {done.err.decode(errors='replace').strip()}")
    return done.out.decode(errors="replace")
