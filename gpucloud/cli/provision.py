"""What every command that buys a box does: settle, plan, buy, bring up, sync; a failure leaves nothing."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING

from gpucloud.cli.context import App
from gpucloud.cli.engine import now, settle_owed
from gpucloud.cli.plan import lifetime, make
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.lifecycle import generated_name, new_id
from gpucloud.resources import Purchase
from gpucloud.spec.model import Spec
from gpucloud.ssh.client import forget, socket_folder
from gpucloud.ssh.keys import create_keys, find_program, key_folder, read_public_key
from gpucloud_pricing.gpus import parse_wishes
from gpucloud_pricing.places import admits

if TYPE_CHECKING:
    from datetime import datetime

    from gpucloud.boxes.attempt import Boot, Terms
    from gpucloud.clouds.cloud import Cloud
    from gpucloud.journal.store import Box
    from gpucloud.planning.plan import Candidate, Plan
    from gpucloud.runtime.context import Context

NAME_S = 2.0
"""How much longer than for the plan a launch waits for the clouds to tell whether its name is taken."""
FILES_TIMEOUT_S = 24 * 3600.0
"""Copying and setting up end when they end; a box's own end comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deal:
    """What is bought: a plan, when its box ends (``None`` for never), and when a person agreed to both.

    ``agreed_at`` is ``None`` where nobody was asked.
    """

    plan: Plan
    end: datetime | None
    agreed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Buyer:
    """One box to be: what is known before it, and the steps to it.

    ``environment`` is what ``env`` of the spec stands for. An ``attended`` box is to end with this process.
    ``accept_snapshot_price`` lets it buy at a price that no cloud names today.
    """

    app: App
    context: Context
    spec: Spec
    run_id: str | None
    proxy_command: str | None
    environment: Mapping[str, str]
    attended: bool = False
    accept_snapshot_price: bool = False

    def settle_first(self) -> None:
        """Finishes what earlier commands left; refuses a name that a box still has after that."""
        from gpucloud.boxes.launch import check_name

        settle_owed(self.app, self.context)
        if self.spec.name:
            check_name(self.context, self.spec.name)

    def deal(self, saved: Plan | None = None) -> Deal:
        """Today's plan, to be bought at once. A saved one must be the same, and gives no figure of its own.

        The name is looked for in the clouds meanwhile.

        Raises:
            PriceError: the saved plan does not hold any more.
            GpucloudError: there is no plan, or the saved one was edited; or the name is taken.
        """
        from gpucloud.planning.saved_plan import renewed

        with self._looking_for_name():
            plan = make(
                self.context,
                self.app.catalog,
                self.spec,
                accept_snapshot_price=self.accept_snapshot_price,
                to_buy=True,
            )
        if saved is not None:
            plan = renewed(saved, plan)
        lives = lifetime(plan, self.spec, self.app.catalog.market)
        return Deal(plan=plan, end=now() + lives if lives else None)

    @contextmanager
    def _looking_for_name(self) -> Generator[None]:
        """While the body runs, asks the clouds that may be used for machines that have the name.

        The journal may have been lost.

        Raises:
            UsageError: one has it.
        """
        from gpucloud.inventory.discovery import Patience, begin, finish, refuse_taken_name
        from gpucloud.resources import Search

        name = self.spec.name
        if name is None:
            yield
            return
        clouds = [each for each in self.context.clouds.names() if admits(self.spec.clouds, frozenset({each}))]
        search = Search(owner=self.context.owner, machines_only=True)
        asked = begin(self.context, search, dict.fromkeys(clouds))
        yield
        survey = finish(self.context, asked, Patience(first_s=NAME_S, whole_s=NAME_S, news_s=0.0))
        for cloud in sorted({region.cloud for region in survey.unread}):
            self.app.output.say(f"Whether a box named {name!r} lives in {cloud} is not known: no answer.")
        refuse_taken_name(self.context, name, survey)

    def buy(self, deal: Deal) -> Box:
        """Buys the first attempt that starts and brings it up; whatever fails, nothing is left.

        Returns:
            The box, which this process still holds.
        """
        from gpucloud.boxes.bring_up import UnfitError, bring_up
        from gpucloud.boxes.launch import abandon, replace_machines
        from gpucloud.boxes.launch import launch as buy_box

        plan = deal.plan
        name = self.spec.name or generated_name(plan.attempts[0].gpu_model, self.context.randomness(4))
        box_id = new_id("b-", now(), self.context.randomness(10))
        keys = key_folder(self.app.paths.state, box_id)
        try:
            terms = self._terms(deal, name, box_id, keys)
            box = buy_box(self.context, terms, plan.attempts)
            try:
                try:
                    box = bring_up(self.context, box, keys, self.proxy_command)
                except UnfitError as error:  # once: a second one is no accident
                    forget(keys, box_id, nodes=self.spec.nodes)  # the next machine has host keys of its own
                    terms = self._terms(deal, name, box_id, keys)
                    box = replace_machines(self.context, box, terms, plan.attempts, error.message)
                    box = bring_up(self.context, box, keys, self.proxy_command)
                self._prepare(box, keys)
            except BaseException as error:
                abandon(self.context, box, error)
                raise
        except BaseException:
            forget(keys, box_id, nodes=self.spec.nodes)
            raise
        return self.context.journal.held(box)

    def _terms(self, deal: Deal, name: str, box_id: str, keys: Path) -> Terms:
        from gpucloud.boxes.attempt import Boot, Terms
        from gpucloud.boxes.bring_up import USER, whole_gpus
        from gpucloud.boxes.ceiling import Agreement
        from gpucloud.costs.resource_prices import listed_prices
        from gpucloud.planning.boot_images import DEFAULT_IMAGE, boots, cut
        from gpucloud_templates import BootPlan, TooLargeError, packed, render
        from gpucloud_templates.software import later

        market = self.app.catalog.market
        end = deal.end
        made = create_keys(keys, box_id, nodes=self.spec.nodes)
        idle = self.spec.idles_out_after()

        recipe = self.spec.image or DEFAULT_IMAGE

        def boot(candidate: Candidate, cloud: Cloud) -> Boot:
            image, software = boots(cloud, candidate, recipe)
            software = replace(software, mig=cut(candidate, self.spec.gpu))
            plan = BootPlan(
                name=name,
                user=USER,
                public_key=made.public_key,
                host_private_key=made.host_private_key,
                host_public_key=made.host_public_key,
                deadline=end,
                ttl_s=int((end - now()).total_seconds()) if end else 0,
                extra_keys=(read_public_key(self.spec.ssh_key),) if self.spec.ssh_key else (),
                software=software,
                # With variables it is run over ssh: they may be secrets, which user-data must not carry.
                setup=(self.spec.setup,) if self.spec.setup and not self.environment else (),
                idle_s=int(idle.total_seconds()) if idle else None,
                checkpoint=self.spec.checkpoint,
                gpus=whole_gpus(candidate.gpu_count),
                spot=candidate.purchase is Purchase.SPOT,
                metadata=cloud.metadata,
                self_delete=cloud.self_delete if self.spec.box_identity else None,
            )
            facts = {
                "image": image.name,
                "steps": software.steps,
                "least_driver": later(image.driver, software.least_driver),
                "mig": software.mig,
            }
            return Boot(user_data=packed(render(plan)), facts=facts)

        try:
            for cloud, first in {each.cloud: each for each in reversed(deal.plan.attempts)}.items():
                boot(first, self.context.clouds[cloud])
        except TooLargeError as error:
            raise UsageError(str(error)) from error
        return Terms(
            box=box_id,
            name=name,
            run_id=self.run_id,
            nodes=self.spec.nodes,
            disk_gib=self.spec.disk,
            image=recipe,
            boot=boot,
            listed=partial(listed_prices, market),
            allow_from=self._allow_from,
            prices=Agreement(
                usd=market.usd, agreed_at=deal.agreed_at, unconfirmed=self.accept_snapshot_price
            ),
            ports=self.spec.ports,
            tags=self.spec.tags,
            expires_at=end,
            ttl_role=self.spec.ttl_role,
            box_identity=self.spec.box_identity,
            attended=self.attended,
            spec=dict(deal.plan.spec),
        )

    def _allow_from(self, cloud: Cloud) -> Sequence[str]:
        """Who is let in: as told, else this machine's address as the cloud sees it; never the world."""
        if self.spec.allow_from:
            return self.spec.allow_from
        try:
            address = self.context.tasks.run(partial(self.context.clouds.caller_address, cloud.name))
        except GpucloudError as error:
            raise UsageError(
                f"cannot tell this machine's address: {error.message}",
                hint="name it: --allow-from ADDRESS/32",
            ) from error
        if address is None:
            raise UsageError(
                f"neither {cloud.name} nor another installed cloud tells this machine's address",
                hint="name it: --allow-from ADDRESS/32",
            )
        return (str(ip_network(address)),)

    def _prepare(self, box: Box, keys: Path) -> None:
        """Brings the files, and runs the set-up that needs variables."""
        from gpucloud.boxes.bring_up import targets
        from gpucloud.ssh.client import run
        from gpucloud.ssh.files import rsync_up
        from gpucloud.ssh.job import script_of

        nodes = targets(box, keys, self.proxy_command)
        for item in self.spec.sync:
            local, _, remote = item.partition(":")
            self.context.tell("sync", item)
            for target in nodes:
                self.context.tasks.run(partial(rsync_up, target, local, remote or "."), FILES_TIMEOUT_S)
        if self.spec.setup and self.environment:
            self.context.tell("setup", "running the set-up commands with their variables")
            script = script_of(self.spec.setup, self.environment)
            for target in nodes:
                done = self.context.tasks.run(
                    partial(
                        run,
                        target,
                        ["bash", "-l", "-s"],
                        stdin=script,
                        timeout_s=FILES_TIMEOUT_S,
                        only_end=True,
                    ),
                    FILES_TIMEOUT_S,
                )
                if done.code:
                    said = done.err.decode(errors="replace").strip().splitlines()
                    raise GpucloudError(
                        f"the set-up failed on {target.alias} with exit code {done.code}: "
                        f"{said[-1] if said else 'it said nothing'}"
                    )


def environment_of(spec: Spec) -> dict[str, str]:
    """What ``env`` stands for: a key without a value takes the caller's own.

    Raises:
        UsageError: the caller has no such variable.
    """
    missing = [key for key, value in spec.env.items() if value is None and key not in os.environ]
    if missing:
        raise UsageError(
            f"--env {missing[0]}: there is no such variable here", hint=f"--env {missing[0]}=VALUE"
        )
    return {key: os.environ[key] if value is None else value for key, value in spec.env.items()}


def refuse_impossible(spec: Spec) -> None:
    """Refuses what cannot be done, before anything is asked or bought.

    Raises:
        UsageError: says what.
    """
    if spec.accept_test and spec.gpu and any(wish.mig for wish in parse_wishes(spec.gpu)):
        raise UsageError("--accept-test tests whole GPUs, and a program sees one slice", hint="leave it out")
    missing = [item for item in spec.sync if not Path(item.partition(":")[0]).exists()]
    if missing:
        raise UsageError(f"--sync: there is no {missing[0].partition(':')[0]}")
    for program in ("ssh", "ssh-keygen", *(["rsync"] if spec.sync else [])):
        find_program(program)
    socket_folder()
