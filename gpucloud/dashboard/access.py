"""Who may read the page: what a request must show, as decisions without I/O.

The page is reached at 127.0.0.1 alone, which every user and every web page open on this machine can try to
reach. What stands in the way of each:

* another user: a secret of 256 bits, in the printed address and then in a cookie;
* a web page whose name is made to lead here (DNS rebinding): the ``Host`` must be this address;
* a web page that sends its visitor's browser here: ``Origin`` and ``Sec-Fetch-Site`` must not be another's.

Prometheus shows a token of its own, which leads to metrics alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from hmac import compare_digest

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Of every answer."""


def is_of_metrics(path: str) -> bool:
    """Whether a path is one of those that Prometheus asks for."""
    return path in {"/metrics", "/sd"} or path.startswith("/box/")


class Access:
    """The secrets of one page.

    Args:
        port: where it is served.
        metrics_token: leads to the metrics, and to nothing else; ``None`` for no such token.

    Attributes:
        port: where it is served.
    """

    def __init__(self, port: int, metrics_token: str | None = None) -> None:
        self.port = port
        self._metrics_token = metrics_token
        self._token = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._once: set[str] = set()

    @property
    def url(self) -> str:
        """The address with the token, for the person who started the page."""
        return self._url(self._token)

    def url_once(self) -> str:
        """An address that leads in once: where a browser is started, it stands in the list of processes."""
        token = secrets.token_urlsafe(32)
        self._once.add(token)
        return self._url(token)

    @property
    def cookie(self) -> str:
        """The cookie of who showed a token. Its name holds the port: browsers share cookies between ports."""
        return f"{self._pair}; HttpOnly; SameSite=Strict; Path=/"

    def refusal(self, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """The status and text with which a request is refused whatever it asks for; ``None`` for none.

        Args:
            headers: by their names in small letters.
        """
        host = headers.get("host", "")
        if host not in {f"127.0.0.1:{self.port}", f"localhost:{self.port}"}:
            return 400, "this page is at 127.0.0.1 only"
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return 403, "another site may not ask"
        if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
            return 403, "another site may not ask; open the printed address yourself"
        return None

    def admits(self, token: str) -> bool:
        """Whether a token of an address leads in; one that does so once does not any more."""
        if compare_digest(token.encode(), self._token.encode()):
            return True
        known = token in self._once
        self._once.discard(token)
        return known

    def may_read(self, path: str, headers: Mapping[str, str]) -> bool:
        """Whether a request carries the cookie; or for metrics, their token."""
        if self._metrics_token is not None and is_of_metrics(path):
            wanted = f"Bearer {self._metrics_token}"
            if compare_digest(headers.get("authorization", "").encode(), wanted.encode()):
                return True
        return self._is_known(headers)

    def _is_known(self, headers: Mapping[str, str]) -> bool:
        wanted = self._pair.encode()
        return any(compare_digest(pair.encode(), wanted) for pair in headers.get("cookie", "").split("; "))

    @property
    def _pair(self) -> str:
        return f"gpucloud-{self.port}={self._session}"

    def _url(self, token: str) -> str:
        return f"http://127.0.0.1:{self.port}/?token={token}"
