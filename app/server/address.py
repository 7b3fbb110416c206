"""Decides where the page listens, and says in a sentence why it cannot."""

import errno
import socket
import sys
from collections.abc import MutableMapping
from contextlib import closing
from dataclasses import dataclass

from engine.errors import BadInput, Unavailable

_LOCAL = ("localhost", "127.0.0.1", "::1")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True)
class Address:
    """``host``: a name or an IP address, without brackets."""

    host: str
    port: int

    @property
    def server_name(self) -> str:
        """The host as gradio takes it: an IPv6 address in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host


def address_from(environment: MutableMapping[str, str]) -> Address:
    """Reads HOST and PORT, or the variables that gradio has for them. Raises BadInput for a port that is none."""
    everywhere = "0.0.0.0" if "SPACE_ID" in environment else "127.0.0.1"
    host = environment.get("HOST") or environment.get("GRADIO_SERVER_NAME") or everywhere
    port = environment.get("PORT") or environment.get("GRADIO_SERVER_PORT") or "7860"
    if not port.isdecimal() or not 0 < int(port) < 2**16:
        raise BadInput(f"{port[:40]!r} is not a port; set PORT to a number from 1 to 65535.")
    return Address(host.strip().removeprefix("[").removesuffix("]"), int(port))


def check_root(environment: MutableMapping[str, str]) -> None:
    """Raises BadInput for a path below which gradio would answer no request."""
    path = environment.get("GRADIO_ROOT_PATH", "")
    if path and not path.startswith(("/", "http://", "https://")):
        raise BadInput(f"GRADIO_ROOT_PATH is {path[:40]!r}; begin it with a slash, as in '/speclens'.")


def is_open_to_others(environment: MutableMapping[str, str]) -> bool:
    """Returns whether other machines can reach the page."""
    return address_from(environment).host not in _LOCAL


def check_free(address: Address) -> None:
    """Raises Unavailable where nothing can listen: before the models are loaded, and with the reason."""
    where = f"port {address.port} of {address.host}"
    try:
        family, kind, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        with closing(socket.socket(family, kind)) as probe:
            if sys.platform != "win32":  # there it would share a port that is in use
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
            probe.listen(1)
    except socket.gaierror as error:
        raise Unavailable(f"{address.host!r} is no address of this machine; set HOST to another one.") from error
    except OSError as error:
        raise Unavailable(_reason(error, where)) from error


def _reason(error: OSError, where: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Another program listens at {where}; end it, or set PORT to another port."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"This user may not listen at {where}; set PORT to one above 1023."
    if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        return f"This machine has no address for {where}; set HOST to one of its own, or to 0.0.0.0 for all of them."
    return f"The page cannot listen at {where}: {error.strerror or error}; set PORT or HOST to another one."


def bypass_proxy(environment: MutableMapping[str, str], host: str) -> None:
    """Excepts this machine from the proxies that the environment names. Otherwise gradio (6.31) asks the proxy for its
    own page at the start, and takes the answer for a failure."""
    if not any(environment.get(name) for name in (*_PROXIES, *map(str.upper, _PROXIES))):
        return
    listed = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    hosts = [*filter(None, listed.split(",")), *(name for name in (*_LOCAL, host) if name not in listed.split(","))]
    environment["no_proxy"] = environment["NO_PROXY"] = ",".join(dict.fromkeys(hosts))
