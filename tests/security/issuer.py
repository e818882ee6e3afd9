"""A token endpoint of OAuth2 that gives tokens which the broker accepts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs

from tests.security.certificates import Pair
from tests.security.servers import HOST, Handler, http
from tests.security.tokens import token

CLIENT_SECRET = "a-secret-of-this-client"


@dataclass(slots=True)
class Issuer:
    """``url`` is what clients are given; ``asked`` what they sent."""

    url: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)
    lasts_s: float = 3600.0


@contextlib.contextmanager
def issuer(role: str, pair: Pair | None = None) -> Iterator[Issuer]:
    """An issuer that knows one client, who is this role."""
    made = Issuer()

    class Endpoint(Handler):
        def do_GET(self) -> None:  # noqa: N802 - the base class calls it so
            is_known = self.path == "/tenant/.well-known/openid-configuration"
            body = {"token_endpoint": f"{made.url}/token"} if is_known else {"error": "not_found"}
            self.answer(200 if is_known else 404, json.dumps(body).encode(), "application/json")

        def do_POST(self) -> None:  # noqa: N802
            form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
            asked = {name: values[0] for name, values in form.items()}
            made.asked.append(asked)
            if asked.get("client_secret") != CLIENT_SECRET:
                refusal = {"error": "invalid_client", "error_description": "unknown"}
                return self.answer(401, json.dumps(refusal).encode(), "application/json")
            given = {"access_token": token(role, lasts_s=made.lasts_s), "expires_in": made.lasts_s}
            return self.answer(200, json.dumps(given).encode(), "application/json")

    with http(Endpoint, pair) as port:
        made.url = f"http{'s' if pair else ''}://{HOST}:{port}/tenant"
        yield made


def credentials(folder: Path, secret: str = CLIENT_SECRET) -> str:
    """The file that Pulsar's clients read."""
    file = folder / "credentials.json"
    told = {"type": "client_credentials", "client_id": "suite", "client_secret": secret, "issuer_url": "unused"}
    file.write_text(json.dumps(told))
    return str(file)
