"""The dashboard with many boxes: its document, its page in a browser, an open page while nothing happens."""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from benchmarks.startup import FACTS, GPUCLOUD, fill_journal
from benchmarks.table import Row
from gpucloud.api.client import Client
from gpucloud.clouds.profile import Profile
from gpucloud.dashboard.page import encoded
from gpucloud.dashboard.reading import PageReader
from gpucloud.journal.events import Seen
from gpucloud.journal.facts import Facts, GuardReport, Price
from gpucloud.journal.records import Box

BOXES = 500
IDLE_S = 70.0
"""How long an idle page is measured: everything is read again once a minute, once in this time."""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DAYS = 3
"""How long the boxes have run, so that their costs are of several days."""


def main() -> list[Row]:
    """Against limits: a second for the document and for the page, a hundredth of a core when idle."""
    with tempfile.TemporaryDirectory(prefix="gpucloud-bench-") as home:
        environment = {**os.environ, "GPUCLOUD_HOME": home, "GPUCLOUD_OWNER": "bench"}
        environment.pop("GPUCLOUD_SANDBOX", None)
        fill_journal(environment, BOXES)
        with Client(profile=Profile(environment)) as client:
            _let_run(client)
            reader = PageReader(client=client)
            document_s = min(_cpu_of(reader) for _ in range(3))
        rows = [Row(f"dashboard: CPU of the document of {BOXES} boxes, against 1 s", 1.0, document_s, 1)]
        with _served(environment) as (process, url):
            if CHROMIUM is not None:
                rows.append(Row(f"  its page is ready, {BOXES} rows, against 1 s", 1.0, _page_s(url), 1))
            cpu_s = _idle_cpu_s(process, url)
        what = f"  CPU of an idle page in {IDLE_S:.0f} s, against 1 % of a core"
        return [*rows, Row(what, IDLE_S / 100, cpu_s, 1)]


def _let_run(client: Client) -> None:
    """Has every box be billed for some days, and its guard report."""
    now = datetime.now(UTC)
    price = Price(amount=Decimal("0.005"), currency="USD")
    report = GuardReport(at=now.timestamp(), idle_s=60, gpu_percent=(71,), health={})
    assert FACTS.nodes is not None
    node = FACTS.nodes[0]
    seen: list[tuple[Box, Seen]] = []
    for number, box in enumerate(client.journal.boxes(owner=client.owner)):
        begun = replace(node, instance_id=f"i-{number:017x}", started_at=now - timedelta(days=DAYS))
        facts = Facts(nodes=(begun,), listed={"disk": price, "address": price}, guards=(report,))
        seen.append((box, Seen(facts=facts)))
    client.journal.observe_all(seen)


def _cpu_of(reader: PageReader) -> float:
    began = time.process_time()
    encoded(reader.read())
    return time.process_time() - began


@contextmanager
def _served(environment: Mapping[str, str]) -> Generator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        (GPUCLOUD, "dashboard", "--no-open"), env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def _page_s(url: str) -> float:
    """From the request until every row is laid out, by the browser's own clock; the second visit counts."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(url)
        found: list[float] = []
        for _ in range(3):
            page.reload()
            page.wait_for_function(f"document.querySelectorAll('tbody tr').length >= {BOXES}")
            found.append(page.evaluate("document.body.offsetHeight && performance.now()") / 1000)
        browser.close()
    return min(found)


def _idle_cpu_s(process: subprocess.Popen[str], url: str) -> float:
    """The CPU seconds of the server while one stream is open and nothing happens."""
    host, _, query = url.removeprefix("http://").partition("/")
    stream = http.client.HTTPConnection(host)
    stream.request("GET", f"/{query}")
    answer = stream.getresponse()
    answer.read()
    stream.request("GET", "/events", headers={"Cookie": str(answer.headers["Set-Cookie"]).partition(";")[0]})
    stream.getresponse().read1(1)
    before = _cpu_s(process.pid)
    time.sleep(IDLE_S)
    return _cpu_s(process.pid) - before


def _cpu_s(pid: int) -> float:
    """The CPU seconds of a process so far (proc(5): utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(print(*main(), sep="\n"))
