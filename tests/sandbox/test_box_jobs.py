"""How a job is started on a box, whatever becomes of the connection meanwhile."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpucloud.errors import GpucloudError
from gpucloud.ssh.bounded import Finished
from gpucloud.ssh.client import ConnectionFailedError, Target, run
from gpucloud.ssh.job import FOLDER, SETUP, start, wait
from tests.processes import command_lines
from tests.sandbox.box_rental import CLIENTS_GO_AWAY, Rental
from tests.waiting import until

pytestmark = CLIENTS_GO_AWAY

CALL = re.compile(rb"ssh.*61\.7")


@pytest.fixture
def target(tmp_path: Path) -> Generator[Target]:
    rental = Rental(tmp_path)
    yield rental.boot(rental.spec())
    rental.close()


def test_a_start_that_is_repeated_with_its_token_runs_once(target: Target) -> None:
    """Also where the job is over by then. Who has another token replaces one that has ended."""
    for token in ("one", "one", "two"):
        start(target, b"echo begun >>starts\n", SETUP, token=token)
        assert wait(target, SETUP) == 0
    assert run(target, ["cat", "starts"]).out == b"begun\n" * 2


def test_a_start_that_ended_before_its_script_ran_is_made_good_by_the_next(target: Target) -> None:
    """As where the box was restarted at that moment: there is the token, and no process."""
    folder = f"{FOLDER}/{SETUP}"
    assert run(target, ["sh", "-c", f"mkdir -p {folder} && echo one >{folder}/token"]).code == 0
    start(target, b"echo begun >>starts\n", SETUP, token="one")
    assert wait(target, SETUP) == 0
    assert run(target, ["cat", "starts"]).out == b"begun\n"


def test_a_call_whose_ssh_is_killed_has_lost_its_connection(target: Target) -> None:
    """What it has done on the box is not known: its exit code is none of the command's."""
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(run, target, ["sh", "-c", "touch begun; sleep 61.7"])
        pid = until(lambda: [pid for pid, line in command_lines().items() if CALL.search(line)])
        until(lambda: run(target, ["test", "-e", "begun"]).code == 0)
        os.kill(min(pid), signal.SIGKILL)
        with pytest.raises(ConnectionFailedError, match="ended by signal 9"):
            call.result()


def test_a_script_of_which_a_part_arrives_is_not_run(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the connection is lost while it is sent."""

    def run_cut(node: Target, argv: Sequence[str], *, stdin: bytes, timeout_s: float) -> Finished:
        return run(node, argv, stdin=stdin[:-1], timeout_s=timeout_s)

    monkeypatch.setattr("gpucloud.ssh.job.run", run_cut)
    with pytest.raises(GpucloudError, match="could not be started"):
        start(target, b"echo begun >starts\n" * 2)
    assert run(target, ["test", "-e", "starts"]).code == 1
