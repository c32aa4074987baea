"""What can go wrong on the way to a cloud in memory, and the exceptions of its 'SDK'."""

from __future__ import annotations

from dataclasses import dataclass


class CloudSaid(Exception):  # noqa: N818  (what it said may be anything)
    """The cloud answered with an error.

    Args:
        code: the cloud's own code.
        message: its own words.
        status: the HTTP status.
        request_id: its own request id; one is given when it is raised by a fault without one.
        retry_after_s: how long it asks to wait.
    """

    def __init__(
        self,
        code: str,
        message: str = "as the test says",
        *,
        status: int = 400,
        request_id: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.status = status
        self.request_id = request_id
        self.retry_after_s = retry_after_s


class ConnectionLost(Exception):  # noqa: N818  (an event)
    """No answer came. ``sent`` is False where the request certainly never left."""

    def __init__(self, *, sent: bool = True) -> None:
        super().__init__("read timed out" if sent else "connection refused")
        self.sent = sent


@dataclass(slots=True, kw_only=True)
class Fault:
    """What happens to the calls number ``nth`` to ``nth + times - 1`` that match, counted from now on.

    ``error`` is raised instead of the call, or, when ``applied``, after it: then the answer is lost. It may
    be a ``BaseException`` for the death of the process. ``delay_s`` moves the clock first. ``deliveries`` is
    how often the request arrives: 2 is a repeated delivery, 0 is an answer of success to nothing done.
    """

    action: str
    error: BaseException | None = None
    applied: bool = False
    nth: int = 1
    times: int = 1
    region: str | None = None
    zone: str | None = None
    delay_s: float = 0
    deliveries: int = 1
    hits: int = 0

    def strikes(self, action: str, region: str, zone: str | None) -> bool:
        """Counts a call, and whether this fault strikes it."""
        if self.action not in {action, "*"}:
            return False
        if self.region not in {None, region} or self.zone not in {None, zone}:
            return False
        self.hits += 1
        return self.nth <= self.hits < self.nth + self.times
