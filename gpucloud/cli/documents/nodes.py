"""The documents of commands over ssh, and of logs."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from gpucloud_pricing.documents import Number


class ExecDocument(TypedDict):
    """A command on a box that has ended.

    Attributes:
        box: its name as given.
    """

    box: str
    exit_code: int


class NodeExitDocument(TypedDict):
    """The exit code of a command on a node."""

    node: int
    exit_code: int


class ExecAllDocument(TypedDict):
    """``exec --all-nodes``: a command on a box that has ended on every node."""

    box: str
    nodes: list[NodeExitDocument]


class ExecDetachedDocument(TypedDict):
    """``exec --detach``: a command that was left running.

    Attributes:
        job: the ID of its job.
    """

    box: str
    job: str


class SyncDocument(TypedDict):
    """Files that were copied.

    Attributes:
        up: whether they were copied to the box.
    """

    box: str
    up: bool
    source: str
    destination: str


class TravellingFile(TypedDict):
    """A file or link that would be copied to a box.

    Attributes:
        there: its path on the box: absolute, or from the home folder.
    """

    here: str
    there: str
    size_bytes: int


class SyncListDocument(TypedDict):
    """What ``--dry-run`` lists.

    Attributes:
        size_bytes: of all files.
        left_out_files: how many files stay here, without those of ``.git``.
        secrets: files that would travel and look like secrets.
    """

    files: list[TravellingFile]
    size_bytes: int
    left_out_files: int
    left_out_bytes: int
    secrets: list[str]


class PortDocument(TypedDict):
    """A port on a box, and the local address that leads to it."""

    port: int
    local_port: int
    address: str
    node: int


class ForwardDocument(TypedDict):
    """Ports that are reachable at this machine from now on."""

    box: str
    ports: list[PortDocument]


class HostDocument(TypedDict):
    """A node as a host of ssh."""

    host: str
    box: str
    node: int
    address: str
    port: int
    user: str
    identity_file: str


class SshConfigDocument(TypedDict):
    """The boxes as hosts of ssh.

    Attributes:
        included: whether the user's configuration of ssh reads ``file``.
        text: the contents of the file.
    """

    file: str
    included: bool
    hosts: list[HostDocument]
    text: str


class NodeHostDocument(TypedDict):
    """A node of a box, for programs that work on several.

    Attributes:
        host: its name for ssh.
        address: where this machine reaches it.
        host_keys: the keys that its ssh server may have.
        proxy_command: ssh's ``ProxyCommand``, if it is not reached directly.
        private_ip: where the other nodes reach it; ``null`` if not known yet.
        gpus: how many GPUs it has; ``null`` if not known.
    """

    node: int
    host: str
    address: str
    port: int
    user: str
    identity_file: str
    host_keys: list[str]
    proxy_command: str | None
    private_ip: str | None
    gpus: int | None


class HostsDocument(TypedDict):
    """The nodes of a box.

    Attributes:
        missing: the numbers of those that are gone, or cannot be reached from this machine.
    """

    box: str
    nodes: list[NodeHostDocument]
    missing: list[int]


class BootStepDocument(TypedDict):
    """A step of a first boot."""

    step: str
    exit_code: int
    seconds: Number


class LogDocument(TypedDict):
    """A log of a box.

    Attributes:
        source: which log.
        steps: the steps of the first boot; only of the boot log.
    """

    source: str
    text: str
    steps: NotRequired[list[BootStepDocument]]


class LogLineDocument(TypedDict):
    """A line of a log that is followed.

    Attributes:
        source: which log.
        line: the line.
        attempt: of a run: the number of the attempt, from 1.
    """

    source: str
    line: str
    attempt: NotRequired[int]
