"""What a program that confirms a start itself pays: never a price from before its answer."""

from __future__ import annotations

import pytest

from gpucloud import Client, Spec
from gpucloud.boxes.power import Start
from gpucloud.errors import CloudError
from gpucloud_sandbox.client import Endpoint


def test_a_price_that_moves_while_a_start_is_confirmed_starts_nothing(
    client: Client, endpoint: Endpoint
) -> None:
    client.launch(Spec(gpu="T4", clouds="aws", ttl="2h"), name="x")
    client.boxes.stop("x")
    endpoint.client.calls(clear=True)

    def agree(_: Start) -> bool:
        endpoint.client.price(cloud="aws", factor="5")
        return True

    with pytest.raises(CloudError, match=r"2\.63 USD per hour"):
        client.boxes.start("x", confirm=agree)
    assert "StartInstances" not in [call["action"] for call in endpoint.client.calls()]
