"""Understands the address of a server that a person wrote, and finds the proxy on the way to it."""

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from engine.errors import Unavailable

# People paste the address of one service. The rest is where all of them are.
SERVICE = re.compile(
    r"/+((chat/)?completions?|responses|embeddings|messages|models|api/(chat|generate|tags)|health|metrics|props|docs)$",
    re.IGNORECASE,
)
VERSION = re.compile(r"/v\d[^/]*(/openai)?$", re.IGNORECASE)


def split_address(address: str) -> tuple[SplitResult, str, str]:
    """Returns the parts of an address, the path of the server's root, and the path of its API."""
    parts = urlsplit(address)
    path = SERVICE.sub("", parts.path.rstrip("/")).rstrip("/")
    version = VERSION.search(path)
    root = path[: version.start()] if version else path
    return parts, root, root + (version[0].lower() if version else "/v1")


def find_fault(address: str, key: str) -> str:
    """Words the fault of an address, without quoting a part that may be a secret; "" where it is right."""
    try:
        parts = urlsplit(address)
        has_port = parts.port != 0
    except ValueError:
        parts, has_port = urlsplit(""), False
    if "@" in parts.netloc or re.match(r"[^/?#]*@", address):
        return "Leave out the name and the password before the @ of the address; a key goes into SPECLENS_SERVER_KEY."
    if re.search(r"[?#]", address):
        return (
            "Leave out the ? or # of the address and all after it: it is not sent. A key goes into SPECLENS_SERVER_KEY."
        )
    if parts.scheme in ("http", "https") and parts.hostname and has_port and re.fullmatch(r"[!-~]+", address):
        return ""
    if bare := re.fullmatch(r"/*(\[[\da-fA-F:]+\]|[\w.-]+)(:\d{1,5})?(/[!-~]*)?", address, re.ASCII):
        scheme = "http" if may_be_plain(bare[1].strip("[]"), key) else "https"
        return f"{address[:80]!r} does not say how to connect; write {scheme}://{address[:80].lstrip('/')}."
    return f"{address[:80]!r} is not the address of a server; write http://HOST:PORT."


def _is_local(host: str) -> bool:
    """Returns whether a host is this computer."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def may_be_plain(host: str, key: str) -> bool:
    """Returns whether http:// can be advised: on this computer, and without a key on a network of its own."""
    try:
        is_near = ipaddress.ip_address(host).is_private
    except ValueError:
        is_near = "." not in host
    return _is_local(host) or (is_near and not key)


def find_proxy(parts: SplitResult) -> SplitResult | None:
    """Returns the proxy that the environment names for an address: HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, less
    NO_PROXY. A server of this computer needs none, as in Go's net/http. Raises Unavailable."""
    host, proxies = parts.hostname or "", getproxies()
    address = proxies.get(parts.scheme) or proxies.get("all")
    if not address or _is_local(host) or proxy_bypass(parts.netloc):
        return None
    proxy = urlsplit(address if "://" in address else f"http://{address}")
    try:
        if proxy.scheme == "http" and proxy.hostname:
            return proxy._replace(netloc=proxy.netloc if proxy.port else f"{proxy.netloc}:80")
    except ValueError:
        pass
    raise Unavailable(
        f"The environment names a proxy that is not http://HOST:PORT, the only kind that is used here; "
        f"name another in {parts.scheme.upper()}_PROXY, or set NO_PROXY={host} to go without."
    )
