"""The page itself: a template that comes with weft, and a program's data in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from weft.api.picture.data import page_data

_DATA, _TITLE = "/* data */", "<!-- title -->"
FRAME_HEIGHT = 640  # of a page in a notebook, in pixels


def page(name: str, text: str, parts: Sequence[Any]) -> str:
    """One HTML page without links to anything: it can be mailed, and opened anywhere."""
    template = files("weft.api.picture").joinpath("page.html").read_text(encoding="utf-8")
    before, rest = template.split(_TITLE)
    middle, after = rest.split(_DATA)
    # "</script>" in a string of the user's would end the script
    data = json.dumps(page_data(name, text, parts)).replace("<", "\\u003c")
    return "".join([before, escape(name), middle, data, after])


def frame(html: str) -> str:
    """A page inside another, as notebooks show it."""
    style = f"width: 100%; height: {FRAME_HEIGHT}px; border: 1px solid #8884"
    return f'<iframe style="{style}" srcdoc="{escape(html, quote=True)}"></iframe>'
