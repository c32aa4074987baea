"""What providers have in common, each promise once for all of them."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.clouds.kit import (
    ImageRow,
    Limits,
    amount_of,
    bid,
    check_limits,
    check_user_data,
    checked,
    gone_is_fine,
    image_row,
    in_threads,
    read_images,
    refuse_foreign,
    together,
)
from gpucloud.clouds.provider import Verdict
from gpucloud.errors import ErrorClass, UsageError
from tests.builders import a_ref, an_order
from tests.waiting import PATIENCE_S


def test_calls_run_at_the_same_time_and_answer_in_order() -> None:
    """Each waits for the other: one after the other they would never end."""
    meeting = threading.Barrier(2, timeout=PATIENCE_S)

    def call(number: int) -> int:
        meeting.wait()
        return number

    assert in_threads(call, [1, 2]) == [1, 2]
    assert together(lambda: call(3), lambda: call(4)) == [3, 4]


def test_no_more_calls_run_at_a_time_than_are_allowed() -> None:
    running, most, lock, meeting = 0, 0, threading.Lock(), threading.Barrier(3, timeout=PATIENCE_S)

    def call(_: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        meeting.wait()
        with lock:
            running -= 1

    in_threads(call, range(30), threads=3)
    assert most == 3


def test_calls_know_the_context_that_they_are_made_in() -> None:
    told: ContextVar[str] = ContextVar("told", default="nothing")
    told.set("what for")
    assert in_threads(lambda _: told.get(), [1, 2]) == ["what for"] * 2


def test_a_question_is_asked_while_its_permission_is_checked() -> None:
    meeting = threading.Barrier(2, timeout=PATIENCE_S)
    assert checked(meeting.wait, lambda: (meeting.wait(), "here")[1]) == "here"


@pytest.mark.parametrize("answers", [True, False])
def test_no_answer_counts_without_the_permission(*, answers: bool) -> None:
    """Another account says of any resource that it does not exist: that must never pass for its end."""

    def refuse() -> None:
        raise UsageError("another account's")

    def ask() -> str:
        if answers:
            return "here"
        raise KeyError("gone")

    with pytest.raises(UsageError, match="another account's"):
        checked(refuse, ask)


@pytest.mark.parametrize("number", [1, 2])
def test_what_a_call_raises_is_raised(number: int) -> None:
    def call(_: int) -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError):
        in_threads(call, range(number))


def test_a_resource_of_another_account_is_refused() -> None:
    ref = a_ref(account="one")
    refuse_foreign(ref, "ONE", account="AWS account", hint="AWS_PROFILE")
    with pytest.raises(
        UsageError, match="belongs to AWS account one, but the credentials are for two"
    ) as caught:
        refuse_foreign(ref, "two", account="AWS account", hint="AWS_PROFILE")
    assert caught.value.hint == "AWS_PROFILE"


def test_a_resource_whose_id_names_another_account_is_refused() -> None:
    with pytest.raises(UsageError, match="belongs to account two"):
        refuse_foreign(a_ref(account="one"), "one", account="account", hint="", written="two")


class RefusedError(Exception):
    """What a cloud says."""


def verdict(error: Exception) -> Verdict | None:
    if not isinstance(error, RefusedError):
        return None
    return Verdict(error_class=ErrorClass(str(error)), code="Code", message="")


def test_deleting_what_is_gone_is_success() -> None:
    with gone_is_fine(verdict):
        raise RefusedError("not_found")


@pytest.mark.parametrize("error", [RefusedError("auth"), RefusedError("server"), ValueError("not_found")])
def test_every_other_failure_of_a_deletion_is_one(error: Exception) -> None:
    with pytest.raises(type(error)), gone_is_fine(verdict):
        raise error


def test_a_boot_script_that_is_too_long_is_refused() -> None:
    check_user_data(an_order(user_data=b"x" * 10), 10, cloud="AWS")
    with pytest.raises(UsageError, match="11 bytes; AWS accepts 10"):
        check_user_data(an_order(user_data=b"x" * 11), 10, cloud="AWS")


LIMITS = Limits(cloud="AWS", user_data_bytes=100, disk_gib=200, rules=6, nodes=2)


def test_a_bid_is_the_limit_in_the_accounts_currency_rounded_down() -> None:
    order = an_order(max_price_usd=Decimal("0.5262"), rates={"CNY": Decimal("6.7489")})
    assert bid(order, "USD", Decimal("0.001")) == Decimal("0.526")
    assert bid(order, "CNY", Decimal("0.001")) == Decimal("3.551")
    with pytest.raises(UsageError, match="bids in EUR"):
        bid(order, "EUR", Decimal("0.001"))


@pytest.mark.parametrize(
    ("at_most", "beyond", "says"),
    [
        ({"user_data": b"x" * 100}, {"user_data": b"x" * 101}, "101 bytes; AWS accepts 100"),
        (
            {"disk_gib": 200},
            {"disk_gib": 201},
            "201 GiB is too large; AWS accepts root disks of up to 200 GiB",
        ),
        (
            {"allow_from": ("192.0.2.1/32", "192.0.2.2/32"), "ports": (22, 80, 443)},
            {"allow_from": ("192.0.2.1/32", "192.0.2.2/32"), "ports": (80, 443, 8080)},
            "these are 8 rules; a group on AWS has up to 6",
        ),
        ({"nodes": 2}, {"nodes": 3}, "up to 2 machines together, not 3"),
    ],
)
def test_an_order_beyond_a_limit_is_refused(
    at_most: dict[str, Any], beyond: dict[str, Any], says: str
) -> None:
    check_limits(an_order(**at_most), LIMITS)
    with pytest.raises(UsageError, match=says):
        check_limits(an_order(**beyond), LIMITS)


def test_a_price_is_read_from_text_and_numbers() -> None:
    assert amount_of("0.526") == amount_of(0.526) == Decimal("0.526")


@pytest.mark.parametrize("value", ["x", None, 0, -1, "Infinity", "NaN", "", True])
def test_what_is_no_price_is_none(value: Any) -> None:
    assert amount_of(value) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRow(ImageRow):
    """A row of a cloud that names its images."""

    name: str


def row(name: str, *recipes: str, **more: Any) -> OwnRow:
    return OwnRow(**{"name": name, "recipes": recipes, "arch": "x86_64", "contents": {}, **more})


TABLE = (
    row("first", "cuda*", machines=("g5", "p*")),
    row("second", "cuda*", "ubuntu"),
    row("arm", "cuda*", arch="arm64"),
)


@pytest.mark.parametrize(
    ("recipe", "arch", "machine", "name"),
    [
        ("cuda-12.4", "x86_64", "g5", "first"),
        ("cuda-12.4", "x86_64", "p5en", "first"),
        ("cuda-12.4", "x86_64", "g4dn", "second"),
        ("ubuntu", "x86_64", "g5", "second"),
        ("cuda", "arm64", "g5g", "arm"),
    ],
)
def test_the_first_row_that_fits_is_what_a_recipe_boots(
    recipe: str, arch: str, machine: str, name: str
) -> None:
    assert image_row(TABLE, recipe, arch, machine, cloud="X", own="an id").name == name


def test_where_no_row_fits_the_recipes_are_named() -> None:
    with pytest.raises(UsageError, match="X has no image for 'rocm' on x86_64") as caught:
        image_row(TABLE, "rocm", "x86_64", "g5", cloud="X", own="an id")
    own = "an id, or a snapshot of a box: gpucloud snapshot list"
    assert caught.value.hint == f"use one of cuda*, ubuntu, {own}"


@pytest.mark.parametrize("package", ["gpucloud_aws", "gpucloud_azure", "gpucloud_alibaba"])
def test_the_tables_of_all_providers_are_read_by_one_function(package: str) -> None:
    rows = read_images(package, ImageRow)
    assert rows
    assert all(each.recipes and each.contents["system"] for each in rows)
