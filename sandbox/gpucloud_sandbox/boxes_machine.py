"""One box: boots from its user-data, serves ssh and metadata, and powers off."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import asyncssh

from gpucloud_sandbox import boxes_programs, boxes_shims, boxes_ssh
from gpucloud_sandbox.boxes_disk import Disk, as_local
from gpucloud_sandbox.boxes_local_disks import LocalDisks
from gpucloud_sandbox.boxes_metadata import Answerer, Facts, MetadataService, silent
from gpucloud_sandbox.boxes_mig import Mig
from gpucloud_sandbox.boxes_nvidia import INSTALLED, Gpus
from gpucloud_sandbox.boxes_services import Services, end_processes, ended_if_cancelled
from gpucloud_sandbox.boxes_user_data import CloudConfig, User, parse
from gpucloud_sandbox.boxes_volumes import Mounts

NOTICE = "This is a box of the gpucloud sandbox: its commands run on this machine, as you."

CLOCK_MOVED_S = 1.0
PYTHON = "/usr/bin/python3"
BUNDLED = frozenset({"docker.io", "nvidia-container-toolkit", "nvidia runtime"})
"""What images with NVIDIA's driver have besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxSpec:
    """The instance that was bought. ``user_data`` is plain cloud-config; ``gpu_memory_mib`` is of each GPU.

    ``driver`` is the version of NVIDIA's that the image brings; without one ``nvidia-smi`` is there once an
    install step has run. ``metadata`` is what the box's metadata service says: its cloud's. ``users`` are
    those that the cloud makes, beside those of the user-data; ``default_user`` is the image's own, with the
    instance's key pair. ``local_disks`` are the models of the type's local disks. ``root_volume`` is the root
    disk, which has the files of another box if it was made of that box's image. ``fabric`` is the RDMA
    network that its interfaces join it to others by.
    """

    id: str
    hostname: str
    public_ip: str
    private_ip: str
    user_data: str
    gpu_model: str
    gpu_count: int
    gpu_memory_mib: int
    driver: str
    tags: Mapping[str, str]
    spot: bool
    users: tuple[User, ...] = ()
    default_user: User | None = None
    sick: str | None = None
    fabric: str | None = None
    metadata: Answerer = silent
    local_disks: tuple[str, ...] = ()
    root_volume: str = ""
    environ: Mapping[str, str] = field(default_factory=dict[str, str])


class Box:
    """A box's life in an event loop. Its state is in its folder, and survives the process.

    Args:
        folder: the box's own.
        spec: the instance that was bought.
        now: returns the sandbox's time in UTC.
        neighbours: the boxes that may be nodes of the same box.
        powered_off: called once when the box powers itself off.
        restarting: called when it reboots itself; it is then to be stopped and booted again.
    """

    def __init__(
        self,
        folder: Path,
        spec: BoxSpec,
        *,
        now: Callable[[], datetime],
        neighbours: Callable[[], Iterable[Box]],
        powered_off: Callable[[], None],
        restarting: Callable[[], None],
    ) -> None:
        self.spec = spec
        self.now = now
        self.port: int | None = None
        self.interruption: datetime | None = None
        self.running = True
        self.booted = False
        self.sessions: list[str] = []
        self.connections: set[asyncssh.SSHServerConnection] = set()
        self.timers: dict[str, datetime] = {}
        self._disk = Disk(folder)
        self._bash = shutil.which("bash") or "/bin/bash"
        self._token = secrets.token_hex(16)
        self._metadata_token = secrets.token_urlsafe(32)
        self._metadata = MetadataService(spec.metadata, self._facts)
        self._metadata_port = 0
        self._control: asyncio.Server | None = None
        self._control_port = 0
        self._ssh: asyncssh.SSHAcceptor | None = None
        self._users: tuple[User, ...] = ()
        self._keys: dict[str, list[asyncssh.SSHKey]] = {}
        self._neighbours = neighbours
        self._powered_off = powered_off
        self._restarting = restarting
        self._boots = 0
        self._mig = Mig(folder / "mig.json", spec.gpu_model, spec.gpu_memory_mib)
        self.local_disks = LocalDisks(spec.local_disks, folder / "formatted")
        self.services = Services(self._spawn, self.say)
        self._booted_at = now()
        self._told_ahead_s = 0.0

    # --- life

    async def boot(self) -> None:
        """Runs the stages of cloud-init; what is per instance runs once."""
        self._boots += 1
        this_boot = self._boots
        self.running, self.booted = True, False
        self._disk.begin_boot()
        self.local_disks.begin_boot()
        self._booted_at = self.now()
        self._tell_time()
        self.say(f"[{self.now():%Y-%m-%dT%H:%M:%SZ}] {self.spec.id} boots. {NOTICE}\n")
        try:
            config = parse(self.spec.user_data)
        except ValueError as error:
            self.say(f"cloud-init: {error}\n")
            config = CloudConfig()
        default = self.spec.default_user if config.with_default_user else None
        self._users = (*self.spec.users, *filter(None, (default,)), *config.users)
        self._keys.clear()
        self._control = await asyncio.start_server(self._serve_program, "127.0.0.1", 0)
        self._control_port = self._control.sockets[0].getsockname()[1]
        self._metadata_port = await self._metadata.start()
        self._install_programs()
        for command in config.bootcmd:
            await self._run_as_root(command)
        first = not self._disk.done("init")
        if first:
            self._init(config)
        for user in self._users:
            keys = [asyncssh.import_public_key(key) for key in user.keys]
            self._keys.setdefault(user.name, []).extend(keys)
            self._disk.make_home(user.name)
        if self.running:
            self._ssh = await boxes_ssh.listen(self, self._disk.host_key())
            self.port = self._ssh.get_port()
            self.say(f"sshd: {self._disk.host_key().get_fingerprint()} (ED25519)\n")
        boxes_programs.start_enabled(self)
        for script in self._disk.per_boot():
            await self._run_as_root([str(script)])
        if not self._disk.done("final"):
            for command in config.runcmd:
                await self._run_as_root(command)
                if self._boots != this_boot or not self.running:
                    return
            self._disk.mark("final")
        self.booted = True
        self.say(f"cloud-init: finished at {self.now():%Y-%m-%dT%H:%M:%SZ}\n")

    async def stop(self) -> None:
        """Closes every connection and ends every process of the box."""
        self.running = False
        self.port = None
        self.timers.clear()
        self.services.close()
        if self._ssh is not None:
            self._ssh.close()
            self._ssh = None
        for connection in list(self.connections):
            connection.abort()
        if self._control is not None:
            self._control.close()
        self._metadata.close()
        await asyncio.to_thread(end_processes, f"GPUCLOUD_BOX_ROOT={self._disk.root}")

    def tick(self) -> None:
        """Powers off when a timer has elapsed; tells the services when the clock was moved."""
        if self.running and abs(self._ahead_s() - self._told_ahead_s) > CLOCK_MOVED_S:
            self._tell_time()
            self.services.signal(signal.SIGHUP)
        elapsed = [timer for timer, moment in self.timers.items() if moment <= self.now()]
        if self.running and elapsed:
            self.say(f"[{self.now():%Y-%m-%dT%H:%M:%SZ}] {', '.join(elapsed)} elapsed: powering off\n")
            self.power_off_soon()

    def console(self) -> str:
        """What the box wrote to its console."""
        return self._disk.console()

    # --- what the box's programs do (boxes_programs.Playing)

    @property
    def hostname(self) -> str:
        """The host name."""
        return self.spec.hostname

    @property
    def units(self) -> Path:
        """The folder that stands for ``/etc/systemd/system``."""
        return self._disk.root / "etc/systemd/system"

    @property
    def gpus(self) -> Gpus:
        """The GPUs of its instance type."""
        return Gpus(
            box=self.spec.id,
            model=self.spec.gpu_model,
            count=self.spec.gpu_count,
            memory_mib=self.spec.gpu_memory_mib,
            mig=self._mig,
            driver=self.spec.driver or INSTALLED,
            sick=self._disk.sickness() or self.spec.sick,
            fabric=self.spec.fabric,
            used_percent=self._disk.used_percent(),
        )

    def end_at(self, timer: str, moment: datetime | None) -> None:
        """Sets the time at which a timer powers the box off; ``None`` for no timer."""
        self.timers.pop(timer, None)
        if moment is not None:
            self.timers[timer] = moment

    def power_off_soon(self) -> None:
        """Powers off after the current reply."""
        if self.running:
            self.running = False
            self.say(f"[{self.now():%Y-%m-%dT%H:%M:%SZ}] reboot: Power down\n")
            asyncio.get_running_loop().call_later(0.02, self._powered_off)

    def reboot_soon(self) -> None:
        """Reboots after the current reply. Steps that run once per instance are not repeated."""
        if self.running:
            self.running = False
            self.say(f"[{self.now():%Y-%m-%dT%H:%M:%SZ}] reboot: Restarting system\n")
            self._disk.mark("final")
            self._mig.reboot()
            asyncio.get_running_loop().call_later(0.02, self._restarting)

    def install_driver(self) -> None:
        """Makes ``nvidia-smi`` available, after a restart of the sandbox too."""
        self._disk.mark("driver")
        self._install_programs()

    def installed(self, package: str) -> bool:
        """Whether a package is there: images with the driver have containers too."""
        return bool(self.spec.driver and package in BUNDLED) or self._disk.installed(package)

    def install(self, package: str) -> None:
        """Notes that a package is there."""
        self._disk.install(package)

    def path(self, path: str) -> Path:
        """Where a path of the box is on this machine."""
        return self._disk.paths.path(path)

    def job_text(self, text: str) -> str:
        """The text of a job, with the paths of its data and the addresses of its nodes replaced."""
        return self._disk.local_text(self._disk.paths.data(text), self.spec.private_ip)

    def way_to(self, host: str, port: str) -> tuple[str, str, str]:
        """The way of a connection: from which address of this machine, ``-`` for any, to which host and port.

        The ssh servers of the other nodes have ports of their own here.
        """
        peers = self._disk.peers()
        for other in self._neighbours() if port == "22" and peers else ():
            private = other.spec.private_ip
            if host in {private, as_local(private, private)} and other.port and other.has_peers(peers):
                own = self.spec.private_ip
                return as_local(own, own), "127.0.0.1", str(other.port)
        return "-", host, port

    def has_peers(self, peers: Sequence[str]) -> bool:
        """Whether its nodes have these private addresses."""
        return self._disk.peers() == peers

    @property
    def mounts(self) -> Mounts:
        """Where volumes are mounted."""
        return self._disk.mounts

    def reload_ssh(self) -> None:
        """Reads the host key from its file again; open connections stay."""
        if self._ssh is not None:
            self._ssh.update(server_host_keys=[self._disk.host_key()])

    def say(self, text: str) -> None:
        """Writes to the console."""
        self._disk.say(text)

    # --- what its ssh server asks (boxes_ssh.Serving)

    def may_log_in(self, user: str, key: asyncssh.SSHKey, address: str) -> bool:
        """Whether this user has this public key, for logins from an address."""
        return key in self._keys.get(user, ()) or self._disk.authorizes(user, key, address)

    def shell(self, command: str | None) -> Sequence[str]:
        """The argument list for a command line, or for an interactive shell."""
        if command:
            text = self._disk.local_text(self._disk.paths.text(command), self.spec.private_ip)
            return (self._bash, "-c", text)
        return (self._bash, "--noprofile", "--rcfile", str(self._disk.folder / "bashrc"), "-i")

    def environment(self, user: str) -> Mapping[str, str]:
        """A user's environment: of the caller's, only the search path and the language."""
        caller = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
        return {
            **caller,
            **self._disk.environment(),
            **self.spec.environ,
            "HOME": str(self._disk.home(user)),
            "USER": user,
            "LOGNAME": user,
            "SHELL": self._bash,
            "PATH": f"{self._disk.shims}:{os.environ.get('PATH', os.defpath)}",
            "TMPDIR": str(self._disk.root / "tmp"),
            "GPUCLOUD_BOX_ROOT": str(self._disk.root),
            "GPUCLOUD_GUARD_ROOT": str(self._disk.root),
            "GPUCLOUD_METADATA_URL": f"http://127.0.0.1:{self._metadata_port}",
        }

    def local_path(self, user: str, path: str) -> str:
        """Where a path of the box is on this machine; a relative one begins at the home folder."""
        return self._disk.paths.text(path) if path.startswith("/") else str(self._disk.home(user) / path)

    def entered(self, user: str) -> None:
        """A session begins."""
        self.sessions.append(user)

    def left(self, user: str) -> None:
        """A session ended."""
        self.sessions.remove(user)

    # --- inside

    def _init(self, config: CloudConfig) -> None:
        """The steps that run once per instance, before logins are allowed."""
        self._disk.write_files(config)
        prompt = f"PS1='\\u@{self.spec.hostname}:\\w\\$ '\necho '{NOTICE}'\n"
        (self._disk.folder / "bashrc").write_text(prompt, encoding="utf-8")
        self._disk.mark("init")

    def _ahead_s(self) -> float:
        """By how much the sandbox's time is ahead of this machine's."""
        return self.now().timestamp() - time.time()

    def _tell_time(self) -> None:
        """Writes down what the guard adds to this machine's clocks (gpucloud_templates.guard.machine)."""
        self._told_ahead_s = self._ahead_s()
        up_s = (self.now() - self._booted_at).total_seconds()
        self._disk.write_clock(ahead_s=self._told_ahead_s, up_s=up_s)

    async def _spawn(
        self, command: Sequence[str], added: Mapping[str, str] | None = None
    ) -> asyncio.subprocess.Process:
        """Starts a program as root. Raises ``OSError``."""
        home = self._disk.root / "root"
        environment = {**self.environment("root"), "HOME": str(home), **(added or {})}
        moved = [self._disk.paths.text(argument) for argument in command]
        if moved[0] == PYTHON:  # every box has one; not every machine has it there
            moved[0] = sys.executable
        return await asyncio.create_subprocess_exec(
            *moved,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            cwd=home,
            start_new_session=True,
        )

    async def _run_as_root(self, command: Sequence[str]) -> None:
        """Runs one command of cloud-init's; its output goes to the console."""
        try:
            child = await self._spawn(command)
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
            self.say(f"cloud-init: {command[0]}: {error}\n")
            return
        async with ended_if_cancelled(child):
            output, _ = await child.communicate()
        self.say(output.decode(errors="replace"))
        if child.returncode:
            self.say(f"cloud-init: {command[0]}: exit code {child.returncode}\n")

    def _install_programs(self) -> None:
        boxes_shims.install(
            self._disk.shims,
            bash=self._bash,
            port=self._control_port,
            token=self._token,
            driver=bool(self.spec.driver) or self._disk.done("driver"),
        )

    async def _serve_program(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one program: token, number of arguments, name, arguments, each ended by NUL."""
        try:
            token, count, program = [await _word(reader) for _ in range(3)]
            if token != self._token:
                return
            arguments = [await _word(reader) for _ in range(int(count))]
            code, text = boxes_programs.play(self, program, arguments)
            stream = 2 if code else 1
            writer.write(f"{code} {stream if text else 0}\n{text}".encode())
            await writer.drain()
        except (ValueError, OSError, EOFError):
            pass  # no program of this box
        finally:
            writer.close()

    def _facts(self) -> Facts:
        spec = self.spec
        return Facts(
            id=spec.id,
            hostname=spec.hostname,
            public_ip=spec.public_ip,
            private_ip=spec.private_ip,
            user_data=spec.user_data,
            tags=spec.tags,
            spot=spec.spot,
            token=self._metadata_token,
            interruption=self.interruption,
            now=self.now(),
        )


async def _word(reader: asyncio.StreamReader) -> str:
    return (await reader.readuntil(b"\0"))[:-1].decode(errors="surrogateescape")
