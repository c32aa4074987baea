"""Each release tells what it consists of: bills of materials that any scanner reads, from the locks."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from importlib.metadata import distribution
from typing import Any

import pytest

from release.lock import ROOT, extras, project_of
from release.sbom import write_boms

AT = 1_700_000_000
VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
print(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()))
"""
"""In a process of its own: that of the tests knows no IRIs (see conftest.py)."""


@cache
def boms() -> dict[str, bytes]:
    return write_boms(ROOT, AT)


def bom(extra: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(boms()[f"gpucloud-{extra}.cdx.json"])
    return document


def names(extra: str) -> set[str]:
    return {component["name"] for component in bom(extra)["components"]}


@pytest.mark.parametrize("extra", extras(project_of()))
def test_a_bill_is_valid_cyclonedx_1_6(extra: str) -> None:
    text = boms()[f"gpucloud-{extra}.cdx.json"]
    ran = subprocess.run([sys.executable, "-c", VALIDATE], input=text, capture_output=True, check=True)
    assert ran.stdout == b"None\n", ran.stdout


def test_each_extra_has_a_bill() -> None:
    assert set(boms()) == {f"gpucloud-{extra}.cdx.json" for extra in extras(project_of())}


def test_the_same_commit_gives_the_same_bytes_and_another_one_another_serial_number() -> None:
    assert write_boms(ROOT, AT) == boms()
    other = json.loads(write_boms(ROOT, AT + 1)["gpucloud-base.cdx.json"])
    assert other["serialNumber"] != bom("base")["serialNumber"]
    assert other["metadata"]["timestamp"] == "2023-11-14T22:13:21+00:00"


def test_an_extra_names_what_it_brings_and_not_what_others_bring() -> None:
    assert {"botocore", "boto3", "typer", "pydantic-core"} <= names("aws")
    assert "boto3" not in names("base") | names("azure")
    assert names("base") | names("sandbox") | names("otel") < names("all")
    assert names("base") | {"ray"} <= names("ray")
    assert "ray" not in names("all")


def test_what_is_installed_here_for_the_sandbox_is_in_its_bill() -> None:
    wanted, found = ["moto"], set[str]()
    while wanted:
        found.add(name := wanted.pop())
        needs = [need for need in distribution(name).requires or () if "extra ==" not in need]
        installed = {need.split(";")[0].strip() for need in needs if ";" not in need}
        plain = {
            "".join(c if c.isalnum() or c in "._-" else " " for c in need).split()[0] for need in installed
        }
        wanted += plain - found
    assert {name.lower().replace("_", "-").replace(".", "-") for name in found} <= names("sandbox")


@pytest.mark.parametrize("extra", ["all", "ray"])
def test_every_package_has_its_digests_and_hangs_on_the_program(extra: str) -> None:
    document = bom(extra)
    needs = {each["ref"]: set(each.get("dependsOn", ())) for each in document["dependencies"]}
    reached, wanted = set[str](), {"gpucloud"}
    while wanted:
        reached |= wanted
        wanted = set[str]().union(*(needs[ref] for ref in wanted)) - reached
    assert reached == {each["bom-ref"] for each in document["components"]} | {"gpucloud"}
    assert all(each["externalReferences"][0]["hashes"] for each in document["components"])
