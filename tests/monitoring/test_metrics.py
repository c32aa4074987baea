"""``gpucloud metrics``: what a program reads there, of real boxes of the sandbox."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpucloud.monitor.exposition import read
from gpucloud.monitor.families import OF_GUARD, OF_JOURNAL
from tests.shell import Shell
from tests.waiting import PATIENCE_S, until


@contextmanager
def serving(shell: Shell, *options: str) -> Generator[str]:
    """``gpucloud metrics serve``; yields its address, and ends it as Ctrl-C does."""
    server = shell.start("metrics", "serve", "--port", "0", "--json", *options)
    assert server.stdout is not None
    address = json.loads(server.stdout.readline())["address"]
    try:
        yield f"http://{address}"
    finally:
        server.send_signal(signal.SIGINT)
        _, said = server.communicate(timeout=PATIENCE_S)
        assert (server.wait(), "unexpected" in said) == (130, False), said


def get(url: str, **headers: str) -> str:
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  (on loopback)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
        return str(answer.read().decode())


def refused(url: str, **headers: str) -> int:
    with pytest.raises(urllib.error.HTTPError) as error:
        get(url, **headers)
    error.value.close()
    return error.value.code


def answer(url: str) -> str | None:
    """What is answered; ``None`` for an error."""
    try:
        return get(url)
    except urllib.error.HTTPError as error:
        error.close()
        return None


def metrics_file(shell: Shell) -> Path:
    """What the guard of the only box writes."""
    [file] = (shell.home / "sandbox").glob("boxes/*/root/run/gpucloud/metrics.prom")
    return file


def value(samples: Any, name: str, **labels: str) -> float:
    [found] = [each for each in samples if each["name"] == name and labels.items() <= each["labels"].items()]
    return float(found["value"])


def test_a_box_its_price_and_its_gpus_are_read_at_one_address(
    cli: Shell, program: Callable[[str], str], tmp_path: Path
) -> None:
    assert cli("prices", "refresh", "--gpu", "T4", "--cloud", "aws", "--region", "us-east-1").code == 0
    assert cli("budget", "set", "lab", "500", "--per", "month").code == 0
    box = cli.launch("--gpu", "T4", "--cloud", "aws", "--name", "demo", "--ttl", "2h", "--run-id", "ci-7")
    samples = cli("metrics", "--once", "--json").json["samples"]
    demo = {"box": "demo", "cloud": "aws"}
    assert (
        value(samples, "gpucloud_box_info", **demo, gpu="T4", gpus="1", run="ci-7", region=box["region"]) == 1
    )
    per_hour = float(box["per_hour"]["total"]["amount"])
    assert value(samples, "gpucloud_box_price_per_hour", **demo, kind="box", currency="USD") == per_hour
    assert value(samples, "gpucloud_box_state", **demo, state="ready") == 1
    assert value(samples, "gpucloud_box_state", **demo, state="stopped") == 0
    assert value(samples, "gpucloud_owed_things", **demo) == 0
    assert value(samples, "gpucloud_month_spent", cloud="aws", currency="USD") >= 0
    lab = {"budget": "lab", "per": "month", "currency": "USD"}
    assert value(samples, "gpucloud_budget_limit", **lab) == 500
    committed = value(samples, "gpucloud_budget_committed", **lab)
    assert 0 < committed <= 2 * per_hour
    assert value(samples, "gpucloud_budget_forecast", **lab, estimate="mean") == pytest.approx(
        committed + value(samples, "gpucloud_budget_spent", **lab), abs=1e-6
    )
    watched = [each for each in samples if each["name"] == "gpucloud_price_per_hour"]
    assert {each["labels"]["gpu"] for each in watched} == {"T4:1"}
    left_s = value(samples, "gpucloud_box_expires_timestamp_seconds", **demo) - value(
        samples, "gpucloud_journal_read_timestamp_seconds"
    )
    assert 7000 < left_s <= 7200
    names = {each["name"] for each in samples}
    assert names == set(OF_JOURNAL)

    targets = tmp_path / "sd"
    with serving(cli, "--file-sd", str(targets)) as url:
        text = get(f"{url}/metrics")
        assert {each.family.name for each in read(text, OF_JOURNAL)} == names
        found = json.loads(get(f"{url}/sd"))
        assert json.loads((targets / "targets.json").read_text()) == found
        [target] = found
        assert target["targets"] == [url.removeprefix("http://")]
        assert target["labels"]["box"] == "demo"
        path = target["labels"]["__metrics_path__"]
        until(lambda: "GPU_UTIL" in metrics_file(cli).read_text(), "the guard's look at the GPU")
        of_box = get(f"{url}{path}?node=0")
        assert {each.family.name for each in read(of_box, OF_GUARD)} >= {
            "DCGM_FI_DEV_GPU_UTIL",
            "DCGM_FI_DEV_FB_FREE",
            "gpucloud_box_seconds_left",
        }
        check = [program("promtool"), "check", "metrics"]
        linted = subprocess.run(check, input=text + of_box, capture_output=True, text=True, check=False)
        complaints = [line for line in linted.stderr.splitlines() if not line.startswith("DCGM_")]
        assert complaints == [], "names of others are theirs"
        assert refused(f"{url}{path}?node=7") == 404
        assert refused(f"{url}{path}?node=x") == 404
        assert refused(f"{url}/box/b-1/metrics") == 404
        assert refused(f"{url}/") == 404
        assert refused(f"{url}/metrics", Host="evil.example") == 421, "a rebound name"
    assert cli("down", "demo", "--yes").code == 0
    gone = cli("metrics", "--once", "--json").json["samples"]
    assert not [each for each in gone if "box" in each["labels"]]
    assert value(gone, "gpucloud_month_spent", cloud="aws") >= 0


def test_a_hostile_box_is_read_within_limits(cli: Shell) -> None:
    cli.launch("--gpu", "T4", "--cloud", "aws", "--name", "evil")
    file = metrics_file(cli)
    with serving(cli) as url:
        [target] = json.loads(get(f"{url}/sd"))
        of_box = f"{url}{target['labels']['__metrics_path__']}"
        cli("exec", "evil", "--", "sudo", "systemctl", "stop", "gpucloud-guard")
        file.unlink()
        file.symlink_to("/dev/zero")
        assert refused(of_box) == 503, "it writes without an end"
        file.unlink()
        os.mkfifo(file)
        assert refused(of_box) == 503, "it says nothing"
        file.unlink()
        file.write_text('gpucloud_box_price_per_hour{box="demo"} 1\ngpucloud_box_idle_seconds 7\n')
        text = until(lambda: answer(of_box), "the box that speaks again")
        assert text.splitlines()[-1] == "gpucloud_box_idle_seconds 7"
        assert "price" not in text


def test_with_a_token_nobody_else_reads(cli: Shell, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-secret\n")
    with serving(cli, "--token-file", str(token)) as url:
        for path in ("/metrics", "/sd", "/box/b-1/metrics"):
            assert refused(url + path) == 401
            assert refused(url + path, Authorization="a-secret") == 401, "Prometheus without `type: Bearer`"
        assert json.loads(get(f"{url}/sd", Authorization="Bearer a-secret")) == [], "no boxes: 200 and empty"
        assert "gpucloud_journal_read" in get(f"{url}/metrics", Authorization="Bearer a-secret")


def test_a_port_that_is_taken_and_a_command_without_an_order_are_refused(cli: Shell, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = cli("metrics", "serve", "--port", str(taken.getsockname()[1]))
        assert (done.code, "cannot listen" in done.err) == (2, True)
    assert "--once" in cli("metrics").err
    (tmp_path / "empty").write_text("")
    assert cli("metrics", "serve", "--token-file", str(tmp_path / "empty")).code == 2
