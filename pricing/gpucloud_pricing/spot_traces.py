"""What was published of measured spot interruptions: a caveat beside every estimate, and no input of one.

The figures are old and of two GPU models of one cloud: no evidence of newer models, of Azure or of Alibaba
Cloud. ``data/spot_interruptions_measured.csv`` has the statistics of each trace.
"""

from __future__ import annotations

from gpucloud_pricing.values import Source

TRACES = Source(
    id="spot-traces",
    repository="skypilot-org/spot-traces",
    path="availability/ and preemption/",
    commit="221da1ab9bdfe7966da296265d7694d52dc0c5a6",
    date="2024-03-31",
    licence="no licence file",
    note="traces behind the NSDI 2024 paper Can't Be Late",
)
JOINT_LOSSES = Source(
    id="spot-and-scoot",
    repository="the study Spot-and-Scoot",
    path="AWS and Azure, 2635 interruptions",
    commit="",
    date="",
    licence="a published figure",
    note="read second-hand",
)
OWN_JOURNAL = Source(
    id="own-journal",
    repository="gpucloud",
    path="the journal of this machine",
    commit="",
    date="",
    licence="your own",
    note="boxes on spot of the last year",
    live=True,
)
SPOT_SOURCES = (TRACES, JOINT_LOSSES, OWN_JOURNAL)

V100_HOURS = (0.7, 16.7)
"""The mean hours between interruptions of V100 machines: the lowest and the highest of 23 traces, on AWS in
three regions of the United States, 2022-10 to 2023-09. Most are between 1 and 7 hours, and the means are
mostly 2 to 8 times the medians. Hours of the traces of 2022 may be twice too long."""

JOINT_PERCENT = 92
"""The percentage of joint interruptions of one type and zone that were within three minutes."""
