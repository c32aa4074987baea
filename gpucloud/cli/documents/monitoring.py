"""The documents of ``metrics`` and ``notify``."""

from __future__ import annotations

from typing import TypedDict

from gpucloud_pricing.documents import Number


class SampleDocument(TypedDict):
    """One value of a metric."""

    name: str
    labels: dict[str, str]
    value: Number


class MetricsDocument(TypedDict):
    """The metrics of the journal."""

    samples: list[SampleDocument]


class MetricsServeDocument(TypedDict):
    """Where Prometheus is answered from now on: host and port."""

    address: str


class MetricsFilesDocument(TypedDict):
    """The files that were written."""

    files: list[str]


class TestedChannelDocument(TypedDict):
    """A channel for notices, and whether it took a test; ``occasions`` are what else it gets."""

    channel: str
    kind: str
    occasions: list[str]
    sent: bool
    error: str | None


class NotifyTestDocument(TypedDict):
    """What became of the test of each channel."""

    channels: list[TestedChannelDocument]
