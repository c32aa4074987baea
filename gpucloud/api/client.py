"""gpucloud for programs: one owner's boxes, on the clouds of one profile, in one journal.

A client installs no signal handler and changes nothing of the process around it. Several clients may be used
at once, and one from several threads: each call works in the thread that makes it.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from gpucloud.api.everyday import Everyday
from gpucloud.api.session import Session
from gpucloud.clouds.profile import Profile
from gpucloud.runtime.events import Sink, ignore

if TYPE_CHECKING:
    from gpucloud.api.accounts import Accounts
    from gpucloud.api.audits import Audits
    from gpucloud.api.boxes import Boxes
    from gpucloud.api.budgets import Budgets
    from gpucloud.api.costs import Costs
    from gpucloud.api.engines import Engines
    from gpucloud.api.journals import Journals
    from gpucloud.api.markets import Markets
    from gpucloud.api.metrics import Metrics
    from gpucloud.api.nodes import Nodes
    from gpucloud.api.notices import Notices
    from gpucloud.api.policy import Policies
    from gpucloud.api.prices import Prices
    from gpucloud.api.resources import Resources
    from gpucloud.api.runs import Runs
    from gpucloud.api.snapshots import Snapshots
    from gpucloud.api.tend import Tend
    from gpucloud.api.volumes import Volumes
    from gpucloud.journal.store import Journal
    from gpucloud.market.catalog import Catalog
    from gpucloud.runtime.tasks import Tasks
    from gpucloud_pricing.billing import Billing


class Client(Everyday):
    """Launches, uses and deletes boxes; everything else is in a namespace, by its subject.

    Args:
        profile: the accounts and settings, as the variables that the vendors' tools and gpucloud read; by
            default, those of the process.
        journal: the file of the journal; keys and the history of prices are stored beside it. By default,
            the user's journal, which the command line uses as well.
        owner: the owner id of the boxes; by default, the user's own.
        on_event: is called with each event (:mod:`gpucloud.runtime.events`), in the thread where it occurs.

    Raises:
        UsageError: there is no folder for the journal, or the owner's id is damaged.
    """

    def __init__(
        self,
        *,
        profile: Profile | None = None,
        journal: Path | None = None,
        owner: str | None = None,
        on_event: Sink = ignore,
    ) -> None:
        profile = Profile(os.environ) if profile is None else profile
        self._session = Session(profile, journal, owner, on_event)

    @classmethod
    def sandbox(
        cls,
        *,
        profile: Profile | None = None,
        journal: Path | None = None,
        owner: str | None = None,
        on_event: Sink = ignore,
    ) -> Client:
        """A client of this user's sandbox, which is started if it does not run, and keeps running afterwards.

        The arguments are those of :class:`Client`.
        """
        client = cls(profile=profile, journal=journal, owner=owner, on_event=on_event)
        client._session.sandboxed = True
        return client

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the journal. Boxes and the sandbox keep running."""
        self._session.close()

    def work_with(self, tasks: Tasks) -> None:
        """Makes calls wait in these tasks, which the command line interrupts by signals.

        Afterwards, only the thread that made the tasks may call.
        """
        self._session.tasks = tasks

    @property
    def on_event(self) -> Sink:
        """Is called with each event of a call."""
        return self._session.on_event

    @on_event.setter
    def on_event(self, sink: Sink) -> None:
        self._session.on_event = sink

    @property
    def command(self) -> str:
        """The command that ``gpucloud audit`` shows for the calls of this client."""
        return self._session.command

    @command.setter
    def command(self, command: str) -> None:
        self._session.command = command

    @property
    def owner(self) -> str:
        """The owner id, which is in the tags of every resource."""
        return self._session.owner

    @property
    def state(self) -> Path:
        """The folder of the journal, the keys and the history of prices; made if it is missing."""
        return self._session.state

    @property
    def journal(self) -> Journal:
        """The journal: that of the team, or a file, which is made if there is none."""
        return self._session.journal

    @property
    def catalog(self) -> Catalog:
        """The market at the prices of the last refresh, and the accounts' commitments."""
        return self._session.catalog

    def billing_of(self, cloud: str) -> Billing:
        """How a cloud bills: its minimum time, and its sizes of disks."""
        return self._session.billing_of(cloud)

    # --- namespaces, each loaded when it is first used

    @property
    def market(self) -> Markets:
        """Offers, estimates and comparisons."""
        from gpucloud.api.markets import Markets

        return Markets(self._session)

    @property
    def prices(self) -> Prices:
        """Known prices, refreshes, and the history of prices."""
        from gpucloud.api.prices import Prices

        return Prices(self._session)

    @property
    def accounts(self) -> Accounts:
        """Checks of the accounts, and policies for them."""
        from gpucloud.api.accounts import Accounts

        return Accounts(self._session)

    @property
    def boxes(self) -> Boxes:
        """Boxes by their names: extend, stop, start, setup, move, share."""
        from gpucloud.api.boxes import Boxes

        return Boxes(self._session)

    @property
    def nodes(self) -> Nodes:
        """The nodes of boxes over ssh, by the names of the boxes, and their logs."""
        from gpucloud.api.nodes import Nodes

        return Nodes(self._session)

    @property
    def runs(self) -> Runs:
        """Commands with boxes of their own: attempts, checkpoints, files."""
        from gpucloud.api.runs import Runs

        return Runs(self._session)

    @property
    def tend(self) -> Tend:
        """What looks after detached runs and boxes."""
        from gpucloud.api.tend import Tend

        return Tend(self._session)

    @property
    def volumes(self) -> Volumes:
        """Encrypted disks that outlive boxes."""
        from gpucloud.api.volumes import Volumes

        return Volumes(self._session)

    @property
    def snapshots(self) -> Snapshots:
        """Copies of volumes, and of the root disks of stopped boxes."""
        from gpucloud.api.snapshots import Snapshots

        return Snapshots(self._session)

    @property
    def engines(self) -> Engines:
        """Nodes for engines with a queue of their own: Slurm, Ray, Kubernetes."""
        from gpucloud.api.engines import Engines

        return Engines(self._session)

    @property
    def resources(self) -> Resources:
        """What the clouds hold: look, recover, sweep."""
        from gpucloud.api.resources import Resources

        return Resources(self._session)

    @property
    def costs(self) -> Costs:
        """What boxes have cost."""
        from gpucloud.api.costs import Costs

        return Costs(self._session)

    @property
    def audit(self) -> Audits:
        """The record of calls that changed something in a cloud."""
        from gpucloud.api.audits import Audits

        return Audits(self._session)

    @property
    def budgets(self) -> Budgets:
        """Budgets of the journal: what may be spent, and what is left of it."""
        from gpucloud.api.budgets import Budgets

        return Budgets(self._session)

    @property
    def policy(self) -> Policies:
        """The policy of the journal: what may be launched."""
        from gpucloud.api.policy import Policies

        return Policies(self._session)

    @property
    def notices(self) -> Notices:
        """Notices to people, by the channels of the configuration."""
        from gpucloud.api.notices import Notices

        return Notices(self._session)

    @property
    def metrics(self) -> Metrics:
        """Metrics for Prometheus: of the journal, and of boxes over ssh."""
        from gpucloud.api.metrics import Metrics

        return Metrics(self._session)

    @property
    def journals(self) -> Journals:
        """Calls about the journal itself: its tables on PostgreSQL, copies, verification."""
        from gpucloud.api.journals import Journals

        return Journals(self._session)
