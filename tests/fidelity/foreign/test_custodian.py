"""Cloud Custodian finds instances without an owner's tag, marks them, and ends what it has marked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.fidelity.clients import FOREIGN
from tests.shell import Shell

CLIENT = "cloud-custodian"
POLICIES = Path(__file__).with_name("policies.yml")


def enforce(shell: Shell, folder: Path, policy: str) -> list[Any]:
    """The resources that a policy found and treated."""
    options = ("--region", "us-east-1", "--cache-period", "0", "--output-dir", folder)
    ran = shell.run(FOREIGN / "custodian", "run", *options, "--policies", policy, POLICIES)
    assert ran.code == 0, ran.err
    return list(json.loads((folder / policy / "resources.json").read_text()))


def launch(shell: Shell, **tags: str) -> str:
    """An instance that somebody started by hand."""
    place = ("--region", "us-east-1")
    images = shell.aws("ec2", "describe-images", *place, "--owners", "amazon")["Images"]
    image = next(each["ImageId"] for each in images if each["Architecture"] == "x86_64")
    named = [{"Key": key, "Value": value} for key, value in tags.items()]
    tagged = json.dumps([{"ResourceType": "instance", "Tags": named}]) if named else "[]"
    what = ("--image-id", image, "--instance-type", "g4dn.xlarge", "--tag-specifications", tagged)
    return str(shell.aws("ec2", "run-instances", *place, *what)["Instances"][0]["InstanceId"])


def test_what_nobody_owns_is_marked_and_ended(foreign: Shell, tmp_path: Path) -> None:
    owned, unowned = launch(foreign, owner="somebody"), launch(foreign)
    assert foreign.run("aws", "ec2", "wait", "instance-running", "--instance-ids", owned, unowned).code == 0
    foreign.sandbox.calls(clear=True)  # those were not Cloud Custodian's
    assert [each["InstanceId"] for each in enforce(foreign, tmp_path, "mark")] == [unowned]
    assert [each["InstanceId"] for each in enforce(foreign, tmp_path, "end")] == [unowned]
    assert [entry["id"] for entry in foreign.billed()] == [owned]
