"""Takes gpucloud's notices on a port of this machine, and prints their texts: `python3 receiver.py 9000`."""

import hashlib
import hmac
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = b"change-me"
OLDEST_S = 300


class Receiver(BaseHTTPRequestHandler):
    """Refuses what was not signed with the secret, and what is old: somebody may have kept it."""

    def do_POST(self) -> None:
        """One notice."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        sent = self.headers.get("X-Gpucloud-Timestamp", "0")
        signature = "sha256=" + hmac.new(SECRET, sent.encode() + b"." + body, hashlib.sha256).hexdigest()
        genuine = hmac.compare_digest(signature, self.headers.get("X-Gpucloud-Signature", ""))
        good = genuine and abs(time.time() - int(sent)) < OLDEST_S
        if good:
            print(json.loads(body)["text"], flush=True)
        self.send_response(204 if good else 403)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Prints notices alone."""


HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
