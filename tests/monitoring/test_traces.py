"""A launch is one trace at a collector; without one, nothing of OpenTelemetry is loaded. Nothing waits."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.monitoring.receivers import HANG, Receiver, receiving
from tests.shell import Shell

pytest.importorskip("opentelemetry.sdk")

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
LAUNCH = ("launch", "--gpu", "T4", "--cloud", "aws", "--yes", "--name")
PROGRAM = """
import atexit, json, pathlib, sys
*arguments, file = sys.argv[1:]
atexit.register(lambda: pathlib.Path(file).write_text(json.dumps(sorted(sys.modules))))
from gpucloud.__main__ import main
main(arguments)
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def spans(receiver: Receiver) -> list[Any]:
    """What the collector got."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    found: list[Any] = []
    for got in receiver.got:
        assert got.path == "/v1/traces"
        assert got.headers["content-type"] == "application/x-protobuf"
        request = ExportTraceServiceRequest.FromString(got.body)
        found += [span for each in request.resource_spans for part in each.scope_spans for span in part.spans]
    return found


def test_a_launch_is_one_trace_that_continues_the_pipelines(cli: Shell, receiver: Receiver) -> None:
    told = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url.rstrip("/"),
        "TRACEPARENT": f"00-{TRACE}-{PARENT}-01",
    }
    launched = cli(*LAUNCH, "demo", "--env", "SECRET", **told, SECRET="canary-6f1d")
    assert launched.code == 0, launched.err
    found = spans(receiver)
    assert {span.trace_id.hex() for span in found} == {TRACE}
    [root] = [span for span in found if span.parent_span_id.hex() == PARENT]
    assert root.name == "launch"
    children = [span for span in found if span is not root]
    assert {span.parent_span_id for span in children} == {root.span_id}
    by_name = {span.name: span for span in children}
    bought = {each.key: each.value.string_value for each in by_name["ec2:RunInstances"].attributes}
    assert (bought["cloud"], bought["gpucloud.outcome"]) == ("aws", "ok")
    assert bought["gpucloud.request_id"]
    assert len(by_name) > 3, "steps, too"
    calls = cli("audit", "--json")
    assert {call["trace"] for call in calls.json["calls"]} == {TRACE}
    sent = b"".join(got.body for got in receiver.got)
    assert b"canary" not in sent
    assert b"203.0.113" not in sent, "no address"


def test_a_collector_that_hangs_or_is_not_there_delays_no_deletion(cli: Shell, receiver: Receiver) -> None:
    cli(*LAUNCH, "demo")
    receiver.answers[:] = [HANG] * 9
    down = cli("down", "demo", "--yes", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url.rstrip("/"))
    assert down.code == 0
    assert "Traceback" not in down.err
    refused = cli("down", "--run-id", "x", "--yes", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")
    assert (refused.code, "Traceback" in refused.err) == (0, False)


def test_without_a_collector_nothing_of_it_is_loaded(cli: Shell, tmp_path: Path) -> None:
    file = tmp_path / "modules.json"
    told = {"GPUCLOUD_SANDBOX": "1", "TRACEPARENT": f"00-{TRACE}-{PARENT}-01"}
    ran = cli.run(sys.executable, "-c", PROGRAM, *LAUNCH, "demo", str(file), **told)
    assert ran.code == 0, ran.err
    assert {call["trace"] for call in cli("audit", "--json").json["calls"]} == {TRACE}, "the pipeline's"
    loaded = json.loads(file.read_text())
    assert not [name for name in loaded if name.startswith(("opentelemetry", "gpucloud.monitor", "apprise"))]
