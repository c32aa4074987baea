"""The Node objects of machines that are gone: Kubernetes keeps them, as NotReady, until they are deleted.

On other clouds a controller does that. Many of them would make the autoscaler think that the cluster is
unhealthy, and stop.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpucloud.elastic.kubernetes.groups import CLUSTER_LABEL, SCHEME
from gpucloud.errors import GpucloudError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod has its token and the authority of Kubernetes' API."""
TIMEOUT_S = 10.0


class NodeObjectsError(GpucloudError):
    """Kubernetes' API did not list or delete Node objects."""


@dataclass(frozen=True, slots=True)
class NodeObjects:
    """The Node objects of the cluster that this process is a pod of."""

    host: str
    port: int
    folder: Path = SERVICE_ACCOUNT

    @classmethod
    def of_pod(cls, variables: Mapping[str, str]) -> NodeObjects | None:
        """Those of this pod's cluster; ``None`` outside of Kubernetes."""
        host, port = variables.get("KUBERNETES_SERVICE_HOST"), variables.get("KUBERNETES_SERVICE_PORT_HTTPS")
        return cls(host, int(port)) if host and port and (SERVICE_ACCOUNT / "token").is_file() else None

    def provider_ids(self, cluster: str) -> dict[str, str]:
        """The ``spec.providerID`` of the nodes of a cluster, by their names.

        Raises:
            NodeObjectsError: they cannot be listed.
        """
        found = self._ask(
            "GET", f"/api/v1/nodes?labelSelector={quote(f'{CLUSTER_LABEL}={cluster}', safe='')}"
        )
        items: list[dict[str, Any]] = found.get("items", [])
        return {each["metadata"]["name"]: each.get("spec", {}).get("providerID", "") for each in items}

    def delete(self, name: str) -> None:
        """Deletes a Node object; one that is gone is no error.

        Raises:
            NodeObjectsError: it cannot be deleted.
        """
        self._ask("DELETE", f"/api/v1/nodes/{quote(name, safe='')}", gone_is_fine=True)

    def _ask(self, method: str, path: str, *, gone_is_fine: bool = False) -> dict[str, Any]:
        try:
            context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
            token = (self.folder / "token").read_text(encoding="utf-8").strip()  # it is renewed
            connection = HTTPSConnection(self.host, self.port, timeout=TIMEOUT_S, context=context)
            try:
                connection.request(method, path, headers={"Authorization": f"Bearer {token}"})
                answer = connection.getresponse()
                text = answer.read()
            finally:
                connection.close()
            if answer.status >= 400 and not (gone_is_fine and answer.status == 404):
                raise NodeObjectsError(f"Kubernetes' API answered {answer.status} to {method} {path[:80]}")
            found: dict[str, Any] = json.loads(text)
        except (OSError, HTTPException, ValueError) as error:
            raise NodeObjectsError(f"Kubernetes' API cannot be asked: {error}") from error
        return found


def gone(listed: Mapping[str, str], living: Collection[str], ended: Collection[str]) -> list[str]:
    """The names of the Node objects whose machines are gone.

    Args:
        listed: the provider ids of the nodes, by name.
        living: the ids of the nodes that there are, or are being deleted.
        ended: the ids of the machines that the journal knows to be gone: of others it knows nothing.
    """
    return [
        name
        for name, each in listed.items()
        if each.startswith(SCHEME) and each in ended and each not in living
    ]
