"""The state of a client: accounts, folders, journal, market, and the context of each call.

Each part is opened once, when it is first used, and is safe to use from several threads.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpucloud.clouds.profile import Profile
from gpucloud.config import (
    CHANNELS,
    CHANNELS_VARIABLE,
    DEFAULTS,
    HOSTS,
    JOURNAL,
    Paths,
    find_owner,
    find_paths,
    known_owner,
    make_private,
)
from gpucloud.errors import CloudError, ErrorClass, UsageError
from gpucloud.runtime.events import Sink, Warned, unfailing

if TYPE_CHECKING:
    from gpucloud.checkup import Means
    from gpucloud.clouds.audit import AuditLog
    from gpucloud.clouds.cloud import Clouds
    from gpucloud.clouds.emulated import Endpoint
    from gpucloud.clouds.provider import CallObserver
    from gpucloud.costs.anomalies import UnusualDay
    from gpucloud.costs.budgets import Standing
    from gpucloud.journal.budgets import Budget
    from gpucloud.journal.postgresql.address import Address
    from gpucloud.journal.records import Box, H
    from gpucloud.journal.store import Journal
    from gpucloud.market.catalog import Catalog
    from gpucloud.monitor.channels import Channel
    from gpucloud.monitor.notices import Notice
    from gpucloud.runtime.context import Context
    from gpucloud.runtime.tasks import Tasks
    from gpucloud_pricing.billing import Billing


COLLECTOR = "OTEL_EXPORTER_OTLP_ENDPOINT"
LOGIN_S = 10.0
"""How long to try again to get what logs in at a database: a command waits for its journal."""
TRACES_COLLECTOR = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
"""OpenTelemetry's variables for where traces are sent."""
PARENT = "TRACEPARENT"
"""The variable with the trace of a pipeline."""
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?P<trace>(?!0{32})[0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
"""Source: W3C Trace Context, "traceparent header"."""


class Session:
    """The state of one client.

    Args:
        profile: the accounts and settings.
        journal: the file of the journal; by default, that of the profile's folders.
        owner: the owner id of the boxes; by default, the user's own.
        on_event: is called with each event.

    Attributes:
        sandboxed: whether the clouds are those of the local sandbox.
        command: the command that the audit file names for the calls.
        tasks: where calls wait; by default, each call has its own.
    """

    def __init__(self, profile: Profile, journal: Path | None, owner: str | None, on_event: Sink) -> None:
        self.profile = profile
        self._sink = unfailing(on_event)
        self.sandboxed = False
        self.command = "library"
        self.tasks: Tasks | None = None
        self._file = journal
        self._owner = owner
        self._lock = threading.RLock()
        self._journal: Journal | None = None
        self._stands_in = False
        self._told: set[str] = set()
        self._catalog: Catalog | None = None
        self._endpoint: Endpoint | None = None

    @property
    def on_event(self) -> Sink:
        """Tells an event; what fails then ends nothing."""
        return self._sink

    @on_event.setter
    def on_event(self, sink: Sink) -> None:
        self._sink = unfailing(sink)

    def now(self) -> datetime:
        """The time, in UTC."""
        return datetime.now(UTC)

    def close(self) -> None:
        """Closes the journal; a later call opens it again."""
        with self._lock:
            journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()

    # --- files

    @property
    def paths(self) -> Paths:
        """The folders of the profile; a sandbox has its own state folder."""
        return find_paths(self.profile.variables, sandbox=self.sandboxed)

    @property
    def state(self) -> Path:
        """The folder of the journal, the keys and the history of prices; made if it is missing."""
        return make_private(self.paths.state if self._file is None else self._file.absolute().parent)

    @property
    def owner(self) -> str:
        """The owner id, which is in the tags of every resource; in a team's journal, the login there."""
        with self._lock:
            if self._owner is None:
                named = self.team_journal is None or self.owner_is_chosen
                identity = None if named else self.journal.identity
                self._owner = find_owner(self.paths, self.profile.variables, identity=identity)
            return self._owner

    @property
    def owner_is_chosen(self) -> bool:
        """Whether the user has said which owner this is; otherwise it is that of this machine or login."""
        return bool(self.profile.variables.get("GPUCLOUD_OWNER"))

    @property
    def owners(self) -> frozenset[str]:
        """The owner id, and the others of the same login in a team's journal."""
        return frozenset({self.owner, *self.journal.aliases(self.owner)})

    @property
    def journal(self) -> Journal:
        """The journal: that of the team, or a file, which is made if there is none."""
        from gpucloud.journal.store import Journal

        with self._lock:
            if self._journal is None:
                if self.team_journal is not None:
                    from gpucloud.journal.postgresql.spool import FILE

                    self._journal = Journal.connect(
                        self.team_journal,
                        self.now,
                        kind=self.kind,
                        spool=self.state / FILE,
                        tokens=self.database_token,
                    )
                    self._remember(self._journal)
                else:
                    self._journal = Journal.open(self.journal_file, self.now, kind=self.kind)
            return self._journal

    def tell_damaged(self) -> None:
        """Tells of what was read of the journal and makes no sense, once each."""
        damaged: Mapping[str, str] = self._journal.damaged if self._journal else {}
        for id_, why in damaged.items():
            if id_ not in self._told:
                self._told.add(id_)
                text = f"{why}. What its events say is used, or it is left out"
                self.on_event(Warned("journal", text, "look at all of it: gpucloud journal verify"))

    @property
    def stands_in(self) -> bool:
        """Whether an empty journal of this machine stands in for that of the team, for one call."""
        return self._stands_in

    def _remember(self, journal: Journal) -> None:
        if journal.identity and not self.owner_is_chosen:
            from gpucloud.journal.postgresql.spool import remember_owner

            remember_owner(self.state, str(self._address()), journal.identity)

    def _address(self) -> Address:
        """Where the team's journal is; its text has no secrets."""
        from gpucloud.journal.postgresql.address import read_address

        assert self.team_journal is not None  # noqa: S101  (who calls has one)
        return read_address(self.team_journal)

    @property
    def _ended_without(self) -> Path | None:
        from gpucloud.journal.postgresql.spool import ended_without

        return None if self.team_journal is None else ended_without(self.state, str(self._address()))

    @contextmanager
    def _whatever_the_journal(self) -> Generator[None]:
        """Boxes end in the body with the clouds alone, where the team's journal cannot be reached or written.

        Raises:
            UsageError: it cannot be used, and nothing here says whose boxes are meant.
        """
        why = self._why_away()
        if why is None:
            yield
            return
        from gpucloud.ending.stand_in import standing_in
        from gpucloud.journal.postgresql.spool import ended_without, remembered_owner

        address = self._address()
        login = remembered_owner(self.state, str(address)) or address.parameters.get("user")
        if not (login or self.owner_is_chosen):
            why.hint = f"{why.hint}; say whose boxes: GPUCLOUD_OWNER=ID"
            raise why
        owner = find_owner(self.paths, self.profile.variables, identity=login)
        self.on_event(
            Warned(
                "journal",
                f"Boxes of owner {owner} are found by their tags, and end without the journal: {why.message}",
                "files that a run has left are not copied; the next command with the journal tells it",
            )
        )
        spool = ended_without(self.state, str(address))
        with standing_in(self.state, spool, self.now, self.kind) as journal:
            before, self._owner = self._owner, owner
            self._journal, self._stands_in = journal, True
            try:
                yield
            finally:
                self._journal, self._owner, self._stands_in = None, before, False

    def _why_away(self) -> UsageError | None:
        """Why the team's journal cannot be used to end boxes; ``None`` if it can, or is a file."""
        from gpucloud.journal.errors import UnreachableError

        if self.team_journal is None:
            return None
        try:
            journal = self.journal
        except UnreachableError as error:
            return error
        if not journal.only_reads:
            return None
        self.close()
        return UnreachableError(
            f"the journal {self._address()} is a copy that takes no changes",
            hint="name the primary server in GPUCLOUD_JOURNAL",
        )

    @property
    def journal_file(self) -> Path:
        """The file of the journal; made by whoever opens it."""
        return self.state / (self._file.name if self._file else JOURNAL)

    @property
    def kind(self) -> str:
        """Of what the boxes are, as a journal is marked: ``real`` or ``sandbox``."""
        return "sandbox" if self.sandboxed else "real"

    @cached_property
    def team_journal(self) -> str | None:
        """The URL of the team's journal; ``None`` for a file. There may be a password in it.

        Raises:
            UsageError: what names it is no URL of PostgreSQL.
        """
        if self._file is not None:
            return None
        from gpucloud.journal.postgresql import is_address
        from gpucloud.spec.defaults import journal_of

        url = self.profile.variables.get("GPUCLOUD_JOURNAL") or journal_of(self.paths.config / DEFAULTS)
        if url and not is_address(url):
            raise UsageError(
                "GPUCLOUD_JOURNAL, or journal in the defaults, is no URL of PostgreSQL",
                hint="give postgresql://USER@HOST/DATABASE; unset it to use the file of your journal",
            )
        return url or None

    @property
    def may_have_spot(self) -> bool:
        """Whether there may be boxes on spot, or were: asked as :attr:`may_have_policy` is."""
        from gpucloud.journal.sqlite.names import has_spot

        if self.team_journal is not None:
            return True
        owner = known_owner(self.paths, self.profile.variables) or ""  # then nothing is anybody's
        return has_spot(self._file or self.paths.state / JOURNAL, owner)

    @property
    def may_have_policy(self) -> bool:
        """Whether a policy may be in force: of a file, one query tells, without what a journal loads."""
        from gpucloud.journal.sqlite.names import has_policy

        return self.team_journal is not None or has_policy(self._file or self.paths.state / JOURNAL)

    @property
    def catalog(self) -> Catalog:
        """The market at the prices of the last refresh, and the accounts' commitments."""
        from gpucloud.market.catalog import Catalog

        with self._lock:
            if self._catalog is None:
                self._catalog = Catalog(self.state, lambda text: self.on_event(Warned("prices", text)))
            return self._catalog

    def billing_of(self, cloud: str) -> Billing:
        """How a cloud bills: its minimum time, and its sizes of disks.

        The market is loaded only for a cloud of another package, which brings its own rules.
        """
        from gpucloud_pricing.billing import BILLING, NOTHING_SPECIAL

        if cloud in BILLING:
            return BILLING[cloud]
        return self.catalog.shipped.billing_of(cloud) if cloud else NOTHING_SPECIAL

    def database_token(self, cloud: str, *, host: str, port: int, user: str) -> str:
        """What logs in at a database of a cloud, as the identity that the profile has there.

        Raises:
            CloudError: the cloud is not set up here, or has no such logins.
        """
        from gpucloud.clouds.abilities import DatabaseLogin, DatabaseLogins

        usable, login = self.clouds().usable(cloud), DatabaseLogin(host=host, port=port, user=user)
        logins = usable.ability(DatabaseLogins)
        if logins is None:
            raise CloudError(
                f"{cloud} has no logins to databases by its own identities",
                error_class=ErrorClass.AUTH,
                cloud=cloud,
                hint="leave auth= out of the journal's URL",
                sent=False,
            )
        return usable.call(f"log in at {host}", lambda: logins.database_token(login), LOGIN_S)

    def standings(self, budgets: Sequence[Budget]) -> Sequence[Standing]:
        """What budgets count now, with the forecasts of their periods."""
        if not budgets:
            return ()
        from gpucloud.costs.budgets import since_of, standings_ahead
        from gpucloud.costs.forecast import start_of_history

        now, journal = self.now(), self.journal
        since = since_of(budgets, now)
        boxes = journal.billed_since(since and min(since, start_of_history(now)))
        return standings_ahead(budgets, boxes, journal.begun(), now, self.catalog.market)

    def unusual_days(self, *, all_owners: bool = False) -> list[UnusualDay]:
        """See :meth:`Costs.unusual_days`; the market is loaded for currencies other than USD."""
        from gpucloud.costs.anomalies import charges_by_day, since_when, unusual_days, usd_by_day

        def usd(amount: Decimal, currency: str) -> Decimal | None:
            return self.catalog.market.usd(amount, currency)

        now = self.now()
        boxes = self.journal.billed_since(since_when(now))
        own = [box for box in boxes if all_owners or box.owner == self.owner]
        spent = usd_by_day(charges_by_day(own, now, self.billing_of), usd)
        return unusual_days(spent, self.journal.begun(), now)

    def find(self, name: str) -> Box:
        """The living box of this name or id, or else the newest that has ended.

        Raises:
            UsageError: there is none.
        """
        from gpucloud.journal.records import Box

        return self.find_holding(name, Box)

    def find_holding(self, name: str, of: type[H]) -> H:
        """As :meth:`find`, of a volume or snapshot, or of any ``Holding``."""
        from gpucloud.boxes.connection import find_holding

        return find_holding(self.journal, self.owner, name, of)

    def new_run_id(self) -> str:
        """A new, unique run id."""
        from gpucloud.journal.lifecycle import new_id

        return new_id("r-", self.now(), os.urandom(10))

    # --- clouds

    def clouds(self, observer: CallObserver | None = None) -> Clouds:
        """The installed clouds with the accounts of the profile; a sandbox is started if needed.

        Args:
            observer: is called for every call that changes something.
        """
        from gpucloud.clouds.cloud import Clouds

        return Clouds.installed(self.outward_profile(), observer)

    def outward_profile(self) -> Profile:
        """The profile for calls to the clouds; that of a sandbox, which is started if needed."""
        theirs: Mapping[str, str] = self._connected().environ if self.sandboxed else {}
        return Profile({**self.profile.variables, **theirs})

    def installed(self) -> Clouds:
        """The installed clouds, for what they know without a call: a sandbox is not started."""
        from gpucloud.clouds.cloud import Clouds

        return Clouds.installed(self.profile)

    @property
    def proxy_command(self) -> str | None:
        """The ``ProxyCommand`` of ssh for a sandbox, which is started if needed; ``None`` for real clouds."""
        return self._connected().ssh_proxy_command if self.sandboxed else None

    def _connected(self) -> Endpoint:
        from gpucloud.clouds.emulated import ensure_started

        with self._lock:
            if self._endpoint is None:
                self._endpoint = ensure_started(make_private(self.paths.sandbox))
            return self._endpoint

    # --- calls

    @contextmanager
    def ending(self) -> Generator[Context]:
        """The context of a call that ends boxes: where the team's journal is away, the clouds are enough."""
        with self._whatever_the_journal(), self.operation() as context:
            yield context

    @contextmanager
    def operation(self) -> Generator[Context]:
        """The context of one call: journal, clouds, time, progress; its leases are renewed meanwhile."""
        from gpucloud.journal.leases import calling, renewing
        from gpucloud.runtime.context import Context
        from gpucloud.runtime.tasks import Tasks

        proxy_command, journal = self.proxy_command, self.journal
        with (
            self._telling(journal),
            self._tracing() as (observer, emit),
            calling() as call,
            renewing(journal),
        ):
            context = Context(
                owner=self.owner,
                journal=journal,
                clouds=self.clouds(observer),
                tasks=self.tasks or Tasks(),
                emit=emit,
                clock=self.now,
                state=self.state,
                proxy_command=proxy_command,
                mend_clock=self._mend_clock,
                call=call,
                before_end=_write_out,
                market=lambda: self.catalog.market,
                ended_without=None if self._stands_in else self._ended_without,
            )
            context.tasks.heard = partial(context.tell, "down")
            try:
                yield context
            finally:
                self.tell_damaged()
                if (self.state / HOSTS).exists() and not self._stands_in:
                    from gpucloud.boxes.hosts import keep_hosts

                    keep_hosts(context)

    @contextmanager
    def _tracing(self) -> Generator[tuple[CallObserver, Sink]]:
        """Traces the body where OpenTelemetry's variables name a collector. Else nothing of it is loaded.

        The audit has the trace's id; without a collector that of the pipeline, if there is one.
        """
        variables = self.profile.variables
        found = _TRACEPARENT.fullmatch(variables.get(PARENT, ""))
        parent = found["trace"] if found else None
        if not (variables.get(COLLECTOR) or variables.get(TRACES_COLLECTOR)):
            yield self._audit(parent).observe, self.on_event
            return
        try:
            from gpucloud.monitor.traces import tracing
        except ImportError as error:
            hint = "install it: pip install 'gpucloud[otel]'"
            self.on_event(Warned("trace", f"nothing is traced: {error.name} is not installed", hint))
            yield self._audit(parent).observe, self.on_event
            return
        with tracing(self.command, variables) as trace:
            yield trace.observing(self._audit(trace.id).observe), trace.sink(self.on_event)

    # --- notices

    def channels(self) -> tuple[Channel, ...]:
        """The user's channels for notices; most users have none.

        Raises:
            UsageError: the file, or the variable in its place, cannot be used.
        """
        config, variables = self.paths.config, self.profile.variables
        if not (variables.get(CHANNELS_VARIABLE) or (config / CHANNELS).exists()):
            return ()
        from gpucloud.monitor.settings import read_channels

        return read_channels(config, variables)

    @contextmanager
    def _telling(self, journal: Journal) -> Generator[None]:
        """Sends notices of what is journalled in the body. Without channels it does nothing."""
        try:
            channels = self.channels()
        except UsageError as error:  # no reason to leave a box running
            channels = ()
            self.on_event(Warned("notify", f"nobody is notified: {error.message}", error.hint))
        if not channels:
            yield
            return
        from gpucloud.monitor.delivery import FILE, Sent
        from gpucloud.monitor.watching import Watch

        watch = Watch(
            owner=self.owner,
            journal=journal,
            channels=channels,
            sent=Sent(self.state / FILE),
            now=self.now,
            billing_of=self.billing_of,
            complain=self._complain,
            money=self._money_notices,
            prefix=self.notice_prefix,
        )
        with watch.watching():
            yield

    def _money_notices(self) -> list[Notice]:
        from gpucloud.monitor.notices import of_money

        return of_money(self.standings(self.journal.budgets()), self.unusual_days(), self.now())

    @property
    def notice_prefix(self) -> str:
        """What the text of each notice begins with."""
        return "Sandbox: " if self.sandboxed else ""

    def _complain(self, text: str) -> None:
        self.on_event(Warned("notify", text))

    def checking(self) -> Means:
        """What a check works with. It does without the journal, and reports a damaged one like any fault."""
        from gpucloud.checkup import Means
        from gpucloud.runtime.tasks import Tasks

        return Means(
            clouds=self.clouds(self._audit().observe),
            tasks=self.tasks or Tasks(),
            clock=self.now,
            mend_clock=self._mend_clock,
        )

    def journal_problem(self) -> UsageError | None:
        """Why the journal cannot be used; ``None`` if it can. One that is missing is made."""
        try:
            _ = self.journal
        except UsageError as error:
            return error
        return None

    def _audit(self, trace: str | None = None) -> AuditLog:
        from gpucloud.clouds.audit import AuditLog

        return AuditLog(
            self.state,
            owner=self.owner,
            command=self.command,
            clock=self.now,
            new_id=lambda: os.urandom(8).hex(),
            complain=lambda text: self.on_event(Warned("audit", text)),
            trace=trace,
        )

    @property
    def _mend_clock(self) -> str:
        from gpucloud.runtime.context import SET_CLOCK

        return self._connected().mend_clock if self.sandboxed else SET_CLOCK


def _write_out(context: Context, box: Box) -> None:
    """Unmounts the volumes of a box before it is deleted; few boxes have any."""
    if box.wanted.spec.get("volumes"):
        from gpucloud.storage.mounting import write_out

        write_out(context, box)
