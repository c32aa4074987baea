"""Connects to a box, and allows this machine's address first if that has changed."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from gpucloud.clouds.abilities import Firewall
from gpucloud.clouds.audit import about
from gpucloud.clouds.cloud import Cloud
from gpucloud.errors import UsageError
from gpucloud.journal.facts import NO_FACTS, Facts
from gpucloud.journal.records import Box
from gpucloud.resources import Ref, ResourceKind
from gpucloud.runtime.context import Context
from gpucloud.ssh.client import (
    ConnectionFailedError,
    ConnectionFailure,
    Target,
    connect,
    wait_until_reachable,
)
from gpucloud.ssh.keys import has_own_key, key_folder

RULE_TIMEOUT_S = 30.0
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def reach(context: Context, box: Box, target: Target) -> None:
    """Opens the shared connection; if the box does not answer, allows our present address first (journalled).

    Raises:
        ConnectionFailedError: the box could not be reached, and a changed address is not the cause.
        UsageError: our address is not among those of ``allow_from``, or of a box that was launched elsewhere.
        CloudError: the rule could not be changed.
    """
    try:
        context.tasks.run(partial(connect, target))
    except ConnectionFailedError as error:
        if error.failure is not ConnectionFailure.UNREACHABLE or not admit_us(context, box):
            raise
        context.tasks.run(partial(wait_until_reachable, target, timeout_s=RULE_TIMEOUT_S))


def admit_us(context: Context, box: Box) -> bool:
    """Changes the box's rule to our present address; False if that is allowed already, or unknown."""
    address = context.tasks.run(context.clouds.caller_address)
    if address is None:
        return False
    own = ipaddress.ip_network(address)
    allowed = [ipaddress.ip_network(cidr) for cidr in box.allow_from]
    if any(_is_in(own, each) for each in allowed):
        return False
    if box.wanted.names_callers:
        raise UsageError(
            f"{box.name!r} does not accept your address {address}; it accepts {', '.join(map(str, allowed))}",
            hint="allow_from set these addresses, so gpucloud does not change them: connect from one of them",
        )
    if context.state is not None and not has_own_key(key_folder(context.state, box.id)):
        raise UsageError(
            f"{box.name!r} does not accept your address {address}",
            hint=f"ask its owner: gpucloud share {box.name} --key KEY.pub --allow-from {own}",
        )
    context.notice("network", f"your address is now {address}: allowing it")
    _admit(context, box, _without_parts((str(own), *box.guests)))
    return True


def with_guests(context: Context, box: Box, guests: Sequence[str], *, remove: bool = False) -> bool:
    """Opens a box to these addresses, too, or closes it to them; False if it is so already.

    Raises:
        CloudError: the rule could not be changed.
    """
    kept = [each for each in box.guests if each not in guests]
    news = Facts(guests=tuple(kept if remove else [*kept, *guests]))
    allowed = [each for each in box.allow_from if not remove or each not in guests]
    wanted = _without_parts(allowed if remove else [*allowed, *guests])
    if set(wanted) != set(box.allow_from):
        _admit(context, box, wanted, news)
        return True
    context.journal.observe(box, news)
    return False


def _admit(context: Context, box: Box, cidrs: tuple[str, ...], news: Facts = NO_FACTS) -> None:
    """Makes these addresses the only ones that a box accepts."""
    cloud = context.clouds.usable(box.cloud)
    for resource in context.journal.resources(box.id):
        if resource.ref.kind is ResourceKind.GROUP and resource.ref.id:
            with about(box=box.id):
                context.tasks.run(partial(_set_rules, cloud, resource.ref, cidrs, box.ports))
    context.journal.observe(box, replace(news, allow_from=cidrs))


def _set_rules(cloud: Cloud, group: Ref, cidrs: Sequence[str], ports: Sequence[int]) -> None:
    what = "allow the new address"
    cloud.ask(Firewall, what, lambda firewall: firewall.admit(group, cidrs, ports), lacking=None)


def _without_parts(cidrs: Iterable[str]) -> tuple[str, ...]:
    """The networks, without those that are part of another: Azure refuses a rule with both."""
    networks = [ipaddress.ip_network(each) for each in dict.fromkeys(cidrs)]
    return tuple(
        str(one) for one in networks if not any(one is not other and _is_in(one, other) for other in networks)
    )


def _is_in(one: Network, other: Network) -> bool:
    return one.version == other.version and one.subnet_of(other)  # type: ignore[arg-type]
