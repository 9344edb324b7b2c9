"""Says what works, differs or is missing in a program written for JAX, and changes its imports.

    python -m weft.moving program.py
    python -m weft.moving package/ --rewrite

The program is read, not run. The page "Moving from JAX" has the same tables in prose.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from weft.base import knobs
from weft.moving.names import Status, look_up
from weft.moving.reading import Use, read
from weft.moving.rewriting import rewritten as rewritten
from weft.moving.tables import LIBRARIES, MODULES, NEED_JAX, VARIABLES

__all__ = ["Finding", "Status", "check", "check_file", "rewritten"]


class Finding(NamedTuple):
    """What was found on a line.

    Args:
        line: The line's number, from 1 on.
        name: The name, option, variable or library.
        status: What becomes of it.
        note: What to know or to do about it.

    Example:
        >>> from weft import moving
        >>> moving.check("import jax")[0].name
        'jax'
    """

    line: int
    name: str
    status: Status
    note: str


def check(source: str, filename: str = "<program>") -> list[Finding]:
    """Return what becomes of everything that a program takes from JAX and from libraries.

    Args:
        source: the program's text.
        filename: its name, for errors of its syntax.

    Returns:
        One finding for each name and line, in the order of lines. Names that simply work are part
        of it, with the status ``Status.SAME``.

    Raises:
        SyntaxError: if the text is not a Python program.

    Example:
        >>> from weft import moving
        >>> program = "import jax\\nfrom jax.experimental import pallas as pl\\njax.grad(abs)\\n"
        >>> for found in moving.check(program):
        ...     print(found.line, found.name, "-", found.status.value)
        1 jax - works
        2 jax.experimental.pallas - can be imported only
        3 jax.grad - works
    """
    reader = read(source, filename)
    found = [_judged(use) for use in reader.uses]
    found += [x for x in map(_library, reader.libraries) if x is not None]
    return sorted(dict.fromkeys(x for x in found if x is not None), key=lambda x: (x.line, x.name))


def _judged(use: Use) -> Finding | None:
    if use.kind == "option":
        return _option(use)
    if use.kind == "variable":
        return _variable(use)
    root = use.name.partition(".")[0]
    if root not in ("jax", "jaxlib") and not any(
        use.name == m or use.name.startswith(f"{m}.") for m in MODULES
    ):
        return None  # a library's own affair
    answer = look_up(use.name)
    note = answer.note
    if answer.status is Status.MISSING and not note:
        note = "weft has no such name"
    return Finding(use.line, use.name, answer.status, note)


def _option(use: Use) -> Finding:
    try:
        knob = knobs.find(use.name)
    except (AttributeError, KeyError, ValueError):
        return Finding(use.line, use.name, Status.MISSING, "weft has no such option")
    if not knob.effect:
        return Finding(use.line, use.name, Status.DIFFERENT, knob.doc)
    return Finding(use.line, use.name, Status.SAME, "")


def _variable(use: Use) -> Finding | None:
    for start, note in VARIABLES.items():
        if use.name.startswith(start):
            return Finding(use.line, use.name, Status.DIFFERENT, note)
    if use.name.startswith("JAX_"):
        return _option(use._replace(name=use.name.lower()))._replace(name=use.name)
    return None


def _library(use: Use) -> Finding | None:
    root = use.name.partition(".")[0]
    if root in NEED_JAX:
        return Finding(use.line, root, Status.MISSING, NEED_JAX[root])
    if root not in LIBRARIES:
        return None
    if any(use.name == m or use.name.startswith(f"{m}.") for m in MODULES):
        return None
    note = "the library runs unchanged under python -m weft.as_jax"
    return Finding(use.line, use.name, Status.ALIAS, note)


def check_file(path: str | Path) -> list[Finding]:
    """Return what becomes of a program in a file.

    Args:
        path: the file.

    Returns:
        Its findings, as from `check`.

    Example:
        >>> import tempfile, pathlib
        >>> from weft import moving
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "program.py"
        >>> _ = path.write_text("import optax\\noptax.adam(0.1)\\n")
        >>> [found.status.value for found in moving.check_file(path)]
        ['works', 'works']
    """
    path = Path(path)
    return check(path.read_text(encoding="utf-8"), str(path))
