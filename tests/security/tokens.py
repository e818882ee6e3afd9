"""Tokens that a broker with a secret key accepts: JWTs, signed with HMAC."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time

KEY = hashlib.sha256(b"the key of these tests").digest()


def token(role: str, *, lasts_s: float | None = None) -> str:
    """A token for a role, valid for ever or for a while."""
    claims: dict[str, object] = {"sub": role}
    if lasts_s is not None:
        claims["exp"] = int(time.time() + lasts_s)
    signed = ".".join(_encoded(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
    return f"{signed}.{_encoded(hmac.digest(KEY, signed.encode(), 'sha256'))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
