"""``If-Match`` and ``If-None-Match``: a PUT or PATCH of what its caller has seen, or of nothing.

Codes and words are those of recorded refusals: kubernetes-sigs/cloud-provider-azure#9728 (Microsoft.Compute)
and #9729 (Microsoft.Network, which puts what did not match into the details).
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucloud_sandbox.azure.wire import AzureError
from gpucloud_sandbox.database import Document


def check(headers: Mapping[str, str], document: Document | None, id_: str) -> None:
    """Passes a change whose conditions hold.

    Args:
        headers: the request's.
        document: the resource as it is; ``None`` where there is none.
        id_: its id, as the caller writes it.

    Raises:
        AzureError: it exists, and must not; or it is not there, or another than the caller has seen.
    """
    if headers.get("If-None-Match") == "*" and document is not None:
        raise AzureError("PreconditionFailed", f"The resource {id_} exists already.", 412)
    wanted = headers.get("If-Match")
    if wanted is None or (wanted == "*" and document is not None):
        return
    has = document["etag"] if document else ""
    if wanted == has:
        return
    words = f"Etag provided in if-match header {wanted} does not match etag {has} of resource"
    if "/providers/microsoft.network/" not in id_.lower():
        raise AzureError("PreconditionFailed", f"{words}.", 412)
    refusal = AzureError("PreconditionFailed", "Precondition failed.", 412)
    refusal.details = [{"code": "PreconditionFailedEtagMismatch", "message": f"{words} {id_}."}]
    raise refusal
