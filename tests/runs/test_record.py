"""Which failures are the loss of a box, and which are the user's or gpucloud's own."""

from __future__ import annotations

import pytest

from gpucloud.bring_up.bring_up import NotReadyError, UnfitError
from gpucloud.errors import (
    BoxLostError,
    CleanupIncompleteError,
    CloudError,
    ErrorClass,
    GpucloudError,
    NoOfferError,
    PriceError,
    UsageError,
)
from gpucloud.journal.errors import StaleWriterError
from gpucloud.journal.runs import Loss
from gpucloud.runs.record import RestartAskedError, failed, loss_of
from gpucloud.ssh.client import ConnectionFailedError, ConnectionFailure


@pytest.mark.parametrize(
    ("error", "loss", "sentence"),
    [
        (BoxLostError("x", taken_back=True), Loss.INTERRUPTION, "its cloud took it back"),
        (BoxLostError("x", taken_back=False), None, "its deadline, its idle limit or a user ended it"),
        (
            ConnectionFailedError("x", failure=ConnectionFailure.UNREACHABLE),
            Loss.HARDWARE,
            "it answers no more",
        ),
        (UnfitError("x"), Loss.HARDWARE, "its GPUs are not those that were rented"),
        (NotReadyError("x"), None, "its image or its set-up is wrong: another box would be the same"),
        (CloudError("x", error_class=ErrorClass.CAPACITY, cloud="aws"), Loss.CAPACITY, "no stock"),
        (
            CloudError("x", error_class=ErrorClass.QUOTA, cloud="aws"),
            None,
            "a quota does not grow by waiting",
        ),
        (PriceError("x"), None, "never above the limit"),
        (NoOfferError("x"), None, "nothing matches"),
        (RestartAskedError(), Loss.REQUEST, "the command asked"),
        (CleanupIncompleteError("x"), None, "nothing is bought while something may still be billed"),
        (StaleWriterError("x", "run"), None, "another process has the run now"),
        (UsageError("x"), None, "the spec is wrong"),
    ],
)
def test_only_a_lost_box_no_capacity_and_a_request_are_losses(
    error: GpucloudError, loss: Loss | None, sentence: str
) -> None:
    assert loss_of(error) is loss, sentence


@pytest.mark.parametrize(
    "error", [UnfitError("x"), ConnectionFailedError("x", failure=ConnectionFailure.BROKEN)]
)
def test_a_run_that_ends_with_lost_hardware_says_so_in_its_class(error: GpucloudError) -> None:
    failure = failed(error).failure
    assert failure is not None
    assert failure.error_class == "hardware"
