"""The user-data of a plan is as long as that of the launch."""

from __future__ import annotations

from pathlib import Path

from gpucloud.planning.user_data import USER, UserData, planned_keys
from gpucloud.ssh.keys import BoxKeys, create_keys
from gpucloud_templates import BootPlan

NOISE_BYTES = 64
"""What compression makes of other keys of the same length."""


def size_with(keys: BoxKeys) -> int:
    plan = BootPlan(
        box="b-1",
        name="x",
        user=USER,
        public_key=keys.public_key,
        host_private_key=keys.host_private_key,
        host_public_key=keys.host_public_key,
        deadline=None,
        ttl_s=0,
    )
    return len(UserData().of(plan))


def test_the_keys_of_a_plan_take_as_much_place_as_those_of_a_box(tmp_path: Path) -> None:
    assert abs(size_with(planned_keys()) - size_with(create_keys(tmp_path, "b-1"))) <= NOISE_BYTES
