"""The deadline and the power of a box, and its set-up again: by its name, as the journal's record."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.boxes.power import PlannedStop, Start
    from gpucloud.journal.records import Box
    from gpucloud.runtime.context import Context


def extend(
    session: Session,
    name: str,
    ttl: timedelta | None,
    *,
    add: bool = False,
    confirm: Callable[[datetime | None, datetime], bool] | None = None,
) -> Box:
    """See :meth:`Boxes.extend`."""
    from gpucloud.boxes.deadline import extend
    from gpucloud.planning.lifetime import refuse_short

    if not add:  # a deadline that only becomes later cannot be too early
        refuse_short(ttl, "--ttl")
    with _settled(session, name) as (context, box):
        return extend(context, box, ttl, add=add, confirm=confirm)


def stop(
    session: Session,
    name: str,
    *,
    keep: timedelta | None = None,
    confirm: Callable[[PlannedStop], bool] | None = None,
) -> Box:
    """See :meth:`Boxes.stop`."""
    from gpucloud.boxes.power import stop
    from gpucloud.ending.stopping import LEAST_KEEP

    if keep is not None and keep < LEAST_KEEP:
        raise UsageError("--keep: a stopped box is kept for at least 1h", hint="use a larger --keep")
    with _settled(session, name) as (context, box):
        return stop(context, box, session.catalog.market, keep, confirm)


def start(
    session: Session,
    name: str,
    *,
    ttl: timedelta | Literal["none"] | None = None,
    max_price: Decimal | None = None,
    confirm: Callable[[Start], bool] | None = None,
) -> Box:
    """See :meth:`Boxes.start`."""
    from gpucloud.boxes.power import lifetime_at_start, start
    from gpucloud.planning.lifetime import refuse_short

    lives = None if ttl is None or ttl == "none" else ttl
    refuse_short(lives, "--ttl")
    with _settled(session, name) as (context, box):
        return start(
            context,
            box,
            session.catalog.market,
            lives=lifetime_at_start(box) if ttl is None else lives,
            max_price_usd=max_price,
            confirm=confirm,
        )


def setup(session: Session, name: str) -> Box:
    """See :meth:`Boxes.setup`."""
    from gpucloud.boxes.set_up import repeat_setup

    with _settled(session, name) as (context, box):
        return repeat_setup(context, box)


@contextmanager
def _settled(session: Session, name: str) -> Generator[tuple[Context, Box]]:
    """The context of a changing call, after what earlier calls left is done; and the box as it is now."""
    from gpucloud.runs.first_step import settle_first

    with session.operation() as context:
        settle_first(context)
        yield context, session.find(name)
