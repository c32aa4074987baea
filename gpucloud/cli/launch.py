"""``gpucloud launch``: plans, asks, buys, boots, and waits until the GPUs answer over ssh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.boxes import box_document, paying_text
from gpucloud.cli.context import App
from gpucloud.cli.engine import connect, engine, now, settle_owed
from gpucloud.cli.options import takes_spec
from gpucloud.cli.plan import AcceptSnapshot, lifetime, make, price_text, read_plan, show_plan, spec_json
from gpucloud.cli.timeline import Timeline
from gpucloud.errors import GpucloudError, PriceError, UsageError
from gpucloud.lifecycle import generated_name, new_id
from gpucloud.model import Purchase
from gpucloud.plan import changes
from gpucloud.spec import Spec
from gpucloud.ssh import forget
from gpucloud.ssh_keys import create_keys, find_program, key_folder, read_public_key
from gpucloud_pricing.gpus import parse_wishes

if TYPE_CHECKING:
    from datetime import datetime

    from gpucloud.attempt import Boot, Terms
    from gpucloud.cloud import Cloud
    from gpucloud.plan import Candidate, Plan
    from gpucloud.store import Box
    from gpucloud.world import World

LATER = ("env", "run")
"""What needs the command ``run``; ``env`` may hold secrets, which user-data must not carry."""


@takes_spec
def launch(
    app: App,
    spec: Spec,
    plan: Annotated[
        Path | None, typer.Argument(help="A plan saved by `gpucloud plan -o`.", metavar="[PLAN]")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    run_id: Annotated[str | None, typer.Option("--run-id", help="Your own id for this run.")] = None,
    accept_snapshot_price: AcceptSnapshot = False,
) -> None:
    """Launch the cheapest box that will start, and wait until its GPUs answer over ssh."""
    saved = read_plan(plan) if plan is not None else None
    if saved is not None:
        spec = _spec_of(saved, spec)
    _refuse_unready(spec)
    if not yes and not app.output.interactive:
        raise UsageError("not buying without a yes: there is no terminal to ask on", hint="add --yes")
    for program in ("ssh", "ssh-keygen", *(["rsync"] if spec.sync else [])):
        find_program(program)
    proxy_command = connect(app)
    with Timeline(app.output) as timeline, engine(app, timeline.tell) as world:
        buyer = Buyer(app, world, spec, run_id, proxy_command)
        buyer.settle_first()
        today = buyer.plan(saved, accept_snapshot_price=accept_snapshot_price)
        if not yes:
            timeline.pause()
            show_plan(app, today, spec, most=5)
            question = f"Launch the first that starts, at {price_text(today.attempts[0])} per hour?"
            with world.waiter.asking():
                agreed = app.output.ask(question)
            if not agreed:
                raise UsageError("nothing was launched")
            timeline.resume()
        box = buyer.buy(today)
        living = world.journal.boxes(owner=app.owner)
    if app.output.json:
        steps = [{"step": step, "at_s": round(at, 3)} for step, at in timeline.steps]
        app.output.document("launch", {"box": box_document(box, now()), "timeline": steps})
    app.output.say(f"{box.name} is ready: gpucloud ssh {box.name}")
    app.output.say(f"{paying_text(living)} End it with: gpucloud down {box.name}")


@dataclass(frozen=True, slots=True)
class Buyer:
    """One launch: what is known before it, and its steps."""

    app: App
    world: World
    spec: Spec
    run_id: str | None
    proxy_command: str | None

    def settle_first(self) -> None:
        """Finishes what earlier commands left; refuses a name that a box still has after that."""
        from gpucloud.launch import check_name

        settle_owed(self.app, self.world)
        if self.spec.name:
            check_name(self.world, self.spec.name)

    def plan(self, saved: Plan | None, *, accept_snapshot_price: bool) -> Plan:
        """Today's plan; a saved one must be the same."""
        today = make(self.world, self.spec, accept_snapshot_price=accept_snapshot_price)
        if saved is None:
            return today
        moved = changes(saved, today)
        if moved:
            raise PriceError(
                "the saved plan does not hold any more: " + "; ".join(moved),
                hint="make a new one: gpucloud plan -o FILE; nothing was started",
            )
        return saved

    def buy(self, plan: Plan) -> Box:
        """Buys the first attempt that starts and brings it up; whatever fails, nothing is left."""
        from gpucloud.bringup import UnfitError, bring_up
        from gpucloud.launch import abandon, replace_machines
        from gpucloud.launch import launch as buy_box

        name = self.spec.name or generated_name(plan.attempts[0].gpu_model, self.world.randomness(4))
        box_id = new_id("b-", now(), self.world.randomness(10))
        keys = key_folder(self.app.paths.state, box_id)
        try:
            lives = lifetime(plan, self.spec)
            end = now() + lives if lives else None
            terms = self._terms(plan, name, box_id, keys, end)
            box = buy_box(self.world, terms, plan.attempts)
            try:
                try:
                    box = bring_up(self.world, box, keys, self.proxy_command)
                except UnfitError as error:  # once: a second one is no accident
                    forget(keys, box_id, nodes=self.spec.nodes)  # the next machine has host keys of its own
                    terms = self._terms(plan, name, box_id, keys, end)
                    box = replace_machines(self.world, box, terms, plan.attempts, error.message)
                    box = bring_up(self.world, box, keys, self.proxy_command)
                self._sync(box, keys)
            except BaseException as error:
                abandon(self.world, box, error)
                raise
        except BaseException:
            forget(keys, box_id, nodes=self.spec.nodes)
            raise
        self.world.journal.note(box.id, "released", {})
        return self.world.journal.box(box.id)

    def _terms(self, plan: Plan, name: str, box_id: str, keys: Path, end: datetime | None) -> Terms:
        from gpucloud.attempt import Boot, Terms
        from gpucloud.boot import DEFAULT_IMAGE, boots, cut
        from gpucloud.bringup import USER, whole_gpus
        from gpucloud_templates import BootPlan, TooLargeError, packed, render
        from gpucloud_templates.software import later

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
                setup=(self.spec.setup,) if self.spec.setup else (),
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
            for cloud, first in {each.cloud: each for each in reversed(plan.attempts)}.items():
                boot(first, self.world.clouds[cloud])
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
            allow_from=self._allow_from,
            ports=self.spec.ports,
            tags=self.spec.tags,
            max_price_usd=self.spec.max_price,
            expires_at=end,
            ttl_role=self.spec.ttl_role,
            box_identity=self.spec.box_identity,
            spec=dict(plan.spec),
        )

    def _allow_from(self, cloud: Cloud) -> Sequence[str]:
        """Who is let in: as told, else this machine's address as the cloud sees it; never the world."""
        if self.spec.allow_from:
            return self.spec.allow_from
        try:
            address = self.world.waiter.run(partial(self.world.clouds.caller_address, cloud.name))
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

    def _sync(self, box: Box, keys: Path) -> None:
        from gpucloud.bringup import targets
        from gpucloud.ssh_files import rsync_up

        for item in self.spec.sync:
            local, _, remote = item.partition(":")
            self.world.tell("sync", item)
            for target in targets(box, keys, self.proxy_command):
                rsync_up(target, local, remote or ".")


def _spec_of(saved: Plan, flags: Spec) -> Spec:
    """The saved plan's own spec: a plan is done exactly, so no flag may change it."""
    from gpucloud.spec_file import load_spec

    if spec_json(flags):
        given = ", ".join(sorted(spec_json(flags)))
        raise UsageError(f"a saved plan is launched as it is; it cannot be changed by: {given}")
    return load_spec(None, dict(saved.spec))


def _refuse_unready(spec: Spec) -> None:
    given = [name for name in LATER if getattr(spec, name) not in (None, "none", {})]
    if given:
        raise UsageError(
            f"launch cannot do this yet: {', '.join(given)}",
            hint="leave it out; nothing is silently ignored",
        )
    if spec.accept_test and spec.gpu and any(wish.mig for wish in parse_wishes(spec.gpu)):
        raise UsageError("--accept-test tests whole GPUs, and a program sees one slice", hint="leave it out")
    missing = [item for item in spec.sync if not Path(item.partition(":")[0]).exists()]
    if missing:
        raise UsageError(f"--sync: there is no {missing[0].partition(':')[0]}")
