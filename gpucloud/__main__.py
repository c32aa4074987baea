"""Where the program begins and ends: the console script and ``python -m gpucloud``; exit codes of failures.

Nothing that takes time is imported at first. An interruption while the rest is imported, and while the
interpreter ends, gives an exit code as at any other time, and no traceback.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

INTERRUPTED = 128 + signal.SIGINT


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command line, by default that of this process, and exits with its code; or completes one."""
    if "_GPUCLOUD_COMPLETE" in os.environ:
        from gpucloud.cli.completing import answer

        sys.exit(answer(os.environ))
    # Else whoever started us wants no interruptions, or goes on after them.
    interrupts = arguments is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interrupts:
        _end_at_once_with(INTERRUPTED)  # nothing is under way
    from gpucloud.cli.app import Switches, parse, relays
    from gpucloud.processes import handling_signals

    line = list(sys.argv[1:] if arguments is None else arguments)
    switches = Switches.of(os.environ)
    # Looking for plug-ins reads every package's metadata.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    _mend_streams()
    gc.set_threshold(200_000, 20, 20)  # importing makes many objects and no garbage
    code: int = INTERRUPTED
    try:
        if interrupts:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with handling_signals(_end_with_code, (signal.SIGTERM, signal.SIGHUP)):
                code = parse(line, switches)() or 0
                sys.stdout.flush()
        except BaseException as error:  # the outermost frame: every failure ends here
            from gpucloud.cli.failure import report

            code = report(
                error,
                line=line,
                json=switches.json,
                color=not switches.no_color,
                verbose=switches.verbose,
                relays=relays(line),
            )
    except KeyboardInterrupt:  # one more, while the first was told
        code = INTERRUPTED
    if interrupts:
        _end_at_once_with(code)  # everything is done
    gc.freeze()  # no garbage collection at the end of the process
    if arguments is None:
        _leave_threads(code)
    sys.exit(code)


def _end_at_once_with(code: int) -> None:
    def end(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001
        os._exit(code)

    signal.signal(signal.SIGINT, end)


def _end_with_code(signum: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    """Ends the process where nothing is under way: what is, listens by itself."""
    os._exit(128 + signum)


def _leave_threads(code: int) -> None:
    """Ends the process at once if a thread still waits for an answer that nobody needs.

    A regular end frees OpenSSL's locks while such a thread uses them, which crashes now and then.
    """
    if threading.active_count() == 1:
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _mend_streams() -> None:
    """Replaces closed streams by the null device, and escapes characters that stdout cannot encode.

    Otherwise the next file opened would become stdout, and output would be written into it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    reconfigure = getattr(sys.stdout, "reconfigure", None)  # a test's replacement may have none
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
