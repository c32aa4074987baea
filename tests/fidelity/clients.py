"""Where ``make fidelity`` and ``make foreign`` put the clients, and the scripts beside the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.shell import Result

SCRIPTS = Path(__file__).parent
CLIENTS = SCRIPTS.parents[1] / ".venv-fidelity" / "bin"
FOREIGN = SCRIPTS.parents[1] / ".venv-foreign" / "bin"


def documents(ran: Result) -> list[Any]:
    """What several commands said that succeeded, a line of JSON each."""
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]
