"""Isolation of failures: in every loop over boxes, the failure of one does not affect the others."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from gpucloud.errors import GpucloudError, InterruptedBySignal
from gpucloud.runtime.tasks import TimedOutError

log = logging.getLogger("gpucloud.runtime.isolation")


class UnforeseenError(GpucloudError):
    """An unexpected exception; the message names it."""


@contextmanager
def isolated(troubles: list[GpucloudError], what: str) -> Generator[None]:
    """Runs the body for one of several items, and adds its failure to the troubles.

    A signal still ends the loop.

    Args:
        troubles: receives the failure, as an error that names the item.
        what: the name of the item, for people.
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
