"""The public API: which names it has, that they are documented and typed, and what importing them costs."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

import gpucloud

ROOT = Path(gpucloud.__file__).parents[1]

CALLS = (
    "Client Spec Profile Workload Tokens Computation Prices Plan Candidate Proposal CostLimit"
    " Box Node Gpu Slice GuardReport Completed Volume Snapshot"
)
BEFORE = (
    "Offer Offers Comparison Equivalents SizeComparison BootChoice Commitments Checked Refreshed"
    " PriceOverview PriceTrends PriceChanges Look Money PerHour Project Part Transfer ProjectCost"
)
AFTER = (
    "BoxState Ended Launched Looked Ran Recovered Run RunAttempt RunState RunStore Searched Swept Spend"
    " BoxSpend Charge AuditRecord"
)
EVENTS = (
    "Event Progress Noticed Warned AttemptStarted AttemptRefused MachinesCreated BootStep JobStarted JobEnded"
    " PricesAnswered"
)
ERRORS = (
    "GpucloudError UsageError SpecError NoOfferError PriceError BudgetError CloudError OutcomeUnknownError"
    " CleanupIncompleteError PolicyError SetupFailedError BoxLostError ConnectionFailedError NotCopiedError"
    " NotFetchedError InterruptedBySignal ErrorClass"
)
FLEET = "Fleet Reconciled Cluster NodeClass Slot SlotState Action"
HEAVY = {"pydantic", "rich", "typer", "boto3", "botocore", "azure", "alibabacloud_tea_openapi", "sqlite3"}
WITHOUT_SDKS = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"boto3", "botocore", "azure", "msal", "typer", "rich"} or \
                name.startswith("alibabacloud"):
            raise ModuleNotFoundError(f"No module named {name!r}")
sys.meta_path.insert(0, Missing())
"""


def output_of(code: str, **environment: str) -> str:
    """What a program of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_these_are_the_public_names() -> None:
    """A name that goes, or comes, is a decision: CHANGELOG.md tells it."""
    assert set(gpucloud.__all__) == set(" ".join((CALLS, BEFORE, AFTER, EVENTS, ERRORS, FLEET)).split())
    assert list(gpucloud.__all__) == sorted(gpucloud.__all__)


@pytest.mark.parametrize("name", gpucloud.__all__)
def test_a_public_name_is_documented(name: str) -> None:
    """Each can be imported, and says what it is in words of its own."""
    doc = getattr(gpucloud, name).__doc__
    assert doc
    assert not doc.startswith(f"{name}("), "dataclasses make this one up"


@pytest.mark.parametrize("name", ["Client", "Prices", "Box", "Fleet"])
def test_each_call_is_documented(name: str) -> None:
    found = getattr(gpucloud, name)
    public = {member: value for member, value in vars(found).items() if not member.startswith("_")}
    calls = {
        member: value for member, value in public.items() if callable(value) or isinstance(value, property)
    }
    assert calls
    assert [member for member, value in calls.items() if not value.__doc__] == []


def test_an_unknown_name_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="Launcher"):
        gpucloud.Launcher  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    """Also with the client and the spec's name in it: what a call needs is loaded by the call."""
    code = "import json, sys; from gpucloud import Client; print(json.dumps(sorted(sys.modules)))"
    loaded = {name.partition(".")[0] for name in json.loads(output_of(code))}
    assert not loaded & HEAVY


def test_the_library_works_without_sdks_and_without_the_command_lines_packages(tmp_path: Path) -> None:
    """Nobody who plans needs an extra; a plan names each cloud whose SDK is not installed."""
    code = f"""{WITHOUT_SDKS}
from gpucloud import Client, NoOfferError, Profile, Spec
with Client(profile=Profile({{"GPUCLOUD_HOME": {str(tmp_path)!r}}})) as client:
    spec = Spec(gpu="T4")
    print(client.market.offers(spec, limit=1).offers[0].gpu_model, client.list())
    print(client.market.estimate(spec).best is not None, client.prices.overview().live)
    try:
        client.plan(spec)
    except NoOfferError as error:
        print(all(name in error.message for name in ("boto3", "azure", "alibabacloud")))
"""
    assert output_of(code, PATH="/usr/bin:/bin").splitlines() == ["T4 []", "True 0", "True"]


def test_the_wheel_says_that_it_is_typed(tmp_path: Path) -> None:
    [wheel] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    assert {"gpucloud/py.typed", "gpucloud_pricing/py.typed"} <= set(zipfile.ZipFile(wheel).namelist())
