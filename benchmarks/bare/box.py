"""What the baselines share: the offer, keys, user-data, tags, and the wait for the GPUs over ssh."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ATTEMPTS = 100
USER_DATA = """#cloud-config
ssh_keys:
  ed25519_private: |
    {private}
  ed25519_public: {public}
users:
- name: bare
  sudo: ALL=(ALL) NOPASSWD:ALL
  ssh_authorized_keys: ['{key}']
"""


@dataclass(frozen=True)
class BareBox:
    """One box of a script: ``folder`` holds its keys."""

    folder: Path
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @cached_property
    def offer(self) -> Any:
        """What to buy: ``region``, ``zone``, ``instance_type``, and ``regions`` whose price is asked."""
        return json.loads(os.environ["BARE"])

    @cached_property
    def tags(self) -> dict[str, str]:
        """The five tags."""
        values = {"owner": "bench", "box": self.id, "op": self.id, "run": "", "expires": "none"}
        return {f"gpucloud:{key}": value for key, value in values.items()}

    def caller(self) -> str:
        """The caller's network, as the echo says."""
        with urlopen(os.environ["GPUCLOUD_ECHO_URL"]) as answer:  # noqa: S310
            return f"{answer.read().decode().strip()}/32"

    def user_data(self) -> str:
        """Cloud-config with a user and a host key, both made now."""
        for name in ("user", "host"):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)]
            subprocess.run(argv, check=True)
        private = (self.folder / "host").read_text().strip().replace("\n", "\n    ")
        return USER_DATA.format(private=private, public=self._public("host"), key=self._public("user"))

    def wait_for_gpus(self, host: str) -> None:
        """Until ``nvidia-smi -L`` answers over ssh."""
        known = self.folder / "known_hosts"
        known.write_text(f"box {self._public('host')}\n")
        options = {
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": known,
            "HostKeyAlias": "box",
            "IdentityFile": self.folder / "user",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "ProxyCommand": os.environ["SSH_PROXY"],
        }
        argv = ["ssh", "-F", "/dev/null", *(f"-o{name}={value}" for name, value in options.items())]
        argv += [f"bare@{host}", "nvidia-smi", "-L"]
        said = b""
        for _ in range(ATTEMPTS):
            tried = subprocess.run(argv, capture_output=True, check=False)
            if not tried.returncode:
                return
            said = tried.stderr
        raise RuntimeError(f"no GPU answers: {said.decode()}")

    def _public(self, name: str) -> str:
        return (self.folder / f"{name}.pub").read_text().strip()
