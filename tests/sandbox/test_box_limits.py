"""What a box says is held against a limit before it is kept: a box may be anybody's by now."""

from __future__ import annotations

import resource
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

from gpucloud.ssh.between import copy_between
from gpucloud.ssh.boot import boot_state
from gpucloud.ssh.client import LONGEST_LINE, MOST_BYTES, ConnectionFailedError, Target, lines, run
from gpucloud.ssh.files import rsync_down
from gpucloud.ssh.guard import guard_status
from gpucloud.ssh.job import FOLDER, RUN, Follower, start
from gpucloud_templates import GUARD_STATUS, READY_MARKER
from tests.sandbox.box_rental import CLIENTS_GO_AWAY, Rental
from tests.waiting import until

pytestmark = CLIENTS_GO_AWAY

GENEROUS_KIB = 200 * 1024


@pytest.fixture
def rental(tmp_path: Path) -> Generator[Rental]:
    made = Rental(tmp_path)
    yield made
    made.close()


def link(target: Target, file: str) -> None:
    """Puts something without an end in the place of a box's own file."""
    assert run(target, ["sudo", "-n", "sh", "-c", f"ln -sf /dev/zero {file}"]).code == 0


def refused(target: Target) -> bool:
    """Whether the guard's words are refused; the guard itself may have put others there meanwhile."""
    link(target, GUARD_STATUS)
    try:
        guard_status(target)
    except ConnectionFailedError as error:
        return "wrote more than" in error.message
    return False


def test_an_endless_answer_of_a_box_is_refused_before_it_is_kept(rental: Rental) -> None:
    """Its guard's words, the state of its boot, any output; and in little memory.

    None of these answers ends: whoever waited for an end would be told that the command took too long.
    """
    target = rental.boot(rental.spec())
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ConnectionFailedError, match="wrote more than"):
        run(target, ["cat", "/dev/zero"])
    with pytest.raises(ConnectionFailedError, match="wrote more than"):
        run(target, ["sh", "-c", "cat /dev/zero >&2"])
    kept = run(target, ["sh", "-c", "head -c 9000000 /dev/zero; echo end"], only_end=True).out
    assert (len(kept), kept[-4:]) == (MOST_BYTES, b"end\n")
    first = next(islice(lines(target, ["cat", "/dev/zero"]), 1))
    assert len(first) == LONGEST_LINE
    with pytest.raises(ConnectionFailedError, match="did not end within"):
        run(target, ["sleep", "600"], timeout_s=0.5)
    assert until(lambda: refused(target))
    link(target, READY_MARKER)
    with pytest.raises(ConnectionFailedError, match="wrote more than"):
        boot_state(target)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < GENEROUS_KIB


def test_a_copy_whose_box_complains_without_an_end_fails_in_little_memory(
    rental: Rental, tmp_path: Path
) -> None:
    """Its rsync is the box's own program: what it writes is neither kept nor waited for."""
    target = rental.boot(rental.spec())
    program = '#!/bin/sh\ntr "\\0" x </dev/zero >&2\n'
    placed = f"""cd "${{PATH%%:*}}" && printf '%s' '{program}' > rsync && chmod 755 rsync"""
    assert run(target, ["bash", "-c", placed]).code == 0
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ConnectionFailedError, match="wrote more than 16,777,216 bytes of errors"):
        rsync_down(target, "x", str(tmp_path / "x"))
    with pytest.raises(ConnectionFailedError, match="wrote more than 16,777,216 bytes of errors"):
        copy_between(target, target, ["x"])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < GENEROUS_KIB


def test_a_client_that_goes_away_leaves_the_connection_to_the_others(rental: Rental) -> None:
    """As a real sshd does: the commands of a program share one connection."""
    target = rental.boot(rental.spec())
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(run, target, ["sh", "-c", "until [ -e over ]; do sleep 0.1; done; echo lived"])
        for _ in range(12):
            with pytest.raises(ConnectionFailedError, match="wrote more than"):
                run(target, ["cat", "/dev/zero"])
        run(target, ["touch", "over"])
        assert waits.result().out == b"lived\n"


def test_how_a_job_ended_is_read_to_a_limit_and_its_output_is_never_kept(rental: Rental) -> None:
    target = rental.boot(rental.spec())
    most = 32 * 1024 * 1024
    sizes: list[int] = []
    start(target, f"head -c {most} /dev/zero".encode())
    assert Follower(target, {"out": lambda chunk: sizes.append(len(chunk))}).follow() == 0
    assert sum(sizes) == most
    link(target, f"{rental_home(target)}/{FOLDER}/{RUN}/exit")
    with pytest.raises(ConnectionFailedError, match="wrote more than"):
        Follower(target, {}).follow()


def rental_home(target: Target) -> str:
    """The home folder of the box's user."""
    return run(target, ["pwd"]).out.decode().strip()
