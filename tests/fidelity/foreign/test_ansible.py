"""Ansible's collection amazon.aws makes an instance and its security group, and ends both."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fidelity.clients import FOREIGN
from tests.fidelity.operations import needs
from tests.shell import Shell

CLIENT = "ansible"
PLAYBOOK = Path(__file__).with_name("instance.yml")


@needs("ModifyInstanceAttribute")
def test_an_instance_behind_a_security_group(foreign: Shell, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    words = {"report": str(report), "ansible_python_interpreter": str(FOREIGN / "python")}
    ran = foreign.run(FOREIGN / "ansible-playbook", "--extra-vars", json.dumps(words), PLAYBOOK)
    assert ran.code == 0, ran.out + ran.err
    document = json.loads(report.read_text())
    assert len(document["started"]) == 1
    assert document["shown"] == document["started"]
    assert document["group_changed"] == [True, False]
    assert foreign.sandbox.status()["billing"] == []
