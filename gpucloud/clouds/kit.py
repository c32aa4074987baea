"""Functions that all providers use, for the authors of providers.

========================  =====================================================================
:func:`ability_in`        finds what has an ability
:func:`in_threads`        many calls of one kind at the same time
:func:`together`          a few different calls at the same time
:class:`Prefetch`            a call that is started now and waited for later
:func:`checked`           the answer to a question that is asked while its permission is checked
:func:`refuse_foreign`    refuses a resource of another account, which must not pass for gone
:func:`gone_is_fine`      makes the deletion of a resource that is gone a success
:func:`check_limits`      refuses an order that is beyond what the cloud accepts
:func:`check_user_data`   refuses a boot script that is too long for the cloud
:func:`bid`               the price limit of a spot order in a currency
:func:`amount_of`         reads a price
:func:`read_images`       reads a provider's ``images.toml``
:func:`image_row`         finds the image of a recipe
:func:`reading`           makes what reading a malformed answer raises an error of the provider
:func:`observed`         reports a changing call and its outcome
:func:`bounded`           writes an object of a store to a file, up to a size
========================  =====================================================================
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, fields
from decimal import ROUND_DOWN, Decimal, InvalidOperation
from fnmatch import fnmatchcase
from typing import Any, BinaryIO, Generic, TypeVar, cast

from gpucloud.clouds.provider import ApiCall, CallObserver, Verdict
from gpucloud.errors import ErrorClass, GpucloudError, UsageError
from gpucloud.resources import Order, Ref

T = TypeVar("T")
U = TypeVar("U")

THREADS = 8
SSH_PORT = 22


# --- abilities


def ability_in(table: Mapping[type[object], object], kind: type[T]) -> T | None:
    """What has an ability of :mod:`gpucloud.clouds.abilities`, by a provider's table; ``None`` if none."""
    found = table.get(kind)
    return found if isinstance(found, kind) else None


# --- several calls at the same time


def in_threads(call: Callable[[T], U], items: Iterable[T], *, threads: int = THREADS) -> list[U]:
    """The calls' results, in order; several at a time.

    Args:
        call: called for each item.
        items: its arguments.
        threads: at most this many at a time.
    """
    listed = list(items)
    if len(listed) < 2:
        return [call(item) for item in listed]
    from multiprocessing.pool import ThreadPool  # its threads are daemons: they never hold up an exit

    # Each in a copy of this context: the audit record reads from it what the calls are for.
    here = [copy_context() for _ in listed]

    def called(number: int) -> U:
        return here[number].run(call, listed[number])

    with ThreadPool(min(threads, len(listed))) as pool:
        return pool.map(called, range(len(listed)), chunksize=1)


def together(*calls: Callable[[], U]) -> list[U]:
    """The results of different calls that are made at the same time, in order."""

    def called(call: Callable[[], U]) -> U:
        return call()

    return in_threads(called, calls)


class Prefetch(Generic[T]):
    """A call that runs in a thread while other work goes on: started now, waited for when it is needed."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._value: T | None = None
        self._error: Exception | None = None
        # In a copy of this context, as above.
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), daemon=True)
        self._thread.start()

    def result(self) -> T:
        """The result of the call. Raises its exception."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return cast("T", self._value)

    def _run(self) -> None:
        try:
            self._value = self._call()
        except Exception as error:
            self._error = error


def checked(check: Callable[[], object], ask: Callable[[], T]) -> T:
    """The result of a call that only reads, made at the same time as the check that it may be believed.

    Raises what the check raises, whatever the call gave or raised; then what the call raises.
    """
    passed = Prefetch(check)
    try:
        return ask()
    finally:
        passed.result()


# --- malformed answers

_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading an answer raises that is not as its cloud's model says, in our code or the SDK's."""


@contextmanager
def reading(operation: str, malformed: type[Exception]) -> Generator[None]:
    """Names what could not be read of an answer.

    Args:
        operation: the call that was answered.
        malformed: the provider's exception for such an answer; raised.
    """
    try:
        yield
    except KeyError as error:
        raise malformed(f"the answer to {operation} lacks {error}") from error
    except _UNREADABLE as error:
        raise malformed(f"the answer to {operation} is malformed: {error}") from error


# --- refusals


def refuse_foreign(ref: Ref, own: str, *, account: str, hint: str, written: str | None = None) -> None:
    """Refuses a resource of another account: a "not found" there must never count as "gone".

    Args:
        ref: the resource.
        own: the account of the credentials.
        account: the cloud's term for an account, with its name: ``AWS account``.
        hint: how to choose the right credentials.
        written: the account in the resource's id, if the id has one.

    Raises:
        UsageError: the resource belongs to another account.
    """
    for whose in (ref.account, written):
        if whose is not None and whose.lower() != own.lower():
            raise UsageError(
                f"{ref.kind} {ref.id} belongs to {account} {whose}, but the credentials are for {own}",
                hint=hint,
            )


@contextmanager
def gone_is_fine(classify: Callable[[Exception], Verdict | None]) -> Generator[None]:
    """Suppresses an error of a deletion if it means that the resource does not exist."""
    try:
        yield
    except Exception as error:
        verdict = classify(error)
        if verdict is None or verdict.error_class is not ErrorClass.NOT_FOUND:
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most of an order that a cloud accepts, whoever asks. The provider that declares it has the sources.

    Attributes:
        cloud: the cloud's name, for people.
        user_data_bytes: the boot script, before base64.
        disk_gib: a root disk.
        rules: inbound rules of a box's group: one for each source and port.
        nodes: machines of a box; ``None`` if no limit is documented.
    """

    cloud: str
    user_data_bytes: int
    disk_gib: int
    rules: int
    nodes: int | None = None


def check_limits(order: Order, limits: Limits) -> None:
    """Refuses an order that is beyond a cloud's limits.

    Raises:
        UsageError: it is; the message says what the cloud accepts.
    """
    check_user_data(order, limits.user_data_bytes, cloud=limits.cloud)
    if order.disk_gib > limits.disk_gib:
        raise UsageError(
            f"--disk: {order.disk_gib} GiB is too large; {limits.cloud} accepts root disks of up to "
            f"{limits.disk_gib} GiB"
        )
    rules = len({SSH_PORT, *order.ports}) * len(set(order.allow_from))
    if rules > limits.rules:
        raise UsageError(
            f"--allow-from and --port: these are {rules} rules; a group on {limits.cloud} has up to "
            f"{limits.rules}",
            hint="allow a network instead of single addresses: --allow-from 203.0.113.0/24",
        )
    if limits.nodes is not None and order.nodes > limits.nodes:
        raise UsageError(
            f"--nodes: {limits.cloud} launches up to {limits.nodes} machines together, not {order.nodes}"
        )


def check_user_data(order: Order, limit: int, *, cloud: str) -> None:
    """Refuses a boot script that is too long.

    Args:
        order: the order.
        limit: the most bytes that the cloud accepts.
        cloud: the cloud's name, for people.

    Raises:
        UsageError: it is longer.
    """
    size = len(order.user_data)
    if size > limit:
        raise UsageError(
            f"the boot script has {size} bytes; {cloud} accepts {limit}",
            hint="shorten --checkpoint: copy a script with --sync, and let it run that",
        )


# --- answers


def bid(order: Order, currency: str, step: Decimal) -> Decimal:
    """The price limit of a spot order in a currency, per hour and node.

    Args:
        order: the order, with its limit in USD and the market's exchange rates.
        currency: in which the account bids.
        step: the least difference of two bids; the limit is rounded down to it.

    Raises:
        UsageError: the market has no rate of that currency.
    """
    rate = Decimal(1) if currency == "USD" else order.rates.get(currency)
    if rate is None:
        raise UsageError(
            f"this account bids in {currency}; no exchange rate from {currency} to USD is known",
            hint="use --on-demand",
        )
    return (order.max_price_usd * rate).quantize(step, rounding=ROUND_DOWN)


def amount_of(value: Any) -> Decimal | None:
    """A price; ``None`` for a value that cannot be one: text, zero, negative, infinite."""
    return step_amount(value) or None


def step_amount(value: Any) -> Decimal | None:
    """The price of a step of a tariff: an allowance costs 0; ``None`` for a value that cannot be one."""
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and amount >= 0 else None


# --- images


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRow:
    """One row of a provider's ``images.toml``; a subclass adds the fields that its cloud needs.

    Attributes:
        recipes: the recipes of the image, as globs.
        arch: the processor's architecture.
        machines: the types or families of machines that boot it, as globs; all of them by default.
        contents: the fields of :class:`gpucloud_templates.Image` besides its name.
    """

    recipes: tuple[str, ...]
    arch: str
    machines: tuple[str, ...] = ("*",)
    contents: Mapping[str, Any]


Row = TypeVar("Row", bound=ImageRow)


def read_images(package: str, kind: type[Row]) -> tuple[Row, ...]:
    """The rows of a package's ``images.toml``, in the order in which they are tried."""
    import tomllib
    from importlib.resources import files

    from gpucloud_templates.software import contents_of

    text = files(package).joinpath("images.toml").read_text(encoding="utf-8")
    known = {field.name for field in fields(kind)}

    def row_of(row: Mapping[str, Any]) -> Row:
        own: dict[str, Any] = {
            name: tuple(cast("list[str]", value)) if isinstance(value, list) else value
            for name, value in row.items()
            if name in known
        }
        return kind(contents=contents_of(row), **own)

    return tuple(map(row_of, tomllib.loads(text)["image"]))


def image_row(rows: Iterable[Row], recipe: str, arch: str, machine: str, *, cloud: str, own: str) -> Row:
    """The first row that fits.

    Args:
        rows: the table.
        recipe: the image of the order.
        arch: the processor's architecture.
        machine: the type or family of the machine, as the table names it.
        cloud: the cloud's name, for people.
        own: the form of an image of the user, for people.

    Raises:
        UsageError: none fits; the message lists the recipes.
    """
    listed = list(rows)
    for row in listed:
        if row.arch == arch and _any(row.recipes, recipe) and _any(row.machines, machine):
            return row
    patterns = {pattern for row in listed for pattern in row.recipes}
    known = sorted(each for each in patterns if not _any(patterns - {each}, each))  # without special cases
    raise UsageError(
        f"{cloud} has no image for {recipe!r} on {arch}",
        hint=f"use one of {', '.join(known)}, {own}, or a snapshot of a box: gpucloud snapshot list",
    )


def _any(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


# --- objects of a store


@contextmanager
def observed(
    observer: CallObserver | None, call: ApiCall, classify: Callable[[Exception], Verdict | None]
) -> Generator[None]:
    """Reports a changing call, and its outcome, for clients whose requests nobody else reports."""
    if observer is None:
        yield
        return
    answered = observer(call)
    try:
        yield
    except Exception as error:
        verdict = classify(error)
        answered(verdict.code if verdict else type(error).__name__, verdict.request_id if verdict else None)
        raise
    answered("ok", None)


class LongerError(GpucloudError):
    """An object of a store has more bytes than are to be read."""


def bounded(pieces: Iterable[bytes], target: BinaryIO, most: int) -> int:
    """Writes the content of an object to a file, and returns its size in bytes.

    Raises:
        LongerError: it has more than ``most`` bytes; reading has stopped there.
    """
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > most:
            raise LongerError(f"an object of the store has more than {most:,} bytes")
        target.write(piece)
    return size
