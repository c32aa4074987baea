"""Serves the page at 127.0.0.1: itself, its script and style, timelines, a stream of newer documents."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpucloud.api.metrics import Metrics
from gpucloud.dashboard.access import HEADERS, Access
from gpucloud.dashboard.feed import Feed
from gpucloud.dashboard.page import SCRIPT, STYLE, served_page, static
from gpucloud.dashboard.reading import PageReader
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.monitor.server import answer

BEAT_S = 15.0
"""How often a stream says that it lives: the page is greyed out after 30 s without a word."""
GLANCE_S = 0.5
"""How often a stream looks whether there is something to send, and whether the server ends."""
END_S = 2.0
"""How long to wait for the server to end its streams."""
LOGIN = "open the address that gpucloud dashboard printed; each one-time address leads in once"


@dataclass(frozen=True, slots=True)
class Site:
    """The answers of the page."""

    feed: Feed
    access: Access
    reader: PageReader
    metrics: Metrics
    ended: threading.Event

    def app(self) -> Starlette:
        """The application."""
        return Starlette(
            routes=[
                Route("/", self.page),
                Route("/events", self.events),
                Route("/timeline", self.timeline),
                Route(f"/{SCRIPT}", self.script),
                Route(f"/{STYLE}", self.style),
                Route("/metrics", self.of_metrics),
                Route("/sd", self.of_metrics),
                Route("/box/{box}/metrics", self.of_metrics),
            ]
        )

    async def page(self, _: Request) -> Response:
        """The page, with what it shows now."""
        try:
            moment = await run_in_threadpool(self.feed.read)
        except GpucloudError as error:
            return PlainTextResponse(f"{error.message}\n{error.hint or ''}\n", 503)
        return Response(served_page(moment.text), media_type="text/html")

    async def script(self, _: Request) -> Response:
        """Its script."""
        return Response(static(SCRIPT), media_type="text/javascript")

    async def style(self, _: Request) -> Response:
        """Its style."""
        return Response(static(STYLE), media_type="text/css")

    async def timeline(self, request: Request) -> Response:
        """The timeline of one box."""
        try:
            found = await run_in_threadpool(self.reader.timeline, request.query_params.get("box", ""))
        except GpucloudError as error:
            return PlainTextResponse(error.message, 503)
        return JSONResponse(found)

    async def of_metrics(self, request: Request) -> Response:
        """What ``gpucloud metrics serve`` answers."""
        url, address = request.url, f"127.0.0.1:{self.access.port}"
        path = f"{url.path}?{url.query}"
        status, kind, text = await run_in_threadpool(answer, self.metrics, path, address)
        return Response(text, status, media_type=kind)

    async def events(self, request: Request) -> Response:
        """The stream of documents. ``Last-Event-ID``, or ``cursor``, is that of the document the page has."""
        known = request.headers.get("last-event-id") or request.query_params.get("cursor")
        return StreamingResponse(self._stream(known), media_type="text/event-stream")

    async def _stream(self, known: str | None) -> AsyncGenerator[str]:
        self.feed.watchers += 1
        try:
            latest = self.feed.latest
            shown = latest.number if latest and str(latest.cursor) == known else 0
            said_at, trouble = 0.0, None
            while not self.ended.is_set():
                latest, now = self.feed.latest, time.monotonic()
                if self.feed.trouble != trouble and (trouble := self.feed.trouble):
                    yield _event("trouble", trouble)
                elif latest and latest.number != shown:
                    shown, said_at = latest.number, now
                    yield _event("document", latest.text, latest.cursor)
                elif now - said_at >= BEAT_S and self.feed.is_current:
                    said_at = now
                    yield _event("beat", "")
                await asyncio.sleep(GLANCE_S)
        finally:
            self.feed.watchers -= 1


def _event(name: str, text: str, cursor: int | None = None) -> str:
    """One event of a stream; the text has no line breaks of its own."""
    number = "" if cursor is None else f"id: {cursor}\n"
    return f"{number}event: {name}\ndata: {' '.join(text.splitlines())}\n\n"


@dataclass(frozen=True, slots=True)
class Gate:
    """Lets requests pass that may read, and adds the headers of every answer."""

    app: ASGIApp
    access: Access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app = self._refusal(scope) or self.app
        await app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer that is given instead of what was asked for."""
        request, headers = Request(scope), Headers(scope=scope)
        if refused := self.access.refusal(headers):
            return PlainTextResponse(refused[1], refused[0])
        if request.method != "GET":
            return PlainTextResponse("this page only reads", 405, {"Allow": "GET"})
        if request.url.path == "/favicon.ico":
            return Response(status_code=204)
        token = request.query_params.get("token")
        if request.url.path == "/" and token is not None and self.access.admits(token):
            return RedirectResponse("/", 303, {"Set-Cookie": self.access.cookie})
        return None if self.access.may_read(request.url.path, headers) else PlainTextResponse(LOGIN, 401)


@contextmanager
def serving(reader: PageReader, port: int, metrics_token: str | None = None) -> Generator[Access]:
    """Serves the page while the body runs; gives its addresses.

    Args:
        reader: reads what it shows.
        port: the port; 0 for any free one.
        metrics_token: with which Prometheus reads metrics; ``None`` for none.

    Raises:
        UsageError: the port cannot be had.
    """
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise UsageError(
            f"port {port} cannot be opened at 127.0.0.1: {error.strerror or error}",
            hint="choose another --port, or none: any free one is taken",
        ) from error
    with listener:
        access, ended = Access(listener.getsockname()[1], metrics_token), threading.Event()
        feed = Feed(reader)
        site = Site(feed, access, reader, reader.client.metrics, ended)
        server = uvicorn.Server(
            uvicorn.Config(
                Gate(site.app(), access),
                log_config=None,  # its log would hold addresses with their token
                access_log=False,
                lifespan="off",
                loop="asyncio",
                http="h11",
                ws="none",
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        feed.start()
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            yield access
        finally:
            ended.set()
            feed.end()
            server.should_exit = True
            thread.join(END_S)
