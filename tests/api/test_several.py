"""Several boxes of one program: the pattern of docs/library.md, interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from gpucloud import Profile
from gpucloud_sandbox.client import Endpoint
from tests.api.test_library_page import PAGE
from tests.pages import examples


def test_ctrl_c_in_the_pattern_for_several_boxes_deletes_them_all(
    endpoint: Endpoint, profile: Profile, tmp_path: Path
) -> None:
    """The page's own block, with a command that would take ten minutes on each box."""
    block = next(code for code, _ in examples(PAGE) if "ThreadPoolExecutor" in code)
    waits = block.replace('f"echo shard of {box.name}"', '"sleep 600"').replace(
        "    print(*said", "    print('running', flush=True)\n    print(*said"
    )
    assert waits.count("sleep 600") == 1
    program = f"from gpucloud import Client, Spec\nclient = Client.sandbox()\n{waits}"
    started = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, **profile.variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "running\n"
    assert len(endpoint.client.status()["billing"]) > 0
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=100)
    assert "KeyboardInterrupt" in said
    assert endpoint.client.status()["billing"] == []
