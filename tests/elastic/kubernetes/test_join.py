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
    joining = Joining(program=Program.KUBEADM, server="https://k.lab", ca_hash=HASH)
    found = json.loads(joining.configuration("abcdef.0123456789abcdef", "lab-t4-1-x", ID, LABELS))
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
def test_the_token_is_in_the_input_alone(program: Program) -> None:
    joining = Joining(program=program, server="https://k.lab", ca_hash=HASH)
    assert "a-secret" in joining.configuration("a-secret", "n", ID, LABELS)
    assert "$" not in joining.script().replace("$?", "").replace("$code", ""), "nothing is put into it"


def test_kubeadm_without_the_hash_of_the_authority_is_refused() -> None:
    """Without it, whoever answers at the address would be given the token."""
    with pytest.raises(UsageError, match="sha256:HEX"):
        Joining(program=Program.KUBEADM, server="https://k.lab")
