"""What a cloud would refuse, known without a call: images that do not fit, and documented limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from gpucloud.clouds.abilities import Preflight
from gpucloud.errors import UsageError
from gpucloud.planning.boot_images import DEFAULT_IMAGE, boots
from gpucloud.planning.data_source import DataSource, refuse_too_large
from gpucloud.planning.lifetime import LAUNCH_TTL
from gpucloud.planning.plan import Candidate, fabric_of
from gpucloud.planning.user_data import PLANNED_ID, PLANNED_NAME, UserData, boot_plan, planned_keys
from gpucloud.resources import Order, Tags, expires_text
from gpucloud.spec.model import Spec

if TYPE_CHECKING:
    from gpucloud.clouds.cloud import Cloud, Clouds

CALLER = "203.0.113.1/32"
"""Stands for the caller's own address, which a plan does not need to know (RFC 5737)."""


def within_limits(
    clouds: Clouds,
    candidates: Iterable[Candidate],
    spec: Spec,
    data: Sequence[DataSource],
    *,
    image: str,
    owner: str,
    now: datetime,
) -> tuple[list[Candidate], dict[str, str]]:
    """The offers that their clouds would take, and why the others are left out. Makes no call.

    ``image`` is that of the spec, as a cloud is told.

    A cloud that is not installed is left to those who ask it.

    Raises:
        UsageError: every offer would be refused.
    """
    fitting: list[Candidate] = []
    verdicts: dict[tuple[str, str, str], UsageError | None] = {}
    user_data = UserData()
    for candidate in candidates:
        kind = (candidate.cloud, candidate.instance_type, str(candidate.purchase))
        if kind not in verdicts:
            verdicts[kind] = _refusal(
                clouds, candidate, spec, data, user_data, image=image, owner=owner, now=now
            )
        if verdicts[kind] is None:
            fitting.append(candidate)
    refused = {" ".join(kind): error for kind, error in verdicts.items() if error is not None}
    if refused and not fitting:
        raise next(iter(refused.values()))
    return fitting, {kind: error.message for kind, error in refused.items()}


def _refusal(
    clouds: Clouds,
    candidate: Candidate,
    spec: Spec,
    data: Sequence[DataSource],
    user_data: UserData,
    *,
    image: str,
    owner: str,
    now: datetime,
) -> UsageError | None:
    try:
        refuse_too_large(data, disk_gib=spec.disk, local_gib=candidate.local_ssd_gib)
        _check(clouds[candidate.cloud], candidate, spec, user_data, recipe=image, owner=owner, now=now)
    except UsageError as error:
        return error
    except (KeyError, ImportError):
        return None
    return None


def _check(
    cloud: Cloud,
    candidate: Candidate,
    spec: Spec,
    user_data: UserData,
    *,
    recipe: str,
    owner: str,
    now: datetime,
) -> None:
    image, software = boots(cloud, candidate, recipe)
    if spec.disk < image.disk_gib:
        raise UsageError(
            f"--disk: {spec.disk} GiB is smaller than the image {image.name}, which has {image.disk_gib} GiB",
            hint=f"--disk {image.disk_gib}",
        )
    order = replace(draft(candidate, spec, owner=owner, now=now), image=recipe)
    if spec.checkpoint:  # the rest of user-data is short
        keys, end = planned_keys(), order.deadline
        plan = boot_plan(
            cloud, candidate, software, spec, box=PLANNED_ID, name=PLANNED_NAME, keys=keys, end=end, now=now
        )
        order = replace(order, user_data=user_data.of(plan))
    preflight = cloud.ability(Preflight)
    if preflight is not None:
        preflight.check(order)


def draft(candidate: Candidate, spec: Spec, *, owner: str, now: datetime) -> Order:
    """The order of an offer as far as a plan knows it; what is decided later is empty or stands for it."""
    lives = spec.ends_after(LAUNCH_TTL)
    deadline = None if lives is None else now + lives
    return Order(
        key="",
        name="",
        account="",
        region=candidate.region,
        zone=candidate.zone,
        instance_type=candidate.instance_type,
        arch=candidate.arch,
        gpu_model=candidate.gpu_model,
        gpu_count=candidate.gpu_count,
        purchase=candidate.purchase,
        nodes=spec.nodes,
        disk_gib=spec.disk,
        image=spec.image or DEFAULT_IMAGE,
        user_data=b"",
        allow_from=spec.allow_from or (CALLER,),
        ports=spec.ports,
        tags=Tags(owner=owner, box="b-0", op="op-0", run="", expires=expires_text(deadline)),
        extra_tags=spec.tags,
        max_price_usd=candidate.ceiling_usd,
        reservation=candidate.reservation,
        deadline=deadline,
        ttl_role=spec.ttl_role,
        box_identity=spec.box_identity,
        fabric=fabric_of(spec.rdma, spec.nodes, candidate.rdma),
    )
