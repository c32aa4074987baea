"""What a node is started with, by the documents of k3s and kubeadm."""

from __future__ import annotations

import json

import pytest

from gpucloud import UsageError
from gpucloud.elastic.kubernetes.join import Joining, Program

HASH = "sha256:" + "0f" * 32
LABELS = {"gpucloud/class": "t4", "gpucloud/gpu": "T4"}
ID = "gpucloud://aws/use1-az1/i-0123"


def test_a_node_of_kubeadm_has_the_provider_id_the_labels_and_a_pinned_authority() -> None:
    joining = Joining(
        program=Program.KUBEADM, server="https://k.lab", token="abcdef.0123456789abcdef", ca_hash=HASH
    )
    found = json.loads(joining.configuration("lab-t4-1-x", ID, LABELS))
    assert found["discovery"]["bootstrapToken"] == {
        "apiServerEndpoint": "k.lab:6443",
        "token": "abcdef.0123456789abcdef",
        "caCertHashes": [HASH],
    }
    assert found["nodeRegistration"]["name"] == "lab-t4-1-x"
    assert {each["name"]: each["value"] for each in found["nodeRegistration"]["kubeletExtraArgs"]} == {
        "provider-id": ID,
        "node-labels": "gpucloud/class=t4,gpucloud/gpu=T4",
    }


@pytest.mark.parametrize("program", Program)
def test_the_token_is_neither_in_what_is_run_nor_in_what_is_shown(program: Program) -> None:
    joining = Joining(program=program, server="https://k.lab", token="a-secret", ca_hash=HASH)
    assert "a-secret" in joining.configuration("n", ID, LABELS)
    assert "a-secret" not in joining.script() + repr(joining)


def test_kubeadm_without_the_hash_of_the_authority_is_refused() -> None:
    """Without it, whoever answers at the address would be given the token."""
    with pytest.raises(UsageError, match="sha256:HEX"):
        Joining(program=Program.KUBEADM, server="https://k.lab", token="abcdef.0123456789abcdef")
