"""Where ``make fidelity`` puts the clients, and the scripts that stand beside the tests."""

from __future__ import annotations

from pathlib import Path

SCRIPTS = Path(__file__).parent
CLIENTS = SCRIPTS.parents[1] / ".venv-fidelity" / "bin"
