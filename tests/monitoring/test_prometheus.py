"""Debian's Prometheus, Alertmanager and node-exporter with the files that ship, on boxes of the sandbox.

What is changed of the files: ports and folders, how often is looked, and how long an alert waits.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

from gpucloud.config import JOURNAL
from gpucloud.journal.events import Extended
from gpucloud.journal.leases import claim, this_process
from gpucloud.journal.store import Journal
from tests.monitoring.test_metrics import serving
from tests.monitoring.test_rules import SHIPPED, expressions
from tests.ports import free_port
from tests.shell import Shell
from tests.waiting import PATIENCE_S, until

LATE = timedelta(hours=1)
STARTING = 503


@contextmanager
def running(command: Sequence[str | Path], log: Path) -> Generator[None]:
    """A program that runs until the end of the body; its words are shown where the test fails."""
    with log.open("wb") as out:
        child = subprocess.Popen(list(map(str, command)), stdout=out, stderr=out)
        try:
            yield
        except BaseException:
            sys.stdout.write(log.read_text()[-4000:])
            raise
        finally:
            child.terminate()
            child.wait(PATIENCE_S)


@contextmanager
def webhook(alerts: list[dict[str, Any]]) -> Generator[str]:
    """Receives alerts as Alertmanager sends them; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            alerts.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["alerts"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def query(prometheus: str, expression: str) -> list[dict[str, Any]]:
    """What Prometheus, at this host and port, answers now; nothing while it starts."""
    connection = HTTPConnection(prometheus, timeout=PATIENCE_S)
    try:
        connection.request("GET", f"/api/v1/query?{urlencode({'query': expression})}")
        answer = connection.getresponse()
        if answer.status == STARTING:
            return []
        said = json.load(answer)
        assert answer.status == 200, said
        found: list[dict[str, Any]] = said["data"]["result"]
        return found
    except ConnectionError:
        return []
    finally:
        connection.close()


def values(prometheus: str, expression: str) -> list[float]:
    return [float(each["value"][1]) for each in query(prometheus, expression)]


def configure(folder: Path, *, serve: str, node: str, alertmanager: str, hook: str, token: Path) -> None:
    """The shipped files, with addresses of this test."""
    config = yaml.safe_load((SHIPPED / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["alerting"]["alertmanagers"] = [{"static_configs": [{"targets": [alertmanager]}]}]
    journal, boxes = config["scrape_configs"]
    [discovery] = boxes["http_sd_configs"]
    del boxes["scrape_timeout"]
    journal["static_configs"] = [{"targets": [serve]}]
    discovery |= {"url": f"http://{serve}/sd", "refresh_interval": "1s"}
    for each in (journal, boxes, discovery):
        each["authorization"] = {"type": "Bearer", "credentials_file": str(token)}
    config["scrape_configs"].append({"job_name": "node", "static_configs": [{"targets": [node]}]})
    (folder / "prometheus.yml").write_text(json.dumps(config))
    rules = (SHIPPED / "rules.yml").read_text()
    (folder / "rules.yml").write_text(re.sub(r"\bfor: \w+", "for: 0s", rules))
    receivers = (SHIPPED / "alertmanager.yml").read_text()
    (folder / "alertmanager.yml").write_text(re.sub(r"http://\S+", hook, receivers))


def make_late(shell: Shell, name: str) -> None:
    """The deadline of a box was an hour ago, as the journal has it; its guard is told nothing."""
    journal = Journal.open(shell.home / "state-sandbox" / JOURNAL, lambda: datetime.now(UTC))
    [box] = [each for each in journal.boxes(owner=None) if each.name == name]
    taken = journal.take(box, this_process(journal.now()), claim=lambda lease: claim(lease, journal.now()))
    assert taken is not None
    journal.write(taken, Extended(expires_at=datetime.now(UTC) - LATE))
    journal.release(taken)
    journal.close()


def disk_of(shell: Shell, box: dict[str, Any]) -> Path:
    """The folder that stands for the root of a box."""
    return shell.home / "sandbox" / "boxes" / str(box["nodes"][0]["instance_id"]) / "root"


def test_a_box_its_gpu_and_its_price_are_seen_and_what_costs_in_vain_is_told(
    own_clouds: Shell, program: Callable[[str], str], tmp_path: Path
) -> None:
    names = ("prometheus", "prometheus-alertmanager", "prometheus-node-exporter")
    prometheus, alertmanager, node_exporter = map(program, names)
    shell = own_clouds
    assert shell("budget", "set", "lab", "100", "--per", "month").code == 0
    assert shell("prices", "refresh", "--gpu", "T4", "--cloud", "aws").code == 0
    demo = shell.launch("--gpu", "T4", "--cloud", "aws", "--name", "demo", "--ttl", "2h")
    shell.launch("--gpu", "T4", "--cloud", "aws", "--name", "late")
    make_late(shell, "late")
    refusal: dict[str, Any] = {"effect": "error", "code": "UnauthorizedOperation", "status": 403}
    shell.sandbox.fault(**refusal, action="TerminateInstances", times=None)
    assert shell("down", "late", "--yes").code == 8, "something is left"
    root = disk_of(shell, demo)
    (root / "tmp/gpu-percent").write_text("87")
    for _ in range(2):  # the guard asks the GPUs once a minute, and reads the answer when it looks again
        shell.sandbox.clock(advance_s=61)
    metrics = root / "run/gpucloud/metrics.prom"
    until(lambda: re.search(r"GPU_UTIL\{.*\} 87\n", metrics.read_text()), "the guard's look at the GPU")

    alerts: list[dict[str, Any]] = []
    ports = {name: f"127.0.0.1:{free_port()}" for name in names}
    token = tmp_path / "token"
    token.write_text("a-secret")
    with ExitStack() as stack:
        serve = stack.enter_context(serving(shell, "--token-file", str(token)))
        hook = stack.enter_context(webhook(alerts))
        configure(
            tmp_path,
            serve=serve.removeprefix("http://"),
            node=ports["prometheus-node-exporter"],
            alertmanager=ports["prometheus-alertmanager"],
            hook=hook,
            token=token,
        )
        listen = {name: f"--web.listen-address={address}" for name, address in ports.items()}
        folders = ("--collector.textfile.directory", metrics.parent)
        for name, command in {
            "prometheus-node-exporter": [
                *(node_exporter, "--collector.disable-defaults", "--collector.textfile"),
                "=".join(map(str, folders)),
            ],
            "prometheus-alertmanager": [
                *(alertmanager, f"--config.file={tmp_path}/alertmanager.yml", "--cluster.listen-address="),
                f"--storage.path={tmp_path}/alerts",
            ],
            "prometheus": [
                *(prometheus, f"--config.file={tmp_path}/prometheus.yml"),
                f"--storage.tsdb.path={tmp_path}/data",
            ],
        }.items():
            stack.enter_context(running([*command, listen[name]], tmp_path / f"{name}.log"))

        def shown(expression: str) -> list[float]:
            found: list[float] = until(lambda: values(ports["prometheus"], expression), expression)
            return found

        of_demo = '{box="demo",cloud="aws",job="gpucloud-boxes"}'
        assert shown(f"DCGM_FI_DEV_GPU_UTIL{of_demo}") == [87]
        assert shown('DCGM_FI_DEV_GPU_UTIL{job="node",Hostname="demo"}') == [87], "the same file"
        price = float(demo["per_hour"]["total"]["amount"])
        assert shown('gpucloud_box_price_per_hour{box="demo"}') == [price]
        assert shown('time() - gpucloud_box_expires_timestamp_seconds{box="late"} > 3600')
        fired = until(
            lambda: {"BoxOverdue", "LeftBehind"} <= {each["labels"]["alertname"] for each in alerts}
        )
        assert fired
        told = {each["labels"]["alertname"]: each for each in alerts if each["status"] == "firing"}
        assert told["BoxOverdue"]["labels"]["box"] == told["LeftBehind"]["labels"]["box"] == "late"
        assert told["BoxOverdue"]["annotations"]["command"] == "gpucloud down late"
        assert not [each for each in alerts if each["labels"].get("box") == "demo"]
        for title, expression in expressions().items():  # an expression that is wrong is an error here
            assert query(ports["prometheus"], expression) or title == "Faults", title
    shell.sandbox.clear_faults()
    assert shell("down", "--all", "--yes").code == 0
