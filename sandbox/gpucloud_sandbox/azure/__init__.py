"""Azure in the sandbox: Resource Manager over TLS, the tenant's token endpoint, the Retail Prices API.

The vendor's SDKs, ``az`` and everything else that takes another Resource Manager endpoint run against it
unmodified. Bodies are held against the SDK's own models; what they mean is written here by hand.
"""

from __future__ import annotations

import hmac
import logging
import shutil
import ssl
import threading
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from werkzeug.wrappers import Request, Response

from gpucloud_sandbox.azure import (
    blob_delegation,
    blob_wire,
    blobs,
    boxes,
    catalog,
    instances,
    network,
    permissions,
    prices,
    quotas,
    reservations,
    reserved,
    resources,
    restrictions,
    router,
    routes,
    tls,
    validation,
    wire,
)
from gpucloud_sandbox.azure.entra import OBJECT, TENANT, Entra
from gpucloud_sandbox.azure.foreign import azure_cli
from gpucloud_sandbox.azure.subscription import (
    CLOUD,
    DISK,
    GROUP,
    MACHINE,
    SNAPSHOT,
    SUBSCRIPTION,
    VERSION,
    Subscription,
)
from gpucloud_sandbox.azure.wire import AzureError, HiddenError
from gpucloud_sandbox.database import Shelf
from gpucloud_sandbox.emulator import Control, UnknownResourceError, World
from gpucloud_sandbox.faults import Call, Effect, Fault

_LOG = logging.getLogger(__name__)

PRICES_PATH = "/api/retail/prices"
CONSOLE_PATH = "/console/"
BLOBS = "azure-blobs"
"""The folder of what blobs hold, in the sandbox's."""


class AzureSandbox:
    """The emulated Azure (an :class:`gpucloud_sandbox.emulator.Emulator`)."""

    name = CLOUD

    def __init__(self, world: World) -> None:
        self._world = world
        self._shelf = Shelf(world.database, CLOUD)
        self._entra = Entra(world)
        self._tls, self._authority = tls.context(world.folder)
        world.box_environ["SSL_CERT_FILE"] = str(self._authority)
        self._subscription = Subscription(world, self._shelf, self._entra.client, self._entra.issue)
        self._reading_models = threading.Lock()

    @property
    def tls(self) -> ssl.SSLContext | None:
        """A certificate for loopback, by an authority of the sandbox's own."""
        return self._tls

    @property
    def controls(self) -> Mapping[str, Control]:
        """Quotas, held capacity, roles, registrations, features, restrictions, the life of tokens."""
        return {
            "reserve": lambda values: reservations.grant(self._subscription, values),
            "commit": lambda values: reserved.grant(self._subscription, values),
            "quota": self._quota,
            "deny": self._deny,
            "policy": self._policy,
            "register": self._register,
            "feature": self._feature,
            "restrict": self._restrict,
            "token-life": self._token_life,
        }

    def environment(self, origin: str) -> Mapping[str, str]:
        """What makes azure-identity, ``az`` and gpucloud come here, and trust who answers."""
        folder = azure_cli.prepare(self._world.folder, origin, self._entra.client, self._entra.secret)
        return {
            "AZURE_CONFIG_DIR": str(folder),
            "AZURE_TENANT_ID": TENANT,
            "AZURE_CLIENT_ID": self._entra.client,
            "AZURE_CLIENT_SECRET": self._entra.secret,
            "AZURE_SUBSCRIPTION_ID": SUBSCRIPTION,
            "AZURE_AUTHORITY_HOST": origin,
            "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential",
            "GPUCLOUD_AZURE_ENDPOINT": origin,
            "GPUCLOUD_AZURE_PRICES_URL": origin + PRICES_PATH,
            "REQUESTS_CA_BUNDLE": str(tls.bundle(self._world.folder)),
            "NODE_EXTRA_CA_CERTS": str(self._authority),
        }

    @property
    def unexported(self) -> frozenset[str]:
        """None."""
        return frozenset()

    def identify(self, request: Request) -> Call:
        """Which call this is: the method (``LIST`` for lists) and the resource type's last word."""
        account, names = blobs.target(self._subscription, request.path)
        if account is not None:
            action = blob_wire.name_of(request, names)
            return Call(
                cloud=CLOUD,
                service="blob",
                action=action,
                region=account["location"],
                mutating=request.method not in {"GET", "HEAD"} and action != blob_delegation.OPERATION,
            )
        route = routes.route(request)
        return Call(
            cloud=CLOUD,
            service=route.service,
            action=f"{route.verb} {route.what}",
            region=self._region_of(route),
            mutating=request.method not in {"GET", "HEAD"} and route.service not in {"entra", "prices"},
        )

    def answer(self, request: Request, call: Call) -> Response:
        """Checks the token, does what the call asks, and answers."""
        try:
            return self._blob(request) if call.service == "blob" else self._respond(self._do(request))
        except AzureError as failure:
            return self._refuse(failure, call)
        except Exception:  # a fault of ours must not look like a broken protocol
            _LOG.exception("%s failed", call.action)
            text = "This is a fault of the gpucloud sandbox; its log says more."
            return self._refuse(AzureError("InternalServerError", text, 500), call)

    def fail(self, call: Call, fault: Fault) -> Response:
        """The answer that a fault makes."""
        failure = AzureError(fault.code, fault.message, fault.status)
        if fault.effect is Effect.THROTTLE:
            text = "The request is being throttled as the limit has been reached."
            failure = AzureError("TooManyRequests", text, 429, **{"Retry-After": "1"})
        return self._refuse(failure, call)

    def admits(self, box: str, port: int, source: str) -> bool:
        """Whether a machine runs and its firewall lets ``source`` in."""
        with self._world.database.transaction():
            resources.settle(self._subscription)
            machine = instances.by_box(self._subscription, box)
            if machine is None or machine["_power"] != "running" or machine["_gone_at"] is not None:
                return False
            return any(
                network.admits(self._subscription, nic, port, source)
                for nic, _ in instances.nics_of(self._subscription, machine)
            )

    def tick(self) -> None:
        """Lets transitions, schedules and evictions happen that are due."""
        if self._subscription.all(MACHINE) or self._subscription.all(GROUP):
            with self._world.database.transaction():
                resources.settle(self._subscription)

    def resume(self) -> None:
        """Boots what was running when the process ended."""
        for machine in list(self._subscription.all(MACHINE).values()):
            on = machine["_power"] in {"running", "starting"}
            if on and not machine["_failed"] and machine["_gone_at"] is None:
                boxes.boot(self._subscription, machine)

    def power_off(self, box: str) -> None:
        """The guest switched itself off."""
        with self._world.database.transaction():
            machine = instances.by_box(self._subscription, box)
            if machine is not None:
                instances.guest_stopped(self._subscription, machine)

    @property
    def notice_s(self) -> float:
        """Azure-compute-docs, spot-vms.md: "up to 30 seconds"."""
        return 30.0

    def interrupt(self, instance: str, at: datetime) -> None:
        """Evicts a Spot machine, named by its id."""
        machine = self._subscription.find(MACHINE, instance) if instance.startswith("/") else None
        if machine is None or machine["_purchase"] != "spot" or machine["_failed"]:
            raise UnknownResourceError(f"{instance} is no running Spot machine")
        instances.evict(self._subscription, machine, at)

    def reset(self) -> None:
        """Forgets everything and ends all machines."""
        for machine in self._subscription.all(MACHINE).values():
            boxes.end(self._subscription, machine)
        for kind in (DISK, SNAPSHOT):
            for stored in self._subscription.all(kind).values():
                self._world.boxes.wipe(stored["properties"]["uniqueId"])
        for version in self._subscription.all(VERSION).values():
            self._world.boxes.wipe(version["_files"])
        self._shelf.clear()
        shutil.rmtree(self._world.folder / BLOBS, ignore_errors=True)
        permissions.forget(self._subscription)
        restrictions.restrict(self._subscription, [])
        self._entra.set_life(None)

    # --- one call

    def _do(self, request: Request) -> wire.Answer:
        origin = request.host_url.rstrip("/")
        if self._entra.answers(request.path):
            # A client that signs in soon sends a body: the models take a second to read.
            threading.Thread(target=self._read_models, daemon=True).start()
            return self._entra.answer(request)
        if request.path == PRICES_PATH:
            return prices.answer(self._subscription, origin, request.args.to_dict())
        if request.path.startswith(CONSOLE_PATH):
            return self._console(request)
        if request.path == "/metadata/endpoints":
            return router.endpoints(origin)
        caller = self._entra.check(request)
        subscription = self._subscription if caller == OBJECT else self._subscription.as_seen_by(caller)
        if request.method in {"PUT", "POST", "PATCH"}:
            self._read_models()
        with self._world.database.transaction():
            resources.settle(self._subscription)
        with self._world.database.transaction():
            try:
                answer = router.answer(subscription, request, origin, partial(self._console_url, origin))
            except HiddenError as hidden:  # that it was looked for is kept
                return wire.Answer(status=hidden.status, body=wire.error_body(hidden))
            resources.settle(self._subscription)
        return answer

    def _respond(self, answer: wire.Answer) -> Response:
        return wire.respond(answer, self._subscription.new_uuid(), self._world.clock.now())

    def _blob(self, request: Request) -> Response:
        account, names = blobs.target(self._subscription, request.path)
        if account is not None and blob_wire.name_of(request, names) == blob_delegation.OPERATION:
            caller = self._entra.check(request, {blob_delegation.AUDIENCE})
            subscription = self._subscription if caller == OBJECT else self._subscription.as_seen_by(caller)
            answer = blob_delegation.give_key(subscription, account, request, caller)
            return blob_wire.mark(answer, request, self._subscription.new_uuid())
        with self._world.database.transaction():
            answer = blobs.answer(self._subscription, self._world.folder / BLOBS, request)
        return blob_wire.mark(answer, request, self._subscription.new_uuid())

    def _refuse(self, failure: AzureError, call: Call) -> Response:
        refuse = blob_wire.refuse if call.service == "blob" else wire.refuse
        return refuse(failure, self._subscription.new_uuid(), self._world.clock.now())

    def _read_models(self) -> None:
        with self._reading_models:
            validation.warm_up()

    def _console_url(self, origin: str, box: str, minutes: int) -> str:
        ends = int(self._world.clock.now().timestamp()) + minutes * 60
        return f"{origin}{CONSOLE_PATH}{box}?se={ends}&sig={self._entra.seal(f'{box} {ends}')}"

    def _console(self, request: Request) -> wire.Answer:
        """The console output of a box, for any client with its URL."""
        box, ends = request.path.removeprefix(CONSOLE_PATH), request.args.get("se", "0")
        seal = self._entra.seal(f"{box} {ends}")
        if not hmac.compare_digest(request.args.get("sig", "").encode(), seal.encode()):
            raise AzureError("AuthenticationFailed", "The signature of the address is not valid.", 403)
        if int(ends) < self._world.clock.now().timestamp():
            raise AzureError("AuthenticationFailed", "The signature of the address has expired.", 403)
        return wire.Answer(text=self._world.boxes.console(box))

    def _region_of(self, route: routes.Route) -> str:
        if route.location:
            return route.location
        if route.id and route.kind:
            known = self._subscription.find(route.kind, route.id)
            if known is not None:
                return str(known["location"])
        if route.group:
            group_id = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{route.group}"
            group = self._subscription.find(GROUP, group_id)
            if group is not None:
                return str(group["location"])
        return ""

    # --- controls

    def _quota(self, values: Mapping[str, Any]) -> Any:
        quotas.set_limit(self._subscription, values["region"], values["name"], int(values["value"]))
        return {}

    def _policy(self, values: Mapping[str, Any]) -> Any:
        permissions.set_policy(self._subscription, values["document"])
        return {}

    def _deny(self, values: Mapping[str, Any]) -> Any:
        permissions.deny(self._subscription, list(values["actions"]))
        return {}

    def _register(self, values: Mapping[str, Any]) -> Any:
        permissions.register(self._subscription, values["namespace"], registered=bool(values["registered"]))
        return {}

    def _feature(self, values: Mapping[str, Any]) -> Any:
        catalog.set_feature(self._subscription, str(values["name"]), registered=bool(values["registered"]))
        return {}

    def _restrict(self, values: Mapping[str, Any]) -> Any:
        restrictions.restrict(self._subscription, list(values["rules"]))
        return {}

    def _token_life(self, values: Mapping[str, Any]) -> Any:
        self._entra.set_life(int(values["seconds"]))
        return {}
