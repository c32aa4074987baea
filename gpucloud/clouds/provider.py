"""The provider interface: what one cloud must do, in few verbs; abilities are what it may do besides.

Methods let the SDK's own exceptions pass; ``classify`` returns their meaning. Retrying, waiting, deadlines,
logging and error wrapping are done once for every cloud by :class:`gpucloud.clouds.cloud.Cloud`. A provider
must be safe to use from several threads, keeps no state of its own beyond caches of what cannot change, and
sends nothing when it is constructed. Providers are found through the entry-point group
``gpucloud.providers``: an entry is a callable, usually the provider's class, that takes a
:class:`gpucloud.clouds.profile.Profile` and returns a :class:`Provider`. Credentials and endpoints are in the
profile; a provider reads nothing from the process's environment, so that one process can use several
accounts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Protocol, TypeVar

from gpucloud.errors import ErrorClass, Scope
from gpucloud.resources import (
    Machine,
    Order,
    Ref,
    Request,
    Resource,
    ResourceKind,
    Search,
    SearchResult,
)

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The meaning of a cloud's error, with the cloud's own message.

    ``hint`` says what the user can do about this code; without one, that of its class is shown. ``listed`` is
    False for a code that no table knows. ``sent`` is False if the request was certainly never sent
    (connection refused, bad parameters caught by the SDK): then the outcome is known even if the error alone
    would leave it unknown.
    """

    error_class: ErrorClass
    code: str
    message: str
    request_id: str | None = None
    retry_after_s: float | None = None
    scope: Scope = Scope.ATTEMPT
    hint: str | None = None
    listed: bool = True
    sent: bool = True


class PartialCreateError(Exception):
    """A create that failed in a call after the billable one; raised ``from`` that call's error.

    Whether that later call was sent proves nothing about the machines: they may exist.
    """


class LateFailureError(Exception):
    """What a cloud had accepted failed later.

    Args:
        code: the cloud's own, of what it accepted.
        message: the cloud's words.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Record(Protocol):
    """Called before and after ``prepare`` creates a resource, so that a crash in between loses nothing."""

    def making(self, kind: ResourceKind, name: str, /) -> None:
        """Called before the call that creates a resource; returns once that is on disk."""
        ...

    def made(self, ref: Ref, /) -> None:
        """Called as soon as the resource's id is known; returns once that is on disk."""
        ...

    def armed(self, timers: Sequence[str], /) -> None:
        """Called as soon as timers are set that will end the machines; returns once that is on disk."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionGraph:
    """Which kinds depend on which when they are deleted.

    Attributes:
        held_by: for each kind, the kinds that depend on it: those are deleted before it. Of a kind that
            depends on itself, the newest is deleted first, one at a time.
        takes_along: for each kind, the kinds that the cloud deletes together with it.
    """

    held_by: Mapping[ResourceKind, Collection[ResourceKind]]
    takes_along: Mapping[ResourceKind, Collection[ResourceKind]] = field(
        default_factory=dict[ResourceKind, Collection[ResourceKind]]
    )

    @classmethod
    def in_order(
        cls,
        *kinds: ResourceKind,
        takes_along: Mapping[ResourceKind, Collection[ResourceKind]] | None = None,
    ) -> DeletionGraph:
        """A graph in which the kinds are deleted one after the other, in this order."""
        held_by = {kind: kinds[:number] for number, kind in enumerate(kinds)}
        return cls(held_by=held_by, takes_along=takes_along or {})

    def holders(self, kind: ResourceKind) -> frozenset[ResourceKind]:
        """The other kinds that depend on one; a kind that is not declared comes after all declared ones."""
        return frozenset(self.held_by.get(kind, self.held_by)) - {kind}

    def holds_itself(self, kind: ResourceKind) -> bool:
        """Whether resources of a kind depend on others of the same kind."""
        return kind in self.held_by.get(kind, ())

    @property
    def order(self) -> Sequence[ResourceKind]:
        """The declared kinds, each after those that depend on it."""
        return tuple(TopologicalSorter({kind: self.holders(kind) for kind in self.held_by}).static_order())


class Provider(Protocol):
    """One cloud."""

    @property
    def name(self) -> str:
        """The cloud's short name, as in the market's data: ``aws``."""
        ...

    @property
    def deletion(self) -> DeletionGraph:
        """Which kinds depend on which when they are deleted; independent ones go at the same time."""
        ...

    @property
    def ending(self) -> str:
        """For people, as part of a sentence: what ends a box at its deadline, and what stays billed."""
        ...

    def account(self) -> str:
        """The account, subscription or tenant that the credentials belong to."""
        ...

    def prepare(self, order: Order, record: Record, /) -> Request:
        """Creates the network and the group of the order's instances; returns the create call as plain JSON.

        Each resource has a deterministic name from ``order.name`` and is found again rather than created
        twice. ``record`` must be called before and after each one is created. Creates nothing billable except
        addresses, where they must exist before their machine. The same order yields the same request. For an
        order with a ``vacancy`` it makes nothing that the other nodes have already.
        """
        ...

    def create(self, request: Request, /) -> Sequence[Machine]:
        """The billable call: all nodes or none. The same request yields the same machines, never more.

        The tags, the encrypted disk, the restricted metadata service and the way in which the box ends itself
        are part of this call. A timer that ends it and cannot be part of the call is set by
        :class:`gpucloud.clouds.abilities.Deadlines`.

        Raises :class:`PartialCreateError` for a failure after a machine may have been created, unless all of
        them have been deleted again.
        """
        ...

    def get(self, ref: Ref, /) -> Resource:
        """One resource by id, with state ``gone`` if it was deleted and the cloud still returns it.

        Raises the SDK's not-found error when the cloud does not know the id.
        """
        ...

    def find(self, search: Search, /) -> SearchResult:
        """All resources with gpucloud's tags that match: of every kind, in every region or those searched.

        A region that cannot be read is ``unread``; so is an empty answer without proof that the caller may
        read.
        Resources that are gone may be left out.
        """
        ...

    def delete(self, ref: Ref, /) -> None:
        """Requests the deletion of one resource of any kind; success if it is gone already. Does not wait."""
        ...

    def classify(self, error: Exception, /) -> Verdict | None:
        """The meaning of an exception of the SDK; ``None`` for any other exception."""
        ...

    def ability(self, kind: type[A], /) -> A | None:
        """What has an ability of :mod:`gpucloud.clouds.abilities` in this cloud; ``None`` if nothing has."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """A call that changes something, or is about to. ``action`` is the cloud's own name for it.

    ``target`` is an id, a name, or the idempotency key of the resource to be created.
    """

    cloud: str
    region: str
    action: str
    target: str


class Answered(Protocol):
    """Called with the outcome of a call."""

    def __call__(self, outcome: str, request_id: str | None, /) -> None:
        """``outcome`` is ``ok``, the cloud's error code, or the name of the exception."""
        ...


class CallObserver(Protocol):
    """Called before every changing call."""

    def __call__(self, call: ApiCall, /) -> Answered:
        """Called in the thread that is about to send it; returns the function to call with its outcome."""
        ...
