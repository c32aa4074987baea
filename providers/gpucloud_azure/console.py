"""The console output of machines."""

from __future__ import annotations

from gpucloud.clouds.abilities import ConsoleLog
from gpucloud.resources import Ref
from gpucloud_azure.account import AzureAccount
from gpucloud_azure.errors import reading
from gpucloud_azure.ids import name_of
from gpucloud_azure.json_paths import plain

MOST_OF_A_BLOB = 4 * 1024 * 1024
"""Bytes of a console: more is not one."""


class AzureConsoleLog(ConsoleLog):
    """The serial console, which boot diagnostics keep."""

    def __init__(self, account: AzureAccount) -> None:
        self._account = account

    def console(self, ref: Ref, /) -> str:
        """The serial console's text; empty while there is none."""
        self._account.refuse_foreign(ref)
        group, name = name_of(ref.id)
        with reading("retrieveBootDiagnosticsData"):
            answer = plain(
                self._account.clients.compute().virtual_machines.retrieve_boot_diagnostics_data(
                    group, name, sas_uri_expiration_time_in_minutes=5
                )
            )
        return self._blob(str(answer.get("serialConsoleLogBlobUri") or ""))

    def _blob(self, url: str) -> str:
        """The content of a signed URL, which needs no other permission."""
        if not url:
            return ""
        client = self._account.clients.anonymous()
        from azure.core.rest import HttpRequest

        response = client.send_request(HttpRequest("GET", url), stream=True)
        try:
            if response.status_code == 404:
                return ""
            response.raise_for_status()
            content = b""
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) >= MOST_OF_A_BLOB:
                    break
        finally:
            response.close()
        return content[:MOST_OF_A_BLOB].decode("utf-8", "replace")
