"""Connects to a box also after the caller's address has changed."""

from __future__ import annotations

import ipaddress
from functools import partial

from gpucloud.clouds.audit import about
from gpucloud.errors import UsageError
from gpucloud.journal.facts import Facts
from gpucloud.journal.records import Box
from gpucloud.resources import ResourceKind
from gpucloud.runtime.context import Context
from gpucloud.ssh.client import ConnectionFailedError, Failure, Target, connect, wait_until_reachable

RULE_TIMEOUT_S = 30.0


def reach(context: Context, box: Box, target: Target) -> None:
    """Opens the shared connection; if the box does not answer, allows our present address first (journalled).

    Raises:
        ConnectionFailedError: the box could not be reached, and a changed address is not the cause.
        UsageError: our address is not among those of ``allow_from``.
        CloudError: the rule could not be changed.
    """
    try:
        context.tasks.run(partial(connect, target))
    except ConnectionFailedError as error:
        if error.failure is not Failure.UNREACHABLE or not admit_us(context, box):
            raise
        context.tasks.run(partial(wait_until_reachable, target, timeout_s=RULE_TIMEOUT_S))


def admit_us(context: Context, box: Box) -> bool:
    """Changes the box's rule to our present address; False if that is allowed already, or unknown."""
    cloud = context.clouds.usable(box.cloud)
    address = context.tasks.run(partial(context.clouds.caller_address, cloud.name))
    if address is None:
        return False
    own = ipaddress.ip_network(address)
    allowed = [ipaddress.ip_network(cidr) for cidr in box.allow_from]
    if any(each.version == own.version and own.subnet_of(each) for each in allowed):  # type: ignore[arg-type]
        return False
    if box.wanted.names_callers:
        raise UsageError(
            f"{box.name!r} does not accept your address {address}; it accepts {', '.join(map(str, allowed))}",
            hint="allow_from set these addresses, so gpucloud does not change them: connect from one of them",
        )
    context.notice("network", f"your address is now {address}: allowing it")
    for resource in context.journal.resources(box.id):
        if resource.ref.kind is ResourceKind.GROUP and resource.ref.id:
            with about(box=box.id):
                context.tasks.run(partial(cloud.admit, resource.ref, (str(own),), box.ports))
    context.journal.observe(box, Facts(allow_from=(str(own),)))
    return True
