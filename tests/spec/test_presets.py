"""Presets: what they decide, what wins over them, and that what they name is on sale."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from gpucloud.spec.declarations import FIELDS
from gpucloud.spec.defaults import Defaults, with_defaults
from gpucloud.spec.file import load_spec
from gpucloud.spec.model import Spec
from gpucloud.spec.presets import NAMES, presets
from gpucloud_pricing import Market
from gpucloud_pricing.purchases import Purchase


def test_help_and_file_name_the_same_presets() -> None:
    assert tuple(presets()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_gpu_of_a_preset_is_on_sale_in_a_way_that_it_allows(name: str) -> None:
    spec, market = Spec(preset=name), Market.load()
    assert spec.from_preset == presets()[name].keys() < FIELDS.keys() - {"preset", "accept_test"}
    for gpu in (spec.gpu or "").split(","):
        demand = spec.replaced(gpu=gpu).demand()
        assert market.search(demand, today=date(2026, 11, 1), limit=1), gpu


def test_flag_then_file_then_preset_then_defaults(tmp_path: Path) -> None:
    file = tmp_path / "box.yaml"
    file.write_text("preset: render\ndisk: 300\nidle: 2h\n")
    defaults = Defaults(file=tmp_path / "defaults.yaml", spec=Spec(purchase="reserved", ttl="4h"))
    spec, decided = with_defaults(load_spec(file, {"idle": "3h"}), defaults)
    assert spec == Spec(
        preset="render",
        gpu=presets()["render"]["gpu"],
        purchase="spot,on-demand",
        image="cuda",
        disk=300,
        idle="3h",
        ttl="4h",
    )
    assert dict(decided) == {"ttl": "4h"}


def test_a_flag_names_another_preset_than_the_file(tmp_path: Path) -> None:
    file = tmp_path / "box.yaml"
    file.write_text("preset: render\n")
    assert load_spec(file, {"preset": "infer"}) == Spec(preset="infer")


@pytest.mark.parametrize(
    "own", [{"instance_types": "g4dn.xlarge"}, {"gpu_memory": 24}, {"total_gpu_memory": 96}]
)
def test_who_says_which_gpu_in_another_way_gets_none_of_the_presets(own: dict[str, object]) -> None:
    spec = Spec(preset="train", **own)
    assert (spec.gpu, spec.image) == (None, "pytorch")


def test_a_saved_spec_keeps_what_was_chosen_instead_of_the_preset() -> None:
    spec = Spec(preset="train", purchase="on-demand", disk=100)
    assert Spec(**spec.document()) == spec
    assert spec.purchase == (Purchase.ON_DEMAND,)


def test_a_copy_with_another_preset_has_nothing_of_the_first() -> None:
    assert Spec(preset="train", name="x").replaced(preset="infer") == Spec(preset="infer", name="x")
