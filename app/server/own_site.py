"""Refuses what other web sites make a visitor's browser send.

A page of another site can send a request to a server on the visitor's machine, and it can point a name of its own at
that machine (DNS rebinding), after which the browser even lets it read the answers. So requests that change something
must not come from another site, and the name that a request asks for must be one of this server's.
"""

import ipaddress
import socket
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_READING = ("GET", "HEAD", "OPTIONS")
_LOCAL_ENDS = (".localhost", ".local", ".internal")  # no site can register a name below these


class OwnSite:
    """Answers 403 with a sentence to a request from another site, or for a name that is not this server's.

    ``names``: more names of this server, and sites whose pages may ask it; `*` in one matches any letters.
    """

    def __init__(self, app: ASGIApp, names: Sequence[str] = ()):
        self.app = app
        self.names = [(host_name(name) or name).lower() for name in names]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = self._problem(Headers(scope=scope), scope["method"]) if scope["type"] == "http" else None
        if problem is None:
            await self.app(scope, receive, send)
        elif "/api/" in scope["path"]:
            await JSONResponse({"error": problem}, 403)(scope, receive, send)
        else:
            await PlainTextResponse(problem, 403)(scope, receive, send)

    def _problem(self, headers: Headers, method: str) -> str | None:
        host = headers.get("host")
        name = host_name(host) if host else ""
        if name is None or not (name == "" or _is_local(name) or self._is_listed(name)):
            shown = (name or str(host))[:80]
            return (
                f"SpecLens does not answer to the name {shown}. If that is a name of this server, start it with "
                f"SPECLENS_HOSTS={shown}."
            )
        if method not in _READING and self._is_cross_site(headers, name):
            return (
                "This request comes from a page of another web site, so SpecLens does not follow it. To allow that "
                "site, start SpecLens with its name in SPECLENS_HOSTS."
            )
        return None

    def _is_cross_site(self, headers: Headers, name: str) -> bool:
        origin = headers.get("origin")
        sender = host_name(origin) if origin else None
        if sender and self._is_listed(sender):
            return False
        if site := headers.get("sec-fetch-site"):
            return site == "cross-site"
        # Browsers name the kind of site only to servers with https or on their own machine, but always the origin.
        forwarded = host_name(headers.get("x-forwarded-host", "").split(",")[0].strip())
        return origin is not None and (not sender or sender not in (name, forwarded))

    def _is_listed(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.names)


def host_name(address: str) -> str | None:
    """Returns the name or IP address in a Host header, an origin or a URL, in small letters; None if there is none."""
    try:
        name = urlsplit(address if "//" in address else f"//{address}").hostname
    except ValueError:
        return None
    return name.rstrip(".") or None if name else None


@lru_cache(maxsize=64)
def _is_local(name: str) -> bool:
    """Returns whether no other site can have this name: an IP address, a name without a dot or of a local network, or
    this machine's own."""
    if "." not in name or name.endswith(_LOCAL_ENDS):
        return True
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return name in (socket.gethostname().lower(), socket.getfqdn().lower())
