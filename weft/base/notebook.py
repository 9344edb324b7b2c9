"""Reports for notebooks: indented text as HTML whose parts fold."""

from __future__ import annotations

from html import escape

_STYLE = "font-family: monospace; font-size: 90%; line-height: 1.4; white-space: pre-wrap"


def folded(text: str) -> str:
    """Indented text as HTML: a line that others are indented below folds them.

    The first line starts unfolded, so that a reader sees one level.

    >>> folded("total <3>\\n  part\\n    detail").count("<details")
    2
    """
    lines = [line for line in text.splitlines() if line.strip()]
    depths = [len(line) - len(line.lstrip()) for line in lines]
    made: list[str] = []
    around: list[int] = []  # depths of the parts that are open
    for i, (line, depth) in enumerate(zip(lines, depths)):
        while around and around[-1] >= depth:
            made.append("</div></details>")
            around.pop()
        shown = escape(line.strip())
        if i + 1 < len(lines) and depths[i + 1] > depth:
            unfolded = " open" if not around else ""
            made.append(f"<details{unfolded}><summary>{shown}</summary>")
            made.append('<div style="margin-left: 1.5em">')
            around.append(depth)
        else:
            made.append(f"<div>{shown}</div>")
    made += ["</div></details>"] * len(around)
    return f'<div style="{_STYLE}">{"".join(made)}</div>'
