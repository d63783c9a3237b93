"""Who may speak to the server: this machine's browser with the token, and no other page in it.

Guarantee: every request but the first must carry the token's cookie; a request whose Host is not
the server's own address (DNS rebinding), whose Origin or Sec-Fetch-Site is another page's, or which
changes something without an Origin, is refused before anything of it is read. The page may load and
reach nothing but this server. Assumes that nobody else reads this user's browser or terminal.
"""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from starlette.responses import PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["POLICY", "RequestGuard"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_CHANGES = ("POST", "PUT", "DELETE", "PATCH")


class RequestGuard:
    """Checks every request, and adds the headers of the policy to every response.

    Args:
      app: What is guarded.
      token: The secret of this server.
      port: Where it listens.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = tuple(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
        self._cookie = f"recondite-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no websockets here

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(k.lower().encode(), v.encode()) for k, v in _HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *more]
            await send(message)

        answer = self._refusal(scope)
        await (self._app if answer is None else answer)(scope, receive, sent)

    def _refusal(self, scope: Scope) -> Response | None:
        pairs = scope["headers"]
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in pairs}
        stranger = self._stranger(scope["method"], headers)
        if stranger:
            return _no(stranger)
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if scope["path"] == "/" and self._is_token(query.get("token", [""])[0]):
            return self._welcome()
        if not self._is_token(_cookies(headers.get("cookie", "")).get(self._cookie, "")):
            return _no("open the address that recondite explore printed: it has the token")
        return None

    def _stranger(self, method: str, headers: dict[str, str]) -> str:
        """Why a request comes from somewhere else than the page; "" where it does not."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return "this server answers to 127.0.0.1 only"
        if origin is not None and origin != f"http://{host}":
            return "a page of another origin may not ask this server"
        if method in _CHANGES and origin is None:
            return "a change needs the page's own Origin"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "a page of another site may not ask this server"
        return ""

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())

    def _welcome(self) -> Response:
        """The token leaves the address bar and becomes a cookie that no script can read."""
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
        return answer


def _no(line: str) -> Response:
    return PlainTextResponse(f"{line}\n", status_code=403)


def _cookies(text: str) -> dict[str, Any]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(text).items()}
    except CookieError:
        return {}
