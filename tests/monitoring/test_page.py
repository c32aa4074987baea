"""docs/monitoring.md: its commands run as they stand, and its names are those that are written."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from gpucloud.config import CHANNELS, CHANNELS_VARIABLE
from gpucloud.monitor.channels import Apprise, Mail, Slack, Webhook
from gpucloud.monitor.families import OF_GUARD, OF_JOURNAL
from gpucloud.monitor.notices import Occasion
from gpucloud.monitor.settings import read_channels
from tests.monitoring.receivers import receiving
from tests.monitoring.test_rules import rules
from tests.pages import ROOT
from tests.shell import PROGRAMS, Shell
from tests.waiting import PATIENCE_S

PAGE = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    return [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def test_the_commands_of_the_page_run(cli: Shell) -> None:
    file = cli.home / "config" / CHANNELS
    file.parent.mkdir()
    file.touch(mode=0o600)
    path = os.pathsep.join((str(PROGRAMS), os.environ["PATH"]))
    with receiving() as receiver:
        file.write_text(f"channels: {{ops: {{webhook: '{receiver.url}'}}}}")
        _run_all(cli, path)
        assert len(receiver.got) == 1, "the test"
    assert "gpucloud_journal_read" in (cli.home / "gpucloud.prom").read_text()
    assert (cli.home / "monitoring/prometheus.yml").exists()


def _run_all(cli: Shell, path: str) -> None:
    for command in commands():
        if "serve" in command:
            server = cli.start(*command.replace("9420", "0").split()[1:], "--json")
            assert server.stdout is not None
            assert json.loads(server.stdout.readline())["schema"] == "gpucloud.metrics-serve/v1"
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=PATIENCE_S)
        else:
            ran = cli.run("/bin/bash", "-ec", command, GPUCLOUD_SANDBOX="1", PATH=path)
            assert ran.code == 0, ran.err


def test_the_page_names_every_metric_with_its_labels_and_every_alert() -> None:
    found = dict(re.findall(r"`(gpucloud_\w+)(?:\{([\w,]+)\})?`", PAGE))
    assert set(found) == {name for name in {**OF_GUARD, **OF_JOURNAL} if name.startswith("gpucloud")}
    for family in (*OF_GUARD.values(), *OF_JOURNAL.values()):
        labels = found.get(family.name)
        assert not labels or tuple(labels.split(",")) == family.labels
        assert family.name.startswith("gpucloud") or family.name.removeprefix("DCGM_FI_DEV_") in PAGE
    assert not [rule["alert"] for rule in rules() if f"`{rule['alert']}`" not in PAGE]


@pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")  # on Python 3.11 and 3.12
def test_the_channels_of_the_page_are_read_and_apprise_knows_those_of_others(tmp_path: Path) -> None:
    occasions = set(
        re.findall(r"`([a-z-]+)`", "".join(re.findall(r"^\| (`[a-z].*?) \|", PAGE, re.MULTILINE)))
    )
    assert occasions >= set(Occasion) - {Occasion.TEST}
    own, others = re.findall(r"```yaml\n(channels:.*?)```", PAGE, re.DOTALL)
    kinds = [type(each.way) for each in read_channels(tmp_path, {CHANNELS_VARIABLE: own})]
    assert kinds == [Webhook, Slack, Mail]
    known = pytest.importorskip("apprise")
    for channel in read_channels(tmp_path, {CHANNELS_VARIABLE: others}):
        assert isinstance(channel.way, Apprise)
        assert known.Apprise().add(channel.way.url), channel.name
