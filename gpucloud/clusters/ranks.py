"""What the program of each node of a cluster is told: who it is, and where the first node listens."""

from __future__ import annotations

MASTER_PORT = 29500
"""Where the first node listens: torchrun's own default (``--master-port``).

Source: https://docs.pytorch.org/docs/stable/elastic/run.html
"""
