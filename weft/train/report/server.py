"""A report that stays up to date: a server for this machine, which only reads.

It answers two addresses, the page and its data, and opens no file that a request names.
"""

import hashlib
import http.server
import ipaddress
import os
import socket
import sys
import threading
import time
from typing import Any

from weft.train.report import page, reading

_FRESH_SECONDS = 1.0


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers ``GET`` and ``HEAD`` of ``/`` and ``/data.json``."""

    server: "ReportServer"
    server_version, sys_version = "weft", ""
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """Answer a request."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Answer a request with headers alone."""
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        if not self.server.knows_host(self.headers.get_all("Host") or []):
            # a page of another site whose name was made to point here
            self._send(403, b"this host name is not served; see --allow-host\n", "text/plain", body)
        elif self.path == "/":
            text = page.render(self.server.data()[0], live=True).encode()
            self._send(200, text, "text/html; charset=utf-8", body)
        elif self.path == "/data.json":
            text, tag = self.server.data()[1:]
            same = self.headers.get("If-None-Match") == tag
            self._send(304 if same else 200, b"" if same else text, "application/json", body, tag)
        else:
            self._send(404, b"not found\n", "text/plain", body)

    def _send(self, code: int, text: bytes, kind: str, body: bool, tag: str = "") -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Cache-Control", "no-store")
        policy = page.policy(live=True) + "; frame-ancestors 'none'"
        self.send_header("Content-Security-Policy", policy)
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        if tag:
            self.send_header("ETag", tag)
        self.end_headers()
        if body and code != 304:
            self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: requests of a page that polls are no news."""


class ReportServer(http.server.ThreadingHTTPServer):
    """A server of the report of a folder.

    Args:
        folder: the folder.
        host: the address to listen at; that of this machine alone by default.
        port: the port; 0 for any that is free.
        allowed: further host names that requests may name.

    Example:
        >>> import tempfile, threading, urllib.request
        >>> with ReportServer(tempfile.mkdtemp(), port=0) as server:
        ...     thread = threading.Thread(target=server.serve_forever)
        ...     thread.start()
        ...     answer = urllib.request.urlopen(server.address + "data.json").read()
        ...     server.shutdown(); thread.join()
        >>> answer[:10]
        b'{"title":"'
    """

    daemon_threads = True

    def __init__(
        self,
        folder: str | os.PathLike[str],
        host: str = "127.0.0.1",
        port: int = 8008,
        allowed: tuple[str, ...] = (),
    ) -> None:
        self.reader = reading.Reader(folder)
        self._reading = threading.Lock()
        self._data: tuple[float, dict[str, Any], bytes, str] | None = None
        names = {"localhost", "127.0.0.1", "[::1]", *allowed}
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), Handler)
        if not _is_unspecified(host):
            names.add(f"[{host}]" if ":" in host else host)
        shown = "localhost" if _is_unspecified(host) else f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self.server_port}/"
        self._names = {name.lower() for name in names}
        # Only names can be made to point here; an address in its place is what the user typed.
        self._anywhere = _is_unspecified(host)

    def knows_host(self, hosts: list[str]) -> bool:
        """Whether a request is for this server, by its one ``Host`` header."""
        if len(hosts) != 1:
            return False
        name, colon, port = hosts[0].strip().lower().rpartition(":")
        if not colon or "]" in port:
            name, port = hosts[0].strip().lower(), ""
        known = name in self._names or (self._anywhere and _is_address(name))
        return known and port in ("", str(self.server_port))

    def data(self) -> tuple[dict[str, Any], bytes, str]:
        """What the page shows: as it is, as JSON, and a tag that changes with it."""
        with self._reading:
            now = time.monotonic()
            if self._data is None or now - self._data[0] > _FRESH_SECONDS:
                found = self.reader.read()
                text = page.as_json(found).encode()
                tag = '"' + hashlib.sha256(text).hexdigest()[:32] + '"'
                self._data = (time.monotonic(), found, text, tag)
            return self._data[1:]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that break."""
        if not isinstance(sys.exception() if hasattr(sys, "exception") else None, OSError):
            super().handle_error(request, client_address)


def _is_unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host or "0.0.0.0").is_unspecified
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    """Whether a host is an address: ``192.0.2.1`` or ``[2001:db8::1]``."""
    try:
        inner = name[1:-1] if name.startswith("[") and name.endswith("]") else name
        return (ipaddress.ip_address(inner).version == 6) == name.startswith("[")
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
