"""Signing in: tokens for the one application that the sandbox's tenant has.

Codes and words: Microsoft identity platform, "Authentication and authorization error codes".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import uuid
from collections.abc import Collection
from datetime import datetime
from typing import Any

from werkzeug.wrappers import Request

from gpucloud_sandbox.azure.wire import Answer, AzureError
from gpucloud_sandbox.emulator import World

TENANT = "7e6a1d2c-0000-4000-8000-00000000ca7e"
OBJECT = "0b1ec700-0000-4000-8000-000000000001"
LIFE_S = 3600
PUBLIC_AUDIENCES = {"https://management.azure.com", "https://management.core.windows.net"}
"""What the SDKs ask a token for, unless they are told another scope, whatever endpoint they are given."""
_SETTING, _LIFE_SETTING = "azure_application", "azure_token_life"


class Entra:
    """The emulated tenant."""

    def __init__(self, world: World) -> None:
        self._world = world
        kept = world.database.setting(_SETTING)
        if kept is None:
            kept = {
                "client": f"a9911ca7-0000-4000-8000-{world.token(12)}",
                "secret": world.token(40),
                "key": world.token(64),
            }
            world.database.keep_setting(_SETTING, kept)
        self.client: str = kept["client"]
        self.secret: str = kept["secret"]
        self._key: str = kept["key"]

    def set_life(self, seconds: int | None) -> None:
        """How long new tokens are good; ``None`` for an hour."""
        self._world.database.keep_setting(_LIFE_SETTING, seconds)

    def answers(self, path: str) -> bool:
        """Whether a path is the tenant's."""
        return path.endswith(("/oauth2/v2.0/token", "/.well-known/openid-configuration")) or path.startswith(
            "/common/discovery/"
        )

    def answer(self, request: Request) -> Answer:
        """Configuration or a token; errors in the tenant's own form."""
        origin = request.host_url.rstrip("/")
        now = self._world.clock.now()
        tenant = request.path.split("/")[1]
        if request.path.startswith("/common/discovery/"):
            return Answer(
                body={
                    "tenant_discovery_endpoint": f"{origin}/{TENANT}/v2.0/.well-known/openid-configuration",
                    "api-version": "1.1",
                    "metadata": [],
                }
            )
        if tenant.lower() not in {TENANT, "organizations", "common"}:
            text = (
                f"AADSTS90002: Tenant '{tenant}' not found. Check to make sure you have the correct tenant "
                "ID and are signing into the correct cloud."
            )
            return _no("invalid_request", text, 400, 90002, now)
        return (
            self._sign_in(request, origin)
            if request.path.endswith("/token")
            else Answer(body=_configuration(origin))
        )

    def _sign_in(self, request: Request, origin: str) -> Answer:
        form = request.form
        now = self._world.clock.now()
        if form.get("grant_type") != "client_credentials":
            text = "AADSTS70003: The app requested an unsupported grant type."
            return _no("unsupported_grant_type", text, 400, 70003, now)
        if form.get("client_id") != self.client:
            text = (
                f"AADSTS700016: Application with identifier '{form.get('client_id')}' was not found in the "
                "directory 'gpucloud sandbox'."
            )
            return _no("unauthorized_client", text, 400, 700016, now)
        if not hmac.compare_digest(form.get("client_secret", "").encode(), self.secret.encode()):
            text = (
                "AADSTS7000215: Invalid client secret provided. Ensure the secret being sent in the request "
                "is the client secret value, not the client secret ID, for a secret added to app "
                f"'{self.client}'."
            )
            return _no("invalid_client", text, 401, 7000215, now)
        audience, slash, scope = form.get("scope", "").partition(" ")[0].rpartition("/")
        if not slash or scope != ".default":
            text = (
                "AADSTS1002012: The provided value for scope is not valid. Client credential flows must have "
                "a scope value with /.default suffixed to the resource identifier (application ID URI)."
            )
            return _no("invalid_scope", text, 400, 1002012, now)
        kept = self._world.database.setting(_LIFE_SETTING)
        life = LIFE_S if kept is None else kept
        return Answer(
            body={
                "token_type": "Bearer",
                "expires_in": LIFE_S,
                "ext_expires_in": LIFE_S,
                "access_token": self._token(origin, audience, now, life),
            }
        )

    def seal(self, text: str) -> str:
        """A signature that only the sandbox can make."""
        return self._sign(text)

    def issue(self, principal: str, audience: str) -> str:
        """A token for a machine's own identity."""
        return self._token("", audience, self._world.clock.now(), LIFE_S, principal=principal)

    def check(self, request: Request, audiences: Collection[str] = PUBLIC_AUDIENCES) -> str:
        """Passes a request that carries a good token for one of the audiences; returns whose it is.

        Raises:
            AzureError: it carries none, a false or an old one.
        """
        header = request.headers.get("Authorization", "")
        challenge = {"WWW-Authenticate": f'Bearer authorization_uri="{request.host_url}{TENANT}"'}
        if not header.startswith("Bearer "):
            text = "Authentication failed. The 'Authorization' header is missing."
            raise AzureError("AuthenticationFailed", text, 401, **challenge)
        head, _, signature = header.removeprefix("Bearer ").rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(head).encode()):
            text = "The access token is invalid."
            raise AzureError("InvalidAuthenticationToken", text, 401, **challenge)
        payload = head.split(".")[1]
        claims: Any = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        if claims["exp"] <= self._world.clock.now().timestamp():
            text = "The access token expiry UTC time is earlier than current UTC time."
            raise AzureError("ExpiredAuthenticationToken", text, 401, **challenge)
        if claims["aud"].rstrip("/") not in {*audiences, request.host_url.rstrip("/")}:
            text = (
                f"The access token has been obtained for wrong audience or resource '{claims['aud']}'. It "
                f"should exactly match with one of the allowed audiences '{request.host_url}'."
            )
            raise AzureError("InvalidAuthenticationTokenAudience", text, 401, **challenge)
        return str(claims["oid"])

    def _token(
        self, origin: str, audience: str, now: datetime, life_s: int, *, principal: str = OBJECT
    ) -> str:
        start = int(now.timestamp())
        claims = {
            "aud": audience,
            "iss": f"{origin}/{TENANT}/v2.0",
            "iat": start,
            "nbf": start,
            "exp": start + life_s,
            "appid": self.client,
            "oid": principal,
            "tid": TENANT,
        }
        head = ".".join(map(_encoded, ({"typ": "JWT", "alg": "HS256"}, claims)))
        return f"{head}.{self._sign(head)}"

    def _sign(self, head: str) -> str:
        digest = hmac.new(self._key.encode(), head.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _encoded(part: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def _configuration(origin: str) -> Any:
    base = f"{origin}/{TENANT}"
    return {
        "issuer": f"{base}/v2.0",
        "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
        "token_endpoint": f"{base}/oauth2/v2.0/token",
        "device_authorization_endpoint": f"{base}/oauth2/v2.0/devicecode",
        "jwks_uri": f"{base}/discovery/v2.0/keys",  # msal.js takes no configuration without it
        "tenant_region_scope": "EU",
    }


def _no(error: str, text: str, status: int, code: int, now: datetime) -> Answer:
    trace = str(uuid.uuid4())
    return Answer(
        status=status,
        body={
            "error": error,
            "error_description": f"{text} Trace ID: {trace} Timestamp: {now:%Y-%m-%d %H:%M:%SZ}",
            "error_codes": [code],
            "timestamp": f"{now:%Y-%m-%d %H:%M:%SZ}",
            "trace_id": trace,
            "correlation_id": trace,
        },
    )
