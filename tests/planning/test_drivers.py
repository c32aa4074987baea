"""No offer of the market leads to a box whose documented driver the plan does not provide: over all types."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from fnmatch import fnmatchcase

import pytest

from gpucloud.clouds.cloud import Clouds
from gpucloud.clouds.profile import Profile
from gpucloud.errors import UsageError
from gpucloud.planning.boot_images import boots
from gpucloud_pricing import InstanceType, Market
from gpucloud_pricing.gpu_models import BY_NAME
from gpucloud_pricing.rules import flags
from gpucloud_templates.software import PYTHONS, Image, driver, number, releases
from tests.planning.test_plan import a_candidate

TODAY = date(2026, 11, 22)
RECIPES = ("cuda", "pytorch", "tensorflow", *PYTHONS, *(release.recipe for release in releases()))
OWN = {
    "alibaba": "m-bp1g7004ksh0oeuco4ch",
    "aws": "ami-0123456789abcdef0",
    "azure": "publisher:offer:sku:latest",
}

GRID = {
    "alibaba": ("ecs.vgn*", "ecs.sgn*"),
    "aws": ("g6f.*", "gr6f.*"),
    "azure": (
        "Standard_NV*ads_A10_v5",
        "Standard_NV*adms_A10_v5",
        "Standard_NC*_RTXPRO6000BSE_v6",
        "Standard_NV*s_v3",
    ),
}
"""The types that only NVIDIA's GRID driver drives. Sources: EC2 User Guide, install-nvidia-driver.html;
Azure/azhpc-extensions, Nvidia-GPU-Linux-Resources.json; Azure/AgentBaker pull 8619; help.aliyun.com, drivers
of each GPU family."""
BRANCHES = {
    "Kepler": (None, 470),
    "Maxwell": (None, 580),
    "Pascal": (None, 580),
    "Volta": (None, 580),
    "Turing": (418, None),
    "Ampere": (450, None),
    "Ada Lovelace": (525, None),
    "Hopper": (525, None),
    "Blackwell": (570, None),
    "Blackwell Ultra": (580, None),
}
"""The first and the last branch of NVIDIA's driver for an architecture.

Sources: its driver installation guide and MIG user guide."""
PROPRIETARY = {"Kepler", "Maxwell", "Pascal", "Volta"}
"""What NVIDIA's open kernel modules do not drive; the vendors' images with a driver hold the open ones
(find-dlami-id.html; azhpc-images issues 406 and 523)."""
NVLSM = {"B200", "B300"}
"""What needs NVIDIA's NVLink subnet manager (its fabric manager user guide); plain Ubuntu has none."""


@pytest.fixture(scope="module")
def clouds() -> Clouds:
    return Clouds.installed(Profile({}))


def every_type() -> Iterator[InstanceType]:
    yield from Market.load().types.values()


def needs_grid(kind: InstanceType) -> bool:
    return any(fnmatchcase(kind.name, pattern) for pattern in GRID[kind.cloud])


def booted(clouds: Clouds, kind: InstanceType, recipe: str) -> Image | None:
    """What the plan boots; ``None`` if it refuses to."""
    candidate = a_candidate(
        instance_type=kind.name,
        gpu_model=kind.gpu_model,
        gpu_count=kind.gpu_count,
        gpu_memory_gib=kind.gpu_memory_gib,
        arch=kind.arch,
        flags=flags(kind, "on_demand", None, TODAY),
    )
    try:
        return boots(clouds[kind.cloud], candidate, recipe)[0]
    except UsageError:
        return None


def test_every_box_gets_a_driver_that_its_gpu_is_documented_to_need(clouds: Clouds) -> None:
    boot = 0
    for kind in every_type():
        for recipe in RECIPES:
            image = booted(clouds, kind, recipe)
            if image is None:
                continue
            boot += 1
            case = (kind.cloud, kind.name, recipe, image)
            model = BY_NAME[kind.gpu_model]
            first, last = BRANCHES[model.architecture]
            branch = number(image.driver or driver().branch)[0]
            assert not needs_grid(kind), case
            assert (first or 0) <= branch <= (last or branch), case
            assert image.driver is None or model.architecture not in PROPRIETARY, case
            assert image.driver is not None or kind.gpu_model not in NVLSM, case
    assert boot > 1000  # most boot something


def test_every_type_that_is_not_older_than_all_drivers_boots_something_unless_it_needs_grid(
    clouds: Clouds,
) -> None:
    stuck = {
        kind.name
        for kind in every_type()
        if not any(booted(clouds, kind, recipe) for recipe in ("cuda", *PYTHONS)) and not needs_grid(kind)
    }
    assert all(name.startswith(("g2.", "p2.")) for name in stuck), stuck


def test_a_type_that_needs_grid_is_flagged_and_boots_an_image_of_the_users_own_only(clouds: Clouds) -> None:
    flagged = {kind.name for kind in every_type() if "needs_grid" in flags(kind, "on_demand", None, TODAY)}
    assert flagged == {kind.name for kind in every_type() if needs_grid(kind)}
    for kind in filter(needs_grid, every_type()):
        image = booted(clouds, kind, OWN[kind.cloud])
        assert image is not None
        assert image.system is None
