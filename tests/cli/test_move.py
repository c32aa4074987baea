"""``move``: the files and variables of a box are on another one elsewhere, before the old one is deleted."""

from __future__ import annotations

import io
import signal
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.api.moving import gpu_of, refuse_same_place, spec_elsewhere, transfer_of
from gpucloud.errors import UsageError
from gpucloud.journal.facts import BoughtOffer, Gpu, Place
from gpucloud.market.catalog import Catalog
from gpucloud.planning.volume_move import FreeNames
from gpucloud.spec.model import Spec
from gpucloud.ssh.between import server_line
from gpucloud.ssh.client import ConnectionFailedError
from gpucloud_pricing.gpus import parse_requirements
from gpucloud_pricing.purchases import Purchase
from tests.builders import a_box
from tests.cli.test_guard import CLOUDS
from tests.cli.test_least_privilege import apply, policy
from tests.shell import PROGRAMS, Shell
from tests.terminal import Terminal


def test_a_box_is_elsewhere_with_its_files_and_variables(cli: Shell) -> None:
    """Also where what is left of a budget was spent in another currency."""
    limits = ("--ttl", "2h", "--budget", "20")
    old = cli.launch("--gpu", "T4", "--cloud", "alibaba", "--name", "x", *limits, "--env", "KEY=a  b")
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
    old = cli.launch("--gpu", "T4", "--cloud", "aws", "--name", "x")
    longer_than_any_path = (
        'mkdir results; for each in $(seq 20); do mkdir outer; mv results "outer/$1"; mv outer results; done'
    )
    assert cli("exec", "x", "--", "sh", "-c", longer_than_any_path, "sh", 250 * "d").code == 0
    refused = cli("move", "x", "--to", "azure", "--path", "results", "--yes", "--json")
    assert refused.code == 1
    assert "rsync failed" in refused.error["message"]
    assert {entry["box"] for entry in cli.billed()} == {old["id"]}
    assert cli("show", "x", "--json").box["state"] == "ready"
    missing = cli("move", "x", "--to", "azure", "--path", "nothing", "--yes", "--json")
    assert (missing.code, "nothing" in missing.error["message"]) == (1, True)


STAGES = {
    "aws": ("use1-az1", "use1-az2"),
    "azure": ("eastus", "westus2"),  # its machines have no zones
    "alibaba": ("ap-southeast-1a", "ap-southeast-1b"),
}


def with_a_volume(cli: Shell, cloud: str) -> Any:
    """A box with a file on its volume, at the first stage of its cloud."""
    at = ("--region" if cloud == "azure" else "--zone", STAGES[cloud][0])
    line = ("volume", "create", "data", "--size", "100", "--cloud", cloud, *at, "--keep", "2d", "--yes")
    assert cli(*line).code == 0
    box = cli.launch("--gpu", "T4", "--ttl", "2h", "--name", "x", "--volume", "data:/data")
    assert cli("exec", "x", "--", "sh", "-c", "mkdir '/data/a dir'; echo kept > '/data/a dir/file'").code == 0
    return box


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_file_on_a_volume_is_on_a_volume_elsewhere(cli: Shell, cloud: str) -> None:
    """Under the least privileges. The old volume is kept, and nothing else."""
    apply(cli, cloud, policy(cli, cloud))
    old = with_a_volume(cli, cloud)
    moved = cli("move", "x", "--to", STAGES[cloud][1], "--yes", "--json")
    assert moved.code == 0, moved.err
    box, [new], [kept] = moved.json["box"], moved.json["volumes"], moved.json["old_volumes"]
    assert STAGES[cloud][1] in {box["region"], box["zone"]}
    assert (new["name"], new["region"], new["zone"]) == ("data-2", box["region"], box["zone"])
    assert (new["size_gib"], new["keep_s"], new["attached_to"]) == (100, 172800, "x-2")
    assert (kept["name"], kept["state"], kept["attached_to"]) == ("data", "ready", None)
    assert "gpucloud volume delete data" in moved.err
    assert cli("exec", "x-2", "--", "cat", "/data/a dir/file").out == "kept\n"
    assert old["id"] not in {entry["box"] for entry in cli.sandbox.status()["billing"]}
    for line in (("down", "x-2"), ("volume", "delete", "data"), ("volume", "delete", "data-2")):
        assert cli(*line, "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []


def billed(cli: Shell) -> list[tuple[str, str]]:
    """Kind and box of what is billed, but for addresses."""
    entries = cli.sandbox.status()["billing"]
    return sorted((each["kind"], each["box"]) for each in entries if each["kind"] != "address")


def test_a_volume_goes_on_to_the_next_zone_that_has_a_machine(cli: Shell) -> None:
    """One snapshot serves all zones, and nothing is left of those that had none."""
    with_a_volume(cli, "aws")
    for zone in ("use1-az1", "use1-az2"):
        cli.sandbox.stock(cloud="aws", zone=zone, count=0)
    moved = cli("move", "x", "--to", "use1-az*", "--yes", "--json")
    assert moved.code == 0, moved.err
    box, [new] = moved.json["box"], moved.json["volumes"]
    assert (box["zone"], new["zone"]) == ("use1-az4", "use1-az4")
    assert cli("exec", "x-2", "--", "cat", "/data/a dir/file").out == "kept\n"
    assert cli.changes_asked().count("CreateSnapshot") == 1
    assert [each["kind"] for each in cli.sandbox.status()["billing"] if each["box"] == new["id"]] == ["disk"]
    assert len(cli.billed("disk")) == 3
    assert cli.billed("snapshot") == []


def test_a_move_that_finds_no_machine_leaves_neither_volume_nor_snapshot(cli: Shell) -> None:
    with_a_volume(cli, "alibaba")
    before = billed(cli)
    cli.sandbox.stock(cloud="alibaba", zone="ap-southeast-1b", count=0)
    refused = cli("move", "x", "--to", "ap-southeast-1b", "--yes", "--json")
    assert (refused.code, refused.error["class"], len(refused.error["attempts"]) > 0) == (5, "capacity", True)
    assert billed(cli) == before
    assert cli("exec", "x", "--", "cat", "/data/a dir/file").out == "kept\n"


def test_what_a_killed_move_made_is_deleted_by_the_next_command(own_clouds: Shell) -> None:
    """A snapshot, a volume, and the box that holds it."""
    with_a_volume(own_clouds, "aws")
    before = billed(own_clouds)
    own_clouds.sandbox.fault(cloud="aws", action="AttachVolume", effect="kill", stage="applied")
    assert own_clouds("move", "x", "--to", "use1-az2", "--yes").code == -signal.SIGKILL
    assert len(billed(own_clouds)) == len(before) + 4
    assert own_clouds("sweep", "--yes").code == 0
    assert billed(own_clouds) == before


def test_the_question_names_the_volumes_and_what_they_cost_and_no_leaves_nothing(cli: Shell) -> None:
    with_a_volume(cli, "aws")
    before, asked = billed(cli), cli.changes_asked()
    argv = [str(PROGRAMS / "gpucloud"), "move", "x", "--to", "use1-az2"]
    terminal = Terminal(argv, {**cli.environ, "TERM": "dumb", "COLUMNS": "200"}, cli.home)
    shown = terminal.sees("Launch x-2 at the first attempt that succeeds")
    assert (
        "data is copied to data-2, mounted at /data: 100 GiB in aws use1-az2, filled from a snapshot" in shown
    )
    assert "costs $0.2630 per day" in shown
    assert "gpucloud volume delete data" in shown
    terminal.type("\x03")
    terminal.close()
    assert (billed(cli), cli.changes_asked()) == (before, asked)
    assert [box["name"] for box in cli.boxes("--all")] == ["x"]


HERE = Place(cloud="aws", region="us-east-1", zone="use1-az1")


def test_names_count_on_and_are_never_taken_or_too_long() -> None:
    names = FreeNames({"x", "x-2", "x-4", "y", "a" * 40})
    assert [names.after(name) for name in ("x", "x-2", "y", "node-9", "a" * 40)] == [
        "x-3",
        "x-5",
        "y-2",
        "node-10",
        f"{'a' * 38}-2",
    ]
    assert (names.first("y-copy"), names.first("y-copy")) == ("y-copy", "y-copy-2")


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


def test_the_gpus_of_a_box_can_be_asked_for_elsewhere_whatever_their_count() -> None:
    """Shares of a GPU too: a spec that named an instance type alone is placed by them."""
    types = Catalog(None).shipped.types.values()
    sizes = {(each.gpu_model, each.gpu_count) for each in types}
    assert len(sizes) > 20
    for model, count in sizes:
        gpu = Gpu(model=model, count=count)
        box = a_box(offer=BoughtOffer(instance_type="t", purchase=Purchase.SPOT, gpu=gpu))
        [wish] = parse_requirements(Spec(gpu=gpu_of(box)).gpu or "")
        assert (wish.model, wish.min_count, wish.max_count) == (model, count, count)


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
        b"other rsync --server -qlRtprze.iLsfxCIvu . /etc\n",
        b"other rsync --server -sqlRtprze.iLsfxCIvu . .\n",
        b"other rsync --server -s\n",
        b"other rsync --server -qlRtprzKe.iLsfxCIvu . .\n",
        b"other rsync --server --sender -qlRtprze.iLsfxCIvu . .\n",
        b"other rsync --server -qlRtprze.iLsfxCIvu --log-file=x . .\n",
        b"other rsync --server -l . .; reboot\n",
        b"x" * 9000,
    ],
)
def test_a_box_can_start_nothing_but_rsync_on_the_other(line: bytes) -> None:
    with pytest.raises(ConnectionFailedError, match="another command"):
        server_line(io.BytesIO(line))
