"""One cloud as the engine uses it: a provider, wrapped once with retries, logging and error messages."""

from __future__ import annotations

import logging
import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar, overload

from gpucloud.clouds.abilities import Audit, Checkup, Traits
from gpucloud.clouds.own_address import own_address
from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import (
    CallObserver,
    DeletionGraph,
    LateFailureError,
    PartialCreateError,
    Provider,
    Record,
    Verdict,
)
from gpucloud.errors import (
    RULES,
    CloudError,
    ErrorClass,
    Next,
    OutcomeUnknownError,
    Scope,
    UsageError,
)
from gpucloud.resources import (
    BadTags,
    Machine,
    Order,
    Ref,
    Request,
    Resource,
    Search,
    SearchResult,
)

log = logging.getLogger("gpucloud.clouds.cloud")
A = TypeVar("A")
D = TypeVar("D")
T = TypeVar("T")
_REFUSED: Final = object()
_HTML = re.compile(r"<(!doctype\s+html|html)\b.*", re.IGNORECASE | re.DOTALL)
"""An error page of a proxy, or of an endpoint that is down, instead of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How often and how long a call is retried: exponential backoff with full jitter, within a budget."""

    first_s: float = 0.5
    cap_s: float = 20.0
    budget_s: float = 60.0

    def delay_s(self, attempt: int, told_s: float | None, uniform: Callable[[float, float], float]) -> float:
        """The pause before the next try; the cloud's ``Retry-After`` takes precedence."""
        if told_s is not None:
            return min(told_s, self.cap_s)
        ceiling = min(self.first_s * 2**attempt, self.cap_s)
        return uniform(ceiling / 4, ceiling)


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """A provider with the behaviour that is the same for all clouds.

    Every method raises :class:`CloudError` with the cloud's own code, message and request id, or
    :class:`OutcomeUnknownError` when a create call may have been applied.
    """

    provider: Provider
    backoff: Backoff = field(default_factory=Backoff)
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    uniform: Callable[[float, float], float] = random.uniform

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.provider.name

    @property
    def deletion(self) -> DeletionGraph:
        """Which kinds depend on which when they are deleted."""
        return self.provider.deletion

    def account(self) -> str:
        """The account that the credentials belong to."""
        return self.call("identify the account", self.provider.account)

    def prepare(self, order: Order, record: Record) -> Request:
        """Creates the network and the security group of the instances; by name, so it may be repeated."""
        return self.call("prepare network and security group", lambda: self.provider.prepare(order, record))

    def bill(self, what: str, call: Callable[[], T], before: Callable[[], None]) -> T:
        """A billable call, repeated with the same key until its outcome is known.

        Args:
            what: what is asked, as in "could not ...".
            call: makes it; each try has the same idempotency key.
            before: called directly before each try; an exception of it passes.

        Raises:
            CloudError: refused; the last try created nothing. Its ``earlier_unknown`` is set if an earlier
                try had no answer.
            OutcomeUnknownError: what was asked for may have been created.
        """
        deadline = self.monotonic() + self.backoff.budget_s
        attempt, unknown = 0, False
        while True:
            before()
            try:
                return call()
            except Exception as error:
                verdict = self._verdict(error)
                rule = RULES[verdict.error_class]
                log.info("create: %s (%s)", verdict.code, verdict.error_class)
                if (rule.definite or not verdict.sent) and not isinstance(error, PartialCreateError):
                    failure = self._error(what, verdict)
                    failure.earlier_unknown = unknown
                    if rule.definite:
                        raise failure from error
                else:
                    failure = self._unknown(what, verdict)
                    failure.earlier_unknown, unknown = unknown, True
                delay_s = self.backoff.delay_s(attempt, verdict.retry_after_s, self.uniform)
                if rule.next is not Next.AGAIN or self.monotonic() + delay_s > deadline:
                    if unknown and not isinstance(failure, OutcomeUnknownError):
                        failure = self._unknown(what, verdict)
                    raise failure from error
                self.sleep(delay_s)
                attempt += 1

    def get(self, ref: Ref) -> Resource | None:
        """The present state of one resource; ``None`` if the cloud reports that the id does not exist."""
        try:
            return self.call(f"look at {ref.kind} {ref.id}", lambda: self.provider.get(ref))
        except CloudError as error:
            if error.error_class is ErrorClass.NOT_FOUND:
                return None
            raise

    def find(self, search: Search) -> SearchResult:
        """All resources of ours that match, and the regions that could not be read.

        Resources with tags that gpucloud never wrote are returned separately, except in a search by token:
        only the caller of a create call knows its token.
        """
        found = self.call("search by tag", lambda: self.provider.find(search))
        if search.token is not None:
            return found
        suspects = tuple(resource for resource in found.resources if isinstance(resource.tags, BadTags))
        resources = tuple(resource for resource in found.resources if not isinstance(resource.tags, BadTags))
        return replace(found, resources=resources, suspects=suspects)

    def delete(self, ref: Ref, *, once: bool = False) -> None:
        """Requests a deletion; success if it is gone already. ``once``: not retried while in use."""
        budget_s = 0.0 if once else self.backoff.budget_s
        try:
            self.call(f"delete {ref.kind} {ref.id}", lambda: self.provider.delete(ref), budget_s)
        except CloudError as error:
            if error.error_class is not ErrorClass.NOT_FOUND:
                raise

    def ability(self, kind: type[A]) -> A | None:
        """What has an ability in this cloud, to be asked what needs no call; ``None`` if nothing has."""
        return self.provider.ability(kind)

    @property
    def traits(self) -> Traits:
        """How this cloud treats machines."""
        return self.provider.ability(Traits) or Traits()

    @overload
    def ask(
        self, kind: type[A], what: str, call: Callable[[A], T], *, budget_s: float | None = None
    ) -> T: ...

    @overload
    def ask(
        self, kind: type[A], what: str, call: Callable[[A], T], *, lacking: D, budget_s: float | None = None
    ) -> T | D: ...

    def ask(
        self,
        kind: type[A],
        what: str,
        call: Callable[[A], object],
        *,
        lacking: object = _REFUSED,
        budget_s: float | None = None,
    ) -> object:
        """Asks an ability; may be repeated, so ``call`` does the same each time.

        Args:
            kind: the ability.
            what: what is asked, as in "could not ...".
            call: asks it.
            lacking: the answer for a cloud without the ability, which is refused otherwise.
            budget_s: how long to try again; by default as long as for the verbs of every provider.
        """
        able = self.ability(kind)
        if able is None:
            if lacking is _REFUSED:
                raise self._lacks(what)
            return lacking
        return self.call(what, lambda: call(able), budget_s)

    def bill_by(self, kind: type[A], what: str, call: Callable[[A], T], before: Callable[[], None]) -> T:
        """The billable call of an ability; otherwise as :meth:`bill`."""
        able = self.ability(kind)
        if able is None:
            raise self._lacks(what)
        return self.bill(what, lambda: call(able), before)

    def call(self, what: str, call: Callable[[], T], budget_s: float | None = None) -> T:
        """Makes a call, with retries where its failure allows them, within the budget."""
        deadline = self.monotonic() + (self.backoff.budget_s if budget_s is None else budget_s)
        attempt = 0
        while True:
            try:
                return call()
            except Exception as error:
                verdict = self._verdict(error)
                log.info("%s: %s (%s)", what, verdict.code, verdict.error_class)
                delay_s = self.backoff.delay_s(attempt, verdict.retry_after_s, self.uniform)
                again = RULES[verdict.error_class].next is Next.AGAIN
                if not again or self.monotonic() + delay_s > deadline:
                    raise self._error(what, verdict) from error
                self.sleep(delay_s)
                attempt += 1

    def _lacks(self, what: str) -> CloudError:
        return CloudError(
            f"{self.name}: could not {what}: gpucloud has no such calls for this cloud",
            error_class=ErrorClass.UNSUPPORTED,
            cloud=self.name,
            scope=Scope.ACCOUNT,
            sent=False,
        )

    def late(self, what: str) -> CloudError:
        """The error of a call that timed out."""
        return CloudError(f"{self.name}: {what}", error_class=ErrorClass.SERVER, cloud=self.name)

    def never_started(self, machine: Machine) -> CloudError:
        """The late refusal of a machine that ended before it ran, of which nothing is left.

        A class after which the same call is repeated, or nothing is tried, counts as lack of capacity here:
        the call is over, and another offer may start.
        """
        said = f"{machine.ref.id} ended before it ran"
        verdict = machine.reason and self.provider.classify(LateFailureError(machine.reason, said))
        verdict = verdict or Verdict(error_class=ErrorClass.CAPACITY, code=machine.reason or "", message=said)
        if RULES[verdict.error_class].next in {Next.AGAIN, Next.STOP}:
            verdict = replace(verdict, error_class=ErrorClass.CAPACITY)
        words = self._words("", verdict)
        words["message"] = f"{self.name}: {said}: {machine.reason or 'no reason given'}"
        words["code"] = machine.reason
        return CloudError(**words)

    def _verdict(self, error: Exception) -> Verdict:
        if isinstance(error, PartialCreateError) and isinstance(error.__cause__, Exception):
            return self._verdict(error.__cause__)
        verdict = self.provider.classify(error)
        if verdict is None:
            raise error
        return verdict

    def _unknown(self, what: str, verdict: Verdict) -> OutcomeUnknownError:
        return OutcomeUnknownError(**self._words(what, verdict))

    def _error(self, what: str, verdict: Verdict) -> CloudError:
        return CloudError(**self._words(what, verdict))

    def _words(self, what: str, verdict: Verdict) -> dict[str, Any]:
        said = _HTML.sub("a page of HTML", verdict.message)
        return {
            "message": f"{self.name}: could not {what}: {verdict.code}: {said}",
            "error_class": verdict.error_class,
            "cloud": self.name,
            "code": verdict.code,
            "request_id": verdict.request_id,
            "scope": verdict.scope,
            "sent": verdict.sent,
            "hint": verdict.hint or self._hint(verdict.error_class),
            "listed": verdict.listed,
        }

    def _hint(self, error_class: ErrorClass) -> str | None:
        """What to do about a code of a class that has no hint of its own."""
        checkup = self.ability(Checkup) if error_class is ErrorClass.AUTH else None
        return checkup.credentials_hint if checkup else HINTS.get(error_class)


HINTS: dict[ErrorClass, str] = {
    ErrorClass.AUTH: "check the credentials and their permissions for this cloud",
    ErrorClass.BILLING: "check the account's status and payment with the cloud",
    ErrorClass.QUOTA: "ask the cloud for more quota, or allow other regions or types",
    ErrorClass.CAPACITY: "try other regions or GPUs, or later",
    ErrorClass.UNSUPPORTED: "try other zones or types",
    ErrorClass.PRICE: "raise --max-price, or allow other ways of paying",
    ErrorClass.THROTTLED: "wait a minute, then repeat the command",
    ErrorClass.SERVER: "repeat the command; gpucloud list shows what is known",
    ErrorClass.CONFLICT: "use another --name, or find in the cloud's console what has the name",
    ErrorClass.BAD_PARAM: "the cloud refused the request itself: report it as a bug, with the request id",
}


class Clouds:
    """The clouds that are installed, each opened at its first use."""

    def __init__(
        self,
        factories: Mapping[str, Callable[[], Provider]],
        wrap: Callable[[Provider], Cloud] = lambda provider: Cloud(provider=provider),
        *,
        own_address: Callable[[], str] | None = None,
    ) -> None:
        self._factories = factories
        self._own_address = own_address
        self._wrap = wrap
        self._made: dict[str, Cloud] = {}
        self._making = threading.Lock()

    @classmethod
    def installed(cls, profile: Profile, observer: CallObserver | None = None) -> Clouds:
        """Every provider of the entry-point group ``gpucloud.providers``.

        Args:
            profile: the account and the endpoints that they use.
            observer: called for every call that changes something.

        Raises:
            UsageError: two packages bring a cloud of the same name.
        """
        from importlib.metadata import entry_points

        def make(entry: Any) -> Provider:
            provider: Provider = entry.load()(profile)
            if observer is not None and (audit := provider.ability(Audit)) is not None:
                audit.watch(observer)
            return provider

        installed = entry_points(group="gpucloud.providers")  # reads the metadata of every package
        entries = {entry.name: entry for entry in installed}
        for entry in installed:
            if entries[entry.name].value != entry.value:
                raise UsageError(
                    f"two packages bring a cloud named {entry.name!r}: {entry.value} is one of them",
                    hint="uninstall one of them",
                )
        factories = {name: partial(make, entry) for name, entry in entries.items()}
        return cls(factories, own_address=partial(own_address, profile))

    def names(self) -> list[str]:
        """The clouds' names, sorted."""
        return sorted(self._factories)

    def caller_address(self) -> str | None:
        """This machine's public address; ``None`` where nobody is asked for it.

        Raises:
            UsageError: nobody knows it for certain.
        """
        return None if self._own_address is None else self._own_address()

    def usable(self, name: str) -> Cloud:
        """The cloud with this name, with its failure to load as a ``CloudError``.

        Raises:
            CloudError: it cannot be used on this machine: no provider of this name, or no SDK.
        """
        try:
            return self[name]
        except (KeyError, ImportError) as error:
            raise CloudError(
                f"cloud {name!r} is not installed: {error}",
                error_class=ErrorClass.AUTH,
                cloud=name,
                scope=Scope.ACCOUNT,
                hint=f"pip install 'gpucloud[{name}]'",
                sent=False,
            ) from error

    def __getitem__(self, name: str) -> Cloud:
        """The cloud with this name.

        Raises:
            KeyError: no provider of this name is installed.
            ImportError: its SDK is not installed.
        """
        with self._making:
            if name not in self._made:
                self._made[name] = self._wrap(self._factories[name]())
            return self._made[name]
