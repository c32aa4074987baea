"""One of several things that fails keeps nothing from the others: the one rule of every loop over boxes."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from gpucloud.errors import GpucloudError, InterruptedBySignal
from gpucloud.runtime.tasks import TimedOutError

log = logging.getLogger("gpucloud.runtime.isolation")


class UnforeseenError(GpucloudError):
    """Something failed in a way that gpucloud does not know; the message names it."""


@contextmanager
def isolated(troubles: list[GpucloudError], what: str) -> Generator[None]:
    """Runs the body for one of several things; whatever fails in it is added to the troubles.

    A signal still ends the loop.

    Args:
        troubles: where the failure goes, as an error that names the thing.
        what: names the thing, for people.
    """
    try:
        yield
    except InterruptedBySignal:
        raise
    except TimedOutError as error:
        troubles.append(TimedOutError(f"{what}: {error}"))
    except GpucloudError as error:
        troubles.append(error)
    except Exception as error:
        log.info("%s", what, exc_info=True)
        troubles.append(
            UnforeseenError(
                f"{what}: unexpected {type(error).__name__}: {error}",
                hint="this is a fault in gpucloud; repeat the command with -v to see where, and report it",
            )
        )
