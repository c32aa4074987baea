"""The user-data of an offer's machines: rendered before anything is bought, and for a plan alone."""

from __future__ import annotations

import random
from base64 import b64encode
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.clouds.abilities import Boot
from gpucloud.errors import UsageError
from gpucloud.planning.boot_images import cut
from gpucloud.planning.plan import Candidate, fabric_of
from gpucloud.spec.model import Spec
from gpucloud.ssh.checkpoints import hook
from gpucloud.ssh.keys import BoxKeys, read_public_key
from gpucloud_templates import BootPlan, TooLargeError, packed, render
from gpucloud_templates.software import Software

if TYPE_CHECKING:
    from gpucloud.clouds.cloud import Cloud

USER = "gpucloud"
"""The user on every box, whatever user its image has."""
PLANNED_NAME = "gpucloud-planned-box"
PLANNED_ID = "b-00000000000000000000000000"
PRIVATE_KEY_BYTES = 234
"""The length of an ed25519 key in OpenSSH's format, before base64."""


def whole_gpus(count: Decimal) -> int:
    """How many GPUs a driver shows: a fraction of a GPU shows as one."""
    return max(int(count), 1)


def planned_keys() -> BoxKeys:
    """Stand for the keys of a box, which are made when it is bought: as long, and about as hard to compress.

    A private key is only partly random: it holds a public key twice, and lengths and names.
    """
    noise = random.Random(0)  # noqa: S311  (no secret)

    def public() -> str:
        return f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b64encode(noise.randbytes(32)).decode()[:43]}"

    text = b64encode(noise.randbytes(140) + bytes(PRIVATE_KEY_BYTES - 140)).decode()
    lines = (text[start : start + 70] for start in range(0, len(text), 70))
    head, foot = (f"-----{word} OPENSSH PRIVATE KEY-----" for word in ("BEGIN", "END"))
    private = "\n".join((head, *lines, foot, ""))
    return BoxKeys(public_key=public(), host_private_key=private, host_public_key=public())


def boot_plan(
    cloud: Cloud,
    candidate: Candidate,
    software: Software,
    spec: Spec,
    *,
    box: str,
    name: str,
    keys: BoxKeys,
    end: datetime | None,
    now: datetime,
) -> BootPlan:
    """What the first boot makes of an offer's machines.

    Args:
        cloud: the cloud of the offer.
        candidate: the offer.
        software: what is installed there, for whole GPUs.
        spec: the spec of the user.
        box: the id of the box.
        name: the box's.
        keys: the box's.
        end: when the box ends; ``None`` for never.
        now: the time.
    """
    idle, boot = spec.idles_out_after(), cloud.ability(Boot)
    return BootPlan(
        box=box,
        name=name,
        user=USER,
        public_key=keys.public_key,
        host_private_key=keys.host_private_key,
        host_public_key=keys.host_public_key,
        deadline=end,
        ttl_s=int((end - now).total_seconds()) if end else 0,
        extra_keys=(read_public_key(spec.ssh_key),) if spec.ssh_key else (),
        software=replace(
            software,
            mig=cut(candidate, spec.gpu),
            erdma=fabric_of(spec.rdma, spec.nodes, candidate.rdma) == "erdma",
        ),
        scratch=candidate.local_ssd_gib > 0,
        idle_s=int(idle.total_seconds()) if idle else None,
        idle_below=spec.idle_below,
        checkpoint=hook(spec.checkpoint) if spec.checkpoint_to else spec.checkpoint,
        gpus=whole_gpus(candidate.gpu_count),
        spot=candidate.purchase.kind.interruptible,
        metadata=boot.metadata if boot else None,
        self_delete=boot.self_delete if boot and spec.box_identity else None,
    )


class UserData:
    """Renders boot plans: those of most offers are the same, and are rendered once."""

    def __init__(self) -> None:
        self._rendered: dict[str, bytes] = {}

    def of(self, plan: BootPlan) -> bytes:
        """A plan as user-data.

        Raises:
            UsageError: it is too large.
        """
        if (same := repr(plan)) not in self._rendered:
            try:
                self._rendered[same] = packed(render(plan))
            except TooLargeError as error:
                raise UsageError(str(error)) from error
        return self._rendered[same]
