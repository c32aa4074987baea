"""The dummy cloud's network: pipes ssh to the loopback port behind an address (``route.py FOLDER HOST``)."""

import json
import socket
import sys
from pathlib import Path

from gpucloud_sandbox.connect import pipe

if __name__ == "__main__":
    ports = json.loads((Path(sys.argv[1]) / "ports.json").read_text())
    if sys.argv[2] not in ports:
        sys.exit(f"connect to host {sys.argv[2]} port 22: No route to host")
    pipe(socket.create_connection(("127.0.0.1", ports[sys.argv[2]])))
