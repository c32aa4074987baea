"""The GPU grammar and vocabulary."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucloud_pricing import (
    MODELS,
    BadGpuError,
    GpuRequirement,
    Market,
    format_requirement,
    parse_requirements,
)
from gpucloud_pricing.gpu_models import SOURCES
from gpucloud_pricing.gpus import format_count, in_grammar


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("A100", "A100"),
        ("a100:8", "A100:8"),
        ("A100-80GB:8", "A100-80GB:8"),
        ("nvidia a100 80 GB : 8", "A100-80GB:8"),
        ("Tesla T4", "T4"),
        ("NVIDIA Tesla V100", "V100"),
        ("T4:1..4", "T4:1..4"),
        ("A100:8, H100:4", "A100:8,H100:4"),
        ("24GB..:1", "24GB.."),
        ("24GB..48GB:2", "24GB..48GB:2"),
        ("A10:1/6", "A10:1/6"),
        ("A100/1g.5gb:7", "A100/1g.5gb:7"),
        ("RTX PRO 6000:2", "RTX-PRO-6000:2"),
        ("rtxpro6000", "RTX-PRO-6000"),
        ("H100-NVL:2", "H100-94GB:2"),
        ("B200-192GB:8", "B200-179GB:8"),
    ],
)
def test_the_grammar_forgives_spelling_and_means_one_thing(text: str, written: str) -> None:
    assert ",".join(map(format_requirement, parse_requirements(text))) == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A10O", "unknown GPU 'A10O'; did you mean A100?"),
        ("H1OO:8", "unknown GPU 'H1OO'; did you mean H100?"),
        ("RTX6000", "did you mean RTX-PRO-6000?"),
        ("A100-48GB", "A100 has no 48 GB variant; there is A100-40GB and A100-80GB"),
        ("A100:0", "a count is 1 to 1024"),
        ("A100:-1", "is no count of GPUs"),
        ("A100:1.5", "is no count of GPUs"),
        ("A100:4..1", "is reversed"),
        ("A100:3/2", "a share is between 0 and 1"),
        ("A100:1/0", "a share is between 0 and 1"),
        ("T4/1g.5gb", "no MIG profiles are known"),
        ("A100-80GB/1g.5gb", "has no MIG profile '1g.5gb'"),
        ("", "no GPU model"),
        ("A100,", "no GPU model"),
        ("48GB..24GB", "is reversed"),
        ("A100" * 1000, "over 1000 characters"),
    ],
)
def test_a_bad_demand_says_what_is_wrong_and_what_is_near(text: str, message: str) -> None:
    with pytest.raises(BadGpuError) as caught:
        parse_requirements(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("8xH100", "H100:8"),
        ("H100x8, 4 x t4", "H100:8,t4:4"),
        ("A100-80GB*2", "A100-80GB:2"),
        ("rtx-pro-6000", "rtx-pro-6000"),
        ("8xH1000", "8xH1000"),
        ("A100:8", "A100:8"),
    ],
)
def test_counts_as_other_tools_write_them_are_put_into_the_grammar(written: str, meant: str) -> None:
    assert in_grammar(written) == meant


def test_a_model_whose_memory_lacks_its_unit_is_told_with_it() -> None:
    with pytest.raises(BadGpuError, match="did you mean A100-80GB"):
        parse_requirements("A100-80")


def test_a_bad_model_carries_the_value_the_choices_and_the_nearest() -> None:
    with pytest.raises(BadGpuError) as caught:
        parse_requirements("T4:1,A10O:2")
    assert caught.value.value == "A10O"
    assert caught.value.nearest == "A100"
    assert {"A100", "H100", "T4"} <= set(caught.value.allowed)


def counts() -> st.SearchStrategy[tuple[Decimal, Decimal]]:
    share = st.tuples(st.integers(1, 11), st.integers(2, 12)).filter(lambda f: f[0] < f[1])
    shares = share.map(lambda f: (Decimal(f[0]) / f[1]).quantize(Decimal("0.000001")).normalize())
    whole = st.integers(1, 64).map(Decimal)
    return st.tuples(shares | whole, shares | whole).map(lambda pair: (min(pair), max(pair)))


@st.composite
def requirements(draw: st.DrawFn) -> GpuRequirement:
    low, high = draw(counts())
    model = draw(st.sampled_from(MODELS))
    memory = draw(st.sampled_from([None, *model.memory_gib]))
    profiles = sorted({p for size, table in model.mig.items() if memory in (None, size) for p in table})
    mig = draw(st.sampled_from([None, *profiles])) if low >= 1 else None
    size = None if memory is None else Decimal(memory)
    if draw(st.booleans()):
        bottom, top = sorted(draw(st.tuples(st.integers(1, 300), st.integers(1, 300))))
        ends = draw(st.sampled_from([(bottom, top), (bottom, None), (None, top)]))
        smallest, largest = (None if end is None else Decimal(end) for end in ends)
        return GpuRequirement(
            model=None, min_memory_gib=smallest, max_memory_gib=largest, min_count=low, max_count=high
        )
    return GpuRequirement(
        model=model.name, min_memory_gib=size, max_memory_gib=size, min_count=low, max_count=high, mig=mig
    )


@given(st.lists(requirements(), min_size=1, max_size=4))
def test_whatever_is_written_is_read_back_the_same(wanted: list[GpuRequirement]) -> None:
    text = ",".join(map(format_requirement, wanted))
    assert parse_requirements(text) == tuple(wanted)
    spelled = text.lower().replace("-", " ")
    assert parse_requirements(f" {spelled} ") == tuple(wanted)


@given(st.text(max_size=40) | st.text(alphabet="A1048GBgbTtHh.:/,- 0", max_size=20))
@settings(max_examples=500)
def test_any_text_is_either_a_demand_or_one_clear_error(text: str) -> None:
    try:
        found = parse_requirements(text)
    except BadGpuError as error:
        assert str(error)  # noqa: PT017
        return
    assert parse_requirements(",".join(map(format_requirement, found))) == found


def test_the_vocabulary_has_every_model_and_memory_size_of_the_data() -> None:
    known = {(model.name, Decimal(size)) for model in MODELS for size in model.memory_gib}
    assert {(kind.gpu_model, kind.gpu_memory_gib) for kind in Market.load().types.values()} == known


def test_every_known_fact_of_a_model_has_a_source_or_is_marked_unverified() -> None:
    for model in MODELS:
        for name in (
            "first_driver",
            "last_driver",
            "first_cuda",
            "last_cuda",
            "needs_nvlsm",
            "mig",
        ):
            if getattr(model, name):
                assert model.sources.get(name) in SOURCES or name in model.unverified, (model.name, name)


@pytest.mark.parametrize("bottom", [2, 3, 4, 6, 7, 8, 12, 16, 24])
def test_a_share_is_told_as_the_fraction_that_it_is_however_it_was_rounded(bottom: int) -> None:
    rounded = {round(Decimal(1) / bottom, digits) for digits in range(3, 12)}
    assert {format_count(share) for share in rounded} == {f"1/{bottom}"}


@given(st.decimals(min_value=0, max_value=1024, places=9))
def test_every_count_has_a_text_that_rounds_to_it(count: Decimal) -> None:
    top, _, bottom = format_count(count).partition("/")
    exponent = count.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    half_a_digit = Decimal(5).scaleb(min(exponent, 0) - 1)
    assert abs(Decimal(top) / Decimal(bottom or 1) - count) <= half_a_digit
