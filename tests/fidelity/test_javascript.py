"""The vendors' JavaScript SDKs see what gpucloud launched, and errors as the clouds' own."""

from __future__ import annotations

import pytest

from tests.fidelity.clients import CLIENTS, SCRIPTS
from tests.shell import Shell


@pytest.mark.parametrize(
    ("script", "cloud", "state", "error"),
    [
        ("aws", "aws", "running", ["InvalidInstanceID.NotFound", 400]),
        ("azure", "azure", "PowerState/running", ["ResourceNotFound", 404]),
        ("alibaba", "alibaba", "Running", ["InvalidInstanceId.NotFound", 404]),
        ("alibaba_pop", "alibaba", "Running", ["InvalidInstanceId.NotFound", 404]),
    ],
)
def test_smoke_a_round_trip(cli: Shell, script: str, cloud: str, state: str, error: list[object]) -> None:
    place = () if cloud == "azure" else ("--region", "us-east-1")
    box = cli.launch("--gpu", "T4", "--cloud", cloud, *place, "--name", "x")
    [node] = box["nodes"]
    ran = cli.run(CLIENTS / "node", SCRIPTS / f"{script}.mjs", node["instance_id"])
    assert ran.code == 0, ran.err
    assert ran.json == {"id": node["instance_id"], "state": state, "box": box["id"], "error": error}
