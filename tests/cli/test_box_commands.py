"""ssh, exec, sync and logs, as a person at a terminal uses them, on a box of the sandbox."""

from __future__ import annotations

import filecmp
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpucloud.cli.sync import CopyRequest, read_way
from gpucloud.errors import UsageError
from gpucloud_sandbox.client import SandboxClient
from tests.forked import ForkServer
from tests.processes import command_lines
from tests.shell import TIMEOUT_S, forked_sandbox

GPUCLOUD = [sys.executable, "-c", "from gpucloud.__main__ import main; main()", "--sandbox"]


@dataclass(frozen=True)
class Terminal:
    """Somebody with a home folder, a sandbox, and one box named ``mine``."""

    home: Path
    sandbox: SandboxClient
    forks: ForkServer

    @property
    def environment(self) -> dict[str, str]:
        keep = {
            name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GPUCLOUD_"))
        }
        return {**keep, "GPUCLOUD_HOME": str(self.home), "NO_COLOR": "1"}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        line = ["--sandbox", *arguments]
        ran = self.forks.start(line, environment=self.environment, folder=str(self.home))
        out, err = ran.communicate(TIMEOUT_S)
        return subprocess.CompletedProcess(line, ran.wait(), out.encode(), err.encode())

    def pipe(self, *arguments: str, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
        """The same, with something to read."""
        return subprocess.run(
            [*GPUCLOUD, *arguments], input=stdin, env=self.environment, capture_output=True, check=False
        )

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*GPUCLOUD, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def box(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.run("show", "mine", "--json").stdout)["box"]
        return document


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory, forks: ForkServer) -> Iterator[Terminal]:
    home = tmp_path_factory.mktemp("user")
    with forked_sandbox(home / "sandbox", forks) as endpoint:
        made = Terminal(home, endpoint.client, forks)
        setup = "echo prepared >~/prepared"
        launched = made.run(
            *("launch", "--gpu", "T4", "--name", "mine", "--nodes", "2", "--setup", setup, "--yes")
        )
        assert launched.returncode == 0, launched.stderr.decode()
        yield made
        made.run("down", "--all", "--yes")


def test_exec_gives_the_commands_own_output_and_exit_code(terminal: Terminal) -> None:
    done = terminal.run("exec", "mine", "--", "sh", "-c", "echo out; echo err >&2; exit 42")
    assert (done.returncode, done.stdout, done.stderr) == (42, b"out\n", b"err\n")
    assert terminal.run("exec", "mine", "--", "sh", "-c", "exit 255").returncode == 255


def test_exec_hands_over_arguments_and_stdin_unchanged(terminal: Terminal) -> None:
    words = ["a b", "$HOME", "--json", "-t", "'", "*", ""]
    done = terminal.run("exec", "mine", "--", "printf", "%s\\n", *words)
    assert done.stdout.decode().split("\n")[:-1] == words
    assert terminal.pipe("exec", "mine", "--", "cat", stdin=bytes(range(256))).stdout == bytes(range(256))


def test_exec_with_json_keeps_stdout_for_the_document(terminal: Terminal) -> None:
    done = terminal.run("exec", "--json", "mine", "--", "sh", "-c", "echo out; exit 3")
    assert json.loads(done.stdout) == {"schema": "gpucloud.exec/v1", "box": "mine", "exit_code": 3}
    assert b"out" in done.stderr
    assert done.returncode == 3


def test_exec_shows_the_gpus_that_are_paid_for(terminal: Terminal) -> None:
    done = terminal.run("exec", "mine", "--", "nvidia-smi", "-L")
    assert done.stdout.startswith(b"GPU 0: Tesla T4")
    assert done.stdout.count(b"\n") == 1


@pytest.mark.parametrize(
    ("number", "more"),
    [(signal.SIGINT, ()), (signal.SIGTERM, ("-t",)), (signal.SIGHUP, ("--all-nodes",))],
)
def test_who_interrupts_exec_ends_all_that_it_started_on_each_node(
    terminal: Terminal, number: signal.Signals, more: tuple[str, ...]
) -> None:
    """Also what does not listen to SIGHUP. The user is told, and gets the code of the signal."""
    length = f"{os.getpid()}88888"  # unlike that of anybody who runs these tests beside us
    script = f"trap '' HUP; sleep {length} & echo begun; wait"
    child = terminal.start("exec", "mine", *more, "--", "sh", "-c", script)
    assert child.stdout is not None
    for _ in range(2 if "--all-nodes" in more else 1):
        assert b"begun" in child.stdout.readline()
    child.send_signal(number)
    _, told = child.communicate(timeout=30)
    assert (child.returncode, b"ending the command" in told) == (128 + number, True), told
    assert not [line for line in command_lines().values() if length.encode() in line]


def test_a_connection_that_breaks_leaves_the_command_of_exec_alone(terminal: Terminal) -> None:
    script = "echo begun; until [ -e on ]; do sleep 0.1; done; mv on gone"
    child = terminal.start("exec", "mine", "--", "sh", "-c", script)
    assert child.stdout is not None
    assert child.stdout.readline() == b"begun\n"
    end_shared_connection(terminal)
    child.communicate(timeout=30)
    assert child.returncode == 125
    look = "touch on; until [ -e gone ]; do sleep 0.1; done"
    assert terminal.run("exec", "mine", "--", "sh", "-c", look).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("exec", "nobody", "--", "true"), "no box named 'nobody'"),
        (("exec", "mine", "--node", "3", "--", "true"), "no node 3: its nodes are 0 to 1"),
        (("exec", "mine"), "Missing argument"),
        (("exec", "mine", "--all-nodes", "--node", "1", "--", "true"), "leave --node out"),
        (("exec", "mine", "--all-nodes", "-t", "--", "true"), "leave --all-nodes"),
    ],
)
def test_what_exec_cannot_do_is_125_and_says_why(
    terminal: Terminal, arguments: tuple[str, ...], said: str
) -> None:
    done = terminal.run(*arguments)
    assert done.returncode == 125
    assert said in done.stderr.decode()
    assert done.stdout == b""


def test_ssh_runs_a_command_and_without_one_a_shell(terminal: Terminal) -> None:
    assert terminal.run("ssh", "mine", "--", "echo", "a  b").stdout == b"a  b\n"
    done = terminal.pipe("ssh", "mine", stdin=b"echo $((6*7))\nexit 4\n")
    assert (done.returncode, b"42" in done.stdout) == (4, True)


def test_sync_there_and_back_is_byte_identical(terminal: Terminal, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub dir").mkdir(parents=True)
    (source / "sub dir" / "random").write_bytes(os.urandom(3_000_000))
    (source / "name with 'quotes' and ü").write_bytes(b"\r\n\0")
    assert terminal.run("sync", str(source), "mine:there").returncode == 0
    done = terminal.run("sync", "--json", "mine:there/source/", str(tmp_path / "back"))
    assert json.loads(done.stdout)["schema"] == "gpucloud.sync/v1", done.stdout.decode()
    compared = filecmp.dircmp(source, tmp_path / "back")
    assert compared.left_only + compared.right_only + compared.diff_files == []
    random = Path("sub dir", "random")
    assert (tmp_path / "back" / random).read_bytes() == (source / random).read_bytes()


def test_sync_of_what_is_not_there_says_so(terminal: Terminal, tmp_path: Path) -> None:
    assert terminal.run("sync", str(tmp_path / "no"), "mine:x").returncode == 2
    done = terminal.run("sync", "mine:no", str(tmp_path))
    assert done.returncode == 1
    assert b"No such file" in done.stderr


def test_logs_show_the_boot(terminal: Terminal) -> None:
    text = terminal.run("logs", "mine").stdout.decode()
    assert "setup: exit code 0" in text
    document = json.loads(terminal.run("logs", "mine", "--boot", "--json").stdout)
    assert (document["schema"], document["source"]) == ("gpucloud.logs/v1", "boot")
    steps = {step["step"]: step["exit_code"] for step in document["steps"]}
    assert steps["setup"] == 0
    assert all(step["seconds"] >= 0 for step in document["steps"])
    assert " armed\n" in terminal.run("logs", "mine", "--guard").stdout.decode()
    assert terminal.run("logs", "mine", "--boot", "--job", "run").returncode == 2


def test_logs_of_late_leave_out_what_is_older(terminal: Terminal) -> None:
    lines = ["2020-01-01T00:00:00Z old", "of old", "2099-01-01T00:00:00Z new"]
    write = " ".join(["printf", "'%s\\n'", *(f"'{line}'" for line in lines), ">>/var/log/gpucloud/boot.log"])
    terminal.run("exec", "mine", "--", "sudo", "sh", "-c", write)
    text = terminal.run("logs", "mine", "--since", "1h").stdout.decode()
    assert " new\n" in text
    assert "setup: exit code 0" in text
    assert "of old" not in text
    late = terminal.run("logs", "mine", "--since", "2098-01-01T00:00:00+01:00")
    assert late.stdout == b"2099-01-01T00:00:00Z new\n"
    assert terminal.run("logs", "mine", "--since", "soon").returncode == 2


def test_logs_do_not_steer_the_terminal_and_go_on_as_more_is_written(terminal: Terminal) -> None:
    write = "printf '\\033]52;c;ZXZpbA==\\007step \\033[31m1\\033[0m\\n'; sleep 1000"
    job = detached(terminal, "sh", "-c", write)
    folder = f".gpucloud/jobs/{job}"
    terminal.run("exec", "mine", "--", "rm", f"{folder}/err")
    child = terminal.start("logs", "mine", "--job", job, "-f", "--json")
    assert child.stdout is not None
    assert json.loads(child.stdout.readline())["line"] == "step 1"
    terminal.run("exec", "mine", "--", "sh", "-c", f"echo 2 >>{folder}/out")
    assert json.loads(child.stdout.readline())["line"] == "2"
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=30)
    assert child.returncode == 130
    assert b"tail" not in told, "not even of the file of errors, which does not exist"


def detached(terminal: Terminal, *command: str) -> str:
    """The job of a command that was left running on the first node."""
    job = terminal.run("exec", "mine", "--detach", "--", *command).stdout.decode().strip()
    assert job
    return job


def test_a_detached_command_goes_on_and_its_exit_code_is_kept(terminal: Terminal) -> None:
    job = detached(
        terminal, "sh", "-c", 'echo "$1"; until [ -e go ]; do sleep 0.1; done; exit 7', "sh", "a  b"
    )
    running = terminal.run("logs", "mine", "--job", job)
    assert (running.returncode, running.stdout) == (0, b"a  b\n")
    assert b"is running" in running.stderr
    assert terminal.run("exec", "mine", "--", "touch", "go").returncode == 0
    followed = terminal.run("logs", "mine", "--job", job, "-f")
    assert (followed.returncode, followed.stdout) == (7, b"a  b\n")
    again = terminal.run("logs", "mine", "--job", job)
    assert (again.returncode, b"ended with exit code 7" in again.stderr) == (0, True)
    assert terminal.run("logs", "mine", "--job", job, "--node", "1").returncode == 2
    unknown = terminal.run("logs", "mine", "--job", "nosuch")
    assert unknown.returncode == 2
    assert f"{job} (ended with exit code 7)" in unknown.stderr.decode()


def test_a_command_on_all_nodes_ends_with_the_first_code_that_is_not_0(terminal: Terminal) -> None:
    terminal.run("exec", "mine", "--node", "1", "--", "touch", "second")
    done = terminal.run(
        "exec", "mine", "--all-nodes", "--", "sh", "-c", "echo out; echo err >&2; [ ! -e second ] || exit 5"
    )
    assert done.returncode == 5
    assert sorted(done.stdout.splitlines()) == [b"0: out", b"1: out"]
    assert sorted(done.stderr.splitlines()) == [b"0: err", b"1: err"]
    job = terminal.run("exec", "mine", "--all-nodes", "--detach", "--", "true").stdout.decode().strip()
    for node in ("0", "1"):
        assert terminal.run("logs", "mine", "--job", job, "-f", "--node", node).returncode == 0


def test_a_caller_whose_address_has_changed_is_let_in_again_and_nobody_else(terminal: Terminal) -> None:
    end_shared_connection(terminal)
    terminal.sandbox.address("198.51.100.99")
    done = terminal.run("exec", "mine", "--", "echo", "in")
    assert (done.returncode, done.stdout) == (0, b"in\n"), done.stderr.decode()
    assert b"your address is now 198.51.100.99" in done.stderr
    end_shared_connection(terminal)
    assert terminal.run("exec", "mine", "--", "echo", "again").stderr == b""


def test_a_box_that_never_let_ssh_in_shows_its_console(terminal: Terminal) -> None:
    """The keys are gone, as after a lost state folder: the cloud still has the console."""
    end_shared_connection(terminal)
    keys = terminal.home / "state-sandbox" / "keys" / terminal.box()["id"]
    moved = keys.rename(keys.with_name("elsewhere"))
    try:
        done = terminal.run("logs", "mine")
        assert done.returncode == 0, done.stderr.decode()
        assert b"cloud-init: finished" in done.stdout
        assert terminal.run("exec", "mine", "--", "true").returncode == 125
    finally:
        moved.rename(keys)


def test_no_key_and_no_secret_is_on_a_command_line_or_in_the_journal(terminal: Terminal) -> None:
    child = terminal.start("exec", "mine", "--", "sh", "-c", "echo begun; sleep 300")
    assert child.stdout is not None
    assert child.stdout.readline() == b"begun\n"
    private = next((terminal.home / "state-sandbox" / "keys").glob("*/id_ed25519")).read_text()
    seen = b"\n".join(command_lines().values())
    child.terminate()
    child.communicate(timeout=30)
    assert b"id_ed25519" in seen
    assert private.splitlines()[1].encode() not in seen
    for file in (terminal.home / "state-sandbox").glob("journal.db*"):
        assert b"PRIVATE KEY" not in file.read_bytes()


def end_shared_connection(terminal: Terminal) -> None:
    """What a minute of silence does."""
    from gpucloud.ssh.client import Target, disconnect

    box = terminal.box()
    keys = terminal.home / "state-sandbox" / "keys" / box["id"]
    disconnect(Target(box_id=box["id"], host="127.0.0.1", user="gpucloud", keys=keys))


@pytest.mark.parametrize(
    ("ends", "way"),
    [
        (("src", "mine:dst"), CopyRequest("mine", up=True, source="src", destination="dst")),
        (("src/", "mine:"), CopyRequest("mine", up=True, source="src/", destination="")),
        (("mine:/a:b", "here"), CopyRequest("mine", up=False, source="/a:b", destination="here")),
        (("./a:b", "mine:c"), CopyRequest("mine", up=True, source="./a:b", destination="c")),
    ],
)
def test_the_end_with_a_name_and_a_colon_is_on_the_box(ends: tuple[str, str], way: CopyRequest) -> None:
    assert read_way(*ends) == way


@pytest.mark.parametrize("ends", [("a", "b"), ("x:a", "y:b"), ("./x:a", "b")])
def test_a_copy_needs_one_end_here_and_one_on_a_box(ends: tuple[str, str]) -> None:
    with pytest.raises(UsageError):
        read_way(*ends)
