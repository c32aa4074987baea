"""Alibaba Cloud in the sandbox: ECS, VPC, and what a launch needs besides, in their RPC protocol.

The names and types of parameters come from the cloud's own metadata (``api.json``); what they mean is written
here by hand. No SDK is imported.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from werkzeug.wrappers import Request, Response

from gpucloud_sandbox.alibaba import (
    account,
    boxes,
    changes,
    eips,
    instances,
    interfaces,
    network,
    oss,
    permissions,
    reserved,
    sessions,
    snapshots,
    validation,
    wire,
)
from gpucloud_sandbox.alibaba.actions import ACTIONS
from gpucloud_sandbox.alibaba.groups import admits
from gpucloud_sandbox.alibaba.launch import VANISHING, KeptError
from gpucloud_sandbox.alibaba.quotas import set_limit
from gpucloud_sandbox.alibaba.region import CLOUD, ID_KEYS, Region, known_regions
from gpucloud_sandbox.alibaba.reservations import grant
from gpucloud_sandbox.alibaba.review import review_action
from gpucloud_sandbox.alibaba.signature import Credential, Signatures
from gpucloud_sandbox.alibaba.stock import alive
from gpucloud_sandbox.alibaba.wire import AlibabaError
from gpucloud_sandbox.database import Shelf
from gpucloud_sandbox.emulator import Control, UnknownResourceError, World
from gpucloud_sandbox.faults import Call, Effect, Fault

_LOG = logging.getLogger(__name__)

HOME = "cn-hangzhou"
_READS = ("AssumeRole", "Describe", "Get", "List")


class AlibabaSandbox:
    """The emulated Alibaba Cloud (an :class:`gpucloud_sandbox.emulator.Emulator`)."""

    name = CLOUD
    tls = None

    def __init__(self, world: World) -> None:
        self._world = world
        self._shelf = Shelf(world.database, CLOUD)
        self._signatures = Signatures()
        self._oss = oss.EmulatedOss(world, self._shelf, HOME)
        kept = world.database.setting("alibaba_credentials")
        if kept is None:
            kept = {"key": f"LTAI5tSANDBOX{world.token(11)}", "secret": world.token(30)}
            world.database.keep_setting("alibaba_credentials", kept)
        self._key: str = kept["key"]
        self._secret: str = kept["secret"]
        threading.Thread(target=self._warm_up, daemon=True).start()

    @property
    def controls(self) -> Mapping[str, Control]:
        """Quotas, held capacity, permissions, the account's standing, vanishing ids, roles and keys."""
        return {
            "reserve": self._reserve,
            "commit": self._commit,
            "quota": self._quota,
            "deny": self._deny,
            "policy": self._policy,
            "balance": self._balance,
            "close": self._close,
            "real-name": self._real_name,
            "vanish": self._vanish,
            "expire": self._expire,
            "role": self._role,
            "key": self._kms_key,
        }

    def environment(self, origin: str) -> Mapping[str, str]:
        """What makes gpucloud come here, and the SDK look at no file of the user's."""
        return {
            "GPUCLOUD_ALIBABA_ENDPOINT": origin,
            "ALIBABA_CLOUD_ACCESS_KEY_ID": self._key,
            "ALIBABA_CLOUD_ACCESS_KEY_SECRET": self._secret,
            "ALIBABA_CLOUD_SECURITY_TOKEN": "",
            "ALIBABA_CLOUD_ECS_METADATA_DISABLED": "true",
            "ALIBABA_CLOUD_REGION_ID": HOME,
        }

    @property
    def unexported(self) -> frozenset[str]:
        """None."""
        return frozenset()

    def identify(self, request: Request) -> Call:
        """Which call this is."""
        if oss.is_oss(request):
            operation = oss.read(request).operation
            reads = request.method in {"GET", "HEAD"}
            return Call(cloud=CLOUD, service=oss.SERVICE, action=operation, region=HOME, mutating=not reads)
        wire.choose_format(request)
        product, action, flat = wire.asked(request)
        return Call(
            cloud=CLOUD,
            service=product,
            action=action or f"{request.method} {request.path}",
            region=flat.get("RegionId", HOME),
            mutating=not action.startswith(_READS),
        )

    def answer(self, request: Request, call: Call) -> Response:
        """Checks the signature, does what the call asks, and answers."""
        response = self._answered(request, call)
        return oss.in_dialect(response, request) if call.service == oss.SERVICE else response

    def _answered(self, request: Request, call: Call) -> Response:
        request_id = self._request_id()
        try:
            if call.service == oss.SERVICE:
                return self._oss.answer(request, self._credentials(), request_id)
            caller = self._verify(request)
            return wire.answer(call.action, self._do(request, caller), request_id)
        except AlibabaError as failure:
            return _refusal(failure, call, request_id)
        except Exception:  # a fault of ours must not look like a broken protocol
            _LOG.exception("%s:%s failed", call.service, call.action)
            ours = AlibabaError(
                "InternalError", "This is a fault of the gpucloud sandbox; its log says more", 500
            )
            return _refusal(ours, call, request_id)

    def fail(self, call: Call, fault: Fault) -> Response:
        """The answer that a fault makes."""
        failure = AlibabaError(fault.code, fault.message, fault.status)
        if fault.effect is Effect.THROTTLE and call.service == oss.SERVICE:
            failure = AlibabaError("TotalQpsLimitExceeded", "Max total qps limit is exceeded.", 503)
        elif fault.effect is Effect.THROTTLE:
            failure = AlibabaError("Throttling.User", "Request was denied due to user flow control.", 400)
        return _refusal(failure, call, self._request_id())

    def admits(self, box: str, port: int, source: str) -> bool:
        """Whether an instance runs and its groups let ``source`` in."""
        with self._world.database.transaction():
            for name, instance in self._shelf.everywhere("instance"):
                if instance["InstanceId"] == box:
                    region = self._region(name)
                    instances.settle(region)
                    now = region.all("instance")[box]
                    groups = now["SecurityGroupIds"]["SecurityGroupId"]
                    running = alive(now) and now["Status"] == "Running"
                    return running and admits(region, groups, port, source)
        return False

    def tick(self) -> None:
        """Lets transitions, releases and interruptions happen that are due."""
        with self._world.database.transaction():
            for name in {name for name, _ in self._shelf.everywhere("instance")}:
                instances.settle(self._region(name))

    def resume(self) -> None:
        """Boots what was running when the process ended."""
        for name, instance in self._shelf.everywhere("instance"):
            if alive(instance) and instance["Status"] != "Stopped":
                boxes.boot(self._region(name), instance)

    def power_off(self, box: str) -> None:
        """The guest switched itself off."""
        with self._world.database.transaction():
            for name, instance in self._shelf.everywhere("instance"):
                if instance["InstanceId"] == box:
                    changes.power_off(self._region(name), instance)

    @property
    def notice_s(self) -> float:
        """ECS user guide: five minutes."""
        return 300.0

    def interrupt(self, instance: str, at: datetime) -> None:
        """Takes a spot instance back."""
        for name, each in self._shelf.everywhere("instance"):
            if each["InstanceId"] == instance and each["_purchase"] == "spot" and alive(each):
                instances.interrupt(self._region(name), each, at)
                return
        raise UnknownResourceError(f"{instance} is no running spot instance")

    def reset(self) -> None:
        """Forgets everything and ends all instances."""
        for name, instance in self._shelf.everywhere("instance"):
            if alive(instance):
                boxes.end(self._region(name), instance)
        for _, disk in self._shelf.everywhere("disk"):
            self._world.boxes.wipe(disk["DiskId"])
        for _, snapshot in self._shelf.everywhere("snapshot"):
            self._world.boxes.wipe(snapshot["SnapshotId"])
        self._shelf.clear()
        self._oss.forget()
        permissions.forget(self._world)
        account.forget(self._world)
        for setting in (VANISHING, "alibaba_token"):
            self._world.database.keep_setting(setting, None)

    # --- one call

    def _verify(self, request: Request) -> Credential:
        """Whose request this is."""
        clock, known = self._world.clock, self._credentials()
        return known[self._signatures.verify(request, known, now=clock.now(), unmoved=clock.unmoved())]

    def _credentials(self) -> dict[str, Credential]:
        """The account's keys: its own, the temporary one if there is one, and those of sessions of roles."""
        credentials = {self._key: Credential(secret=self._secret)}
        if expires := self._world.database.setting("alibaba_token"):
            until = datetime.fromisoformat(expires["until"])
            credentials["STS.sandbox"] = Credential(secret=self._secret, token=expires["token"], until=until)
        return {**credentials, **sessions.credentials(self._shelf)}

    def _do(self, request: Request, caller: Credential) -> Mapping[str, Any]:
        product, action, flat = wire.asked(request)
        if product not in wire.VERSIONS.values():
            raise AlibabaError("InvalidVersion", "Specified parameter Version is not valid.")
        review_action(action)
        validation.check(product, action, flat)
        validation.check_emulated(product, action, flat)
        parameters = wire.nested(flat)
        name = flat.get("RegionId") or self._region_with(action, parameters)
        if name not in known_regions(self._world):
            raise AlibabaError("InvalidRegionId.NotFound", "The specified RegionId does not exist.", 404)
        region = self._region(name)
        if product == "sts":
            region = self._region(HOME)  # one service for all regions
        role = {"resource": parameters["RoleArn"]} if action == "AssumeRole" else {}
        silent = permissions.check(region, product, action, parameters, grants=caller.grants, **role)
        if silent is not None:
            return silent
        with self._world.database.transaction():
            _settle(region)
            try:
                answer = ACTIONS[product, action](region, parameters)
            except KeptError as kept:
                refused = AlibabaError(kept.code, kept.message, kept.status)
            else:
                _settle(region)
                return answer
        raise refused

    def _region_with(self, action: str, parameters: Mapping[str, Any]) -> str:
        """The region of the resource that a call names, for calls that name no region."""
        member, kind = permissions.NAMED.get(action, ("", ""))
        asked: str | list[str] = parameters.get(member) or []
        ids = [asked] if isinstance(asked, str) else asked
        known = self._shelf.everywhere(kind) if ids else ()
        return next((name for name, each in known if each[ID_KEYS[kind]] in ids), HOME)

    def _region(self, name: str) -> Region:
        return Region(self._world, self._shelf, name)

    def _request_id(self) -> str:
        digits = self._world.token(32).upper()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def _warm_up(self) -> None:
        catalog = self._world.market.catalog(CLOUD)
        _ = catalog.types, catalog.offered
        validation.parameters_of("ecs", "RunInstances")

    # --- controls

    def _reserve(self, values: Mapping[str, Any]) -> Any:
        pool = grant(
            self._region(values["region"]),
            zone=values["zone"],
            instance_type=values["instance_type"],
            count=int(values.get("count", 1)),
        )
        return pool["PrivatePoolOptionsId"]

    def _commit(self, values: Mapping[str, Any]) -> Any:
        return reserved.grant(self._region(values["region"]), values)["ReservedInstanceId"]

    def _quota(self, values: Mapping[str, Any]) -> Any:
        set_limit(self._region(values["region"]), values["name"], int(values["value"]))
        return {}

    def _deny(self, values: Mapping[str, Any]) -> Any:
        permissions.deny(self._world, list(values["actions"]))
        return {}

    def _policy(self, values: Mapping[str, Any]) -> Any:
        permissions.set_policy(self._world, values["document"])
        return {}

    def _balance(self, values: Mapping[str, Any]) -> Any:
        account.set_balance(self._world, enough=bool(values["enough"]))
        return {}

    def _close(self, values: Mapping[str, Any]) -> Any:
        account.close(self._world, list(values["regions"]))
        return {}

    def _real_name(self, values: Mapping[str, Any]) -> Any:
        account.set_real_name(self._world, verified=bool(values["verified"]))
        return {}

    def _vanish(self, values: Mapping[str, Any]) -> Any:
        self._world.database.keep_setting(VANISHING, list(values["instance_types"]))
        return {}

    def _expire(self, values: Mapping[str, Any]) -> Any:
        """Gives temporary credentials that end at a time; the same secret, key ``STS.sandbox``."""
        token = {"token": self._world.token(40), "until": values["until"]}
        self._world.database.keep_setting("alibaba_token", token)
        return {"key": "STS.sandbox", "secret": self._secret, "token": token["token"]}

    def _role(self, values: Mapping[str, Any]) -> Any:
        return sessions.make_role(self._region(HOME), values)

    def _kms_key(self, values: Mapping[str, Any]) -> Any:
        """A key of KMS, which itself is not emulated."""
        return self._region(values["region"]).put("key", {"KeyId": f"key-{self._world.token(20)}"})["KeyId"]


def _settle(region: Region) -> None:
    """Applies what is due by the clouds' time."""
    for part in (instances, interfaces, network, snapshots, eips):
        part.settle(region)


def _refusal(failure: AlibabaError, call: Call, request_id: str) -> Response:
    """A refusal in the form of the product that was called."""
    if call.service == oss.SERVICE:
        return oss.error(failure, request_id, head=call.action == "HeadObject")
    return wire.error(failure, request_id, f"{call.service}.{call.region}.aliyuncs.com")
