"""Signing in: tokens for the one application that the sandbox's tenant has.

Codes and words: Microsoft identity platform, "Authentication and authorization error codes".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import datetime
from typing import Any

from werkzeug.wrappers import Request

from gpucloud.sandbox.emulator import World
from gpucloud_azure.sandbox.wire import Answer, AzureError

TENANT = "7e6a1d2c-0000-4000-8000-00000000ca7e"
OBJECT = "0b1ec700-0000-4000-8000-000000000001"
LIFE_S = 3600
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
            return _no("invalid_request", f"AADSTS90002: Tenant '{tenant}' not found.", 400, 90002)
        return (
            self._sign_in(request, origin)
            if request.path.endswith("/token")
            else Answer(body=_configuration(origin))
        )

    def _sign_in(self, request: Request, origin: str) -> Answer:
        form = request.form
        if form.get("grant_type") != "client_credentials":
            return _no("unsupported_grant_type", "AADSTS70003: The grant type is not supported.", 400, 70003)
        if form.get("client_id") != self.client:
            text = f"AADSTS700016: Application with identifier '{form.get('client_id')}' was not found."
            return _no("unauthorized_client", text, 400, 700016)
        if not hmac.compare_digest(form.get("client_secret", "").encode(), self.secret.encode()):
            text = "AADSTS7000215: Invalid client secret provided."
            return _no("invalid_client", text, 401, 7000215)
        life = self._world.database.setting(_LIFE_SETTING) or LIFE_S
        return Answer(
            body={
                "token_type": "Bearer",
                "expires_in": LIFE_S,
                "ext_expires_in": LIFE_S,
                "access_token": self._token(origin, self._world.clock.now(), life),
            }
        )

    def check(self, request: Request) -> None:
        """Passes a request that carries a good token.

        Raises:
            AzureError: it carries none, a false or an old one.
        """
        header = request.headers.get("Authorization", "")
        challenge = {"WWW-Authenticate": f'Bearer authorization_uri="{request.host_url}{TENANT}"'}
        if not header.startswith("Bearer "):
            text = "Authentication failed. The 'Authorization' header is missing."
            raise AzureError("AuthenticationFailed", text, 401, **challenge)
        head, _, signature = header.removeprefix("Bearer ").rpartition(".")
        if not hmac.compare_digest(signature, self._sign(head)):
            text = "The access token is invalid."
            raise AzureError("InvalidAuthenticationToken", text, 401, **challenge)
        payload = head.split(".")[1]
        claims: Any = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        if claims["exp"] <= self._world.clock.now().timestamp():
            text = "The access token expiry UTC time is earlier than current UTC time."
            raise AzureError("ExpiredAuthenticationToken", text, 401, **challenge)

    def _token(self, origin: str, now: datetime, life_s: int) -> str:
        start = int(now.timestamp())
        claims = {
            "aud": origin,
            "iss": f"{origin}/{TENANT}/v2.0",
            "iat": start,
            "nbf": start,
            "exp": start + life_s,
            "appid": self.client,
            "oid": OBJECT,
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
        "tenant_region_scope": "EU",
    }


def _no(error: str, text: str, status: int, code: int) -> Answer:
    return Answer(status=status, body={"error": error, "error_description": text, "error_codes": [code]})
