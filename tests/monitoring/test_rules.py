"""The files that ship for Prometheus, Alertmanager and Grafana: valid, and of metrics that are written."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from gpucloud.monitor.families import OF_GUARD, OF_JOURNAL
from tests.shell import Run, run

__all__ = ["run"]

SHIPPED = Path(str(files("gpucloud_templates"))) / "prometheus"
OURS = {*OF_GUARD, *OF_JOURNAL}
OF_PROMETHEUS = {"up"}
WORDS = re.compile(r"\b(?:gpucloud_\w+|DCGM_\w+|up)\b(?!=)")


def expressions() -> dict[str, str]:
    """Of every panel of the dashboard, with its variables filled in as Grafana does for All."""
    dashboard = json.loads((SHIPPED / "grafana.json").read_text())
    return {
        panel["title"]: target["expr"].replace("$cloud", ".*").replace("$owner", ".*")
        for panel in dashboard["panels"]
        for target in panel["targets"]
    }


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((SHIPPED / "rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_the_rules_alert_as_they_are_meant_to(program: Callable[[str], str], tmp_path: Path) -> None:
    tested: set[str] = set()
    tests: list[Path] = []
    for file in Path(__file__).parent.glob("rules*_test.yml"):
        text = file.read_text().replace("RULES", str(SHIPPED / "rules.yml"))
        cases = yaml.safe_load(text)["tests"]
        tested |= {each["alertname"] for case in cases for each in case["alert_rule_test"]}
        tests.append(tmp_path / file.name)
        tests[-1].write_text(text)
    for command in (
        [program("promtool"), "check", "rules", SHIPPED / "rules.yml"],
        [program("promtool"), "test", "rules", *tests],
        [program("promtool"), "check", "config", SHIPPED / "prometheus.yml"],
        [program("amtool"), "check-config", SHIPPED / "alertmanager.yml"],
    ):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert tested == {rule["alert"] for rule in rules()}


def test_every_metric_that_is_asked_for_is_one_that_is_written() -> None:
    for expression in (*expressions().values(), *(rule["expr"] for rule in rules())):
        found = set(WORDS.findall(expression))
        assert found, expression
        assert found <= OURS | OF_PROMETHEUS, expression


def test_the_dashboard_can_be_imported_with_any_data_source() -> None:
    dashboard = json.loads((SHIPPED / "grafana.json").read_text())
    [source] = dashboard["__inputs"]
    panels = dashboard["panels"]
    assert (source["type"], dashboard["uid"]) == ("datasource", "gpucloud")
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {panel["datasource"]["uid"] for panel in panels} == {f"${{{source['name']}}}"}
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24


def test_the_files_are_written_where_they_are_wanted(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("metrics", "--files", str(tmp_path / "new"), "--json")
    assert code == 0
    written = [Path(file) for file in json.loads(out)["files"]]
    assert {file.name for file in written} == {each.name for each in SHIPPED.iterdir()}
    assert all(file.read_text() == (SHIPPED / file.name).read_text() for file in written)
    (tmp_path / "file").touch()
    code, _, err = run("metrics", "--files", str(tmp_path / "file" / "below"))
    assert (code, "cannot write" in err) == (2, True)
