"""What each command and each sandbox does first, and alike each time: once, in the process that forks them.

Only what does not depend on arguments, environment or files is kept: tables that are read, models and classes
that are made. What a start itself does is shown by tests that start the script.
"""

from __future__ import annotations

import collections.abc
import functools
import operator
import typing
from collections import OrderedDict
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from botocore.awsrequest import HeadersDict

import gpucloud.cli.app
import gpucloud.journal.events
import gpucloud.market.catalog
import gpucloud_alibaba.images
import gpucloud_alibaba.models
import gpucloud_aws.images
import gpucloud_azure.images
import gpucloud_sandbox.alibaba.validation
import gpucloud_sandbox.aws.wire
import gpucloud_sandbox.azure.validation
import gpucloud_templates.cloud_config
import gpucloud_templates.software
from gpucloud.clouds.error_table import table_of
from gpucloud.clouds.profile import Profile
from gpucloud_aws.clients import Clients
from gpucloud_pricing import Demand
from gpucloud_pricing.gpus import parse_requirements
from gpucloud_sandbox import supported
from gpucloud_sandbox.market import Catalog, catalog

CLOUDS = ("aws", "azure", "alibaba")
VIEWS: tuple[Callable[[Any], object], ...] = (
    *(operator.methodcaller("items"), operator.methodcaller("keys"), operator.methodcaller("values")),
)
MAPPINGS: tuple[Any, ...] = ({}, OrderedDict(), HeadersDict())
ASKED_OFTEN: tuple[object, ...] = (
    *(None, False, 0, 0.0, "", b"", (), Path(), iter("")),
    *(dict[str, str](), list[str](), set[str](), frozenset[str](), iter(())),
    *(view(made) for made in MAPPINGS for view in VIEWS),
)
"""Values like these are asked whether they are mappings; the first answer looks through all of Azure."""
ABSTRACT: tuple[Any, ...] = (
    *(collections.abc.Mapping, collections.abc.MutableMapping, collections.abc.Sequence),
    *(collections.abc.MutableSequence, collections.abc.Set, collections.abc.MutableSet),
    *(collections.abc.Iterable, collections.abc.Hashable, typing.SupportsInt),
)


def rehearse() -> None:
    """Does it."""
    _commands()
    _sandboxes()
    for asked in ASKED_OFTEN:  # at last: each class that is registered anywhere makes them forget it
        for kind in ABSTRACT:
            isinstance(asked, kind)


def _commands() -> None:
    app: Any = gpucloud.cli.app
    app.build, app.load = functools.cache(app.build), functools.cache(app.load)
    app.build()
    for name in app.COMMANDS:
        app.load(name)
    catalogs: Any = gpucloud.market.catalog
    catalogs.shipped_market = functools.cache(catalogs.shipped_market)
    for cloud in CLOUDS:
        demand = Demand(gpus=parse_requirements("T4"), clouds=(cloud,))
        catalogs.shipped_market().search(demand, date(2026, 1, 1))
        table_of(f"gpucloud_{cloud}")
    events: Any = gpucloud.journal.events
    for type_ in events._TYPES:
        events._reader(type_)
    boot: Any = gpucloud_templates.cloud_config
    boot._guard()
    gpucloud_templates.software.driver()
    gpucloud_templates.software.releases()
    for images in (gpucloud_alibaba.images, gpucloud_aws.images, gpucloud_azure.images):
        images.table()
    gpucloud_alibaba.models.ecs_models()
    clients = Clients(Profile({"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}))
    for service in ("ec2", "sts", "service-quotas", "pricing"):
        clients.client(service, "us-east-1", attempts=1)


def _sandboxes() -> None:
    gpucloud_sandbox.azure.validation.warm_up()
    for package in ("gpucloud_sandbox.alibaba", "gpucloud_sandbox.aws", "gpucloud_sandbox.azure"):
        supported.read(package)
    validation: Any = gpucloud_sandbox.alibaba.validation
    validation._products()
    gpucloud_sandbox.aws.wire.service_model("ec2")
    for cloud in CLOUDS:
        for name, member in vars(Catalog).items():
            if isinstance(member, functools.cached_property):
                getattr(catalog(cloud), name)
