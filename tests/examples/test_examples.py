"""Every example does what its page says: its commands, as they stand there, on the sandbox."""

from __future__ import annotations

import json
import shutil
import subprocess
from urllib.error import URLError
from urllib.request import urlopen

import yaml

from tests.ci.github import play_job
from tests.ci.machine import Repository, a_machine, install
from tests.examples.play import play, start
from tests.ports import free_port
from tests.shell import PROGRAMS, Shell
from tests.waiting import PATIENCE_S, until


def test_ddp_runs_on_two_boxes_that_find_each_other(cli: Shell) -> None:
    ran, folder = play(cli, "ddp")
    assert ran.code == 0, ran.err
    assert json.loads((folder / "ranks.json").read_text()) == {"ranks": [0, 1], "gpus_per_node": "1"}
    assert cli.sandbox.status()["billing"] == []


def test_a_notebook_is_reachable_until_ctrl_c_and_its_files_come_back(cli: Shell) -> None:
    remote, local = free_port(), free_port()
    begun = start(cli, "notebook", {"8888": remote, "9999": local})
    address = f"http://127.0.0.1:{local}/"
    listing = until(lambda: answer(address), "the notebook")
    assert "Directory listing" in listing
    [box] = cli.billed()
    (cli.endpoint.folder / "boxes" / box["id"] / "root/home/gpucloud/work/new.ipynb").write_text("{}")
    begun.interrupt()
    ended = begun.end()
    assert ended.code == 0, ended.err
    assert (begun.folder / "work" / "new.ipynb").read_text() == "{}"
    assert cli.sandbox.status()["billing"] == []


def answer(address: str) -> str:
    """What is at an address; nothing while nobody listens."""
    try:
        with urlopen(address, timeout=PATIENCE_S) as response:  # noqa: S310  (an address of this machine)
            return str(response.read().decode())
    except (URLError, ConnectionError):
        return ""


def test_a_price_that_falls_is_told_and_buys_a_box(cli: Shell) -> None:
    ran, folder = play(cli, "price-watch", {"9000": free_port()})
    assert ran.code == 0, ran.err
    told = (folder / "notices.txt").read_text()
    assert "Below the limit: $0.0500/h aws us-east-1" in told
    assert "cheap is ready on aws us-east-1: g4dn.xlarge, $0.0500 per hour" in told
    assert cli.sandbox.status()["billing"] == []


def test_a_program_sees_a_box_through_its_life(cli: Shell) -> None:
    ran, _ = play(cli, "library")
    assert ran.code == 0, ran.err
    price, plan, gpu, end = ran.out.splitlines()
    assert price.startswith("8 hours: ")
    assert "USD per hour" in plan
    assert gpu.startswith("GPU 0: Tesla T4")
    assert end == "example is deleted"
    assert [each["event"] for each in cli.sandbox.ledger() if each["kind"] == "instance"] == ["born", "died"]
    assert cli.sandbox.status()["billing"] == []


def test_a_program_that_finds_no_stock_ends_with_the_reason_and_its_code(cli: Shell) -> None:
    cli.sandbox.stock(count=0)
    ran, _ = play(cli, "library")
    assert ran.code == 5, ran.err
    assert "none of" in ran.err
    assert "Traceback" not in ran.err
    assert cli.sandbox.status()["billing"] == []


def test_the_comment_on_a_pull_request_has_what_the_project_would_cost(
    cli: Shell, repository: Repository
) -> None:
    """By hand, and as the workflow does it, with a stand-in for ``gh``."""
    ran, folder = play(cli, "project-cost")
    assert ran.code == 0, ran.err
    assert "| part | cloud |" in ran.out
    machine = a_machine(cli, repository)
    install(machine, machine.temp / "venv")
    gh = cli.home / "bin" / "gh"
    gh.unlink(missing_ok=True)
    gh.write_text('#!/bin/sh\necho "$GH_TOKEN: $*"; while [ $# -gt 1 ]; do shift; done; cat "$1"\n')
    gh.chmod(0o755)
    shutil.copy(folder / "project.yaml", machine.workspace)
    job = yaml.safe_load((folder / "cost.yml").read_text())["jobs"]["cost"]
    steps = [each for each in job["steps"] if "install.sh" not in each.get("run", "")]
    played = play_job(machine, repository, {**job, "steps": steps})
    assert played.code == 0, machine.said
    assert "of the job: pr comment 5 --edit-last --create-if-none" in machine.said
    assert ran.out in machine.said
    assert played.summary == ran.out


def test_a_training_goes_on_from_the_checkpoint_of_the_box_that_was_taken_back(cli: Shell) -> None:
    ran, folder = play(cli, "spot-training")
    assert ran.code == 0, ran.err
    result = json.loads((folder / "result.json").read_text())
    assert (result["steps"], result["restarts"]) == (200, 1)
    assert result["begun_at"] >= 20
    assert cli.sandbox.status()["billing"] == []


def test_a_sweep_ends_what_is_billed_after_a_boxs_time_and_is_silent_afterwards(own_clouds: Shell) -> None:
    """The line of the crontab does the same, in the environment that cron gives it."""
    ran, folder = play(own_clouds, "cleanup-cron")
    assert ran.code == 0, ran.err
    assert "forgotten" in ran.out
    assert own_clouds.sandbox.status()["billing"] == []
    line = (folder / "crontab").read_text().splitlines()[-1]
    home = own_clouds.home / "home"
    (home / "gpucloud-examples").mkdir(parents=True)
    (home / "gpucloud-examples" / "cleanup-cron").symlink_to(folder)
    again = subprocess.run(
        ["/bin/sh", "-c", line.split(maxsplit=5)[5]],
        env={**own_clouds.environ, "PATH": f"{PROGRAMS}:/usr/bin:/bin", "GPUCLOUD_OWNER": "lab"},
        cwd=home,
        capture_output=True,
        check=False,
    )
    assert (again.returncode, again.stdout + again.stderr) == (0, b"")
