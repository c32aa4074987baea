"""Azure's HTTP transport. Imports the SDK: import it when needed.

requests reads the whole file of certificates again for each connection, which for a system's 150 roots takes
a launch 25 MB and half a second; these transports share one SSL context.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from azure.core.pipeline.transport import HttpTransport, RequestsTransport
from requests import Session
from requests.adapters import HTTPAdapter
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3 import Retry
from urllib3.util.ssl_ import create_urllib3_context

from gpucloud.clouds.answers import bound_answers
from gpucloud.clouds.profile import CA_BUNDLES
from gpucloud.errors import UsageError
from gpucloud_azure.errors import MalformedAnswerError


def ssl_context(ca_bundle: str | None) -> ssl.SSLContext:
    """A context that trusts what requests would: a file or folder of certificates, by default certifi's.

    Raises:
        UsageError: the file is missing or holds no certificates.
    """
    context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
    trusted = ca_bundle or DEFAULT_CA_BUNDLE_PATH
    try:
        context.load_verify_locations(**{"capath" if Path(trusted).is_dir() else "cafile": trusted})
    except OSError as error:
        raise UsageError(
            f"azure: no certificates could be read from {trusted}: {error}",
            hint=f"correct {' or '.join(CA_BUNDLES)}",
        ) from error
    return context


def transport(context: ssl.SSLContext, *, connect_s: float, read_s: float) -> HttpTransport[Any, Any]:
    """An open transport that reads nothing from the process's environment and repeats nothing itself.

    Args:
        context: verifies the servers.
        connect_s, read_s: the longest waits for a connection and for an answer's next bytes, in seconds.
    """
    session = Session()
    session.trust_env = False
    session.mount("http://", HTTPAdapter(max_retries=_NEVER))
    session.mount("https://", _Verified(context))
    bound_answers(session, MalformedAnswerError)
    made: HttpTransport[Any, Any] = RequestsTransport(
        session=session,
        connection_timeout=connect_s,
        read_timeout=read_s,
        use_env_settings=False,
    )
    made.open()
    return made


_NEVER = Retry(total=False, redirect=False, raise_on_status=False)
"""The SDK's pipeline decides what is sent again."""


class _Verified(HTTPAdapter):
    """Connections that are all verified with one context."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__(max_retries=_NEVER)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, ssl_context=self._context, **options)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=self._context, **options)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:  # noqa: ARG002
        """Names no file of certificates to the connection, which would read it into the context again."""
        conn.cert_reqs = "CERT_REQUIRED"
