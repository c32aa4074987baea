"""``move``: the files and variables of a box are on another one elsewhere, before the old one is deleted."""

from __future__ import annotations

import io
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from gpucloud.api.moving import refuse_same_place, spec_elsewhere, transfer_of
from gpucloud.errors import UsageError
from gpucloud.journal.facts import Place
from gpucloud.market.catalog import Catalog
from gpucloud.spec.model import Spec
from gpucloud.ssh.between import server_line
from gpucloud.ssh.client import ConnectionFailedError
from tests.builders import a_box
from tests.shell import Shell


def test_a_box_is_elsewhere_with_its_files_and_variables(cli: Shell) -> None:
    old = cli.launch("--gpu", "T4", "--cloud", "aws", "--name", "x", "--ttl", "2h", "--env", "KEY=a  b")
    write = "mkdir -p 'a dir' .cache; echo kept > 'a dir/file'; ln -s 'a dir' link; echo no > .cache/file"
    assert cli("exec", "x", "--", "sh", "-c", write).code == 0
    moved = cli("move", "x", "--to", "azure", "--yes", "--json")
    assert moved.code == 0, moved.err
    new = moved.json["box"]
    assert (new["name"], new["cloud"], new["state"]) == ("x-2", "azure", "ready")
    assert (moved.json["old"]["id"], moved.json["old"]["state"]) == (old["id"], "deleted")
    ends = [datetime.fromisoformat(box["expires_at"]) for box in (old, new)]
    assert abs(ends[0] - ends[1]) < timedelta(minutes=5)
    told = cli("exec", "x-2", "--", "sh", "-c", 'cat link/file; echo "$KEY"; ls -A')
    assert told.out.splitlines()[:2] == ["kept", "a  b"]
    assert ".cache" not in told.out
    assert {entry["cloud"] for entry in cli.billed()} == {"azure"}


def test_files_that_cannot_be_copied_leave_the_old_box_alone(cli: Shell) -> None:
    setup = "mkdir -p results/old/deep"
    old = cli.launch("--gpu", "T4", "--cloud", "aws", "--name", "x", "--setup", setup)
    assert cli("exec", "x", "--", "sh", "-c", "rm -r results; mkdir results; echo > results/old").code == 0
    refused = cli("move", "x", "--to", "azure", "--path", "results", "--yes", "--json")
    assert refused.code == 1
    assert "rsync failed" in refused.error["message"]
    assert {entry["box"] for entry in cli.billed()} == {old["id"]}
    assert cli("show", "x", "--json").box["state"] == "ready"
    missing = cli("move", "x", "--to", "azure", "--path", "nothing", "--yes", "--json")
    assert (missing.code, "nothing" in missing.error["message"]) == (1, True)


HERE = Place(cloud="aws", region="us-east-1", zone="use1-az1")
WRONG = {
    "the same cloud": (a_box(place=HERE), "aws"),
    "the same region": (a_box(place=HERE), "us-east-1"),
    "the same zone": (a_box(place=HERE), "use1-az1"),
    "found by its tags": (a_box(place=HERE, recovered=True), "azure"),
    "no machine yet": (a_box(place=None), "azure"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_moved_is_refused(case: str) -> None:
    with pytest.raises(UsageError, match="cannot be moved"):
        refuse_same_place(*WRONG[case])


@pytest.mark.parametrize(
    ("to", "field"), [("azure", "clouds"), ("us-west-2", "regions"), ("usw2-az1", "zones"), ("eu", "regions")]
)
def test_a_place_replaces_those_of_the_spec(to: str, field: str) -> None:
    own = {"clouds": ("aws",), "regions": ("us-east-1",), "instance_types": ("g4dn.xlarge",)}
    spec = Spec(gpu="T4", near="s3://lab", **own)
    placed = spec_elsewhere(spec, to, Catalog(None).shipped)
    assert placed.near is None
    assert {name: getattr(placed, name) for name in ("clouds", "regions", "zones", "instance_types")} == {
        "clouds": (),
        "regions": (),
        "zones": (),
        "instance_types": (),
    } | {field: (to,)}


def test_an_unknown_place_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean us-west-2"):
        spec_elsewhere(Spec(gpu="T4"), "us-wst-2", Catalog(None).shipped)


def test_traffic_is_free_within_a_zone_and_is_billed_between_clouds() -> None:
    market, elsewhere = Catalog(None).shipped, Place(cloud="azure", region="eastus")
    free = transfer_of(market, HERE, HERE, Decimal(10))
    paid = transfer_of(market, HERE, elsewhere, Decimal(1100))  # 1,000 GiB above AWS's allowance, at 0.09 USD
    assert free is not None
    assert free.amount == 0
    assert paid is not None
    assert (round(paid.amount, 2), paid.currency) == (Decimal("90.00"), "USD")


@pytest.mark.parametrize(
    "line",
    [
        b"other rm -rf .\n",
        b"other rsync --server -logDtprze.iLsfxCIvu . /etc\n",
        b"other rsync --server --sender -logDtprze.iLsfxCIvu . .\n",
        b"other rsync --server -logDtprze.iLsfxCIvu --log-file=x . .\n",
        b"other rsync --server -l . .; reboot\n",
        b"x" * 9000,
    ],
)
def test_a_box_can_start_nothing_but_rsync_on_the_other(line: bytes) -> None:
    with pytest.raises(ConnectionFailedError, match="another command"):
        server_line(io.BytesIO(line))
