"""The user's defaults file: what it decides, what wins over it, and where it is shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpucloud.errors import UsageError
from gpucloud.spec.defaults import read_defaults, with_defaults
from gpucloud.spec.model import Spec
from tests.sandbox.running import client
from tests.shell import Shell

WHOLE = """\
clouds: [aws]
regions: us-*
purchase: spot
max_price: 2.50
ttl: 4h
tags: {team: ml, cost-centre: "17"}
"""
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(text: str) -> Path:
        file = tmp_path / "config" / "defaults.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return file

    return put


def decided(file: Path, **given: Any) -> tuple[Spec, dict[str, Any]]:
    spec, fields = with_defaults(Spec(**given), read_defaults(file))
    return spec, dict(fields)


def test_defaults_decide_what_nobody_has_said(write: Write) -> None:
    spec, fields = decided(write(WHOLE), gpu="T4")
    assert spec == Spec(
        gpu="T4",
        clouds="aws",
        regions="us-*",
        purchase="spot",
        max_price="2.50",
        ttl="4h",
        tags={"team": "ml", "cost-centre": "17"},
    )
    assert sorted(fields) == ["clouds", "max_price", "purchase", "regions", "tags", "ttl"]


@pytest.mark.parametrize(
    ("field", "own"),
    [
        ("clouds", "azure"),
        ("regions", "eu"),
        ("purchase", "on-demand"),
        ("max_price", "9"),
        ("ttl", "none"),
    ],
)
def test_what_the_spec_says_wins_even_if_it_is_what_is_built_in(write: Write, field: str, own: str) -> None:
    spec, fields = decided(write(WHOLE), gpu="T4", **{field: own})
    assert getattr(spec, field) == getattr(Spec(**{field: own}), field)
    assert field not in fields


def test_tags_are_joined_and_the_specs_own_win(write: Write) -> None:
    spec, fields = decided(write(WHOLE), tags={"team": "vision", "run": "3"})
    assert spec.tags == {"team": "vision", "run": "3", "cost-centre": "17"}
    assert fields["tags"] == {"cost-centre": "17"}


def test_a_default_that_is_built_in_decides_nothing(write: Write) -> None:
    assert decided(write("purchase: on-demand\n"), gpu="T4") == (Spec(gpu="T4"), {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ttl: 4h\nregion: us-*\n", ":2: region: cannot be a default; did you mean regions?"),
        ("gpu: T4\n", ":1: gpu: cannot be a default"),
        ("clouds: aws\nttl: 4\n", ":2: ttl: '4' has no unit"),
        ("clouds: [aws, '!aws']\n", "clouds contradict each other"),
        ("- aws\n", ":1: a spec must be a mapping"),
    ],
)
def test_a_bad_file_is_told_with_its_line(write: Write, text: str, told: str) -> None:
    file = write(text)
    with pytest.raises(UsageError) as caught:
        read_defaults(file)
    assert str(file) in caught.value.message
    assert told in caught.value.message


def test_a_default_that_contradicts_the_spec_is_named(write: Write) -> None:
    with pytest.raises(UsageError) as caught:
        decided(write("ttl: none\n"), budget="5")
    assert "defaults.yaml sets ttl; a flag overrides it" in str(caught.value.hint)


def test_flag_then_spec_file_then_defaults_then_what_is_built_in(cli: Shell, write: Write) -> None:
    file = write("clouds: azure\nttl: 4h\nmax_price: 3\n")
    (cli.home / "box.yaml").write_text("gpu: T4\nclouds: alibaba\nttl: 2h\n")
    ran = cli("plan", "-f", "box.yaml", "--cloud", "aws", "--json")
    spec = ran.json["spec"]
    assert (spec["clouds"], spec["ttl"], spec["max_price"]) == (["aws"], "2h", "3")
    assert "purchase" not in spec
    assert ran.json["defaults"] == {"file": str(file), "fields": {"max_price": "3"}}
    assert f"Defaults of {file}: max_price 3.\n" in ran.err


def test_a_plan_says_nothing_of_defaults_that_decided_nothing(cli: Shell, write: Write) -> None:
    write("clouds: aws\n")
    ran = cli("plan", "--gpu", "T4", "--cloud", "alibaba", "--json")
    assert ran.json["defaults"] is None
    assert "Defaults" not in ran.err


def test_a_launch_keeps_to_the_defaults_and_a_saved_plan_to_itself(cli: Shell, write: Write) -> None:
    file = write("clouds: alibaba\ntags: {team: ml}\n")
    assert cli("plan", "--gpu", "T4", "--name", "x", "--save", "plan.json").code == 0
    write("clouds: aws\n")
    box = cli.launch("plan.json")
    assert box["cloud"] == "alibaba"
    told = cli("launch", "--gpu", "T4", "--yes")
    assert (told.code, f"Defaults of {file}: clouds aws.\n" in told.err) == (0, True)
    assert sorted(each["cloud"] for each in cli.boxes()) == ["alibaba", "aws"]


def test_a_search_goes_by_the_defaults_of_the_market_alone(cli: Shell, write: Write) -> None:
    file = write("clouds: azure\nttl: 4h\n")
    ran = cli("offers", "--gpu", "T4", "--json")
    assert {offer["cloud"] for offer in ran.json["offers"]} == {"azure"}
    assert ran.err == f"Defaults of {file}: clouds azure.\n"


def test_the_file_is_shown_with_what_it_sets(cli: Shell, write: Write) -> None:
    path = cli.home / "config" / "defaults.yaml"
    assert cli("version", "--paths").out.splitlines()[-1] == f"defaults {path} (does not exist)"
    write("clouds: [aws, azure]\ntags: {team: ml}\n")
    shown = cli("version", "--paths").out.splitlines()
    assert [line.split()[0] for line in shown] == ["state", "config", "sandbox", "defaults"]
    assert shown[-1] == f"defaults {path}: clouds aws, azure; tags team=ml"
    assert cli("version", "--json").json["defaults"] == str(path)


def test_nothing_is_outside_of_the_residency(cli: Shell, write: Write) -> None:
    write("residency: eu\n")
    client(cli.endpoint, "s3").create_bucket(Bucket="lab")  # in us-east-1
    client(cli.endpoint, "s3").put_object(Bucket="lab", Key="set/a", Body=b"a")
    near = cli("offers", "--gpu", "T4", "--cloud", "aws", "--json").json["offers"]
    assert {each["region"].split("-")[0] for each in near} == {"eu"}
    outside = cli("offers", "--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--why")
    assert outside.code == 3
    assert "--residency" in outside.out
    run = ("run", "--gpu", "T4", "--cloud", "aws")
    for option, field in (("--checkpoint-to", "checkpoint_to"), ("--data", "data")):
        url = "s3://lab/set" if option == "--checkpoint-to" else "s3://lab/set:/data"
        refused = cli(*run, option, url, "--", "true")
        assert refused.code == 125
        assert f"{field}: the bucket is in aws us-east-1, outside of the residency eu" in refused.err
    refused = cli("volume", "create", "data", "--size", "1", "--region", "us-east-1", "--yes")
    assert refused.code == 3
    made = cli("volume", "create", "data", "--size", "1", "--near", "T4", "--cloud", "aws", "--yes", "--json")
    assert made.json["volume"]["region"].startswith("eu-")
    assert cli.billed() == []
    allowed = cli(*run, "--checkpoint-to", "s3://lab/set", "--residency", "us", "--", "true")
    assert allowed.code == 0, allowed.err


def test_a_residency_that_is_no_place_is_refused(cli: Shell, write: Write) -> None:
    write("residency: euu\n")
    refused = cli("plan", "--gpu", "T4")
    assert refused.code == 2
    assert "unknown residency 'euu'; did you mean eu?" in refused.err
