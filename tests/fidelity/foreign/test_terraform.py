"""Terraform's AWS provider: apply, a plan without changes, destroy. Where both programs are installed.

The provider is in the folder that ``TERRAFORM_PLUGINS`` names, or in one in which Terraform itself looks on
Linux (developer.hashicorp.com/terraform/cli/config/config-file, "Implied Local Mirror Directories").
Nothing is downloaded.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.fidelity.operations import needs
from tests.shell import Result, Shell

CLIENT = "terraform"
CONFIGURATION = Path(__file__).with_name("instance.tf")
PROVIDER = "registry.terraform.io/hashicorp/aws"
MIRRORS = (
    os.environ.get("TERRAFORM_PLUGINS", ""),
    "~/.terraform.d/plugins",
    "~/.local/share/terraform/plugins",
    "/usr/local/share/terraform/plugins",
    "/usr/share/terraform/plugins",
)
NO_CHANGES = 0
"""The exit code of ``plan -detailed-exitcode``; 2 means changes."""


@pytest.fixture
def mirror() -> Path:
    """The folder with the provider."""
    if shutil.which("terraform") is None:
        pytest.skip("terraform is not installed")
    folders = [Path(folder).expanduser() for folder in MIRRORS if folder]
    found = [folder for folder in folders if (folder / PROVIDER).is_dir()]
    if not found:
        pytest.skip(f"terraform's provider is not installed in {', '.join(map(str, folders))}")
    return found[0]


def terraform(shell: Shell, *arguments: str) -> Result:
    """How a command of terraform ends."""
    quiet = {"CHECKPOINT_DISABLE": "1", "TF_CLI_CONFIG_FILE": os.devnull, "TF_IN_AUTOMATION": "1"}
    program = shutil.which("terraform")
    assert program is not None
    return shell.run(program, f"-chdir={shell.home}", *arguments, "-no-color", **quiet)


@needs(
    "AuthorizeSecurityGroupEgress",
    "DescribeRouteTables",
    "DescribeVpcAttribute",
    "ModifyInstanceAttribute",
    "RevokeSecurityGroupEgress",
)
def test_apply_an_empty_plan_and_destroy(foreign: Shell, mirror: Path) -> None:
    shutil.copy(CONFIGURATION, foreign.home)
    assert terraform(foreign, "init", f"-plugin-dir={mirror}").code == 0
    applied = terraform(foreign, "apply", "-auto-approve")
    assert applied.code == 0, applied.out + applied.err
    [instance] = foreign.billed()
    assert terraform(foreign, "output", "-raw", "id").out == instance["id"]

    planned = terraform(foreign, "plan", "-detailed-exitcode")
    assert planned.code == NO_CHANGES, planned.out + planned.err

    destroyed = terraform(foreign, "destroy", "-auto-approve")
    assert destroyed.code == 0, destroyed.out + destroyed.err
    assert foreign.sandbox.status()["billing"] == []
