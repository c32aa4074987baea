"""Boxes as hosts of the real ssh, scp and rsync, and ports of boxes at this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpucloud.cli.ssh import split_options
from gpucloud_sandbox.client import Endpoint
from tests.forked import ForkServer
from tests.ports import free_port
from tests.shell import PROGRAMS, Result, Shell, newcomer
from tests.terminal import Terminal
from tests.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def work(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell whose user has a box ``work``, and hosts of their own in ssh's configuration."""
    with newcomer(endpoint, tmp_path_factory.mktemp("user")) as shell:
        config = config_of(shell)
        config.parent.mkdir(mode=0o700)
        config.write_text(OWN)
        config.chmod(0o644)
        shell.launch("--gpu", "T4", "--name", "work")
        installed = shell("ssh-config", "--install", "--yes")
        assert installed.code == 0, installed.err
        yield shell


@pytest.fixture
def fresh(endpoint: Endpoint, tmp_path: Path, forks: ForkServer) -> Iterator[Shell]:
    """A newcomer's shell on the same clouds, which are not emptied: ``work`` is there."""
    with newcomer(endpoint, tmp_path, forks, reset=False) as shell:
        yield shell


OWN = "# mine\nHost elsewhere\n    User me\n"


def config_of(shell: Shell) -> Path:
    return shell.home / ".ssh" / "config"


def plain(shell: Shell, program: str, *arguments: str | Path) -> Result:
    """Runs OpenSSH's own program with the user's configuration, which it finds by the user, not by HOME."""
    return shell.run(found(program), "-F", config_of(shell), *arguments)


def found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    return path


def hosts_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("Host ")]


def test_ssh_and_scp_reach_a_box_by_its_name(work: Shell, tmp_path: Path) -> None:
    said = plain(work, "ssh", "work.gpucloud", "echo $USER; nvidia-smi -L")
    assert said.code == 0, said.err
    assert said.out.startswith("gpucloud\nGPU 0: Tesla T4")
    (tmp_path / "data").write_text("as it is")
    assert plain(work, "scp", tmp_path / "data", "work.gpucloud:there").code == 0
    assert plain(work, "ssh", "work", "cat there").out == "as it is"


def test_rsync_reaches_a_box_by_its_name(work: Shell, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "leaf").write_text("green")
    ran = work.run(
        *(found("rsync"), "-a", "-e", f"{found('ssh')} -F {config_of(work)}"),
        *(f"{tmp_path}/tree", "work.gpucloud:copied"),
    )
    assert ran.code == 0, ran.err
    assert plain(work, "ssh", "work", "cat copied/tree/leaf").out == "green"


def test_the_printed_hosts_are_a_configuration_of_ssh(work: Shell, tmp_path: Path) -> None:
    printed = work("ssh-config").out
    assert hosts_in(printed) == ["Host work.gpucloud work"]
    (tmp_path / "hosts").write_text(printed)
    assert work.run(found("ssh"), "-F", tmp_path / "hosts", "work", "echo in").out == "in\n"
    document = work("ssh-config", "--json").json
    assert document["schema"] == "gpucloud.ssh-config/v1"
    assert document["included"] is True
    assert [(host["host"], host["box"], host["node"]) for host in document["hosts"]] == [
        ("work.gpucloud", "work", 0)
    ]
    assert document["text"] == Path(document["file"]).read_text()


def test_the_include_line_is_added_once_above_what_was_there(work: Shell) -> None:
    assert work("ssh-config", "--install", "--yes").code == 0
    file = work.home / "state-sandbox" / "ssh_config"
    assert config_of(work).read_text() == f'Include "{file}"\n\n{OWN}'
    assert config_of(work).stat().st_mode & 0o777 == 0o644, "its mode is the user's choice"
    assert file.stat().st_mode & 0o777 == 0o600
    mine = plain(work, "ssh", "-G", "elsewhere").out.splitlines()
    assert "user me" in mine
    assert "stricthostkeychecking true" not in mine


def test_the_hosts_are_those_of_the_living_boxes(work: Shell) -> None:
    file = work.home / "state-sandbox" / "ssh_config"
    work.launch("--gpu", "T4", "--name", "pair", "--nodes", "2")
    assert hosts_in(file.read_text()) == [
        "Host work.gpucloud work",
        "Host pair.gpucloud pair",
        "Host node1.pair.gpucloud",
    ]
    ranks = [
        plain(work, "ssh", host, "cat /var/lib/gpucloud/peers.json")
        for host in ("pair", "node1.pair.gpucloud")
    ]
    assert [json.loads(each.out)["rank"] for each in ranks] == [0, 1]
    assert work("down", "pair", "--yes").code == 0
    assert hosts_in(file.read_text()) == ["Host work.gpucloud work"]


def test_a_run_has_its_host_while_it_runs(work: Shell) -> None:
    hosts = (work.home / "state-sandbox" / "ssh_config").absolute()
    ran = work("run", "--gpu", "T4", "--name", "job", "--", "grep", "^Host", str(hosts))
    assert ran.code == 0, ran.err
    assert "Host job.gpucloud job" in ran.out
    assert "job" not in hosts.read_text()


def test_another_machine_at_the_address_is_refused(work: Shell) -> None:
    [known] = (work.home / "state-sandbox" / "keys").rglob("known_hosts-*")
    right = known.read_text()
    alias, kind, _ = right.split()
    known.write_text(f"{alias} {kind} AAAAC3NzaC1lZDI1NTE5AAAAI{'B' * 43}\n")
    refused = plain(work, "ssh", "-o", "ControlPath=none", "work.gpucloud", "true")
    known.write_text(right)
    assert refused.code == 255
    assert "Host key verification failed" in refused.err


def test_a_file_that_cannot_be_written_does_not_fail_a_launch(fresh: Shell) -> None:
    (fresh.home / "state-sandbox" / "ssh_config").mkdir(parents=True)
    (fresh.home / "state-sandbox").chmod(0o700)
    launched = fresh("launch", "--gpu", "T4", "--name", "fine", "--yes")
    assert launched.code == 0, launched.err
    assert "are not up to date" in launched.err


def test_without_the_command_no_file_of_hosts_is_made(fresh: Shell) -> None:
    fresh.launch("--gpu", "T4", "--name", "quiet")
    assert not (fresh.home / "state-sandbox" / "ssh_config").exists()
    assert not config_of(fresh).exists()


def test_the_configuration_is_not_changed_without_a_yes(fresh: Shell) -> None:
    refused = fresh("ssh-config", "--install")
    assert (refused.code, config_of(fresh).exists()) == (2, False)
    assert "--yes" in refused.err
    environment = {"HOME": str(fresh.home), "GPUCLOUD_HOME": str(fresh.home), "COLUMNS": "300"}
    program = [str(PROGRAMS / "gpucloud"), "--sandbox", "ssh-config", "--install"]
    for answer, changed in (("n", False), ("y", True)):
        terminal = Terminal(program, environment, fresh.home)
        terminal.sees("[y/N]")
        terminal.type(f"{answer}\n")
        terminal.sees("now reads the boxes" if changed else "was not changed")
        terminal.close()
        assert config_of(fresh).exists() is changed
    assert config_of(fresh).stat().st_mode & 0o777 == 0o600
    assert config_of(fresh).parent.stat().st_mode & 0o777 == 0o700


def test_a_configuration_that_is_a_link_stays_one(fresh: Shell) -> None:
    real = fresh.home / "dotfiles"
    real.write_bytes(b"# caf\xe9\nHost x\n")
    config_of(fresh).parent.mkdir(mode=0o700)
    config_of(fresh).symlink_to(real)
    assert fresh("ssh-config", "--install", "--yes").code == 0
    assert config_of(fresh).is_symlink()
    assert real.read_bytes().endswith(b"\n\n# caf\xe9\nHost x\n")


# --- ports


@contextmanager
def served() -> Iterator[int]:
    """A port at the box's loopback address, which is this machine's, where somebody greets."""

    class Greeter(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(b"hello")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greeter) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def greeting(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        return connection.recv(100)


def started(shell: Shell, *arguments: str) -> subprocess.Popen[str]:
    """Starts the program itself: it is to get signals."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(shell.home), "GPUCLOUD_HOME": str(shell.home)}
    return subprocess.Popen(
        [str(PROGRAMS / "gpucloud"), "--sandbox", *arguments],
        env={**environment, "XDG_RUNTIME_DIR": str(shell.runtime)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ports_of_a_box_are_reachable_until_a_signal(work: Shell, signum: signal.Signals, code: int) -> None:
    with served() as first, served() as second:
        local = free_port()
        ran = started(work, "forward", "work", f"{first}:{local}", f"{second}:{free_port()}", "--json")
        assert ran.stdout is not None
        document = json.loads(ran.stdout.readline())
        assert document["schema"] == "gpucloud.forward/v1"
        assert [each["port"] for each in document["ports"]] == [first, second]
        assert document["ports"][0]["local_port"] == local
        assert [greeting(each["local_port"]) for each in document["ports"]] == [b"hello", b"hello"]
        ran.send_signal(signum)
        _, err = ran.communicate(timeout=PATIENCE_S)
        assert ran.returncode == code, err
        with pytest.raises(ConnectionRefusedError):
            greeting(local)


@pytest.mark.parametrize("ports", ["0", "70000", "80:", "x", "80:81:82", "-1"])
def test_what_is_no_port_is_refused(fresh: Shell, ports: str) -> None:
    assert fresh("forward", "work", "--", ports).code == 2


def test_a_local_port_that_is_taken_is_refused_before_the_box_is_asked(work: Shell) -> None:
    with served() as taken:
        refused = work("forward", "work", f"8888:{taken}", "--json")
    assert refused.code == 2
    assert str(taken) in refused.error["message"]


def test_ssh_takes_options_of_its_own_program(work: Shell) -> None:
    assert work("ssh", "work", "--", "-L", f"{free_port()}:localhost:22", "echo", "in").out == "in\n"
    assert work("ssh", "work", "-L", f"{free_port()}:localhost:22", "echo", "in").out == "in\n"
    assert "debug1: " in work("ssh", "work", "--", "-v", "-oLogLevel=DEBUG", "true").err
    assert work("ssh", "work", "--", "-T", "sh", "-c", "exit 7").code == 7
    with served() as port:
        local = free_port()
        ran = started(work, "ssh", "work", "--", "-N", "-L", f"{local}:127.0.0.1:{port}")
        assert eventually(local) == b"hello"
        ran.send_signal(signal.SIGTERM)
        ran.communicate(timeout=PATIENCE_S)
        assert ran.returncode == 143


def eventually(port: int) -> bytes:
    """The greeting at a port that is about to be opened."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return greeting(port)
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("words", "options", "command"),
    [
        (["ls", "-l"], [], ["ls", "-l"]),
        (["-L", "1:h:2", "ls", "-l"], ["-L", "1:h:2"], ["ls", "-l"]),
        (["-L1:h:2", "-A"], ["-L1:h:2", "-A"], []),
        (["-fNL", "1:h:2"], ["-fNL", "1:h:2"], []),
        (["-oBatchMode=no", "-o", "X=y", "--", "-x"], ["-oBatchMode=no", "-o", "X=y"], ["-x"]),
        (["-A", "-"], ["-A"], ["-"]),
        ([], [], []),
    ],
)
def test_options_end_where_the_command_begins(
    words: list[str], options: list[str], command: list[str]
) -> None:
    assert split_options(words) == (options, command)
