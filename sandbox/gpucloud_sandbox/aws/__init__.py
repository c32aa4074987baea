"""AWS in the sandbox: EC2 and what a launch needs besides, served out of botocore's own service models.

moto answers the rest (key pairs, IAM, ...): it knows no ClientToken, spot market, reservation or image alias,
and takes over a second to its first answer, so that EC2 itself is served here.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from werkzeug.wrappers import Request, Response

from gpucloud_sandbox import supported
from gpucloud_sandbox.aws import (
    boxes,
    callers,
    elastic,
    instances,
    keys,
    moto_backend,
    own_images,
    permissions,
    reserved,
    s3_wire,
    savings,
    schedules,
    sessions,
    signature,
    snapshots,
    spot_advisor,
    storage,
    volumes,
    wire,
)
from gpucloud_sandbox.aws.actions import ACTIONS, DRY_RUNS_ITSELF
from gpucloud_sandbox.aws.authorization import Demand, demands
from gpucloud_sandbox.aws.callers import Caller
from gpucloud_sandbox.aws.foreign import capacity, modifications, spot_requests
from gpucloud_sandbox.aws.foreign.vpcs import lay_default
from gpucloud_sandbox.aws.groups import admits
from gpucloud_sandbox.aws.query import UnknownFilterError
from gpucloud_sandbox.aws.quotas import set_quota
from gpucloud_sandbox.aws.region import CLOUD, Region
from gpucloud_sandbox.aws.reservations import grant
from gpucloud_sandbox.aws.review import review_action
from gpucloud_sandbox.aws.routes import leads_out
from gpucloud_sandbox.aws.wire import AwsError, not_emulated
from gpucloud_sandbox.database import Shelf
from gpucloud_sandbox.emulator import Control, UnknownResourceError, World
from gpucloud_sandbox.faults import Call, Effect, Fault

_LOG = logging.getLogger(__name__)

_THROTTLED = {
    "ec2": AwsError("RequestLimitExceeded", "Request limit exceeded.", 503),
    "s3": AwsError("SlowDown", "Please reduce your request rate.", 503),
}
_READS = ("Describe", "Get", "Head", "List")


NARROW_ENDPOINTS = ("EC2", "PRICING", "S3", "SCHEDULER", "SERVICE_QUOTAS", "SSM", "STS")
"""Services whose own variable, where the user has set it, would win over the general one."""


class AwsSandbox:
    """The emulated AWS (an :class:`gpucloud_sandbox.emulator.Emulator`)."""

    name = CLOUD
    tls = None

    def __init__(self, world: World) -> None:
        self._world = world
        self._shelf = Shelf(world.database, CLOUD)
        self._supported = supported.read(__name__)
        kept = world.database.setting("aws_credentials")
        if kept is None:
            kept = {"key": f"AKIASANDBOX{world.token(9).upper()}", "secret": world.token(40)}
            world.database.keep_setting("aws_credentials", kept)
        self._user = callers.user(kept["key"], kept["secret"])
        # EC2's model and the catalog take 0.3 s to read: best while the first client is still starting
        threading.Thread(target=self._warm_up, daemon=True).start()

    @property
    def controls(self) -> Mapping[str, Control]:
        """Granting reservations and plans, setting quotas, and taking permissions away."""
        return {
            "reserve": self._reserve,
            "commit": self._commit,
            "quota": self._quota,
            "deny": self._deny,
            "policy": self._policy,
        }

    def environment(self, origin: str) -> Mapping[str, str]:
        """What makes boto3 and the ``aws`` client come here, and look at no file of the user's."""
        profile = self._world.folder / "aws-profile"  # the JavaScript SDK believes a profile before variables
        profile.touch(mode=0o600)
        profile.write_text(
            f"[default]\naws_access_key_id = {self._user.key}\naws_secret_access_key = {self._user.secret}\n"
        )
        return {
            "AWS_ENDPOINT_URL": origin,
            **{f"AWS_ENDPOINT_URL_{service}": origin for service in NARROW_ENDPOINTS},
            "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false",
            "GPUCLOUD_AWS_SPOT_ADVISOR_URL": origin + spot_advisor.PATH,
            "AWS_DEFAULT_PROFILE": "default",
            "AWS_PROFILE": "default",
            "AWS_ACCESS_KEY_ID": self._user.key,
            "AWS_SECRET_ACCESS_KEY": self._user.secret,
            "AWS_SESSION_TOKEN": "",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": str(profile),
            "AWS_SHARED_CREDENTIALS_FILE": str(profile),
        }

    @property
    def unexported(self) -> frozenset[str]:
        """A profile: Ansible's amazon.aws refuses one beside keys."""
        return frozenset({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"})

    def identify(self, request: Request) -> Call:
        """Which call this is, by its signature's scope and its form or target."""
        signed = signature.read(request)
        service = signed.service if signed else "s3" if signature.of_version_2(request) else "ec2"
        action = request.headers.get("X-Amz-Target", "").rpartition(".")[2] or request.values.get(
            "Action", ""
        )
        if signed and signed.service == "s3":
            action = s3_wire.call_of(request)
        elif signed and not action:
            action = wire.rest_action(signed.service, request.method, request.path)
        return Call(
            cloud=CLOUD,
            service=service,
            action=action or f"{request.method} {request.path}",
            region=signed.region if signed else "us-east-1",
            mutating=not action.startswith(_READS) if action else request.method != "GET",
        )

    def answer(self, request: Request, call: Call) -> Response:
        """Checks the signature, does what the call asks, and answers."""
        if (request.method, request.path) == ("GET", spot_advisor.PATH):
            return Response(
                json.dumps(spot_advisor.document(self._world.market.catalog(CLOUD))),
                mimetype="application/json",
            )
        request_id = self._request_id()
        try:
            caller = self._caller(request)
            if moto_backend.answers(call.service, call.action):
                permissions.check(self._world, caller, [Demand(action=f"{call.service}:{call.action}")])
                return keys.answer(self._region(call.region), call, request)
            if call.service == "s3":
                return self._store(request, call, caller)
            return _response(self._do(request, call, caller, request_id), request_id)
        except AwsError as failure:
            return _response(wire.error(call.service, failure, request_id), request_id)
        except Exception:  # a fault of ours must not look like a broken protocol
            _LOG.exception("%s:%s failed", call.service, call.action)
            ours = AwsError(
                "InternalError", "This is a fault of the gpucloud sandbox; its log says more", 500
            )
            return _response(wire.error(call.service, ours, request_id), request_id)

    def fail(self, call: Call, fault: Fault) -> Response:
        """The answer that a fault makes."""
        failure = AwsError(fault.code, fault.message, fault.status)
        if fault.effect is Effect.THROTTLE:
            failure = _THROTTLED.get(call.service, AwsError("ThrottlingException", "Rate exceeded"))
        request_id = self._request_id()
        return _response(wire.error(call.service, failure, request_id), request_id)

    def admits(self, box: str, port: int, source: str) -> bool:
        """Whether an instance runs, its groups let ``source`` in, and its routes lead back there."""
        with self._world.database.transaction():
            for name, instance in self._shelf.everywhere("instance"):
                if instance["InstanceId"] == box:
                    region = self._region(name)
                    lay_default(region)
                    instances.settle(region)
                    groups = [group["GroupId"] for group in instance["SecurityGroups"]]
                    return (
                        instance["State"] == instances.RUNNING
                        and admits(region, groups, port, source)
                        and leads_out(region, instance, source)
                    )
        return False

    def tick(self) -> None:
        """Lets transitions and interruptions happen that are due."""
        with self._world.database.transaction():
            for name in {name for name, _ in self._shelf.everywhere("instance")}:
                instances.settle(self._region(name))
                schedules.settle(self._region(name))

    def resume(self) -> None:
        """Boots what was alive when the process ended."""
        keys.forget(self._world)
        storage.forget_lost(self._world)
        for name, instance in self._shelf.everywhere("instance"):
            if instances.alive(instance):
                boxes.boot(self._region(name), instance)

    def power_off(self, box: str) -> None:
        """The guest switched itself off: the instance ends or stops, as its shutdown behaviour says."""
        with self._world.database.transaction():
            for name, instance in self._shelf.everywhere("instance"):
                if instance["InstanceId"] == box:
                    instances.power_off(self._region(name), instance)

    @property
    def notice_s(self) -> float:
        """EC2 User Guide, "Spot Instance interruption notices"."""
        return 120.0

    def interrupt(self, instance: str, at: datetime) -> None:
        """Takes a spot instance back."""
        for name, each in self._shelf.everywhere("instance"):
            if each["InstanceId"] == instance and each["_purchase"] == "spot" and instances.alive(each):
                instances.interrupt(self._region(name), each, at)
                return
        raise UnknownResourceError(f"{instance} is no running spot instance")

    def reset(self) -> None:
        """Forgets everything and ends all instances."""
        for name, instance in self._shelf.everywhere("instance"):
            if instances.alive(instance):
                boxes.end(self._region(name), instance)
        for _, volume in self._shelf.everywhere("volume"):
            self._world.boxes.wipe(volume["VolumeId"])
        for _, snapshot in self._shelf.everywhere("snapshot"):
            self._world.boxes.wipe(snapshot["SnapshotId"])
        self._shelf.clear()
        permissions.forget(self._world)
        moto_backend.reset()

    def _warm_up(self) -> None:
        wire.service_model("ec2")
        catalog = self._world.market.catalog(CLOUD)
        _ = catalog.types, catalog.offered

    def _do(self, request: Request, call: Call, caller: Caller, request_id: str) -> wire.Answer:
        review_action(call.action)
        if call.service not in wire.SERVICES:
            raise not_emulated(call.service)
        operation = wire.operation(call.service, call.action)
        action = ACTIONS.get((call.service, call.action))
        if action is None:
            raise not_emulated(f"{call.service}:{call.action}")
        parameters = wire.parse(
            operation, request.get_data(as_text=True), request.values, request.path, request.args.to_dict()
        )
        refused = self._supported[call.service, call.action].refused(parameters)
        if refused is not None:
            raise not_emulated(f"{call.action}: {refused}")
        region = self._region(call.region, caller)
        permissions.check(self._world, caller, demands(region, call.service, call.action, parameters))
        if parameters.get("DryRun") and call.action not in DRY_RUNS_ITSELF:
            raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
        with self._world.database.transaction():
            lay_default(region)
            instances.settle(region)
            volumes.settle(region)
            modifications.settle(region)
            snapshots.settle(region)
            own_images.settle(region)
            spot_requests.settle(region)
            capacity.settle(region)
            elastic.settle(region)
            schedules.settle(region)
            try:
                answer = wire.answer(operation, action(region, parameters), request_id)
            except wire.HiddenError as hidden:
                return wire.error(call.service, hidden, request_id)
            except UnknownFilterError as unknown:
                if unknown.name not in wire.documented_filters(operation):
                    raise
                raise not_emulated(f"{call.action}: Filters.Name={unknown.name}") from None
            instances.settle(region)
            spot_requests.settle(region)
            capacity.settle(region)
        return answer

    def _store(self, request: Request, call: Call, caller: Caller) -> Response:
        if call.action not in storage.CALLS:
            raise not_emulated(f"s3:{call.action}")
        operation = wire.operation("s3", call.action)
        body = s3_wire.body_of(request)
        parameters = s3_wire.members_of(operation, request, body.content)
        refused = self._supported["s3", call.action].refused(parameters)
        if refused is not None:
            raise not_emulated(f"{call.action}: {refused}")
        permissions.check(self._world, caller, storage.demands(call.action, parameters))
        region = self._region(call.region, caller)
        with self._world.database.transaction():
            answer = storage.answer(region, request, call.action, parameters, body)
        answer.headers["x-amz-request-id"] = self._request_id()
        return answer

    def _caller(self, request: Request) -> Caller:
        signed = signature.read(request)
        known = None
        if signed is not None:
            known = self._user if signed.key == self._user.key else sessions.find(self._shelf, signed.key)
        regions = self._world.market.catalog(CLOUD).zones
        return signature.verify(request, signed, known, regions=regions, clock=self._world.clock)

    def _region(self, name: str, caller: Caller | None = None) -> Region:
        return Region(self._world, self._shelf, name, caller)

    def _request_id(self) -> str:
        digits = self._world.token(32)
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def _reserve(self, values: Mapping[str, Any]) -> Any:
        reservation = grant(
            self._region(values["region"]),
            zone_id=values["zone"],
            instance_type=values["instance_type"],
            count=int(values.get("count", 1)),
            block=bool(values.get("block", False)),
        )
        return reservation["CapacityReservationId"]

    def _commit(self, values: Mapping[str, Any]) -> Any:
        if "per_hour" in values:
            return savings.grant(self._region(savings.ENDPOINT), values)["savingsPlanId"]
        return reserved.grant(self._region(values["region"]), values)["ReservedInstancesId"]

    def _deny(self, values: Mapping[str, Any]) -> Any:
        permissions.deny(self._world, list(values["actions"]))
        return {}

    def _policy(self, values: Mapping[str, Any]) -> Any:
        permissions.set_policy(self._world, values["document"])
        return {}

    def _quota(self, values: Mapping[str, Any]) -> Any:
        set_quota(self._region(values["region"]), code=values["code"], value=float(values["value"]))
        return {}


def _response(answer: wire.Answer, request_id: str) -> Response:
    response = Response(answer.body, answer.status, content_type=answer.content_type)
    response.headers["x-amzn-RequestId"] = request_id
    response.headers.update(answer.headers)
    return response
