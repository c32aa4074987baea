"""Renders a :class:`BootPlan` as cloud-config, the YAML that cloud-init reads on a first boot."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

MAX_BYTES = 16 * 1024
"""The smallest limit of the clouds: EC2 takes 16 KB before base64 (EC2 User Guide, "user data")."""

LIBRARY = "/usr/local/lib/gpucloud"
STATE = "/var/lib/gpucloud"
READY_MARKER = f"{STATE}/ready"
"""Written last, as JSON with the seconds that each step took."""
FAILED_MARKER = f"{STATE}/failed"
"""Written instead when a step failed, as JSON with the step's name and exit code."""
BOOT_LOG = "/var/log/gpucloud/boot.log"

_NAME = re.compile(r"[a-z0-9-]{1,63}")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_PUBLIC_KEY = re.compile(r"(ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/]{40,}={0,3}( [A-Za-z0-9._@-]+)?")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN OPENSSH PRIVATE KEY-----\n[A-Za-z0-9+/=\n]+-----END OPENSSH PRIVATE KEY-----\n?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BootPlan:
    """What a box is to become on its first boot.

    ``user`` is made where the image has none of that name. ``public_key`` may log in, and so may
    ``extra_keys``; ``host_private_key`` and ``host_public_key`` are the one-time ssh host key (OpenSSH
    formats, ed25519). ``deadline`` is when the box powers itself off, ``None`` for never; ``ttl_s`` is how
    long that is from now, for a box whose clock is wrong. ``setup`` are shell commands, run as the user, in
    order. Without ``driver_ready`` the NVIDIA driver is installed where it is missing.
    """

    name: str
    user: str
    public_key: str
    host_private_key: str
    host_public_key: str
    deadline: datetime | None
    ttl_s: int
    setup: tuple[str, ...] = ()
    extra_keys: tuple[str, ...] = ()
    driver_ready: bool = True


class TooLargeError(ValueError):
    """The rendered text is more than a cloud takes; the set-up commands are what makes it long."""


def render(plan: BootPlan) -> str:
    """A plan as cloud-config text.

    Raises:
        ValueError: a name, user or key is malformed, or the deadline has no time zone.
        TooLargeError: the text is longer than :data:`MAX_BYTES`.
    """
    _check(plan)
    document = {
        "hostname": plan.name,
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
        "bootcmd": [_arm(plan.deadline, plan.ttl_s)] if plan.deadline else [],
        "write_files": _files(plan),
        "runcmd": [[f"{LIBRARY}/boot", plan.user]],
    }
    text = "#cloud-config\n" + yaml.safe_dump(
        {key: value for key, value in document.items() if value != []}, sort_keys=False, width=4096
    )
    if len(text) > MAX_BYTES:
        raise TooLargeError(
            f"the boot configuration has {len(text):,} bytes, {MAX_BYTES:,} are allowed:"
            " shorten `setup`, or sync a script and run it"
        )
    return text


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


def _files(plan: BootPlan) -> list[Mapping[str, Any]]:
    """The boot script, and each set-up command as a file of its own, in base64."""
    boot = {"path": f"{LIBRARY}/boot", "permissions": "0755", "content": _script("boot.sh")}
    if not plan.driver_ready:
        install = {"path": f"{LIBRARY}/driver", "permissions": "0755", "content": _script("driver.sh")}
        return [boot, install, *_setup_files(plan.setup)]
    return [boot, *_setup_files(plan.setup)]


def _setup_files(commands: tuple[str, ...]) -> list[Mapping[str, Any]]:
    return [
        {
            "path": f"{STATE}/setup/{number:03}",
            "encoding": "b64",
            "content": b64encode(command.encode()).decode(),
        }
        for number, command in enumerate(commands)
    ]


def _arm(deadline: datetime, ttl_s: int) -> list[str]:
    """The first command of the first boot stage: a fixed script, and the units as its arguments."""
    moment = deadline.astimezone(UTC)
    timer = _unit(
        Unit={"Description": "Ends this box at its deadline", "DefaultDependencies": "no"},
        Timer={
            "OnCalendar": moment.strftime("%Y-%m-%d %H:%M:%S UTC"),
            "Persistent": "true",
            # By the monotonic clock, should the calendar's be wrong; a minute later, so that it comes second.
            "OnActiveSec": str(max(ttl_s, 0) + 60),
            "AccuracySec": "1s",
            "Unit": "gpucloud-end.service",
        },
        Install={"WantedBy": "timers.target"},
    )
    service = _unit(
        Unit={
            "Description": "Powers this box off, which ends it",
            "DefaultDependencies": "no",
            "FailureAction": "poweroff-force",
        },
        Service={"Type": "oneshot", "ExecStart": "/usr/bin/systemctl poweroff"},
    )
    return ["/bin/sh", "-c", _script("arm.sh"), "arm", timer, service, str(int(moment.timestamp()))]


def _unit(**sections: Mapping[str, str]) -> str:
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key}={value}\n" for key, value in settings.items())
        for name, settings in sections.items()
    )


@cache
def _script(name: str) -> str:
    return files("gpucloud_templates").joinpath(name).read_text(encoding="utf-8")
