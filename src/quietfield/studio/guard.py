"""Who may ask: only the page that was opened with the address in the terminal, and only on this machine.

There is no cookie, so there is nothing that a browser would send along for another page. The address holds a token that
works once, after the ``#``, which no browser sends. The page exchanges it for a token of the session, keeps that where
only its own origin can read it, and sends it as a header with every request. A request with another Host (a name that
was rebound to this address) or from another origin is refused before anything is looked at.
"""

import hmac
import secrets
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "x-quietfield-token"
#: What needs no token: the empty page, what it is made of, and the exchange of the token itself.
OPEN = ("/", "/session")
POLICY = (
    "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Session:
    """The tokens of one server: the one in the address, the one it is exchanged for, and tickets for single files."""

    def __init__(self) -> None:
        self.once: str | None = secrets.token_urlsafe(32)
        self.token = secrets.token_urlsafe(32)
        self.tickets: dict[str, str] = {}

    def exchange(self, once: str) -> str | None:
        """The session's token for the one in the address, the first time; None otherwise."""
        if self.once is None or not hmac.compare_digest(self.once.encode(), once.encode()):
            return None
        self.once = None
        return self.token

    def knows(self, token: str) -> bool:
        """Whether this is the session's token."""
        return hmac.compare_digest(self.token.encode(), token.encode())

    def ticket(self, path: str) -> str:
        """An address part that shows one file once: a browser cannot send a header when it opens a page."""
        name = secrets.token_urlsafe(32)
        self.tickets[name] = path
        return name


class Guard:
    """An ASGI layer that refuses requests by their Host, origin and token, and adds headers to what is answered."""

    def __init__(self, app: ASGIApp, session: Session, port: int) -> None:
        self.app, self.session = app, session
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no web sockets, no lifespan

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    found.setdefault(name, value)
            await send(message)

        refusal = self.refusal(scope)
        if refusal is None:
            await self.app(scope, receive, send_guarded)
        else:
            await JSONResponse({"error": refusal[1]}, refusal[0])(scope, receive, send_guarded)

    def refusal(self, scope: MutableMapping[str, Any]) -> tuple[int, str] | None:
        """Why a request is refused, as a status and a sentence; None for one that may pass."""
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        host = headers.get("host", "")
        if host not in self.hosts:
            return 421, "this server answers to 127.0.0.1 alone; use the address that it shows in the terminal."
        origin = headers.get("origin")
        foreign = origin is not None and origin != f"http://{host}"
        if foreign or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "this request came from another page, and is refused."
        if method not in ("GET", "POST") or (method == "POST" and origin is None):
            return 403, "only requests of the page itself are answered."
        if path in OPEN or path.startswith(("/static/", "/file/")):
            return None
        if not self.session.knows(headers.get(HEADER, "")):
            return 401, "this page is not known to the server; open the address that it shows in the terminal."
        return None
