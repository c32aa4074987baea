"""A real Ray head on this machine, whose nodes are boxes of the sandbox with a real Ray."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.shell import Shell
from tests.waiting import until

RAY = Path(__file__).parents[3] / ".venv-ray" / "bin"
HOST = "127.0.0.2"
"""The head's address: Ray replaces 127.0.0.1 by an address of the network."""
TASK_S = 300
ONE_CLASS: Mapping[str, Mapping[str, Any]] = {"t4": {}}

_PROGRAM = base64.b64encode(f'#!/bin/sh\nexec {RAY / "ray"} "$@"\n'.encode()).decode()
INSTALL = f"mkdir -p .local/bin; echo {_PROGRAM} | base64 -d >.local/bin/ray; chmod +x .local/bin/ray"
"""The set-up of a box: this machine's Ray under the name that ``pip install --user`` gives it."""

SETTINGS = {
    "AUTOSCALER_UPDATE_INTERVAL_S": "1",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "9d3c1f5e7a604b2d8e1f3a5c7b9d0e2f4a6c8e0b1d3f5a7c9e2b4d6f8a0c1e3d",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
    "RAY_DISABLE_DOCKER_CPU_WARNING": "1",
}
LIGHT = (
    "--num-cpus=0",
    "--object-store-memory=80000000",
    "--include-dashboard=false",
    "--disable-usage-stats",
)

_GANG = """
import json, os, sys, time, ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
ray.init(address=sys.argv[1], _node_ip_address=sys.argv[1].split(":")[0], log_to_driver=False)
@ray.remote(num_gpus=1, num_cpus=0)
def work(seconds):
    time.sleep(seconds)
    return ray.get_runtime_context().get_node_id(), os.environ["CUDA_VISIBLE_DEVICES"]
gang = placement_group([{"GPU": 1}] * int(sys.argv[2]), strategy="STRICT_SPREAD")
ray.get(gang.ready())
bundles = [
    PlacementGroupSchedulingStrategy(gang, placement_group_bundle_index=n) for n in range(int(sys.argv[2]))
]
tasks = [work.options(scheduling_strategy=each).remote(float(sys.argv[3])) for each in bundles]
print(json.dumps(ray.get(tasks)))
"""
_FILE = """
import functools, runpy, sys, ray  # without the address it would look for another one of this machine
ray.init = functools.partial(ray.init, _node_ip_address=sys.argv[2])
runpy.run_path(sys.argv[1])
"""
_SERVE = """
import runpy, sys, ray, urllib.request
from ray import serve
ray.init(address=sys.argv[1], _node_ip_address=sys.argv[1].split(":")[0], log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[3])})
serve.run(runpy.run_path(sys.argv[2])["app"])
print(urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[3]}/", data=b"hello").read().decode())
"""
_NODES = """
import json, sys, yaml
from ray.autoscaler._private.providers import _get_node_provider
config = yaml.safe_load(open(sys.argv[1]))
provider = _get_node_provider(config["provider"], config["cluster_name"])
said = {name: each.pop("resources") for name, each in config["available_node_types"].items()}
provider.fillout_available_node_types_resources(config)
for name in said.keys() - {config["head_node_type"]}:
    assert config["available_node_types"][name]["resources"] == said[name]
print(json.dumps({node: provider.node_tags(node) for node in provider.non_terminated_nodes({})}))
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of one class of T4 nodes, with the configuration that ``ray init`` printed for it."""

    shell: Shell
    head: str
    folder: Path
    config: Path
    start: str
    """The command that starts the head."""

    @contextmanager
    def running(self) -> Generator[Head]:
        """Its head, started as ``ray init`` says; it is killed at the end, if it was not before."""
        environment, argv = _split(self.start)
        with TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:  # paths of sockets must be short
            log = Path(folder, "head.log")
            with log.open("wb") as out:
                process = subprocess.Popen(
                    [str(RAY / argv[0]), *argv[1:], "--block", f"--temp-dir={folder}", *LIGHT],
                    env={**self.environ, **environment},
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            head = Head(self, process, Path(folder))
            try:
                until(lambda: "Ray runtime started" in log.read_text(), "the head")
                yield head
            finally:
                head.kill()

    def nodes(self) -> dict[str, dict[str, str]]:
        """The nodes with their tags, as Ray asks for them in another process than the head's."""
        found: dict[str, dict[str, str]] = json.loads(self.python(_NODES, str(self.config)))
        return found

    def python(self, code: str, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
        """What a program says that uses Ray."""
        argv = [str(RAY / "python"), "-c", code, *arguments]
        done = subprocess.run(
            argv, env=environment or self.environ, capture_output=True, text=True, timeout=TASK_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def environ(self) -> dict[str, str]:
        """The environment of Ray's programs."""
        own = self.shell.environ
        return {**own, **SETTINGS, "PATH": f"{RAY}{os.pathsep}{own['PATH']}"}


@dataclass(frozen=True, slots=True)
class Head:
    """A running head."""

    cluster: Cluster
    process: subprocess.Popen[bytes]
    folder: Path

    def work(self, nodes: int) -> list[tuple[str, str]]:
        """Runs tasks on so many nodes at once: the node of each, and its GPU."""
        found: list[tuple[str, str]] = json.loads(
            _line(self.cluster.python(_GANG, self.cluster.head, str(nodes), "0"), "[[")
        )
        return found

    def run(self, file: Path) -> list[str]:
        """The ids of nodes that a program prints, which finds the head by itself."""
        environment = {**self.cluster.environ, "RAY_ADDRESS": self.cluster.head}
        said = self.cluster.python(_FILE, str(file), HOST, environment=environment)
        return re.findall(r"^[0-9a-f]{56}$", said, re.MULTILINE)

    def serve(self, file: Path) -> str:
        """What the application of a file answers to a request of five bytes."""
        port = free_address().rpartition(":")[2]
        return _line(self.cluster.python(_SERVE, self.cluster.head, str(file), port), "{")

    @contextmanager
    def working(self, nodes: int) -> Generator[None]:
        """While the body runs, tasks want so many nodes, or work there."""
        argv = [str(RAY / "python"), "-c", _GANG, self.cluster.head, str(nodes), "600"]
        with subprocess.Popen(
            argv, env=self.cluster.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                yield
            finally:
                process.kill()

    def log(self) -> str:
        """What the autoscaler wrote."""
        files = sorted(self.folder.glob("session_2*/logs/monitor.*"))
        return "\n".join(file.read_text(errors="replace") for file in files)

    def kill(self) -> None:
        """Kills it with all of its processes, which may do nothing about it."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def cluster(
    shell: Shell, classes: Mapping[str, Mapping[str, Any]] = ONE_CLASS, *, idle: str = "10m"
) -> Cluster:
    """A cluster of these classes; its file is in the shell's home folder."""
    given = {
        name: {"gpu": "T4", "clouds": "aws", "max": 3, "setup": INSTALL, **each}
        for name, each in classes.items()
    }
    (shell.home / "cluster.yaml").write_text(json.dumps({"cluster": "lab", "classes": given, "idle": idle}))
    head = free_address()
    printed = shell("ray", "init", "--head", head)
    assert printed.code == 0, printed.err
    config = shell.home / "ray.yaml"
    config.write_text(printed.out)
    start = next(line.strip() for line in printed.err.splitlines() if " ray start " in line)
    return Cluster(shell, head, shell.home, config, start)


def free_address() -> str:
    """An address of this machine with a port that nobody uses."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        return f"{HOST}:{free.getsockname()[1]}"


def _line(said: str, beginning: str) -> str:
    """The line of a program's output that begins so: Ray writes lines of its own between them."""
    [found] = [line for line in said.splitlines() if line.startswith(beginning)]
    return found


def _split(command: str) -> tuple[dict[str, str], Sequence[str]]:
    """The variables at the beginning of a command line, and its words."""
    words = command.split()
    first = next(n for n, word in enumerate(words) if "=" not in word)
    return dict(word.split("=", 1) for word in words[:first]), words[first:]
