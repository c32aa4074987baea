"""The files of the user's system timer, and what would keep it from working. Pure functions.

All timers run one script, which sets what this shell has set: settings, and no secrets. Secrets are read from
a file of the user.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence

NAME = "gpucloud-tend"
LABEL = "gpucloud.tend"
EVERY_S = 120
MOST_LOG_BYTES = 1_000_000
_SECRET = re.compile(r"KEY|SECRET|TOKEN|PASSWORD")
_PASSWORD = re.compile(r"://[^/@]*:[^/@]+@|[?&][^=]*(password|secret|token)=", re.IGNORECASE)
_USUAL = re.compile(r"PATH|HOME|LANG|SSH_AUTH_SOCK|XDG_(CONFIG|STATE)_HOME|([a-z]+|[A-Z]+)_(proxy|PROXY)")
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


def is_secret(name: str, value: str) -> bool:
    """Whether a variable of gpucloud or of a cloud is a secret, by its name; an address by its password."""
    return bool((_PASSWORD if "://" in value else _SECRET).search(value if "://" in value else name))


def taken_along(environment: Mapping[str, str], clouds: Iterable[str]) -> dict[str, str]:
    """The variables of a shell that a look after runs reads, by their names.

    Args:
        environment: the variables of the shell.
        clouds: the names of the clouds, with which the names of their variables begin.
    """
    prefixes = ("GPUCLOUD_", *(f"{cloud.upper()}_" for cloud in clouds))
    return {
        name: value
        for name, value in environment.items()
        if value and (name.startswith(prefixes) or name in _BUNDLES or _USUAL.fullmatch(name))
    }


def lacking(
    environment: Mapping[str, str], clouds: Iterable[str], needed: Iterable[str], kept: Collection[str]
) -> list[str]:
    """The names of what only this shell has: secrets of clouds, and values that living runs need.

    Args:
        environment: the variables of the shell.
        clouds: the names of the clouds.
        needed: the names of the variables of living runs (``--env NAME``).
        kept: the names of those that the file of secrets has.
    """
    own = taken_along(environment, clouds)
    secret = {name for name, value in own.items() if is_secret(name, value)}
    return sorted((secret | set(needed)) - set(kept))


def names_in(text: str) -> set[str]:
    """The names of the variables that a file of secrets sets, one a line."""
    found = re.findall(r"(?m)^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=", text)
    return set(found)


def script(command: Sequence[str], environment: Mapping[str, str], *, secrets: str, log: str) -> str:
    """The script that each timer runs: one look, with what it says at the end of a log."""
    settings = [
        f"export {name}={shlex.quote(value)}"
        for name, value in sorted(environment.items())
        if not is_secret(name, value)
    ]
    file, kept = shlex.quote(secrets), shlex.quote(log)
    lines = [
        "#!/bin/sh",
        "# Written by gpucloud tend --install; gpucloud tend --uninstall removes it.",
        *settings,
        f"if [ -r {file} ]; then set -a; . {file}; set +a; fi",
        f'if [ -e {kept} ] && [ "$(wc -c <{kept})" -gt {MOST_LOG_BYTES} ]; then : >{kept}; fi',
        f"exec {shlex.join(command)} >>{kept} 2>&1",
    ]
    return "\n".join([*lines, ""])


def systemd_files(path: str) -> dict[str, str]:
    """The units of systemd that run a script, by their names."""
    quoted = path.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    service = f"""[Unit]
Description=Looks after gpucloud's runs
Wants=network-online.target

[Service]
Type=oneshot
ExecStart="{quoted}"
TimeoutStartSec=1h
"""
    timer = f"""[Unit]
Description=Looks after gpucloud's runs

[Timer]
OnActiveSec=1
OnBootSec=60
OnUnitInactiveSec={EVERY_S}

[Install]
WantedBy=timers.target
"""
    return {f"{NAME}.service": service, f"{NAME}.timer": timer}


def launchd_agent(path: str) -> dict[str, object]:
    """The agent of launchd that runs a script, as it is written into its property list."""
    return {"Label": LABEL, "ProgramArguments": [path], "StartInterval": EVERY_S, "RunAtLoad": True}


def with_line(crontab: str, path: str) -> str:
    """A crontab with one line that runs a script, in place of an earlier one."""
    line = f"*/{EVERY_S // 60} * * * * {shlex.quote(path).replace('%', chr(92) + '%')} # {NAME}\n"
    return without_line(crontab) + line


def without_line(crontab: str) -> str:
    """A crontab without the line of :func:`with_line`."""
    kept = [line for line in crontab.splitlines() if not line.endswith(f"# {NAME}")]
    return "".join(f"{line}\n" for line in kept)
