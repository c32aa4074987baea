"""Where ``make fidelity`` and ``make foreign`` put the clients, and the scripts beside the tests."""

from __future__ import annotations

from pathlib import Path

SCRIPTS = Path(__file__).parent
CLIENTS = SCRIPTS.parents[1] / ".venv-fidelity" / "bin"
FOREIGN = SCRIPTS.parents[1] / ".venv-foreign" / "bin"
