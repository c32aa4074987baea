"""What is done with boxes by their names: ``client.boxes``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from gpucloud.api import lifetime
from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from gpucloud.api.box import Box
    from gpucloud.api.moving import Move
    from gpucloud.api.results import Shared, SshHosts
    from gpucloud.api.session import Session
    from gpucloud.boxes.power import PlannedStop, Start
    from gpucloud.journal.records import Box as JournalBox
    from gpucloud.ssh.hosts import Host


class Boxes:
    """Boxes, by their names: their end, their power, another place, colleagues, other ssh clients."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self, box: JournalBox, now: datetime) -> Box:
        """A box from a record of the journal, at a moment."""
        from gpucloud.api.box import Box

        return Box.read(box, self._session, now)

    def extend(
        self,
        name: str,
        ttl: timedelta | None,
        *,
        add: bool = False,
        confirm: Callable[[datetime | None, datetime], bool] | None = None,
    ) -> Box:
        """Moves the deadline of the box, later or earlier, to ``ttl`` from now; ``None`` for no deadline.

        Args:
            name: its name or id.
            ttl: the time from now.
            add: the deadline becomes later by ``ttl``, instead.
            confirm: is called with the old and the new deadline before it becomes earlier; by default,
                nothing is confirmed.

        Raises:
            UsageError: it cannot be moved, or another process holds the box; or ``confirm`` returned
                ``False``.
            CloudError: the cloud refused.
        """
        return self._read(lifetime.extend(self._session, name, ttl, add=add, confirm=confirm))

    def stop(
        self,
        name: str,
        *,
        keep: timedelta | None = None,
        confirm: Callable[[PlannedStop], bool] | None = None,
    ) -> Box:
        """Stops it: only its disk, and the address that it keeps, are billed until it is started.

        Args:
            name: its name or id.
            keep: after how long the stopped box is deleted; by default, 7 days, or what the policy allows.
                For one that is stopped already, the time counts from now.
            confirm: is called with what is lost before anything is changed; by default, nothing is confirmed.

        Raises:
            UsageError: it cannot be stopped; or ``confirm`` returned ``False``.
            PolicyError, BudgetError: ``keep`` is longer than is allowed; nothing was stopped.
            ConnectionFailedError: it cannot be reached.
            CloudError: the cloud refused; it runs on.
            CleanupIncompleteError: it is not known to be stopped, or its compute is billed on.
        """
        return self._read(lifetime.stop(self._session, name, keep=keep, confirm=confirm))

    def start(
        self,
        name: str,
        *,
        ttl: timedelta | Literal["none"] | None = None,
        max_price: Decimal | None = None,
        confirm: Callable[[Start], bool] | None = None,
    ) -> Box:
        """Starts a stopped box at today's price, and waits until its GPUs answer over ssh.

        Args:
            name: its name or id.
            ttl: the time to live from now; by default, that of its launch.
            max_price: the limit in USD per hour; by default, that of its launch, or its previous price and
                the margin of a launch.
            confirm: is called with the price before anything is bought; by default, nothing is confirmed.

        Raises:
            UsageError: it is not stopped; or ``confirm`` returned ``False``.
            PriceError: it costs more than the limit; it stays stopped.
            CloudError: there is no capacity, or the cloud refused; it stays stopped.
            CleanupIncompleteError: it is not ready, and not known to be stopped again.
        """
        return self._read(lifetime.start(self._session, name, ttl=ttl, max_price=max_price, confirm=confirm))

    def setup(self, name: str) -> Box:
        """Repeats its set-up, and makes it ready.

        Raises:
            SetupFailedError: it failed again; the box stays until its deadline.
            UsageError: the set-up of this box cannot be repeated.
            ConnectionFailedError: the box cannot be reached.
            BoxLostError: the box ended meanwhile.
        """
        return self._read(lifetime.setup(self._session, name))

    def move(
        self,
        name: str,
        to: str,
        *,
        paths: Sequence[str] = (),
        max_price: Decimal | None = None,
        confirm: Callable[[Move], bool] | None = None,
    ) -> Box:
        """Launches a box like this one in another place, and copies files to it; the old one stays as it is.

        The new box has the spec of the old one, what is left of its time and its budget, and its variables.
        The command of ``run`` is not started again. Volumes come along as new ones, at the same paths; the
        old ones stay.

        Args:
            name: name or id of the old box.
            to: a cloud, a region or a zone.
            paths: files and folders below the home folder; by default, all of it.
            max_price: the limit in USD per hour; by default, that of the old box.
            confirm: is called before anything is bought; by default, nothing is confirmed.

        Returns:
            The new box. The old one is deleted by :meth:`Client.down`.

        Raises:
            UsageError: it cannot be moved there, or ``confirm`` returned ``False``.
            NotCopiedError, ConnectionFailedError: the files could not be copied; the new box is deleted.
            NoOfferError, PriceError, CloudError, CleanupIncompleteError: as :meth:`Client.launch`.
        """
        from gpucloud.api.moving import WHOLE, Mover

        with self._session.operation() as context:
            mover = Mover(context=context, catalog=self._session.catalog, billing_of=self._session.billing_of)
            there = mover.move(
                self._session.find(name),
                to,
                paths=tuple(paths) or WHOLE,
                max_price=max_price,
                confirm=confirm,
            )
            return self._read(there)

    def share(self, name: str, key: str, *, allow_from: Sequence[str] = (), remove: bool = False) -> Shared:
        """Lets a colleague in on a box with their own key; repeated, it changes nothing.

        Args:
            name: the name or id of the box.
            key: the content of the colleague's public key file: one line.
            allow_from: addresses that the box accepts from now on, besides the present ones.
            remove: takes the key and these addresses away, instead. Connections that are open stay open.

        Raises:
            UsageError: it is not one public key; an address is none; or the box cannot be reached from here.
            ConnectionFailedError: a node cannot be reached; repeat the call.
            CloudError: the addresses could not be changed.
        """
        from gpucloud.api.results import Shared
        from gpucloud.boxes.share import share as share_box
        from gpucloud.spec.fields import cidrs
        from gpucloud.ssh.keys import read_shared_key

        try:
            guests = cidrs(tuple(allow_from))
        except ValueError as error:
            raise UsageError(f"--allow-from: {error}") from error
        shared_key = read_shared_key(key)
        with self._session.operation() as context:
            done = share_box(context, self._session.find(name), shared_key, guests=guests, remove=remove)
        return Shared(
            box=self._read(done.box),
            fingerprint=shared_key.fingerprint,
            changed=done.changed,
            nodes=tuple(done.nodes),
            host_keys=tuple(done.box.host_keys[node.node] for node in done.nodes),
            allow_from=done.box.allow_from,
            in_team=self._session.team_journal is not None,
        )

    def ssh_hosts(self) -> SshHosts:
        """Writes the file of hosts for other ssh clients; from then on each call keeps it up to date.

        Raises:
            UsageError: the file cannot be written.
        """
        from gpucloud.api.results import SshHosts
        from gpucloud.boxes.hosts import all_hosts
        from gpucloud.config import HOSTS
        from gpucloud.ssh.hosts import hosts_text, keep

        def read() -> list[Host]:
            return all_hosts(
                self._session.journal, self._session.owner, self._session.state, self._session.proxy_command
            )

        file = self._session.state / HOSTS
        try:
            keep(file, read)
        except OSError as error:
            raise UsageError(
                f"cannot write {file}: {error.strerror or error}",
                hint="free some space, or set GPUCLOUD_HOME to a folder that you can write to",
            ) from error
        hosts = tuple(read())
        return SshHosts(file=file, hosts=hosts, text=hosts_text(hosts))

    def _read(self, box: JournalBox) -> Box:
        return self.read(box, self._session.now())
