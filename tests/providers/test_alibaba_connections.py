"""Threads that begin together share one pool of connections of the SDK, and answers are of bounded size."""

from __future__ import annotations

import gzip
import logging
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from darabonba.core import DaraCore

from gpucloud.resources import Search
from gpucloud_alibaba.connections import share_pools
from gpucloud_alibaba.provider import AlibabaProvider
from tests.profiles import own_profile
from tests.providers.alibaba_sandbox import alibaba_environment, wire
from tests.providers.alibaba_wire import Answer, Wire

__all__ = ["alibaba_environment", "wire"]

THREADS = 16


def test_threads_that_begin_together_share_one_pool_for_each_host() -> None:
    """Each host has one pool, and other hosts have others."""
    share_pools()
    begin = Barrier(THREADS)

    def pool(number: int) -> Any:
        begin.wait()
        host = f"https://host-{number % 2}.test:443:pool=64"
        sdk: Any = DaraCore
        return host, sdk._get_session(session_key=host, protocol="HTTPS", pool_size=64)

    with ThreadPoolExecutor(THREADS) as threads:
        made = list(threads.map(pool, range(THREADS)))

    assert len({host for host, _ in made}) == 2
    assert len({(host, id(session)) for host, session in made}) == 2


@pytest.mark.parametrize(
    "later",
    [None, lambda key, **settings: (key, settings), staticmethod(lambda host, **settings: (host, settings))],
    ids=["gone", "a method", "of another key"],
)
def test_an_sdk_that_makes_its_pools_in_another_way_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, later: Any
) -> None:
    """Only the log says so, for those who look."""
    sdk: Any = DaraCore
    if later is None:
        monkeypatch.delattr(sdk, "_get_session")
    else:
        monkeypatch.setattr(sdk, "_get_session", later)
    caplog.set_level(logging.DEBUG, "gpucloud_alibaba.connections")

    share_pools.__wrapped__()

    assert vars(sdk).get("_get_session") is later
    assert [record.levelname for record in caplog.records] == ["DEBUG"]


def test_an_answer_that_unpacks_without_an_end_is_not_read(wire: Wire) -> None:
    """64 MB, which travel as 64 kB: no list of instances is as long."""
    bomb = Answer(gzip.compress(bytes(64 << 20)), headers={"content-encoding": "gzip"})
    wire.say("DescribeInstances", bomb)
    found = AlibabaProvider(own_profile()).find(Search(token="t", regions=("cn-hangzhou",)))
    assert "more than 8,388,608 bytes" in found.unread[0].error
