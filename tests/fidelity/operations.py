"""The operations of the clouds that foreign clients may call, and which of them the sandboxes emulate.

``operations.csv`` is the table: cloud, client, service, operation, ``works`` or ``not emulated``, and why
the client calls it. The service is the signing name on AWS, the product on Alibaba Cloud, the resource
provider on Azure, whose operations are a method and a path below ``/subscriptions/{id}``.
tests/sandbox/test_foreign_operations.py holds it against the sandboxes. After one has learned an operation,
``python -m tests.fidelity.operations`` writes the states again.

Sources: for ``az`` the commands of azure-cli 2.91.0 (groups vm, vmss, disk, image, snapshot, sshkey, ppg,
capacity, network, and by hand group, resource, provider, deployment, tag, storage account); for ``libcloud``
the drivers azure_arm and ecs of 3.9.1; for ``aliyun``, which can call everything, the actions of ECS and VPC
about machines and what belongs to them in Alibaba Cloud's own metadata; for ``terraform`` on Alibaba Cloud
the beginning of service_alicloud_ecs.go.
"""

from __future__ import annotations

import csv
import re
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import pytest
from werkzeug.test import EnvironBuilder
from werkzeug.wrappers import Request

from gpucloud_sandbox.alibaba.actions import ACTIONS
from gpucloud_sandbox.aws import moto_backend
from gpucloud_sandbox.aws.actions import EMULATED
from gpucloud_sandbox.azure.members import TABLE
from gpucloud_sandbox.azure.routes import route
from gpucloud_sandbox.azure.subscription import SUBSCRIPTION

OPERATIONS = Path(__file__).with_name("operations.csv")
_PLACEHOLDER = re.compile(r"\{\w+\}")
WORKS, NOT_EMULATED = "works", "not emulated"


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """One operation of one client."""

    cloud: str
    client: str
    service: str
    operation: str
    state: str
    why: str


def read() -> list[Row]:
    """The table."""
    with OPERATIONS.open(encoding="utf-8", newline="") as stream:
        return [Row(**row) for row in csv.DictReader(stream)]


def state_of(cloud: str, service: str, operation: str) -> str:
    """What a sandbox's code says of an operation."""
    match cloud:
        case "aws":
            answered = (service, operation) in EMULATED or moto_backend.answers(service, operation)
        case "azure":
            answered = call_of(operation).lower() in TABLE
        case _:
            answered = (service, operation) in ACTIONS
    return WORKS if answered else NOT_EMULATED


def azure_path(operation: str) -> tuple[str, str]:
    """The method and the path of an operation of Azure, each placeholder filled with a name."""
    method, _, below = operation.partition(" ")
    return (
        method,
        f"/subscriptions/{SUBSCRIPTION}{_PLACEHOLDER.sub('x', below.replace('{location}', 'eastus'))}",
    )


def call_of(operation: str) -> str:
    """The call that an operation of Azure is, as the sandbox's router names it."""
    method, path = azure_path(operation)
    return route(Request(EnvironBuilder(path=path, method=method).get_environ())).call


def needs(*operations: str) -> pytest.MarkDecorator:
    """Skips a test as long as the sandbox does not emulate all these operations of EC2."""
    missing = [each for each in operations if state_of("aws", "ec2", each) == NOT_EMULATED]
    return pytest.mark.skipif(bool(missing), reason=f"the sandbox does not emulate {', '.join(missing)}")


def write() -> None:
    """Writes the table again, sorted, with the states that the sandbox's code says."""
    rows = sorted(replace(row, state=state_of(row.cloud, row.service, row.operation)) for row in read())
    with OPERATIONS.open("w", encoding="utf-8", newline="") as stream:
        table = csv.DictWriter(stream, [field.name for field in fields(Row)], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) for row in rows)


if __name__ == "__main__":
    write()
