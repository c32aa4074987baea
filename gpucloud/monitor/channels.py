"""The ways to people: a webhook, Slack's webhooks, mail; everything else by apprise, an extra.

An address is a secret: no message of an error holds one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from gpucloud.clouds.profile import is_loopback
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.monitor.notices import Notice

if TYPE_CHECKING:
    import smtplib

TIMEOUT_S = 5.0
MOST_ANSWERED = 1024
SIGNATURE, TIMESTAMP = "X-Gpucloud-Signature", "X-Gpucloud-Timestamp"


class NotSentError(GpucloudError):
    """A channel did not take a notice; ``lasts``: it would not take it a second time either."""

    error_class = "notify"

    def __init__(self, message: str, *, lasts: bool) -> None:
        super().__init__(message)
        self.lasts = lasts


Post = Callable[[bytes, Mapping[str, str]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """How to post to a URL: https, or http to this machine.

    Args:
        url: where.
        proxies: by scheme, as ``urllib`` has them.
    """

    url: str = field(repr=False)
    proxies: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def post(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Posts JSON; redirects are not followed.

        Raises:
            NotSentError: the answer was not of success.
        """
        import ssl
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

        class Staying(HTTPRedirectHandler):
            def redirect_request(self, *args: object, **values: object) -> None:
                """Nothing: an answer that leads elsewhere is an error, as any that is not of success."""

        context = ssl.create_default_context()
        proxies = {} if is_loopback(self.url) else dict(self.proxies)
        opener = build_opener(Staying(), ProxyHandler(proxies), HTTPSHandler(context=context))
        headers = {"Content-Type": "application/json", "User-Agent": "gpucloud", **headers}
        request = Request(self.url, data=body, headers=headers, method="POST")  # noqa: S310  (checked when read)
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                answer.read(MOST_ANSWERED)
        except HTTPError as error:
            error.close()
            lasts = error.code < 500 and error.code != 429
            raise NotSentError(f"it answered with HTTP {error.code}", lasts=lasts) from None
        except (URLError, HTTPException, OSError, ValueError) as error:  # also what is not HTTP
            reason = error.reason if isinstance(error, URLError) else error
            words = getattr(reason, "strerror", None) or type(reason).__name__
            raise NotSentError(f"it cannot be reached: {words}", lasts=False) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A program of the user's: the notice as JSON, signed with a secret that both know."""

    http: Http
    secret: str | None = field(default=None, repr=False)

    def send(self, notice: Notice) -> None:
        """Sends a notice. Raises :class:`NotSentError`."""
        body = json.dumps(notice.document()).encode()
        stamp = str(int(time.time()))
        signed = {} if self.secret is None else {SIGNATURE: signature(self.secret, stamp, body)}
        self.http.post(body, {TIMESTAMP: stamp, **signed})


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """HMAC-SHA256 over the timestamp, a full stop and the body: nobody can send either again as his own."""
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"sha256={digest.hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slack:
    """An incoming webhook of Slack, Mattermost or Rocket.Chat, or of Discord with ``/slack``."""

    http: Http

    def send(self, notice: Notice) -> None:
        """Sends a notice. Raises :class:`NotSentError`."""
        # Slack reads &, < and > as markup: a name must not become a link, or call everybody.
        text = notice.line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        self.http.post(json.dumps({"text": text}).encode(), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A mail server: ``smtp://`` with STARTTLS, which only a server on this machine may lack, or ``smtps://``."""

    url: str = field(repr=False)
    sender: str
    recipients: Sequence[str]

    def send(self, notice: Notice) -> None:
        """Sends a notice. Raises :class:`NotSentError`."""
        import smtplib

        message = EmailMessage()
        message["Subject"] = f"gpucloud: {notice.text.splitlines()[0][:150]}"
        message["From"], message["To"] = self.sender, ", ".join(self.recipients)
        message["Message-ID"] = f"<{hashlib.sha256(notice.key.encode()).hexdigest()[:32]}@gpucloud.invalid>"
        message.set_content(f"{notice.line}\n")
        try:
            server = self._connected()
            try:
                server.send_message(message)
            finally:
                server.close()  # taken is taken: whether the server says good-bye is nothing to wait for
        except smtplib.SMTPResponseException as error:
            lasts = 500 <= error.smtp_code < 600
            raise NotSentError(f"the mail server answered {error.smtp_code}", lasts=lasts) from None
        except smtplib.SMTPException as error:
            raise NotSentError(f"the mail server refused: {type(error).__name__}", lasts=True) from None
        except OSError as error:
            words = error.strerror or type(error).__name__
            raise NotSentError(f"the mail server cannot be reached: {words}", lasts=False) from None

    def _connected(self) -> smtplib.SMTP:
        """A connection that is encrypted and logged in. Raises ``SMTPException`` or ``OSError``."""
        import smtplib
        import ssl

        url, context = urlsplit(self.url), ssl.create_default_context()
        host = str(url.hostname)
        if url.scheme == "smtps":
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, url.port or 465, timeout=TIMEOUT_S, context=context)
        else:
            server = smtplib.SMTP(host, url.port or 587, timeout=TIMEOUT_S)
        try:
            server.ehlo()
            if url.scheme == "smtp" and (server.has_extn("starttls") or not is_loopback(self.url)):
                server.starttls(context=context)
            if url.username:
                server.login(unquote(url.username), unquote(url.password or ""))
        except BaseException:
            server.close()
            raise
        return server


@dataclass(frozen=True, slots=True, kw_only=True)
class Apprise:
    """Any service that apprise knows, by its URL."""

    url: str = field(repr=False)

    def send(self, notice: Notice) -> None:
        """Sends a notice. Raises :class:`NotSentError`."""
        import logging

        import apprise

        logging.getLogger("apprise").propagate = False  # its words hold addresses
        sender = apprise.Apprise()
        if not sender.add(self.url):
            raise NotSentError("apprise does not know such a URL", lasts=True)
        if not sender.notify(body=notice.line, title=f"gpucloud: {notice.occasion}"):
            raise NotSentError("apprise could not send it", lasts=False)


Way = Webhook | Slack | Mail | Apprise


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A way with the user's name for it; ``only`` are the occasions that it is for, empty for all."""

    name: str
    way: Way
    only: frozenset[str] = frozenset()

    def wants(self, notice: Notice) -> bool:
        """Whether it is for such a notice; a test is for everybody."""
        return not self.only or str(notice.occasion) in self.only


def refuse_apprise() -> None:
    """Refuses a channel of apprise where that is not installed.

    Raises:
        UsageError: it is not.
    """
    from importlib.util import find_spec

    if find_spec("apprise") is None:
        raise UsageError("apprise is not installed", hint="install it: pip install 'gpucloud[notify]'")
