"""The nodes of a box in the formats of programs that use existing machines.

What works on the nodes (mpirun, torchrun) has their private addresses; what works from here reaches them by
ssh. Host keys are pinned where a format has a place for that: ``ansible`` and ``ssh-config``.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from gpucloud.clusters.members import Member, Members
from gpucloud.clusters.ranks import MASTER_PORT
from gpucloud.errors import UsageError
from gpucloud.ssh.hosts import block, client_settings

_OF_ANSIBLE = frozenset({"HostName", "Port", "User", "IdentityFile"})
"""Settings of ssh that Ansible has variables of its own for."""


def hostfile(members: Members) -> str:
    """A hostfile of mpirun and DeepSpeed: a private address and its GPUs as slots on each line.

    Raises:
        UsageError: a private address is not known.

    Sources: https://docs.open-mpi.org/en/main/launching-apps/scheduling.html#the-hostfile-option (without
    ``slots``, Open MPI takes the cores for slots), https://www.deepspeed.ai/getting-started/ (multi-node).
    """
    return "".join(
        f"{_private_ip(members, each)}{'' if each.gpus is None else f' slots={each.gpus}'}\n"
        for each in members.nodes
    )


def torchrun(members: Members) -> str:
    """The beginning of torchrun's command line on each node, in their order; ``gpu`` is all that it has.

    Raises:
        UsageError: the private address of the first node is not known.

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    first = _private_ip(members, members.nodes[0])
    return "".join(
        f"torchrun --nnodes={len(members.nodes)} --node-rank={rank} --nproc-per-node={each.gpus or 'gpu'}"
        f" --master-addr={first} --master-port={MASTER_PORT}\n"
        for rank, each in enumerate(members.nodes)
    )


def ansible(members: Members) -> str:
    """An inventory of Ansible, as YAML: the nodes are the group ``gpucloud``.

    Sources: https://docs.ansible.com/ansible/latest/inventory_guide/intro_inventory.html
    (behavioural parameters); the plug-in ``ssh`` splits ``ansible_ssh_common_args`` as a shell does.
    """
    hosts = {each.name: _ansible_variables(each) for each in members.nodes}
    return _yaml({"gpucloud": {"hosts": hosts}})


def _ansible_variables(member: Member) -> Mapping[str, Any]:
    target = member.host.target
    settings = {key: text for key, text in client_settings(target).items() if key not in _OF_ANSIBLE}
    options = [word for key, text in settings.items() for word in ("-o", f"{key}={text}")]
    return {
        "ansible_host": target.host,
        "ansible_port": target.port,
        "ansible_user": target.user,
        "ansible_ssh_private_key_file": str(target.key_file),
        "ansible_ssh_common_args": shlex.join(options),
        "gpucloud_box": member.host.box,
        "gpucloud_node": member.node,
        "gpucloud_private_ip": member.private_ip,
        "gpucloud_gpus": member.gpus,
    }


def ssh_config(members: Members) -> str:
    """The nodes in the format of ssh_config(5)."""
    return "\n".join(block(each.host) for each in members.nodes)


def sky(members: Members) -> str:
    """A pool of SkyPilot, for ``~/.sky/ssh_node_pools.yaml`` and ``sky ssh up``.

    It has no port, no proxy and no host key. UNVERIFIED: SkyPilot does not check the keys of such hosts.

    Source: https://docs.skypilot.co/en/latest/reservations/existing-machines.html;
    ``sky/ssh_node_pools/utils.py`` takes ``ip``, ``user``, ``identity_file``.
    """
    hosts = [
        {
            "ip": each.host.target.host,
            "user": each.host.target.user,
            "identity_file": str(each.host.target.key_file),
        }
        for each in members.nodes
    ]
    return _yaml({members.box: {"hosts": hosts}})


def dstack(members: Members) -> str:
    """An SSH fleet of dstack, for ``dstack apply -f``. It has no place for host keys.

    Source: https://dstack.ai/docs/reference/dstack.yml/fleet/ (``internal_ip`` since 0.18.29).
    """
    first = members.nodes[0].host.target
    hosts: list[dict[str, Any]] = []
    for each in members.nodes:
        internal = {} if each.private_ip is None else {"internal_ip": each.private_ip}
        hosts.append({"hostname": each.host.target.host, "port": each.host.target.port, **internal})
    return _yaml(
        {
            "type": "fleet",
            "name": members.box,
            **({"placement": "cluster"} if len(hosts) > 1 else {}),
            "ssh_config": {"user": first.user, "identity_file": str(first.key_file), "hosts": hosts},
        }
    )


FORMATS: Mapping[str, Callable[[Members], str]] = {
    "ansible": ansible,
    "hostfile": hostfile,
    "torchrun": torchrun,
    "ssh-config": ssh_config,
    "sky": sky,
    "dstack": dstack,
}
"""The formats by their names on the command line."""


def _private_ip(members: Members, member: Member) -> str:
    if member.private_ip is None:
        raise UsageError(
            f"the private address of node {member.node} of {members.box!r} is not known yet",
            hint=f"ask its cloud: gpucloud show {members.box} --live",
        )
    return member.private_ip


def _yaml(document: Mapping[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(document, sort_keys=False, width=10_000)
