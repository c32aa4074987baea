"""The subscription of the credentials: its clients, and what does not change while a program runs."""

from __future__ import annotations

from gpucloud.clouds.kit import refuse_foreign
from gpucloud.errors import ErrorClass
from gpucloud.resources import Ref
from gpucloud_azure.clients import Clients
from gpucloud_azure.errors import classify
from gpucloud_azure.ids import parts_of
from gpucloud_azure.json_paths import text_at

FEATURES_API = "2021-07-01"
_HOST_ENCRYPTION = "/providers/Microsoft.Features/providers/Microsoft.Compute/features/EncryptionAtHost"


class AzureAccount:
    """What the verbs and the abilities of the provider share. Safe to use from several threads.

    Two threads at the same time would only send a call twice.

    Args:
        clients: the clients of the subscription.
    """

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self._host_encryption: bool | None = None

    def refuse_foreign(self, ref: Ref) -> None:
        """Refuses a resource of another subscription, whose "not found" must never pass for "gone".

        Raises:
            UsageError: the resource belongs to another subscription.
        """
        parts = parts_of(ref.id)
        refuse_foreign(
            ref,
            self.clients.subscription(),
            written=parts.subscription if parts else None,
            account="Azure subscription",
            hint="use the subscription that it was made in (AZURE_SUBSCRIPTION_ID)",
        )

    def has_host_encryption(self) -> bool:
        """Whether the subscription has encryption at host.

        Platform encryption is always there; who may not ask for more gets that.
        """
        if self._host_encryption is None:
            try:
                answer = self.clients.ask(_HOST_ENCRYPTION, api=FEATURES_API)
                self._host_encryption = text_at(answer, "properties", "state").lower() == "registered"
            except Exception as error:
                verdict = classify(error)
                if verdict is None or verdict.error_class not in {ErrorClass.AUTH, ErrorClass.NOT_FOUND}:
                    raise
                self._host_encryption = False
        return self._host_encryption
