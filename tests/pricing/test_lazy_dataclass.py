"""Dataclasses that are made when they are needed behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field
from typing import Any

import pytest

from gpucloud_pricing.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is."""

    region: str
    zone: str | None = None
    seen: list[str] = field(default_factory=list[str], compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.region:
            raise ValueError("a place has a region")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack(Place):
    """A place within a place."""

    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class Ours:
    """The same as :class:`Place`, by the standard library."""

    region: str
    zone: str | None = None
    seen: list[str] = field(default_factory=list[str], compare=False, repr=False)


def test_values_are_made_as_declared() -> None:
    place = Place("eu-west-1", zone="a")
    assert (place.region, place.zone, place.seen) == ("eu-west-1", "a", [])
    assert Place("x").seen is not Place("x").seen
    rack = Rack(region="eu-west-1", number=3)
    assert (rack.region, rack.zone, rack.number) == ("eu-west-1", None, 3)
    assert repr(rack) == "Rack(region='eu-west-1', zone=None, number=3)"


@pytest.mark.parametrize("values", [{}, {"region": "x", "zine": "a"}])
def test_missing_and_unknown_fields_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Place(**values)
    with pytest.raises(TypeError):
        Rack("x", None, [], 3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_the_class_may_refuse_a_value() -> None:
    with pytest.raises(ValueError, match="a place has a region"):
        Place("")


def test_equality_and_hashes_go_by_the_class_and_the_compared_fields() -> None:
    assert Place("x", "a", ["now"]) == Place("x", "a")
    assert len({Place("x", "a", ["now"]), Place("x", "a"), Place("x")}) == 2
    assert Place("x") != Place("y")
    ours: object = Ours("x")
    assert Place("x") != ours


def test_nothing_can_be_changed() -> None:
    place = Place("x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        place.region = "y"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del place.region
    assert place == Place("x")


def test_the_standard_librarys_functions_and_copies_work() -> None:
    place = Place("x", "a", ["now"])
    assert repr(place).replace("Place", "Ours") == repr(Ours("x", "a", ["now"]))
    assert dataclasses.asdict(place) == dataclasses.asdict(Ours("x", "a", ["now"]))
    assert dataclasses.replace(place, zone="b") == Place("x", "b")
    assert copy.deepcopy(place) == place
    assert pickle.loads(pickle.dumps(place)).seen == ["now"]  # noqa: S301
