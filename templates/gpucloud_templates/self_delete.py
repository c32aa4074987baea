"""Deletes the machine that it runs on, with the machine's own identity. Argument: a file that tells how."""

import json
import os
import sys
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

told = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
metadata = os.environ.get("GPUCLOUD_METADATA_URL") or told["url"]
direct = build_opener(ProxyHandler({}))  # the service answers nobody who was sent by a proxy
answers = [
    direct.open(Request(metadata + told[question], headers=told["headers"]), timeout=10).read().decode()
    for question in ("token", "name")
]
headers = {"Authorization": f"Bearer {json.loads(answers[0])['access_token']}"}
deletion = Request(told["endpoint"] + answers[1] + told["query"], headers=headers, method="DELETE")
build_opener().open(deletion, timeout=10)
