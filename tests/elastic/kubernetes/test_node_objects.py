"""The Node objects of machines that are gone, with an API server that keeps what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from gpucloud.elastic.kubernetes.node_objects import NodeObjects, NodeObjectsError, gone
from tests.elastic.kubernetes import certificates as made

OLD, NEW, FOREIGN = "gpucloud://aws/use1-az1/i-1", "gpucloud://aws/use1-az1/i-2", "aws:///us-east-1a/i-3"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[tuple[NodeObjects, list[str]]]:
    """An API server with three nodes, and what it was asked."""
    folder, asked = made.make(tmp_path / "pem"), list[str]()
    nodes = {"old": OLD, "new": NEW, "other": FOREIGN}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(
                {"items": [{"metadata": {"name": n}, "spec": {"providerID": i}} for n, i in nodes.items()]}
            )

        def do_DELETE(self) -> None:
            name = self.path.rpartition("/")[2]
            self.answer({}, 200 if nodes.pop(name, None) else 404)

        def answer(self, document: object, status: int = 200) -> None:
            asked.append(f"{self.command} {unquote(self.path)}")
            status = status if self.headers["Authorization"] == "Bearer the-token" else 403
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    (folder / "token").write_text("the-token\n")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield NodeObjects("127.0.0.1", server.server_port, folder), asked
        server.shutdown()


def test_only_nodes_whose_machine_is_known_to_be_gone_are_deleted(api: tuple[NodeObjects, list[str]]) -> None:
    objects, asked = api
    listed = objects.provider_ids("lab")
    assert listed == {"old": OLD, "new": NEW, "other": FOREIGN}
    assert asked == ["GET /api/v1/nodes?labelSelector=gpucloud/cluster=lab"]
    assert gone(listed, living={NEW}, ended={OLD, FOREIGN}) == ["old"]
    assert gone(listed, living={NEW}, ended=set()) == [], "a lost journal knows nothing"
    for _ in range(2):
        objects.delete("old")
    assert "old" not in objects.provider_ids("lab")


def test_an_api_that_refuses_or_is_somebody_else_is_told(api: tuple[NodeObjects, list[str]]) -> None:
    objects, _ = api
    (objects.folder / "token").write_text("another")
    with pytest.raises(NodeObjectsError, match="answered 403"):
        objects.provider_ids("lab")
    (objects.folder / "ca.crt").write_bytes((objects.folder / "stranger.crt").read_bytes())
    with pytest.raises(NodeObjectsError, match="certificate verify failed"):
        objects.provider_ids("lab")
