"""The data sets of a spec, looked at before anything is bought: where they are, and how large."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from gpucloud.clouds import stores
from gpucloud.errors import UsageError
from gpucloud.planning.data_source import DataSource
from gpucloud.planning.object_store import store_of
from gpucloud.runtime.context import Context
from gpucloud.spec.model import Spec
from gpucloud.spec.mounts import DataSet

MOST_COUNTED = 100_000
"""The most objects of a data set that a plan counts: on AWS, 100 pages."""
COUNT_S = 60.0
STEP = "data"


def located(context: Context, spec: Spec) -> tuple[DataSource, ...]:
    """The data sets of a spec, each with its bucket.

    Raises:
        UsageError: a bucket does not exist, or belongs to somebody else, or no folder of it is named.
        CloudError: the cloud refused to show it.
    """
    return tuple(_located(context, each, spec.data_role) for each in spec.data_sets)


def measured(context: Context, spec: Spec, *, to_buy: bool) -> tuple[DataSource, ...]:
    """The data sets of a spec, each with its size.

    Args:
        context: clouds and progress of this call.
        spec: the spec.
        to_buy: whether they are used at once: then their rights are lent once, as a test.

    Raises:
        UsageError: as :func:`located`; or a folder is empty, or its rights cannot be lent.
        CloudError: the cloud refused to show or to lend it.
    """
    found: list[DataSource] = []
    for source in located(context, spec):
        cloud, url = context.clouds[source.cloud], source.wanted.url
        context.tell(STEP, f"looking at {url}")
        count = partial(stores.measure, cloud, source.place, source.folder, MOST_COUNTED)
        size = context.tasks.run(count, COUNT_S)
        if not size.files:
            raise UsageError(
                f"data: there is nothing below {url}/",
                hint="name a folder of the bucket that holds files; a single file is no data set",
            )
        if to_buy:
            context.tasks.run(partial(stores.lend, cloud, source.grant))
        found.append(replace(source, size=size))
    return tuple(found)


def _located(context: Context, wanted: DataSet, role: str | None) -> DataSource:
    scheme, _, address = wanted.url.partition("://")
    cloud = store_of(context, scheme, "data")
    place, folder = context.tasks.run(partial(stores.locate, cloud, address))
    if not folder:
        raise UsageError(
            f"data: {wanted.url} is a whole bucket", hint=f"name a folder of it: {wanted.url}/FOLDER"
        )
    return DataSource(wanted=wanted, cloud=cloud.name, place=place, folder=folder, role=role)
