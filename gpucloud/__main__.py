"""Where the program begins: the console script, and ``python -m gpucloud``.

Nothing that takes time is imported here. An interruption while the rest is imported, and while the
interpreter ends, gives an exit code as at any other time, and no traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

INTERRUPTED = 128 + signal.SIGINT


def main() -> NoReturn:
    """Runs the command line of this process, or completes one for a shell, and exits with its code."""
    if "_GPUCLOUD_COMPLETE" in os.environ:
        from gpucloud.cli.completing import answer

        sys.exit(answer(os.environ))
    interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interrupts:  # else whoever started us wants no interruptions
        _end_at_once_with(INTERRUPTED)  # nothing is under way
    from gpucloud.cli.app import main as run

    code: str | int | None = INTERRUPTED
    try:
        if interrupts:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:  # one more, while the first was told
        pass
    if interrupts:
        _end_at_once_with(code)  # everything is done
    sys.exit(code)


def _end_at_once_with(code: str | int | None) -> None:
    def end(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001
        os._exit(code if isinstance(code, int) else 1)

    signal.signal(signal.SIGINT, end)


if __name__ == "__main__":
    main()
