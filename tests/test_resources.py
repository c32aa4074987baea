"""Ids as people see them."""

from __future__ import annotations

import pytest

from gpucloud.resources import short_id

GALLERY = "/subscriptions/s/resourcegroups/g/providers/microsoft.compute/galleries/mine"


@pytest.mark.parametrize(
    ("id_", "shown"),
    [
        ("i-0123456789abcdef0", "i-0123456789abcdef0"),
        (f"{GALLERY}/images/mine", "mine"),
        (f"{GALLERY}/images/mine/versions/1.0.0", "mine/1.0.0"),
    ],
)
def test_people_see_the_end_of_a_path(id_: str, shown: str) -> None:
    assert short_id(id_) == shown
