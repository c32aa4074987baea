"""Waiting: a signal is answered at once, what must be finished is finished."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from gpucloud.errors import InterruptedBySignal
from gpucloud.processes import ENDING
from gpucloud.runtime.tasks import Tasks, TimedOutError
from tests.waiting import PATIENCE_S


def fail() -> None:
    raise KeyError("its own")


def test_a_call_gives_what_it_gave_or_raises_what_it_raised() -> None:
    """Nothing is changed on the way from the thread."""
    tasks = Tasks()
    assert tasks.run(lambda: 7) == 7
    with pytest.raises(KeyError, match="its own"):
        tasks.run(fail)


def test_calls_run_at_the_same_time() -> None:
    """Two calls that wait for each other both end."""
    tasks = Tasks()
    barrier = threading.Barrier(2)
    calls = [tasks.start(lambda: barrier.wait(PATIENCE_S)) for _ in range(2)]
    assert sorted(tasks.wait(call, PATIENCE_S) for call in calls) == [0, 1]


def test_some_calls_may_go_on() -> None:
    """So a thread begins no more of them than it wants at a time."""
    tasks, go = Tasks(), threading.Event()
    hung = tasks.start(lambda: go.wait(PATIENCE_S))
    calls = [hung, *(tasks.start(lambda: None) for _ in range(3))]
    assert tasks.until_done(calls, PATIENCE_S, but=1)
    assert [call.done for call in calls] == [False, True, True, True]
    assert not tasks.until_done(calls, 0.01)
    go.set()
    assert tasks.until_done(calls, PATIENCE_S)


def test_a_call_that_hangs_is_given_up_at_its_deadline() -> None:
    """The wait ends, whatever the call does."""
    with pytest.raises(TimedOutError):
        Tasks().run(threading.Event().wait, timeout_s=0.01)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_the_wait_and_not_the_call(number: signal.Signals) -> None:
    """The call goes on in its thread, and its outcome can be waited for afterwards."""
    go = threading.Event()
    with Tasks().listening() as tasks:
        call = tasks.start(lambda: go.wait(PATIENCE_S))
        os.kill(os.getpid(), number)
        with pytest.raises(InterruptedBySignal) as caught:
            tasks.wait(call, PATIENCE_S)
        assert caught.value.exit_code == 128 + number
        go.set()
        with tasks.finishing():
            assert tasks.wait(call, PATIENCE_S) is True


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_that_was_ignored_at_the_start_ends_nothing(number: signal.Signals) -> None:
    """``nohup`` has a closed window ignored."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with Tasks().listening() as tasks:
            os.kill(os.getpid(), number)
            assert tasks.run(lambda: 7) == 7
    finally:
        signal.signal(number, before)


def test_what_must_be_finished_is_finished_before_the_signal_counts() -> None:
    """The next wait afterwards ends at once."""
    with Tasks().listening() as tasks:
        with tasks.finishing():
            os.kill(os.getpid(), signal.SIGTERM)
            assert tasks.run(lambda: "done") == "done"
        with pytest.raises(InterruptedBySignal):
            tasks.run(lambda: "never begun")


def test_a_question_is_left_at_once() -> None:
    """Nothing is under way while the user thinks."""

    def ask(tasks: Tasks) -> None:
        with tasks.asking():
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(PATIENCE_S)

    with Tasks().listening() as tasks, pytest.raises(InterruptedBySignal):
        ask(tasks)


def test_the_old_handlers_come_back() -> None:
    """A library that uses the engine keeps its own signals."""
    before = signal.getsignal(signal.SIGTERM)
    with Tasks().listening():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def _run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_a_signal_that_another_thread_got_ends_the_wait() -> None:
    """The kernel may choose any thread: that the main one sleeps must not matter."""
    program = (
        "import signal, threading, time\n"
        "from gpucloud.runtime.tasks import Tasks\n"
        "from gpucloud.errors import InterruptedBySignal\n"
        "tasks = Tasks()\n"
        "def blow():\n"
        "    time.sleep(0.3)  # the main thread waits by now\n"
        "    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)\n"
        "    threading.Event().wait()\n"
        "with tasks.listening():\n"
        "    try:\n"
        "        tasks.run(blow, 600)\n"
        "    except InterruptedBySignal as ended:\n"
        "        print(ended.signum)\n"
    )
    ran = _run(program)
    assert ran.stdout == f"{signal.SIGTERM:d}\n"


def test_where_no_thread_can_be_had_the_call_is_made_all_the_same() -> None:
    """Its stack does not fit into what is left of the memory: a teardown must not end so."""
    program = (
        "import resource, threading\n"
        "from pathlib import Path\n"
        "from gpucloud.runtime.tasks import Tasks\n"
        "tasks = Tasks()\n"
        "used = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20),) * 2)\n"
        "try:\n"
        "    threading.Thread(target=print, daemon=True).start()\n"
        "except RuntimeError:\n"
        "    print(tasks.run(lambda: 'done', 5))\n"
    )
    ran = _run(program)
    assert ran.stdout == "done\n", ran.stderr


def test_a_thread_that_dies_as_it_begins_is_not_waited_for() -> None:
    """So it is where memory runs out between its first instruction and its first line."""
    program = (
        "import threading\n"
        "from gpucloud.runtime.tasks import Tasks\n"
        "def die(self):\n"
        "    raise MemoryError\n"
        "threading.Thread._set_tstate_lock = threading.Thread._set_ident = die\n"
        "print(Tasks().run(lambda: 'done', 5))\n"
    )
    assert _run(program).stdout == "done\n"
