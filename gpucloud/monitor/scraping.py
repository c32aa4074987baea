"""The metrics of boxes, over the pinned ssh connection, within limits: no port of a box is open for them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from functools import partial

from gpucloud.monitor.exposition import read, text_of
from gpucloud.monitor.families import OF_GUARD
from gpucloud.runtime.tasks import Call, Tasks
from gpucloud.ssh.client import Target, connect, run
from gpucloud_templates import GUARD_METRICS

DEADLINE_S = 5.0
"""How long a box may take to answer."""
FRESH_S = 10.0
"""How long an answer is used again. The guard looks every five seconds, at the GPUs once a minute."""
MOST_BYTES = 256 * 1024


def scrape(target: Target) -> str:
    """What the guard of a node wrote last, as text for Prometheus; empty if it has written nothing.

    Raises:
        ConnectionFailedError: the node did not answer, or wrote too much.
    """
    connect(target, timeout_s=int(DEADLINE_S))
    # What hangs on the box must not stay there: sshd allows few sessions per connection.
    command = ["timeout", "-k", "1", f"{DEADLINE_S:.0f}", "cat", GUARD_METRICS]
    done = run(target, command, timeout_s=DEADLINE_S, most_bytes=MOST_BYTES)
    return text_of(read(done.out.decode(errors="replace"), OF_GUARD))


@dataclass(slots=True)
class _Node:
    """The last answer of a node, and the call under way."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    text: str = ""
    until: float = 0.0
    call: Call | None = None


@dataclass(slots=True)
class Scraper:
    """Asks nodes from several threads, each node once at a time."""

    _nodes: dict[str, _Node] = field(default_factory=dict[str, _Node])

    def text(self, target: Target) -> str:
        """The metrics of a node, at most :data:`FRESH_S` old.

        Raises:
            GpucloudError: it did not answer in time, or could not be reached.
        """
        node = self._nodes.setdefault(target.alias, _Node())
        with node.lock:
            if time.monotonic() < node.until:
                return node.text
            tasks = Tasks()  # of this thread
            if node.call is None or node.call.done:
                node.call = tasks.start(partial(scrape, target))
            node.text = tasks.wait(node.call, DEADLINE_S)
            node.until = time.monotonic() + FRESH_S
            return node.text
