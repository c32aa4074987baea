"""The operations of AWS that foreign clients may call, and which of them the sandbox emulates.

``operations.csv`` is the table: client, service (its signing name), operation, ``works`` or ``not emulated``,
and why the client calls it. tests/sandbox/test_foreign_operations.py holds it against the sandbox. After the
sandbox has learned an operation, ``python -m tests.fidelity.operations`` writes the states again.
"""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import pytest

from gpucloud_aws.sandbox import moto_backend
from gpucloud_aws.sandbox.actions import EMULATED

TABLE = Path(__file__).with_name("operations.csv")
WORKS, NOT_EMULATED = "works", "not emulated"


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """One operation of one client."""

    client: str
    service: str
    operation: str
    state: str
    why: str


def read() -> list[Row]:
    """The table."""
    with TABLE.open(encoding="utf-8", newline="") as stream:
        return [Row(**row) for row in csv.DictReader(stream)]


def state_of(service: str, operation: str) -> str:
    """What the sandbox's code says of an operation."""
    answered = (service, operation) in EMULATED or moto_backend.answers(service, operation)
    return WORKS if answered else NOT_EMULATED


def needs(*operations: str) -> pytest.MarkDecorator:
    """Skips a test as long as the sandbox does not emulate all these operations of EC2."""
    missing = [each for each in operations if state_of("ec2", each) == NOT_EMULATED]
    return pytest.mark.skipif(bool(missing), reason=f"the sandbox does not emulate {', '.join(missing)}")


def write() -> None:
    """Writes the table again, sorted, with the states that the sandbox's code says."""
    rows = sorted(replace(row, state=state_of(row.service, row.operation)) for row in read())
    with TABLE.open("w", encoding="utf-8", newline="") as stream:
        table = csv.DictWriter(stream, [field.name for field in fields(Row)], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) for row in rows)


if __name__ == "__main__":
    write()
