"""The figures of GPUs, against a second reading: ratios that makers print, arithmetic on units and clocks."""

from __future__ import annotations

import tomllib
from decimal import Decimal

import pytest

from gpucloud_pricing import MODELS, Market
from gpucloud_pricing.gpu_figures import FIGURES, FILE, Card, card_of, cards
from gpucloud_pricing.work import amount_of

UNKNOWN_BANDWIDTH = {"T4G"}
"""The models of the market without a known bandwidth: no source has it."""


def figure(name: str, measure: str) -> float:
    (card,) = [card for card in cards() if card.name == name]
    return float(card.figures[measure].value)


def test_every_type_of_the_market_has_a_known_bandwidth_or_a_reason() -> None:
    unknown: set[str] = set()
    for kind in Market.load().types.values():
        card = card_of(kind.gpu_model, kind.gpu_memory_gib, f"{kind.cloud}/{kind.name}")
        assert card is not None, kind.name
        amount = amount_of(kind, "bandwidth")
        if amount is None:
            assert card.unknown["bandwidth"]
            unknown.add(kind.gpu_model)
        else:
            each = amount / kind.gpu_count
            assert Decimal("0.1") < each < 10, "in TB/s, of one GPU"
    assert unknown == UNKNOWN_BANDWIDTH


def test_every_figure_is_known_with_a_source_or_has_a_reason() -> None:
    written = tomllib.loads(FILE.read_text())
    used = {row["form"] for row in written["card"] if "types" in row}
    for row in written["card"]:
        for value in (row[name] for name in FIGURES):
            if not isinstance(value, str):
                used |= set(value[1].split())
            else:
                assert value
    assert used == set(written["sources"]), "a source is missing, or unused"


def test_every_model_of_the_vocabulary_has_one_usual_card_per_size_of_memory() -> None:
    usual = [(card.model, card.memory_gib) for card in cards() if not card.types]
    assert sorted(usual) == sorted(
        (model.name, Decimal(size)) for model in MODELS for size in model.memory_gib
    )


def test_every_special_form_is_that_of_some_type() -> None:
    market = [(k.gpu_model, k.gpu_memory_gib, f"{k.cloud}/{k.name}") for k in Market.load().types.values()]
    met = {card.name for key in market if (card := card_of(*key))}
    assert met == {card.name for card in cards()}


@pytest.mark.parametrize(
    ("cloud", "name", "form"),
    [
        ("azure", "Standard_NC24ads_A100_v4", "NVIDIA A100 PCIe 80 GB"),
        ("azure", "Standard_ND96amsr_A100_v4", "NVIDIA A100 SXM4 80 GB"),
        ("azure", "Standard_NC6s_v3", "NVIDIA V100 PCIe 16 GB"),
        ("aws", "p3.2xlarge", "NVIDIA V100 SXM2 16 GB"),
        ("azure", "Standard_NC40ads_H100_v5", "NVIDIA H100 NVL 94 GB"),
        ("aws", "p5.4xlarge", "NVIDIA H100 SXM5 80 GB"),
    ],
)
def test_a_type_has_the_form_of_its_machine(cloud: str, name: str, form: str) -> None:
    kind = Market.load().types[cloud, name]
    card = card_of(kind.gpu_model, kind.gpu_memory_gib, f"{cloud}/{name}")
    assert card is not None
    assert card.name == form


TENSOR = {
    # Multiprocessors x dense FP16 multiply-adds of each per clock x 2 x boost clock in GHz. UNVERIFIED: these
    # are from memory, and so independent of the sources of the file.
    "NVIDIA V100 SXM2 16 GB": 80 * 512 * 2 * 1.530,
    "NVIDIA T4": 40 * 512 * 2 * 1.590,
    "NVIDIA A100 SXM4 80 GB": 108 * 1024 * 2 * 1.410,
    "NVIDIA H100 SXM5 80 GB": 132 * 2048 * 2 * 1.830,
    "NVIDIA L4": 58 * 512 * 2 * 2.040,
    "NVIDIA L40S": 142 * 512 * 2 * 2.490,
    "NVIDIA A10": 72 * 512 * 2 * 1.695,
}


@pytest.mark.parametrize("name", TENSOR)
def test_dense_rates_are_what_units_and_clocks_give(name: str) -> None:
    """A rate with sparsity would be twice as high."""
    assert figure(name, "fp16") == pytest.approx(TENSOR[name] / 1000, rel=0.03)


MEMORY = {
    # Bits of the memory bus x Gbit/s per pin / 8. UNVERIFIED, as above.
    "NVIDIA GRID K520": 256 * 5.0 / 8,
    "NVIDIA T4": 256 * 10.0 / 8,
    "NVIDIA A10": 384 * 12.5 / 8,
    "NVIDIA A100 40 GB": 5120 * 2.43 / 8,
    "NVIDIA A100 SXM4 80 GB": 5120 * 3.186 / 8,
    "NVIDIA V100 PCIe 16 GB": 4096 * 1.752 / 8,
    "NVIDIA L4": 192 * 12.5 / 8,
    "NVIDIA L40S": 384 * 18.0 / 8,
    "NVIDIA RTX PRO 4500 Blackwell Server Edition": 256 * 25.0 / 8,
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": 512 * 25.0 / 8,
}


@pytest.mark.parametrize("name", MEMORY)
def test_bandwidth_is_what_the_bus_and_its_clock_give(name: str) -> None:
    assert 1000 * figure(name, "bandwidth") == pytest.approx(MEMORY[name], rel=0.01)


def test_cards_of_similar_names_are_told_apart() -> None:
    """The A10G has 56 % of an A10's FP16; of H100, the NVL form has more bandwidth and less of the rest."""
    assert figure("NVIDIA A10G", "fp16") / figure("NVIDIA A10", "fp16") == pytest.approx(0.56)
    nvl, sxm = "NVIDIA H100 NVL 94 GB", "NVIDIA H100 SXM5 80 GB"
    assert figure(nvl, "bandwidth") > figure(sxm, "bandwidth")
    for measure in ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8"):
        assert 0.8 < figure(nvl, measure) / figure(sxm, measure) < 0.95, (
            "a pair of cards would have 1.7 times"
        )
    assert figure("NVIDIA H200 SXM5 141 GB", "fp16") == figure(sxm, "fp16")


@pytest.mark.parametrize("card", cards(), ids=lambda card: card.name)
def test_rates_double_as_numbers_get_shorter(card: Card) -> None:
    """As the makers build tensor cores: TF32, then twice in FP16 and BF16, then twice in FP8."""
    rates = {name: float(known.value) for name, known in card.figures.items()}
    for slow, fast in (("tf32", "fp16"), ("tf32", "bf16"), ("fp16", "fp8")):
        if slow in rates and fast in rates:
            assert rates[fast] / rates[slow] == pytest.approx(2, rel=0.05), (slow, fast)
    assert rates.get("fp64", 0) <= rates.get("fp32", float("inf"))
