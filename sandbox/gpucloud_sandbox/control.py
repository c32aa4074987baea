"""The control API of the sandbox: JSON over HTTP on loopback, with a token. The client is ``client.py``."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from decimal import Decimal
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from werkzeug.wrappers import Request, Response

from gpucloud_sandbox.boxes_nvidia import SICKNESSES
from gpucloud_sandbox.emulator import CALLER_ADDRESS, Emulator, UnknownResourceError, World
from gpucloud_sandbox.faults import Effect, Fault, Faults, Stage
from gpucloud_sandbox.front import Traffic
from gpucloud_sandbox.ledger import billing_document
from gpucloud_sandbox.market import PriceMove, Stock
from gpucloud_sandbox.review import Review

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

Body = Mapping[str, Any]


class Control:
    """The WSGI application of the control API.

    Args:
        world: what the emulators share.
        emulators: the clouds.
        endpoints: where each cloud listens.
        faults: the rules in force.
        traffic: the counters.
        token: what a caller must send as ``Authorization: Bearer``.
        stop: ends the process.
    """

    def __init__(
        self,
        *,
        world: World,
        emulators: Sequence[Emulator],
        endpoints: Mapping[str, str],
        faults: Faults,
        traffic: Traffic,
        token: str,
        stop: Callable[[], None],
    ) -> None:
        self._world = world
        self._emulators = {emulator.name: emulator for emulator in emulators}
        self._endpoints = endpoints
        self._faults = faults
        self._traffic = traffic
        self._token = token
        self._stop = stop
        self._actions: dict[str, Callable[[Body], Any]] = {
            "status": self.status,
            "stop": self.stop,
            "reset": self.reset,
            "pace": self.pace,
            "review": self.review,
            "stock": self.stock,
            "price": self.price,
            "fault": self.fault,
            "interrupt": self.interrupt,
            "gpu": self.gpu,
            "clock": self.clock,
            "address": self.address,
            "calls": self.calls,
            "received": self.received,
            "ledger": self.ledger,
            "cloud": self.cloud,
        }

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answers one request: ``POST /ACTION`` with a JSON object."""
        request = Request(environ)
        status, answer = self._respond(request)
        return Response(json.dumps(answer), status, mimetype="application/json")(environ, start_response)

    def _respond(self, request: Request) -> tuple[int, Any]:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not secrets.compare_digest(given.encode(), self._token.encode()):
            return 403, {"error": "the control token is wrong"}
        action = self._actions.get(request.path.strip("/"))
        if action is None:
            return 404, {"error": f"no action {request.path}"}
        try:
            body = json.loads(request.get_data() or b"{}")
            with self._world.database.transaction():
                return 200, action(body)
        except _BusyError as busy:
            return 409, {"error": str(busy), **billing_document(self._world.ledger.billing())}
        except KeyError as missing:
            return 400, {"error": f"{missing} is missing, or names nothing"}
        except (UnknownResourceError, TypeError, ValueError, ArithmeticError) as error:
            return 400, {"error": str(error) or type(error).__name__}

    def status(self, _body: Body) -> Any:
        """What runs where, and what is billed."""
        self._tick()
        return {
            "running": True,
            "endpoints": dict(self._endpoints),
            **billing_document(self._world.ledger.billing()),
            "pace": asdict(self._world.dials.pace),
            "review": self._world.dials.review,
            "caller_address": self._world.dials.caller_address,
            "clock": self._world.clock.now().isoformat(),
            "clock_ahead_s": self._world.clock.offset.total_seconds(),
        }

    def stop(self, body: Body) -> Any:
        """Ends the process; refuses while something is billed, unless forced."""
        self._tick()
        billing = self._world.ledger.billing()
        if billing and not body.get("force"):
            count = "1 resource is" if len(billing) == 1 else f"{len(billing)} resources are"
            raise _BusyError(f"{count} still billed in the sandbox")
        self._stop()
        return {}

    def reset(self, _body: Body) -> Any:
        """Resets everything except the delays and the choice of what is reviewed."""
        for emulator in self._emulators.values():
            emulator.reset()
        self._world.ledger.reset(self._world.clock.now())
        self._world.addresses.clear()
        self._world.market.reset()
        self._faults.clear()
        self._traffic.clear()
        self._world.dials.set_caller_address(CALLER_ADDRESS)
        self._world.boxes.make_unhealthy(SICKNESSES[0], 0)
        self._world.clock.reset()  # last: what ends here ends by the time at which it was billed
        self._keep_clock()
        return {}

    def pace(self, body: Body) -> Any:
        """Changes the clouds' delays; returns the current ones."""
        self._world.dials.set_pace(body)
        return asdict(self._world.dials.pace)

    def review(self, body: Body) -> Any:
        """Changes which requests the reviewers examine."""
        self._world.dials.set_review(Review(body["review"]))
        return {}

    def stock(self, body: Body) -> Any:
        """Limits the stock; returns all rules."""
        if body:
            self._world.market.set_stock(Stock(**body))
        return [asdict(rule) for rule in self._world.market.stock]

    def price(self, body: Body) -> Any:
        """Changes a price; returns all changes."""
        if body:
            numbers = [Decimal(body[name]) for name in ("amount", "factor") if body.get(name) is not None]
            if len(numbers) != 1:
                raise ValueError("a price is moved either to an amount or by a factor")
            if not numbers[0] > 0:
                raise ValueError("a price is above 0")
            if body.get("tariff") and body.get("amount") is not None:
                raise ValueError("a tariff has several steps: it is moved by a factor")
            self._world.market.move_price(PriceMove(**body), self._world.clock.now())
        return [asdict(move) for move in self._world.market.moves]

    def fault(self, body: Body) -> Any:
        """Adds a fault, or with ``clear`` removes one or all; returns the active ones."""
        if "clear" in body:
            self._faults.clear(body["clear"])
        elif body:
            stage = Stage(body.get("stage", Stage.RECEIVED))
            fields: dict[str, Any] = {**body, "effect": Effect(body["effect"]), "stage": stage}
            self._faults.add(Fault(**fields))
        return [
            {"number": number, "struck": self._faults.struck(number), **asdict(rule)}
            for number, rule in self._faults.rules().items()
        ]

    def interrupt(self, body: Body) -> Any:
        """Interrupts a spot instance, after a notice; by default its cloud's usual one."""
        given = body.get("notice_s")
        for emulator in self._emulators.values():
            at = self._world.clock.now() + timedelta(seconds=emulator.notice_s if given is None else given)
            try:
                emulator.interrupt(body["instance"], at)
            except UnknownResourceError:
                continue
            emulator.tick()
            return {"at": at.isoformat()}
        raise UnknownResourceError(f"no running spot instance {body['instance']}")

    def gpu(self, body: Body) -> Any:
        """Gives the next boxes a faulty GPU."""
        self._world.boxes.make_unhealthy(str(body["sickness"]), int(body["times"]))
        return {}

    def clock(self, body: Body) -> Any:
        """Moves the clouds' time ahead."""
        seconds = float(body.get("advance_s", 0))
        if seconds < 0:
            raise ValueError("time goes one way")
        self._world.clock.advance(timedelta(seconds=seconds))
        self._keep_clock()
        self._world.boxes.tell_time()
        self._tick()
        return {"now": self._world.clock.now().isoformat()}

    def address(self, body: Body) -> Any:
        """Changes the caller's address."""
        if body:
            self._world.dials.set_caller_address(str(ip_address(body["address"])))
        return {"address": self._world.dials.caller_address}

    def calls(self, body: Body) -> Any:
        """How often each call came in; ``clear`` resets the counters afterwards."""
        with self._traffic.lock:
            counted = [{**asdict(call), "count": count} for call, count in self._traffic.calls.items()]
        if body.get("clear"):
            self._traffic.clear()
        return counted

    def received(self, body: Body) -> Any:
        """The newest calls one by one, oldest first; ``clear`` forgets them afterwards."""
        received = self._traffic.received()
        if body.get("clear"):
            self._traffic.clear()
        return [
            {
                **asdict(each.call),
                "at": each.at.isoformat(timespec="milliseconds"),
                "status": each.status,
                "milliseconds": each.milliseconds,
                "concurrent": each.concurrent,
            }
            for each in received
        ]

    def ledger(self, _body: Body) -> Any:
        """Everything that was ever billed, from start to end."""
        return list(self._world.ledger.history())

    def cloud(self, body: Body) -> Any:
        """Changes a setting of one cloud."""
        emulator = self._emulators.get(body["cloud"])
        if emulator is None:
            raise UnknownResourceError(f"no cloud {body['cloud']!r}; there are {', '.join(self._emulators)}")
        control = emulator.controls.get(body["control"])
        if control is None:
            names = ", ".join(sorted(emulator.controls))
            raise UnknownResourceError(f"{emulator.name} has no control {body['control']!r}; it has {names}")
        return control(body.get("values", {}))

    def _keep_clock(self) -> None:
        self._world.database.keep_setting("clock_offset_s", self._world.clock.offset.total_seconds())

    def _tick(self) -> None:
        for emulator in self._emulators.values():
            emulator.tick()


class _BusyError(Exception):
    """Something is billed."""
