"""What somebody sees who has just installed gpucloud: no account, no box, nothing on record."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpucloud.api.texts import gpu_text
from gpucloud.journal.facts import Gpu
from tests.shell import Shell

NO_ACCOUNT = {
    "GPUCLOUD_SANDBOX": "0",
    "AWS_EC2_METADATA_DISABLED": "true",
    "ALIBABA_CLOUD_ECS_METADATA_DISABLED": "true",
}
WAYS = {
    "alibaba": "aliyun configure (key: https://ram.console.alibabacloud.com/users)",
    "aws": "aws configure sso, or aws configure",
    "azure": "az login",
}


def told(text: str) -> list[str]:
    """The error, without the progress before it."""
    return text[text.index("error:") :].splitlines()


@pytest.mark.parametrize("command", [("plan",), ("launch", "--yes")])
def test_without_credentials_five_lines_say_how_to_get_them(cli: Shell, command: tuple[str, ...]) -> None:
    ran = cli(*command, "--gpu", "T4", **NO_ACCOUNT)
    assert (ran.code, ran.out) == (4, "")
    lines = told(ran.err)
    assert lines[0] == "error: no credentials for alibaba, aws or azure: nothing was bought"
    assert "`gpucloud check`" in lines[1]
    assert "--sandbox" in lines[1]
    assert lines[2:] == [f"    {cloud}: {way}" for cloud, way in WAYS.items()]
    assert max(map(len, lines)) < 80


@pytest.mark.parametrize(
    "command", [("sweep", "--yes"), ("recover",), ("list", "--live"), ("down", "--run-id", "r", "--yes")]
)
def test_a_search_that_could_ask_no_cloud_is_no_success(cli: Shell, command: tuple[str, ...]) -> None:
    ran = cli(*command, **NO_ACCOUNT)
    assert ran.code == 4
    assert "No cloud was searched." in ran.err
    assert "journal has them all" not in ran.err
    assert "No expired or orphaned" not in ran.err
    (aws,) = [line for line in ran.err.splitlines() if line.startswith("Left out: aws")]
    assert aws == "Left out: aws: it has no usable credentials (NoCredentialsError): gpucloud check"


@pytest.mark.parametrize(("given", "near"), [("0", ""), ("4", "; did you mean 4h?")])
def test_a_ttl_without_a_unit_is_refused_with_one_that_is_allowed(cli: Shell, given: str, near: str) -> None:
    ran = cli("plan", "--gpu", "T4", "--ttl", given)
    assert (ran.code, ran.err.strip().endswith(f"or none{near}")) == (2, True)


def test_a_program_reads_the_same_in_the_error_document(cli: Shell) -> None:
    error = cli("plan", "--gpu", "T4", "--cloud", "aws", "--json", **NO_ACCOUNT).error
    assert (error["class"], error["cloud"]) == ("auth", "aws")
    assert WAYS["aws"] in error["hint"]


def test_wrong_credentials_are_told_rather_than_the_lack_of_others(cli: Shell) -> None:
    own = {**cli.endpoint.environ, "AWS_SECRET_ACCESS_KEY": "wrong"}
    theirs = {name: value for name, value in own.items() if "AWS" in name}
    error = cli("plan", "--gpu", "T4", "--json", **{**theirs, **NO_ACCOUNT}).error
    assert (error["class"], error["cloud"]) == ("auth", "aws")
    assert "no credentials" not in error["message"]


@pytest.mark.parametrize("command", ["launch", "plan", "run", "offers", "cost", "images", "prices refresh"])
def test_a_spec_file_without_its_option_is_refused_with_the_option(cli: Shell, command: str) -> None:
    (cli.home / "box.yaml").write_text("gpu: T4\n")
    ran = cli(*command.split(), "box.yaml", *(["--yes"] if command == "launch" else []))
    assert ran.code == (125 if command == "run" else 2)
    assert f"use -f: gpucloud {command} -f box.yaml" in ran.err
    assert cli.sandbox.calls() == []


def test_an_argument_too_many_is_named(cli: Shell) -> None:
    ran = cli("list", "one", "two.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: unexpected arguments: one two.yaml\n  hint: gpucloud list --help\n"


def test_run_takes_the_yes_of_other_commands(cli: Shell) -> None:
    ran = cli("run", "--yes", "--gpu", "T4", "--", "echo", "done")
    assert (ran.code, ran.out) == (0, "done\n")


def test_an_audit_of_nothing_says_so_and_what_was_asked_for(cli: Shell) -> None:
    assert cli("audit").err == "No calls are on record.\n"
    cli.launch("--gpu", "T4")
    unknown = f"b-{'0' * 26}"
    ran = cli("audit", "--box", unknown, "--since", "1h")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"No calls are on record for the box {unknown} and the time since 1h.\n"


@pytest.mark.parametrize(("count", "shown"), [("8", "A10:8"), ("0.166667", "A10:1/6"), ("0.5", "A10:1/2")])
def test_gpus_and_shares_of_one_are_listed_as_they_are_asked_for(count: str, shown: str) -> None:
    assert gpu_text(Gpu(model="A10", count=Decimal(count)), ()) == shown
