"""Reports every call that changes something, before it is sent and with its outcome, by botocore's events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud.clouds.provider import ApiCall, CallObserver
from gpucloud_aws.actions import ACTIONS, Repeat

CLOUD = "aws"
_NAMES = (
    *(
        "InstanceIds",
        "GroupId",
        "VolumeId",
        "SnapshotId",
        "NetworkInterfaceId",
        "AllocationId",
        "SpotInstanceRequestIds",
    ),
    *("Resources", "Name", "GroupName", "ClientToken", "ImageId", "Key"),
)
"""The parameters with the target of a call, the most specific first. No others are read."""
_TARGET, _DRY, _ANSWERED = "gpucloud_target", "gpucloud_dry_run", "gpucloud_answered"


def listen(events: Any, region: str, observer: CallObserver) -> None:
    """Registers with a client's events.

    Args:
        events: ``client.meta.events``.
        region: the client's region.
        observer: called for every changing call.
    """

    def named(params: Mapping[str, Any], context: dict[str, Any], **_: Any) -> None:
        found = next((params[name] for name in _NAMES if params.get(name)), "")
        context[_DRY] = bool(params.get("DryRun"))
        context[_TARGET] = found if isinstance(found, str) else ", ".join(map(str, found))

    def sent(event_name: str, context: dict[str, Any], **_: Any) -> None:
        service, operation = event_name.split(".")[1:3]
        if context.get(_DRY) or ACTIONS.get((service, operation)) in {None, Repeat.SAFE}:
            return
        target = str(context.get(_TARGET, ""))
        call = ApiCall(cloud=CLOUD, region=region, action=f"{service}:{operation}", target=target)
        context[_ANSWERED] = observer(call)

    def answered(
        context: dict[str, Any], parsed_response: Mapping[str, Any] | None, exception: Any, **_: Any
    ) -> None:
        told = context.pop(_ANSWERED, None)
        if told is None:
            return
        parsed = parsed_response or {}
        outcome = parsed.get("Error", {}).get("Code") or (type(exception).__name__ if exception else "ok")
        told(str(outcome), parsed.get("ResponseMetadata", {}).get("RequestId"))

    events.register("provide-client-params", named)
    events.register("before-call", sent)
    events.register("response-received", answered)
