"""The emulated Alibaba Cloud refuses every member of the vendor's model that its table does not support."""

from __future__ import annotations

from typing import Any

import pytest

from gpucloud_sandbox.alibaba.actions import ACTIONS
from gpucloud_sandbox.alibaba.validation import HONOURED
from tests.sandbox.alibaba_lab import Alibaba, ClientException
from tests.sandbox.alibaba_model import needed, path_of, samples

CALLS = sorted(ACTIONS)
REGION = "RegionId"
"""A member of every call: it chooses the region."""


def rows(call: tuple[str, str]) -> set[str]:
    """The members in the table, without their values."""
    table = HONOURED[call]
    return {*table.paths, *table.valued, *(f"{each}*" for each in table.opened)}


def test_every_call_has_a_row_and_every_row_a_call() -> None:
    assert set(HONOURED) == set(ACTIONS)


@pytest.mark.parametrize("call", CALLS, ids=":".join)
def test_every_row_is_a_member_of_the_vendors_model(call: tuple[str, str]) -> None:
    assert rows(call) - {path_of(name) for name in samples(*call)} == set()


@pytest.mark.parametrize("call", CALLS, ids=":".join)
def test_every_other_member_is_refused_by_name(alibaba: Alibaba, call: tuple[str, str]) -> None:
    product, action = call
    client = alibaba.client()
    others = {name: value for name, value in samples(*call).items() if _is_refused(call, name)}
    required = {name: _taken(call, path_of(name), value) for name, value in needed(*call).items()}
    for name, value in others.items():
        with pytest.raises(ClientException) as caught:
            alibaba.ask(action, product, client=client, **{**required, name: value})
        said: Any = caught.value
        path = path_of(name)
        shown = f"{path}={value.lower()}" if path in HONOURED[call].valued else path
        assert f"does not emulate {action}: {shown}." in said.message, said.message
    assert alibaba.billed() == []


def _taken(call: tuple[str, str], path: str, value: str) -> str:
    """A value of a member that the call must have."""
    return min(HONOURED[call].valued.get(path, {value}))


def _is_refused(call: tuple[str, str], name: str) -> bool:
    table, path = HONOURED[call], path_of(name)
    return path != REGION and not table.supports(path, samples(*call)[name])
