"""A command as one OpenTelemetry trace: its steps, and its calls that change something in a cloud.

Loaded only where the variables of OpenTelemetry name a collector. Spans hold names, places and outcomes; no
texts, no parameters, no addresses.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, Status, StatusCode, Tracer, format_trace_id, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gpucloud.clouds.provider import Answered, ApiCall, CallObserver
from gpucloud.runtime.events import AttemptRefused, AttemptStarted, Event, Sink

FLUSH_S = 1.0
"""How long a command may wait at its end for the collector."""
PARENT = "TRACEPARENT"
"""The variable that continues the trace of a pipeline (W3C Trace Context)."""


@dataclass(slots=True)
class Trace:
    """The spans of one command. Safe to use from several threads."""

    tracer: Tracer
    root: Span
    _step: tuple[str, Span] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def id(self) -> str:
        """The id of the trace, as its collector shows it."""
        return format_trace_id(self.root.get_span_context().trace_id)

    def sink(self, sink: Sink) -> Sink:
        """Makes a span of each step of the events that a sink receives."""

        def receive(event: Event) -> None:
            self._note(event)
            sink(event)

        return receive

    def observing(self, observer: CallObserver) -> CallObserver:
        """Makes a span of each call that an observer is told of."""

        def told(call: ApiCall, /) -> Answered:
            answered = observer(call)
            span = self._child(call.action, {"cloud": call.cloud, "cloud.region": call.region})

            def end(outcome: str, request_id: str | None, /) -> None:
                answered(outcome, request_id)
                span.set_attribute("gpucloud.outcome", outcome)
                span.set_attribute("gpucloud.request_id", request_id or "")
                if outcome != "ok":
                    span.set_status(Status(StatusCode.ERROR, outcome))
                span.end()

            return end

        return told

    def end(self, failure: str | None) -> None:
        """Ends the last step and the whole; ``failure`` is the name of the error that ended the command."""
        with self._lock:
            if self._step is not None:
                self._step[1].end()
                self._step = None
        if failure is not None:
            self.root.set_status(Status(StatusCode.ERROR, failure))
        self.root.end()

    def _note(self, event: Event) -> None:
        with self._lock:
            if self._step is None or self._step[0] != event.step:
                if self._step is not None:
                    self._step[1].end()
                self._step = event.step, self._child(event.step, {})
            span = self._step[1]
        match event:
            case AttemptStarted():
                span.add_event("attempt", _place(event))
            case AttemptRefused():
                words = {"gpucloud.error_class": event.error_class, "gpucloud.code": event.code or ""}
                span.add_event("refused", {**_place(event), **words})
            case _:
                pass

    def _child(self, name: str, attributes: Mapping[str, str]) -> Span:
        return self.tracer.start_span(name, set_span_in_context(self.root), attributes=dict(attributes))


@contextmanager
def tracing(command: str, variables: Mapping[str, str]) -> Generator[Trace]:
    """The trace of a command while the body runs; it is sent in the background, and for a second at the end.

    Args:
        command: its name.
        variables: the variables of the environment, for the trace that it continues.
    """
    provider = TracerProvider(resource=Resource.create({"service.name": "gpucloud"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("gpucloud")
    carrier: dict[str, Any] = {"traceparent": variables.get(PARENT, "")}
    parent = TraceContextTextMapPropagator().extract(carrier)
    trace = Trace(tracer, tracer.start_span(command, parent))
    failure: str | None = None
    try:
        yield trace
    except BaseException as error:
        failure = type(error).__name__
        raise
    finally:
        trace.end(failure)
        sending = threading.Thread(target=provider.shutdown, daemon=True)
        sending.start()
        sending.join(FLUSH_S)


def _place(event: AttemptStarted | AttemptRefused) -> dict[str, str]:
    return {
        "cloud": event.cloud,
        "cloud.region": event.region,
        "cloud.availability_zone": event.zone,
        "gpucloud.instance_type": event.instance_type,
    }
