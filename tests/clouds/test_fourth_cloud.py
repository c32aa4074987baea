"""A cloud that gpucloud has never heard of, from a wheel of its own: the main commands drive it unchanged."""

from __future__ import annotations

import csv
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpucloud.clouds.abilities import Firewall, Prices, Reservations, Traits, Volumes
from gpucloud.resources import Order
from gpucloud_sandbox.boxes import Boxes, BoxSpec
from gpucloud_sandbox.boxes_user_data import unpacked
from tests.builders import an_order
from tests.conformance import Harness, ProviderConformance
from tests.profiles import own_profile

HERE = Path(__file__).parents[1] / "dummy_cloud"
NETWORK = """#!/bin/sh
exec {ssh} -o ProxyCommand="{python} {route} {folder} %h" "$@"
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the dummy cloud installed from its wheel, without any index."""
    work = tmp_path_factory.mktemp("wheel")
    source, target = work / "source", work / "target"
    shutil.copytree(HERE, source, ignore=shutil.ignore_patterns("__pycache__"))
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(work)], cwd=source)
    (built,) = work.glob("*.whl")
    offline = ["--no-index", "--no-deps", "--disable-pip-version-check", "--no-cache-dir"]
    _run([sys.executable, "-m", "pip", "install", *offline, "--target", str(target), str(built)], cwd=work)
    return target


def _run(argv: list[str], cwd: Path) -> None:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True, slots=True)
class Shell:
    """A user's shell in which the dummy cloud is installed."""

    environment: dict[str, str]

    def gpucloud(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = str(Path(sys.executable).with_name("gpucloud"))
        return subprocess.run(
            [program, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def json(self, *arguments: str) -> dict[str, Any]:
        done = self.gpucloud(*arguments, "--json")
        assert done.returncode == 0, done.stderr + done.stdout
        document: dict[str, Any] = json.loads(done.stdout)
        return document


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    account = tmp_path / "account-4"
    account.mkdir()
    return account


@pytest.fixture
def shell(wheel: Path, folder: Path, tmp_path: Path) -> Shell:
    """``ssh`` on its PATH is the real one, behind the dummy cloud's network."""
    programs = tmp_path / "bin"
    programs.mkdir()
    ssh = shutil.which("ssh")
    if ssh is None:
        pytest.skip("there is no ssh on this machine")
    network = programs / "ssh"
    network.write_text(NETWORK.format(ssh=ssh, python=sys.executable, route=HERE / "route.py", folder=folder))
    network.chmod(stat.S_IRWXU)
    return Shell(
        {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(wheel),
            "DUMMY_CLOUD_FOLDER": str(folder),
        }
    )


@pytest.fixture
def data_centre(folder: Path, tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Boots what is rented, with real ssh, and ends what is deleted, as long as the test runs."""
    monkeypatch.syspath_prepend(str(wheel))
    from gpucloud_dummy.ground import Ground, Row

    ground, ports, over = Ground(folder), folder / "ports.json", threading.Event()
    boxes = Boxes(tmp_path / "boxes", on_power_off=lambda _: None)

    def boots(each: str, row: Row) -> bool:
        request = row["request"]
        boxes.boot(
            BoxSpec(
                id=each,
                hostname=each,
                public_ip=row["address"],
                private_ip=row["address"].replace("203.0.113.", "10.0.0."),
                user_data=unpacked(request["user_data"]),
                gpu_model=request["gpu_model"],
                gpu_count=request["gpu_count"],
                gpu_memory_mib=15360,
                driver="",
                tags=request["tags"],
                spot=False,
            )
        )
        port = boxes.ssh_port(each)
        if port is not None:
            known = json.loads(ports.read_text()) if ports.exists() else {}
            ports.write_text(json.dumps({**known, row["address"]: port}))
        return port is not None

    def run() -> None:
        while not over.wait(0.02):
            ground.pass_time(boots, boxes.end)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()
    boxes.close()


T4 = ("--gpu", "T4", "--cloud", "dummy", "--allow-from", "198.51.100.7/32")


def test_the_plan_names_the_fourth_cloud_among_those_that_can_be_launched(shell: Shell) -> None:
    plan = shell.json("plan", *T4)
    assert {attempt["cloud"] for attempt in plan["attempts"]} == {"dummy"}
    without = Shell({**shell.environment, "PYTHONPATH": ""})
    refused = without.gpucloud("plan", *T4, "--json")
    assert refused.returncode == 2
    assert "dummy" in refused.stdout + refused.stderr


def test_the_plug_ins_market_says_how_its_cloud_bills(shell: Shell) -> None:
    """Minutes are billed as an hour, and a disk of 100 GiB as one of 128: only the plug-in knows."""
    work = ("--hours", "0.01", "--boot", "0")
    done = shell.gpucloud("cost", "--gpu", "T4", "--cloud", "dummy", *work, "--explain")
    assert done.returncode == 0, done.stderr
    assert "each start billed for 3600 s at least" in done.stdout + done.stderr


def test_a_box_is_launched_used_and_taken_down(shell: Shell, folder: Path, data_centre: None) -> None:
    box = shell.json("launch", *T4, "--name", "four", "--yes")["box"]
    assert (box["cloud"], box["state"], box["gpu"]["model"]) == ("dummy", "ready", "T4")

    (listed,) = shell.json("list")["boxes"]
    assert (listed["name"], listed["state"]) == ("four", "ready")
    assert shell.json("show", "four")["box"]["nodes"] == box["nodes"]

    answer = shell.gpucloud("exec", "four", "--", "nvidia-smi", "-L")
    assert (answer.returncode, answer.stdout.count("GPU ")) == (0, 1), answer.stderr
    assert "T4" in answer.stdout
    refused = shell.gpucloud("snapshot", "create", "mine", "--of", "four", "--yes")
    assert (refused.returncode, "no images on dummy" in refused.stderr) == (2, True), refused.stderr

    (gone,) = shell.json("down", "four", "--yes")["boxes"]
    assert gone["state"] == "deleted"
    resources = json.loads((folder / "things.json").read_text())
    assert {row["state"] for row in resources.values()} <= {"gone"}
    assert not shell.json("list")["boxes"]

    focus = shell.gpucloud("spend", "--focus")
    assert focus.returncode == 0, focus.stderr
    assert {row["ProviderName"] for row in csv.DictReader(focus.stdout.splitlines())} == {"The Dummy Company"}


def test_regions_without_stock_are_passed_over(shell: Shell, folder: Path, data_centre: None) -> None:
    tried = list(dict.fromkeys(attempt["region"] for attempt in shell.json("plan", *T4)["attempts"]))
    assert len(tried) > 2
    (folder / "sold_out").write_text("\n".join(tried[:2]))
    box = shell.json("launch", *T4, "--name", "next", "--yes")["box"]
    assert (box["region"], box["state"]) == (tried[2], "ready")
    assert shell.gpucloud("down", "next", "--yes").returncode == 0


def test_without_stock_anywhere_nothing_is_left(shell: Shell, folder: Path, data_centre: None) -> None:
    attempts = shell.json("plan", *T4)["attempts"]
    (folder / "sold_out").write_text("\n".join({attempt["region"] for attempt in attempts}))
    refused = shell.gpucloud("launch", *T4, "--name", "none", "--yes", "--json")
    assert refused.returncode == 5
    error = json.loads(refused.stdout)["error"]
    assert (error["class"], error["code"]) == ("capacity", "SoldOut")
    assert error["request_id"].startswith("dummy-")
    assert error["attempts"]
    assert not json.loads((folder / "things.json").read_text())


class DummyHarness(Harness):
    """The wheel's provider over a folder; time passes when it is looked at."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        from gpucloud_dummy import DummyProvider
        from gpucloud_dummy.ground import Ground

        self.provider = DummyProvider(own_profile())
        self.ground = Ground(folder)

    def order(self, **changes: Any) -> Order:
        return an_order(**{"account": "account-4", "tags": self.tags(), **changes})

    def tick(self) -> None:
        self.ground.pass_time()

    def billed(self) -> list[str]:
        rows = self.ground.change(lambda rows: rows)
        billed = {"instance", "disk"}
        return [each for each, row in rows.items() if row["kind"] in billed and row["state"] != "gone"]

    def empty_stock(self, order: Order) -> None:
        (self.ground.folder / "sold_out").write_text(order.region)


class TestFourthCloud(ProviderConformance):
    """Somebody else's provider passes the suite that the house's own pass."""

    @pytest.fixture
    def harness(self, wheel: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
        monkeypatch.syspath_prepend(str(wheel))
        monkeypatch.setenv("DUMMY_CLOUD_FOLDER", str(folder))
        return DummyHarness(folder)

    def test_the_optional_abilities_are_optional(self, harness: Harness) -> None:
        for kind in (Prices, Reservations, Firewall, Volumes, Traits):
            assert harness.provider.ability(kind) is None
