"""The page of a report: one HTML file with its data, style and script, and no address to load from.

What comes from runs is only in the JSON block, whose letters cannot end it, and in the title,
which is escaped. The policy lets no script run but the page's own.
"""

import base64
import hashlib
import html
import importlib.resources
import json
import time
from typing import Any


def _part(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def policy(live: bool = False) -> str:
    """The content security policy of the page.

    >>> policy().split("; ")[0]
    "default-src 'none'"
    """
    rules = [
        "default-src 'none'",
        f"script-src 'sha256-{_digest(_part('page.js'))}'",
        f"style-src 'sha256-{_digest(_part('page.css'))}'",
        "img-src data:",
        "connect-src 'self'" if live else "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(rules)


def as_json(data: Any) -> str:
    """JSON that can stand inside a script element.

    >>> as_json({"name": "</script><b>"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e"}'
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))  # ASCII only
    for letter in "<>&'":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def render(data: dict[str, Any], live: bool = False) -> str:
    """The page for what a ``Reader`` has read.

    >>> "<title>a &lt;b&gt;</title>" in render(
    ...     {"title": "a <b>", "metrics": [], "runs": [], "notes": []})
    True
    """
    parts = {
        "LIVE": "yes" if live else "no",
        "POLICY": html.escape(policy(live)),
        "TITLE": html.escape(str(data["title"])),
        "WHEN": "" if live else time.strftime("%Y-%m-%d %H:%M"),
        "STYLE": _part("page.css"),
        "SCRIPT": _part("page.js"),
        "DATA": as_json(data),
    }
    pieces = _part("page.html").split("@")  # names and text between them, so nothing is put twice
    return "".join(parts.get(piece, piece) if i % 2 else piece for i, piece in enumerate(pieces))
