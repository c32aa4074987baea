"""Faults on purpose, as a client with the vendor's SDK feels them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from gpucloud_sandbox.client import Endpoint
from tests.sandbox.running import client, launch
from tests.sandbox.test_aws_launch import refused
from tests.waiting import PATIENCE_S, until


def test_an_error_strikes_as_often_as_asked_and_only_its_call(ec2: Any, endpoint: Endpoint) -> None:
    endpoint.client.fault(
        effect="error",
        action="DescribeVpcs",
        code="InternalError",
        status=500,
        skip=1,
        times=2,
        region="us-*",
    )
    assert ec2.describe_vpcs()["Vpcs"]
    assert ec2.describe_subnets()["Subnets"]
    assert refused(ec2.describe_vpcs) == ("InternalError", 500)
    assert refused(ec2.describe_vpcs) == ("InternalError", 500)
    assert ec2.describe_vpcs()["Vpcs"]
    assert endpoint.client.fault() == []


def test_throttling_is_in_the_services_own_words(ec2: Any, endpoint: Endpoint) -> None:
    endpoint.client.fault(effect="throttle", times=2)
    assert refused(ec2.describe_vpcs) == ("RequestLimitExceeded", 503)
    assert refused(client(endpoint, "pricing").get_products, ServiceCode="AmazonEC2") == (
        "ThrottlingException",
        400,
    )


def test_a_connection_dropped_before_the_call_leaves_nothing(
    ec2: Any, group: str, endpoint: Endpoint
) -> None:
    endpoint.client.fault(effect="drop", action="RunInstances", stage="received")
    with pytest.raises(ConnectionClosedError):
        ec2.run_instances(**launch(group))
    assert endpoint.client.status()["billing"] == []


def test_a_lost_answer_leaves_what_was_made(ec2: Any, group: str, endpoint: Endpoint) -> None:
    endpoint.client.fault(effect="drop", action="RunInstances", stage="applied")
    parameters = launch(group, ClientToken="t")
    with pytest.raises(ConnectionClosedError):
        ec2.run_instances(**parameters)
    (billed,) = [each for each in endpoint.client.status()["billing"] if each["kind"] == "instance"]
    assert ec2.run_instances(**parameters)["Instances"][0]["InstanceId"] == billed["id"]


def test_an_error_after_the_fact_hides_that_it_was_done(ec2: Any, group: str, endpoint: Endpoint) -> None:
    endpoint.client.fault(effect="error", action="RunInstances", stage="applied")
    with pytest.raises(ClientError):
        ec2.run_instances(**launch(group))
    assert endpoint.client.status()["billing"]


@pytest.mark.parametrize(("stage", "billed"), [("received", False), ("applied", True), ("answered", True)])
def test_the_calling_process_is_killed_at_the_stage(
    ec2: Any, group: str, endpoint: Endpoint, stage: str, billed: bool
) -> None:
    endpoint.client.fault(effect="kill", action="RunInstances", stage=stage)
    program = (
        "import json, sys, time, boto3\n"
        "boto3.client('ec2').run_instances(**json.loads(sys.argv[1]))\n"
        "time.sleep(30)\n"
    )
    environment = {**os.environ, **endpoint.environ}
    victim = subprocess.run(
        [sys.executable, "-c", program, json.dumps(launch(group))],
        env=environment,
        timeout=PATIENCE_S,
        check=False,
    )
    assert victim.returncode == -signal.SIGKILL
    assert bool(endpoint.client.status()["billing"]) is billed
    assert ec2.describe_vpcs()["Vpcs"]


def test_calls_are_counted(ec2: Any, group: str, endpoint: Endpoint) -> None:
    endpoint.client.calls(clear=True)
    ec2.run_instances(**launch(group))
    ec2.describe_instances()
    ec2.describe_instances()
    counted = {(call["action"], call["mutating"]): call["count"] for call in endpoint.client.calls()}
    assert counted == {("RunInstances", True): 1, ("DescribeInstances", False): 2}


def test_calls_are_kept_one_by_one_with_what_became_of_them(ec2: Any, group: str, endpoint: Endpoint) -> None:
    """One sees which call waited for which: when each came, how long it took, and how many ran beside it."""
    endpoint.client.calls(clear=True)
    endpoint.client.fault(effect="error", action="RunInstances", code="InternalError", status=500)
    with pytest.raises(ClientError):
        ec2.run_instances(**launch(group))
    endpoint.client.fault(effect="delay", action="DescribeInstances", seconds=0.5)
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(ec2.describe_instances)
        until(lambda: len(endpoint.client.received()) == 2)
        ec2.describe_vpcs()
        slow.result()
    failed, described, beside = endpoint.client.received(clear=True)
    assert (failed["cloud"], failed["action"], failed["region"]) == ("aws", "RunInstances", "us-east-1")
    assert (failed["status"], failed["mutating"], failed["concurrent"]) == (500, True, 1)
    assert (described["status"], described["concurrent"]) == (200, 1)
    assert described["milliseconds"] >= 500
    assert (beside["action"], beside["concurrent"]) == ("DescribeVpcs", 2)
    assert failed["at"] <= described["at"] <= beside["at"]
    assert endpoint.client.received() == []
