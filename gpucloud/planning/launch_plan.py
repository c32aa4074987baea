"""The plan for launching a spec: the spec is possible, and its budget and deadline hold."""

from __future__ import annotations

import json
from pathlib import Path

from gpucloud.errors import NoOfferError, UsageError
from gpucloud.planning.avoidance import NOTHING_AVOIDED, Avoided
from gpucloud.planning.data_sets import measured
from gpucloud.planning.egress import CheckpointTransfer
from gpucloud.planning.lifetime import LAUNCH_TTL, lifetime, refuse_short, within_a_budget
from gpucloud.planning.object_store import place_near, refuse_outside
from gpucloud.planning.own_image import own_image
from gpucloud.planning.plan import Plan
from gpucloud.planning.planner import make_plan, plan_request
from gpucloud.planning.volume_choice import places_of, usable_volumes
from gpucloud.policy.rules import refuse_end, refuse_request
from gpucloud.runtime.context import Context
from gpucloud.spec.model import Spec
from gpucloud_pricing import Market

PLAN_S = 120.0
"""How long all calls of a plan together may take; later answers are ignored."""


def plan_launch(
    context: Context,
    market: Market,
    spec: Spec,
    *,
    accept_snapshot_price: bool = False,
    to_buy: bool = False,
    avoided: Avoided = NOTHING_AVOIDED,
    carried: CheckpointTransfer | None = None,
) -> Plan:
    """The plan for a spec, at today's prices; the rest as in :class:`gpucloud.planning.planner.PlanRequest`.

    Raises:
        GpucloudError: see :func:`gpucloud.planning.planner.make_plan`.
        PolicyError: the policy forbids such a box.
        UsageError: the spec has no GPU, a volume, an image, a data set or a bucket of it cannot be used, or
            its box would end before it can be used.
    """
    spec.require_gpu()
    refuse_short(spec.ends_after(LAUNCH_TTL), "--ttl")
    rules = context.journal.rules()
    ends = rules.ttl if spec.budget else spec.ends_after(LAUNCH_TTL)  # a budget may end it earlier
    refuse_request(rules, lives=ends, tags=spec.tags, checkpoint_to=spec.checkpoint_to)
    near = place_near(context, market, spec)
    data = measured(context, spec, to_buy=to_buy)
    for each in data:
        refuse_outside(market, spec.residency, (each.cloud, each.place.region), "data")
    context.tell("plan", "searching the market")
    volumes = usable_volumes(context.journal, context.owner, spec, context.clock())
    request = plan_request(
        spec,
        accept_snapshot_price=accept_snapshot_price,
        to_buy=to_buy,
        volumes=places_of(volumes),
        near=near,
        avoided=avoided,
        carried=carried,
        data=data,
        own=own_image(context.journal, context.owner, spec, context.clock()),
        rules=rules,
    )
    with context.tasks.within(PLAN_S):
        plan = make_plan(context, market, request)
    if spec.budget is not None:
        plan = within_a_budget(plan, spec, market)
        lives = lifetime(plan, spec, market)
        refuse_short(lives, "--budget")
        refuse_end(rules, lives)
    return plan


def read_plan(file: Path) -> Plan:
    """A saved plan.

    Raises:
        UsageError: it cannot be read, or is no plan.
        NoOfferError: it has no attempts.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot read the plan {file}: {error.strerror or error}",
            hint="make a plan: gpucloud plan --save FILE",
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{file} is not a saved plan: {error}", hint="make a plan: gpucloud plan --save FILE"
        ) from error
    plan = Plan.from_json(data)
    if not plan.attempts:
        raise NoOfferError(f"the plan {file} has no attempts")
    return plan
