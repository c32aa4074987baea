"""A launch that waits for capacity, as a program has it: at no more than was agreed to once."""

from __future__ import annotations

import time
from datetime import timedelta

from gpucloud import Client, Profile, Proposal, Spec
from gpucloud.runtime.tasks import Tasks
from gpucloud_sandbox.client import Endpoint


def test_every_round_of_a_wait_is_bounded_by_the_price_of_the_yes(
    endpoint: Endpoint, profile: Profile
) -> None:
    """A cheaper round in between lowers no bound, and a dearer one buys nothing."""
    sandbox = endpoint.client
    sandbox.stock(count=0)
    asked: list[Proposal] = []
    seen: list[int] = []

    def sold_out_but_cheaper() -> None:
        sandbox.price(factor="0.5")

    def for_sale_but_dearer() -> None:
        sandbox.stock(count=9)
        sandbox.price(factor="2")

    def as_agreed() -> None:
        sandbox.price(factor="1")

    rounds = iter((sold_out_but_cheaper, for_sale_but_dearer, as_agreed))

    def nap(seconds: float) -> None:
        if seconds < 60:
            time.sleep(seconds)
            return
        seen.append(sum(event["kind"] == "instance" for event in sandbox.ledger()))
        next(rounds)()

    def agree(proposal: Proposal) -> bool:
        asked.append(proposal)
        return True

    spec = Spec(instance_types="g4dn.xlarge", clouds="aws", zones="use1-az4", allow_from="198.51.100.7/32")
    with Client.sandbox(profile=profile) as client:
        client.work_with(Tasks(nap))
        box = client.launch(spec, wait=timedelta(hours=1), confirm=agree)
        assert box.price is not None
        [proposal] = asked
        assert box.price.amount == proposal.plan.attempts[0].price
        assert seen == [0, 0, 0]
        assert list(rounds) == []
        box.down()
