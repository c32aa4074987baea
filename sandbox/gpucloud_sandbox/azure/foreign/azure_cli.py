"""A configuration folder of ``az`` that knows the sandbox as its cloud, and is signed in."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from gpucloud_sandbox.azure.entra import TENANT
from gpucloud_sandbox.azure.subscription import SUBSCRIPTION

CLOUD = "sandbox"
_ENDPOINTS = ("resource_manager", "active_directory", "management", "gallery", "vm_image_alias_doc")
_AUDIENCES = ("active_directory_resource_id", "active_directory_graph_resource_id")
_CONFIG = f"""\
[cloud]
name = {CLOUD}

[core]
collect_telemetry = no
instance_discovery = no
"""
"""``instance_discovery`` would ask Microsoft's public authority about the sandbox's."""


def prepare(folder: Path, origin: str, client: str, secret: str) -> Path:
    """Writes what ``az cloud register``, ``az cloud set`` and ``az login`` write; returns the folder.

    Args:
        folder: the sandbox's.
        origin: of Resource Manager and of the tenant.
        client: the application's id.
        secret: its secret.
    """
    own = folder / "azure-cli"
    own.mkdir(mode=0o700, exist_ok=True)
    endpoints = {
        **{f"endpoint_{name}": origin for name in _ENDPOINTS},
        **{f"endpoint_{name}": f"{origin}/" for name in _AUDIENCES},
        "suffix_storage_endpoint": "core.sandbox.invalid",
        "subscription": SUBSCRIPTION,
    }
    cloud = "".join(f"{name} = {value}\n" for name, value in endpoints.items())
    user = {"name": client, "type": "servicePrincipal"}
    subscription: dict[str, Any] = {
        "id": SUBSCRIPTION,
        "name": "gpucloud sandbox",
        "state": "Enabled",
        "user": user,
        "isDefault": True,
        "tenantId": TENANT,
        "homeTenantId": TENANT,
        "environmentName": CLOUD,
        "managedByTenants": [],
    }
    entry = {"client_id": client, "tenant": TENANT, "client_secret": secret}
    _write(own / "config", _CONFIG)
    _write(own / "clouds.config", f"[{CLOUD}]\n{cloud}")
    _write(own / "azureProfile.json", json.dumps({"subscriptions": [subscription]}))
    _write(own / "service_principal_entries.json", json.dumps([entry]))
    return own


def _write(path: Path, text: str) -> None:
    """Writes a file that only its owner can read."""
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
    ) as stream:
        stream.write(text)
