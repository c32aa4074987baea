"""docs/monitoring.md: its commands run as they stand, and its names are those that are written."""

from __future__ import annotations

import json
import os
import re
import signal

from gpucloud.monitor.families import OF_GUARD, OF_JOURNAL
from tests.monitoring.test_rules import rules
from tests.pages import ROOT
from tests.shell import PROGRAMS, Shell

PAGE = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    return [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def test_the_commands_of_the_page_run(cli: Shell) -> None:
    path = os.pathsep.join((str(PROGRAMS), os.environ["PATH"]))
    for command in commands():
        if "serve" in command:
            server = cli.start(*command.replace("9420", "0").split()[1:], "--json")
            assert server.stdout is not None
            assert json.loads(server.stdout.readline())["schema"] == "gpucloud.metrics-serve/v1"
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=30)
        else:
            ran = cli.run("/bin/bash", "-ec", command, GPUCLOUD_SANDBOX="1", PATH=path)
            assert ran.code == 0, ran.err
    assert "gpucloud_journal_read" in (cli.home / "gpucloud.prom").read_text()
    assert (cli.home / "monitoring/prometheus.yml").exists()


def test_the_page_names_every_metric_with_its_labels_and_every_alert() -> None:
    found = dict(re.findall(r"`(gpucloud_\w+)(?:\{([\w,]+)\})?`", PAGE))
    assert set(found) == {name for name in {**OF_GUARD, **OF_JOURNAL} if name.startswith("gpucloud")}
    for family in (*OF_GUARD.values(), *OF_JOURNAL.values()):
        labels = found.get(family.name)
        assert not labels or tuple(labels.split(",")) == family.labels
        assert family.name.startswith("gpucloud") or family.name.removeprefix("DCGM_FI_DEV_") in PAGE
    assert not [rule["alert"] for rule in rules() if f"`{rule['alert']}`" not in PAGE]
