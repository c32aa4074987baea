"""Starts the sandbox process and controls it. Its imports are light: no SDK, no web framework."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucloud.config import make_private
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.processes import namespace, started
from gpucloud_sandbox.review import Review

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
_POLL_S = 0.01


class SandboxError(UsageError):
    """The sandbox refused a request."""


class SandboxBusyError(GpucloudError):
    """The sandbox was asked to stop while something is billed."""

    error_class = "owed"
    exit_code = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A running sandbox, as its clients see it.

    Attributes:
        folder: its folder.
        environ: the environment variables that point the vendors' SDKs, and gpucloud, at it.
        unexported: those variables that a user's shell must not have at all.
        endpoints: the URL of each cloud.
    """

    folder: Path
    pid: int
    environ: Mapping[str, str]
    unexported: frozenset[str]
    endpoints: Mapping[str, str]
    control_url: str
    control_token: str

    @property
    def ssh_proxy_command(self) -> str:
        """For ssh's ``ProxyCommand``: the only way to the boxes' public addresses."""
        program = Path(__file__).with_name("connect.py")
        argv = (sys.executable, "-S", "-E", str(program), str(self.folder))
        return " ".join(shlex.quote(word).replace("%", "%%") for word in argv) + " %h %p"

    def exports(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The variables that point the vendors' own tools at this sandbox.

        Args:
            environment: the shell's own: where it names a proxy, this machine is excluded from it.
        """
        exported = {name: value for name, value in self.environ.items() if name not in self.unexported}
        return {**exported, **_past_proxies(environment)}

    @property
    def mend_clock(self) -> str:
        """What to do about its time, which is this machine's unless it was moved."""
        return "the sandbox's clock was moved (gpucloud sandbox clock): gpucloud sandbox reset --yes"

    @property
    def client(self) -> SandboxClient:
        """The control API of this sandbox."""
        return SandboxClient(self.control_url, self.control_token)

    def stop(self, *, force: bool = False) -> None:
        """Ends the process and waits until it has.

        Raises:
            SandboxBusyError: something is billed, and it was not forced.
        """
        self.client.stop(force=force)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while _runs(self.folder) and time.monotonic() < deadline:
            time.sleep(_POLL_S)


def ensure_started(folder: Path, **pace: float | None) -> Endpoint:
    """The sandbox of a folder, started if it does not run. Of several callers, one starts it.

    Args:
        folder: where it lives; made if missing.
        pace: how fast a newly started one is (:class:`gpucloud_sandbox.emulator.Pace`); what is not given
            is as the folder remembers.

    Raises:
        GpucloudError: it does not start.
    """
    endpoint = find(folder)
    if endpoint is not None:
        return endpoint
    make_private(folder)
    with _one_at_a_time(folder / "start.lock"):
        endpoint = find(folder)
        if endpoint is not None:
            return endpoint
        return _start(folder, {name: value for name, value in pace.items() if value is not None})


def find(folder: Path) -> Endpoint | None:
    """The sandbox that runs in a folder; ``None`` if none does."""
    if not _runs(folder):
        return None
    try:
        document = json.loads((folder / "sandbox.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # it is just starting, or just ending
        return None
    if document["namespace"] == namespace() and started(document["pid"]) is None:
        return None  # written by one that was killed; another one is just starting
    clouds: dict[str, Any] = document["clouds"]
    return Endpoint(
        folder=folder,
        pid=document["pid"],
        environ={name: value for cloud in clouds.values() for name, value in cloud["environment"].items()},
        unexported=frozenset(name for cloud in clouds.values() for name in cloud.get("unexported", ())),
        endpoints={name: cloud["endpoint"] for name, cloud in clouds.items()},
        control_url=document["control"]["url"],
        control_token=document["control"]["token"],
    )


def read_status(folder: Path) -> dict[str, Any]:
    """``sandbox status`` of a folder, whether a sandbox runs in it or not."""
    endpoint = find(folder)
    if endpoint is not None:
        return endpoint.client.status()
    from gpucloud_sandbox.ledger import billing_document, read_billing

    entries = read_billing(folder / "sandbox.db")
    return {
        "running": False,
        "endpoints": {},
        "clock_ahead_s": None,
        "review": None,
        **billing_document(entries),
    }


class SandboxClient:
    """Controls a running sandbox.

    Args:
        url: its control address.
        token: the secret of its control API.
    """

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token

    def status(self) -> dict[str, Any]:
        """What runs where, and what is billed."""
        return dict(self._ask("status"))

    def stop(self, *, force: bool = False) -> None:
        """Ends the process.

        Raises:
            SandboxBusyError: something is billed, and it was not forced.
        """
        self._ask("stop", force=force)

    def reset(self) -> None:
        """Everything as on the first day; what is billed ends."""
        self._ask("reset")

    def pace(self, **changes: float) -> dict[str, Any]:
        """Changes the clouds' delays; returns the current ones."""
        return dict(self._ask("pace", **changes))

    def review(self, review: Review) -> None:
        """Changes which requests the reviewers examine."""
        self._ask("review", review=review)

    def stock(self, **rule: Any) -> list[dict[str, Any]]:
        """Limits the stock (:class:`gpucloud_sandbox.market.Stock`); returns all rules."""
        return list(self._ask("stock", **rule))

    def price(self, **move: Any) -> list[dict[str, Any]]:
        """Changes a price (:class:`gpucloud_sandbox.market.PriceMove`); returns all changes."""
        return list(self._ask("price", **move))

    def fault(self, **rule: Any) -> list[dict[str, Any]]:
        """Adds a fault (:class:`gpucloud_sandbox.faults.Fault`); returns the active ones."""
        return list(self._ask("fault", **rule))

    def clear_faults(self, number: int | None = None) -> None:
        """Removes one fault, or all."""
        self._ask("fault", clear=number)

    def interrupt(self, instance: str, *, notice_s: float | None = None) -> dict[str, Any]:
        """Interrupts a spot instance, after a notice; by default its cloud's usual one."""
        return dict(self._ask("interrupt", instance=instance, notice_s=notice_s))

    def gpu(self, sickness: str, *, times: int = 1) -> None:
        """Gives the next boxes a faulty GPU (:data:`gpucloud_sandbox.boxes_nvidia.SICKNESSES`)."""
        self._ask("gpu", sickness=sickness, times=times)

    def clock(self, *, advance_s: float = 0) -> dict[str, Any]:
        """Moves the clouds' clock ahead; returns its time."""
        return dict(self._ask("clock", advance_s=advance_s))

    def address(self, address: str | None = None) -> str:
        """Changes the caller's address; returns the current one."""
        return str(self._ask("address", **({"address": address} if address else {}))["address"])

    def calls(self, *, clear: bool = False) -> list[dict[str, Any]]:
        """How often each call came in: ``cloud service action region mutating count``."""
        return list(self._ask("calls", clear=clear))

    def received(self, *, clear: bool = False) -> list[dict[str, Any]]:
        """The newest calls one by one, oldest first (:class:`gpucloud_sandbox.front.ReceivedCall`)."""
        return list(self._ask("received", clear=clear))

    def ledger(self) -> list[dict[str, Any]]:
        """Every birth and death of something billable, oldest first."""
        return list(self._ask("ledger"))

    def cloud(self, cloud: str, control: str, **values: Any) -> Any:
        """Changes a setting of one cloud (AWS: ``reserve``, ``quota``)."""
        return self._ask("cloud", cloud=cloud, control=control, values=values)

    def _ask(self, action: str, /, **body: Any) -> Any:
        from http.client import HTTPConnection

        host, _, port = self._url.removeprefix("http://").partition(":")
        connection = HTTPConnection(host, int(port), timeout=60)
        try:
            headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
            connection.request("POST", f"/{action}", json.dumps(body), headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
        except OSError as error:
            raise GpucloudError(
                f"the sandbox does not answer: {error}", hint="`gpucloud sandbox start` starts it"
            ) from error
        finally:
            connection.close()
        if response.status == 409:
            raise SandboxBusyError(
                answer["error"],
                left=answer["billing"],
                hint="gpucloud --sandbox down --all; or, and keep them: gpucloud sandbox stop --force",
            )
        if response.status != 200:
            raise SandboxError(f"the sandbox refuses `{action}`: {answer['error']}")
        return answer


def _start(folder: Path, pace: Mapping[str, float]) -> Endpoint:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in pace.items()]
    log_path = folder / "sandbox.log"
    with os.fdopen(os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
        start_of_log = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "gpucloud_sandbox.serve", "--folder", str(folder), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=folder,
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        endpoint = find(folder)
        if endpoint is not None and endpoint.pid == process.pid:
            process.returncode = 0  # it lives on without us: nobody is to wait for it
            return endpoint
        if process.poll() is not None:
            break
        time.sleep(_POLL_S)
    else:
        process.kill()
    said = log_path.read_bytes()[start_of_log:].decode("utf-8", "replace").strip().splitlines()
    raise GpucloudError(
        f"the sandbox does not start: {said[-1] if said else 'it says nothing'}",
        hint=f"its log is {log_path}; it needs the extra: pip install 'gpucloud[sandbox]'",
    )


def _past_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Excludes this machine from the user's proxy."""
    if not any(name.lower() in {"http_proxy", "https_proxy", "all_proxy"} for name in environment):
        return {}
    hosts = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    if "127.0.0.1" not in hosts:
        hosts = ",".join(filter(None, (hosts, "127.0.0.1")))
    return {"no_proxy": hosts, "NO_PROXY": hosts}


def _runs(folder: Path) -> bool:
    """Whether a sandbox holds its lock. Surer than a process id, which another process may get."""
    try:
        lock = os.open(folder / "serve.lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


@contextmanager
def _one_at_a_time(path: Path) -> Generator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
