"""Volumes: made once, found by their tags, and there when their machine is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpucloud.clouds.abilities import Volumes
from gpucloud.resources import Resource, ResourceKind, Tags, VolumeOrder
from tests.builders import Told
from tests.conformance.harness import (
    Conformance,
    Harness,
    bought,
    eventually,
    found,
    ids,
    is_gone,
    running,
    take_down,
)


def volumes_of(harness: Harness) -> Volumes:
    """The provider as one that holds volumes."""
    volumes = harness.provider.ability(Volumes)
    if volumes is None:
        pytest.skip("this provider holds no volumes")
    return volumes


def a_volume_order(harness: Harness) -> VolumeOrder:
    order = harness.order()
    return VolumeOrder(
        key=order.key,
        name=order.name,
        account=order.account,
        region=order.region,
        zone=order.zone,
        size_gib=20,
        tags=replace(order.tags, volume="data", retain=True),
    )


def made(harness: Harness, order: VolumeOrder) -> Resource:
    provider = volumes_of(harness)
    return provider.create_volume(provider.prepare_volume(order, Told()))


class HoldingVolumes(Conformance):
    """The obligations; one test each."""

    def test_a_repeated_request_makes_one_volume_with_its_tags(self, harness: Harness) -> None:
        provider = volumes_of(harness)
        order = a_volume_order(harness)
        request = provider.prepare_volume(order, Told())
        assert request == provider.prepare_volume(order, Told())
        disk = provider.create_volume(request)
        assert provider.create_volume(request).ref == disk.ref
        shown = harness.provider.get(disk.ref)
        assert (shown.tags, shown.size_gib, shown.zone) == (order.tags, 20, order.zone)
        [listed] = [each for each in found(harness, box=order.tags.box) if each.ref.kind is ResourceKind.DISK]
        assert isinstance(listed.tags, Tags)
        assert (listed.ref, listed.tags.volume, listed.tags.retain) == (disk.ref, "data", True)
        take_down(harness, box=order.tags.box)
        assert is_gone(harness, disk.ref)

    def test_a_volume_outlives_the_machine_that_it_is_attached_to(self, harness: Harness) -> None:
        provider = volumes_of(harness)
        stored = a_volume_order(harness)
        disk = made(harness, stored)
        eventually(harness, lambda: harness.provider.get(disk.ref), "there")
        order = harness.order(volumes=(disk.ref,))
        _, [machine] = bought(harness, order)
        running(harness, machine)
        paths = eventually(harness, lambda: provider.attach(disk.ref, machine.ref, 0), "attached")
        assert list(provider.attach(disk.ref, machine.ref, 0)) == list(paths)
        assert disk.ref not in running(harness, machine).parts
        take_down(harness, box=order.tags.box)
        assert disk.ref.id in ids(found(harness, box=stored.tags.box))
        take_down(harness, box=stored.tags.box)
        assert is_gone(harness, disk.ref)
