"""``--box-identity``: a box on Azure deletes itself, and can do nothing else."""

from __future__ import annotations

import json
import subprocess
import time

import pytest

from gpucloud_sandbox.azure.roles import SELF_DELETE
from tests.shell import Shell
from tests.waiting import until

LAUNCH = ("--gpu", "T4", "--cloud", "azure", "--name", "x")
ROLE = ("--box-identity", SELF_DELETE)


def on_box(shell: Shell, path: str) -> str:
    """What the metadata service answers a program on the box."""
    ask = f'curl -s -H Metadata:true "$GPUCLOUD_METADATA_URL/metadata/{path}"'
    return shell("exec", "x", "--", "sh", "-c", ask).out


def test_a_box_that_nobody_uses_leaves_nothing_that_is_billed(own_clouds: Shell) -> None:
    """And nobody has run a command since."""
    own_clouds.launch(*LAUNCH, *ROLE, "--idle", "20m")
    for _ in range(3):
        own_clouds.sandbox.clock(advance_s=10 * 60)
        time.sleep(0.5)
    until(lambda: own_clouds.sandbox.status()["billing"] == [])
    assert own_clouds("down", "x", "--yes").code == 0


def test_its_deadline_too(own_clouds: Shell) -> None:
    own_clouds.launch(*LAUNCH, *ROLE, "--ttl", "1h")
    assert len(own_clouds.billed()) == 1
    # Before the cloud's own timers, which would leave disk and address.
    own_clouds.sandbox.clock(advance_s=3630)
    until(lambda: own_clouds.sandbox.status()["billing"] == [])


def test_the_identity_may_do_nothing_else(cli: Shell) -> None:
    """With its token, taken as any program on the box could: not to others, not but deleting."""
    cli.launch(*LAUNCH, *ROLE)
    other = cli.launch("--gpu", "T4", "--cloud", "azure", "--name", "other")
    endpoint, authority = (
        cli.endpoint.environ[name] for name in ("GPUCLOUD_AZURE_ENDPOINT", "REQUESTS_CA_BUNDLE")
    )
    answer = on_box(cli, f"identity/oauth2/token?api-version=2018-02-01&resource={endpoint}/")
    token = json.loads(answer)["access_token"]
    own = on_box(cli, "instance/compute/resourceId?api-version=2021-02-01&format=text")

    def asks(method: str, machine: str) -> str:
        url = f"{endpoint}{machine}?api-version=2024-07-01"
        call = ["--cacert", authority, "-X", method, "-H", f"Authorization: Bearer {token}", url]
        return subprocess.run(["curl", "-s", *call], capture_output=True, text=True, check=True).stdout

    assert "AuthorizationFailed" in asks("DELETE", other["nodes"][0]["instance_id"])
    assert "AuthorizationFailed" in asks("GET", own)
    assert "AuthorizationFailed" in asks("GET", own.rpartition("/providers/")[0])
    assert len(cli.billed()) == 2
    asks("DELETE", own)
    until(lambda: len(cli.billed()) == 1)


def test_a_box_without_one_gets_no_token(cli: Shell) -> None:
    cli.launch(*LAUNCH)
    asked = on_box(cli, "identity/oauth2/token?api-version=2018-02-01&resource=x")
    assert "Identity not found" in asked


@pytest.mark.parametrize(
    ("code", "status"), [("AuthorizationFailed", 403), ("RoleDefinitionDoesNotExist", 404)]
)
def test_a_box_that_gets_none_is_not_kept(cli: Shell, code: str, status: int) -> None:
    rule = {"cloud": "azure", "action": "PUT roleAssignments*", "effect": "error"}
    cli.sandbox.fault(**rule, code=code, status=status, times=None)
    failed = cli("launch", *LAUNCH, *ROLE, "--yes", "--json")
    assert failed.code != 0
    assert code in failed.error["message"]
    assert cli.sandbox.status()["billing"] == []


def test_a_role_that_is_assigned_already_is_a_success(cli: Shell) -> None:
    cli.sandbox.fault(
        cloud="azure",
        action="PUT roleAssignments*",
        effect="error",
        stage="applied",
        code="RoleAssignmentExists",
        status=409,
        message="The role assignment already exists.",
    )
    cli.launch(*LAUNCH, *ROLE)
    assert len(cli.billed()) == 1


def test_where_it_cannot_be_had_it_is_refused(cli: Shell) -> None:
    for arguments, said in (
        (("--cloud", "alibaba", *ROLE), "release time"),
        (("--cloud", "azure", "--box-identity", "Contributor"), "role definition"),
    ):
        refused = cli("launch", "--gpu", "T4", "--yes", *arguments)
        assert refused.code == 2
        assert said in refused.err
    assert cli.sandbox.status()["billing"] == []


def test_an_instance_profile_is_refused_before_anything_is_bought_and_not_passed_over(cli: Shell) -> None:
    """A program that was to have its credentials would find none."""
    profile = "arn:aws:iam::123456789012:instance-profile/train"
    done = cli("launch", "--gpu", "T4", "--cloud", "aws", "--name", "x", "--box-identity", profile, "--yes")
    assert (done.code, cli.billed()) == (2, [])
    assert "on AWS a box does so without a role, and gets no instance profile" in done.err
    assert "--env NAME" in done.err, done.err
    cli.launch("--gpu", "T4", "--cloud", "aws", "--name", "x", *ROLE)  # one file for several clouds
