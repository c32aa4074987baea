"""Renders a :class:`BootPlan` as cloud-config, the YAML that cloud-init reads on a first boot."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files

from gpucloud_templates.metadata import Metadata, SelfDelete
from gpucloud_templates.software import NOTHING, Software, wheels_of

MAX_BYTES = 16 * 1024
"""The smallest limit of the clouds: EC2 takes 16 KB before base64 (EC2 User Guide, "user data")."""

LIBRARY = "/usr/local/lib/gpucloud"
STATE = "/var/lib/gpucloud"
READY_MARKER = f"{STATE}/ready"
"""Written last, as JSON with the seconds that each step took."""
FAILED_MARKER = f"{STATE}/failed"
"""Written instead when a step failed, as JSON with the step's name and exit code."""
STEP_MARKER = f"{STATE}/step"
"""Which step runs, as JSON with its beginning."""
BOOT_LOG = "/var/log/gpucloud/boot.log"
SELF_DELETE = f"{LIBRARY}/self-delete"
CHECKPOINT = "/etc/gpucloud/checkpoint"
GUARD_STATUS = "/run/gpucloud/guard.json"
"""What the guard says: JSON, replaced at every look. There once it watches."""
GUARD_METRICS = "/run/gpucloud/metrics.prom"
"""What the guard knows, as text for Prometheus."""
GUARD_LOG = "/var/log/gpucloud/guard.log"
GUARD_LAST_WORDS = "gpucloud-guard: powering off"
"""What the console shows before the guard ends a box."""
GUARD_CONTROL = f"{LIBRARY}/guardctl"
SCRATCH = "/var/lib/cloud/scripts/per-boot/gpucloud-scratch"
"""Makes ``/scratch``. cloud-init runs it at every boot, at the first one before the steps of the boot."""

_FOR_READERS = re.compile(
    r'^ *"""[\s\S]*?"""\n'  # docstrings; no constant of the guard ends on a line that begins with quotes
    r"|^ *#(?!!).*\n|^\n"  # comments and empty lines
    r"|^TYPE_CHECKING.*\nif TYPE_CHECKING:\n(?:    .*\n)*"
    r"|(?<=\S) +# [^'\"\n]*$"  # comments behind code; with a quotation mark it might be text
    r"|(?<=\)) -> [^:\n]*(?=:$)"  # the types of results, arguments and variables; None is what a lambda gives
    r"|(?<=\w): (?!None)([A-Z]\w*|bool|dict|float|int|list|set|str|subprocess\.\w+)"
    r"(\[[\w\[\], .]*\])?( \| None)?(?=[,)]| = )",
    re.MULTILINE,
)
_INDENT = re.compile(r"^(?:    )+", re.MULTILINE)
_NAME = re.compile(r"[a-z0-9-]{1,63}")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_PUBLIC_KEY = re.compile(r"(ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/]{40,}={0,3}( [A-Za-z0-9._@-]+)?")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN OPENSSH PRIVATE KEY-----\n[A-Za-z0-9+/=\n]+-----END OPENSSH PRIVATE KEY-----\n?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BootPlan:
    """What the first boot makes of a box.

    ``box`` is the id of the box: what a disk brings of another box is removed. ``user`` is made where the
    image has none of that name. ``public_key`` may log in, and so may
    ``extra_keys``; ``host_private_key`` and ``host_public_key`` are the one-time ssh host key (OpenSSH
    formats, ed25519). ``deadline`` is when the box powers itself off, ``None`` for never; ``ttl_s`` is how
    long that is from now, for a box whose clock is wrong. ``software`` is installed. ``scratch`` makes
    ``/scratch`` of the machine's local disks.

    The rest is for the guard: ``idle_s`` is how long the box may be idle; ``idle_below`` is the GPU use, in
    percent, under which jobs are idle too; ``checkpoint`` is a shell command, run as the user before the box
    is ended; ``gpus`` is how many should answer; ``spot`` whether the cloud may take the box back;
    ``metadata`` how to ask it; ``self_delete`` how the box, with an identity of its own, deletes itself where
    powering off does not end its bill.
    """

    box: str
    name: str
    user: str
    public_key: str
    host_private_key: str
    host_public_key: str
    deadline: datetime | None
    ttl_s: int
    extra_keys: tuple[str, ...] = ()
    software: Software = NOTHING
    scratch: bool = False
    idle_s: int | None = None
    idle_below: int | None = None
    checkpoint: str | None = None
    gpus: int | None = None
    spot: bool = False
    metadata: Metadata | None = None
    self_delete: SelfDelete | None = None


class TooLargeError(ValueError):
    """The rendered text is longer than a cloud accepts, usually because of the checkpoint command."""


def render(plan: BootPlan) -> str:
    """A plan as cloud-config text.

    Raises:
        ValueError: a name, user or key is malformed, or the deadline has no time zone.
        TooLargeError: the text is longer than :data:`MAX_BYTES`.
    """
    _check(plan)
    document = {
        "hostname": plan.name,
        "manage_etc_hosts": "localhost",  # a name that nobody resolves makes every sudo wait
        "package_update": False,
        "package_upgrade": False,
        "disable_root": True,
        "ssh_pwauth": False,
        "ssh_deletekeys": True,
        "ssh_genkeytypes": ["ed25519"],
        "ssh_keys": {
            "ed25519_private": plan.host_private_key,
            "ed25519_public": plan.host_public_key,
        },
        "users": [
            {
                "name": plan.user,
                "shell": "/bin/bash",
                "sudo": "ALL=(ALL) NOPASSWD:ALL",
                "lock_passwd": True,
                "ssh_authorized_keys": [plan.public_key, *plan.extra_keys],
            }
        ],
        "bootcmd": [_arm(plan)],
        "write_files": _files(plan),
        "runcmd": [[f"{LIBRARY}/boot", plan.user, *plan.software.steps]],
    }
    # JSON is YAML too, and importing a YAML library alone would be 4 % of a launch's CPU.
    text = f"#cloud-config\n{json.dumps(document)}\n"
    size = len(packed(text))
    if size > MAX_BYTES:
        raise TooLargeError(
            f"the boot configuration has {size:,} bytes, {MAX_BYTES:,} are allowed:"
            " shorten `checkpoint`: sync a script, and let it run that"
        )
    return text


def packed(text: str) -> bytes:
    """The gzipped text, which cloud-init unpacks on every cloud. The same text gives the same bytes."""
    return gzip.compress(text.encode(), mtime=0)


def _check(plan: BootPlan) -> None:
    for value, pattern, what in (
        (plan.name, _NAME, "name"),
        (plan.user, _USER, "user name"),
        *((key, _PUBLIC_KEY, "public key") for key in (plan.public_key, *plan.extra_keys)),
        (plan.host_public_key, _PUBLIC_KEY, "public host key"),
    ):
        if not pattern.fullmatch(value):
            raise ValueError(f"{value[:80]!r} is no {what}")
    if not _PRIVATE_KEY.fullmatch(plan.host_private_key):
        raise ValueError("the host key is not in OpenSSH's format")
    if plan.deadline is not None and plan.deadline.tzinfo is None:
        raise ValueError(f"the deadline {plan.deadline} has no time zone")


def _files(plan: BootPlan) -> list[dict[str, str]]:
    """The programs of the first boot, and the user's checkpoint command in base64."""
    steps = [step.partition(":")[0] for step in plan.software.steps]
    programs = {f"{LIBRARY}/{name}": name for name in ("boot", "apt", "repository", *steps)}
    if plan.scratch:
        programs[SCRATCH] = "scratch"
    documents = [
        {"path": path, "permissions": "0755", "content": _text("steps", f"{name}.sh")}
        for path, name in programs.items()
    ]
    if plan.software.wheels:
        wheels = wheels_of(plan.software.wheels, plan.software.system or "")
        documents.append({"path": f"{LIBRARY}/wheels.txt", "content": wheels})
    if plan.self_delete is not None:
        documents.append({"path": SELF_DELETE, "content": _text("self_delete.py")})
        documents.append({"path": f"{SELF_DELETE}.json", "content": json.dumps(asdict(plan.self_delete))})
    if plan.checkpoint is not None:
        text = b64encode(plan.checkpoint.encode()).decode()
        documents.append({"path": CHECKPOINT, "encoding": "b64", "content": text})
    return documents


def _arm(plan: BootPlan) -> list[str]:
    """The first command of the first boot stage, on every boot: puts the guard in place and starts it."""
    settings = {
        "id": plan.box,
        "box": plan.name,
        "user": plan.user,
        "deadline": plan.deadline and int(plan.deadline.timestamp()),
        "ttl_s": max(plan.ttl_s, 0) if plan.deadline else None,
        "idle_s": plan.idle_s,
        "idle_below": plan.idle_below,
        "checkpoint": plan.checkpoint is not None,
        "gpus": plan.gpus,
        "spot": plan.spot,
        "metadata": plan.metadata and asdict(plan.metadata),
    }
    install = _text("arm.py")
    return ["/usr/bin/python3", "-sS", "-c", install, json.dumps(settings), *_guard()]


@cache
def _guard() -> tuple[str, ...]:
    """Names and texts of the guard's modules in turn."""
    folder = files("gpucloud_templates").joinpath("guard")
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".py"))
    return tuple(part for name in names for part in (name, _text("guard", name)))


@cache
def _text(*path: str) -> str:
    """A program as it travels: without what only readers need, and narrowly indented."""
    text = files("gpucloud_templates").joinpath(*path).read_text(encoding="utf-8")
    return _INDENT.sub(lambda found: " " * (len(found[0]) // 4), _FOR_READERS.sub("", text))
