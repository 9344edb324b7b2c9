"""Breakpoints in staged programs: a prompt that shows the values of the user's variables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from weft.base.record import Record
from weft.base.source import is_internal
from weft.debug.printing import callback
from weft.tree.functions import tree_flatten, tree_unflatten


class Frame(Record):
    """A place in the user's code, with the variables it saw."""

    file: str
    line: int
    function: str
    variables: dict[str, Any]
    module: dict[str, Any]


def _user_frames(limit: int | None, filtered: bool) -> list[Frame]:
    frames: list[Frame] = []
    frame = sys._getframe(2)
    while frame is not None and (limit is None or len(frames) < limit):
        code = frame.f_code
        if not (filtered and is_internal(code.co_filename)):
            frames.append(
                Frame(
                    code.co_filename,
                    frame.f_lineno,
                    code.co_name,
                    dict(frame.f_locals),
                    frame.f_globals,
                )
            )
        frame = frame.f_back  # type: ignore[assignment]
    return frames


def _flat(value: Any) -> tuple[list[Any], Any] | None:
    """Leaves and structure of a variable, or None if it is no tree: callers may have any."""
    try:
        return tree_flatten(value)
    except (RecursionError, ValueError):  # it holds itself, or has keys that do not sort
        return None


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    **kwargs: Any,
) -> None:
    """Stop when a staged program gets here, and look at the user's variables at a prompt.

    Type ``help`` at the prompt.

    Args:
        backend: the name of the prompt; ``'cli'`` is the only one.
        filter_frames: leave weft's own frames out.
        num_frames: how many frames to keep; all by default.
        ordered: keep the order of the program among ordered effects.
        token: accepted for JAX, no effect.
        **kwargs: ``stdin=`` and ``stdout=``, to drive the prompt from elsewhere.

    Example:
        >>> import io, weft
        >>> def f(x):
        ...     y = x + 1
        ...     weft.debug.breakpoint(stdin=io.StringIO("p y"), stdout=sys.stdout)
        ...     return y
        >>> int(weft.jit(f)(2))
        (wdb) 3
        (wdb)
        3
    """
    if backend not in (None, "cli"):
        raise ValueError(f"the only debugger is 'cli', got backend={backend!r}")
    frames = _user_frames(num_frames, filter_frames)
    # Variables are handed over by way of the program: it knows the values of traced ones.
    tree_leaves: list[Any] = []
    trees = []
    others = []
    for frame in frames:
        names = {k: v for k, v in frame.variables.items() if not k.startswith("__")}
        flat = {k: found for k, v in names.items() if (found := _flat(v)) is not None}
        trees.append({k: (len(leaves), tree) for k, (leaves, tree) in flat.items()})
        tree_leaves.extend(leaf for leaves, _ in flat.values() for leaf in leaves)
        others.append({k: v for k, v in names.items() if k not in flat})

    def stop(*values: Any) -> None:
        given = iter(values)
        shown = []
        for frame, variables, other in zip(frames, trees, others, strict=True):
            found = {
                k: tree_unflatten(tree, [next(given) for _ in range(count)])
                for k, (count, tree) in variables.items()
            }
            shown.append(frame._replace(variables=found | other))
        Prompt(shown, **kwargs).run()

    callback(stop, *tree_leaves, ordered=ordered)


class Prompt:
    """Reads commands and shows frames."""

    commands = {
        "p EXPR": "the value of an expression",
        "l": "the lines around here",
        "bt": "the calls that led here",
        "u, d": "to the caller, and back",
        "c": "go on",
        "q": "end the program",
    }

    def __init__(self, frames: Sequence[Frame], stdin: Any = None, stdout: Any = None) -> None:
        self.frames = frames
        self.at = 0
        self.stdin = stdin or sys.stdin
        self.stdout = stdout or sys.stdout

    def say(self, text: str) -> None:
        self.stdout.write(text + "\n")

    def run(self) -> None:
        """Answer commands until one says to go on, or none is left."""
        while True:
            self.stdout.write("(wdb) ")
            self.stdout.flush()
            line = self.stdin.readline()
            word, _, rest = line.strip().partition(" ")
            if not line or word in ("c", "cont", "continue"):
                if not line:
                    self.say("")
                return
            if word in ("q", "quit", "exit"):
                raise SystemExit(0)
            self.answer(word, rest)

    def answer(self, word: str, rest: str) -> None:
        frame = self.frames[self.at]
        if word in ("p", "pp", "print"):
            try:
                self.say(str(eval(rest, frame.module, frame.variables)))
            except Exception as error:
                self.say(f"{type(error).__name__}: {error}")
        elif word in ("bt", "w", "where"):
            for i, f in enumerate(self.frames):
                mark = ">" if i == self.at else " "
                self.say(f"{mark} {f.file}:{f.line} in {f.function}")
        elif word in ("u", "up"):
            self.at = min(self.at + 1, len(self.frames) - 1)
            self.list()
        elif word in ("d", "down"):
            self.at = max(self.at - 1, 0)
            self.list()
        elif word in ("l", "list"):
            self.list()
        elif word:
            self.say("\n".join(f"{k:8} {v}" for k, v in self.commands.items()))

    def list(self) -> None:
        import linecache

        frame = self.frames[self.at]
        self.say(f"{frame.file}:{frame.line} in {frame.function}")
        for number in range(max(frame.line - 3, 1), frame.line + 4):
            text = linecache.getline(frame.file, number)
            if text:
                mark = "->" if number == frame.line else "  "
                self.say(f"{mark} {number:4} {text.rstrip()}")
