"""Where in the user's code something happened: cheap to note, resolved to text only when asked."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType
from typing import TypeVar

Result = TypeVar("Result")

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

# Frames of these belong to no user: the import machinery, and helpers that call through.
_excluded: list[str] = ["<frozen ", "<weft ", _PACKAGE]
_STDLIB = os.path.dirname(os.__file__)
_CALL_THROUGH = tuple(os.path.join(_STDLIB, name) for name in ("functools.py", "contextlib.py"))

# Whether a file's frames are internal, by co_filename: one dict look-up a frame.
_internal: dict[str, bool] = {}
# Whether any thread has had notes on what it traces: while none has, tracing does not look for any.
has_notes = False


def register_exclusion(path: str) -> None:
    """Hide the frames of files whose name starts with `path` from source lines."""
    _excluded.append(path)
    _internal.clear()


def is_internal(filename: str) -> bool:
    """Whether frames of this file are hidden from the user."""
    known = _internal.get(filename)
    if known is None:
        known = filename in _CALL_THROUGH or filename.startswith(tuple(_excluded))
        _internal[filename] = known
    return known


_LIBRARIES = ("numpy", "opt_einsum", "ml_dtypes")


def is_hidden(filename: str, caller_hidden: bool) -> bool:
    """Whether a frame is weft's, or that of a library which weft called."""
    if is_internal(filename):
        return True
    # A user's folder may have any name, so compare with the folders of the libraries themselves.
    return caller_hidden and filename.startswith(tuple(_folders(_LIBRARIES)))


def _folders(packages: tuple[str, ...]) -> Iterator[str]:
    """The folders of those of some packages that are imported."""
    for name in packages:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            yield os.path.dirname(file) + os.sep


def is_generated(code: CodeType) -> bool:
    """Whether code is a method that ``dataclass`` has written: a frame that nobody knows."""
    return code.co_filename == "<string>" and code.co_qualname.startswith("__create_fn__.")


class Transformed(str):
    """The name of a transformation on a name stack; it goes around the name that follows."""

    __slots__ = ()


class NameStack(tuple[str, ...]):
    """The names of scopes and transformations around something that is traced, outermost first.

    >>> str(NameStack(["net", Transformed("jvp"), "layer"]))
    'net/jvp(layer)'
    """

    __slots__ = ()

    def __str__(self) -> str:
        names: list[str] = []
        for name in reversed(self):
            if type(name) is Transformed:
                names[:1] = [f"{name}({names[0] if names else ''})"]
            else:
                names.insert(0, name)
        return "/".join(names)

    def inside(self, outer: tuple[str, ...]) -> NameStack:
        """The names, within some others."""
        return NameStack((*outer, *self)) if outer else self


NO_NAMES = NameStack()


class SourceInfo:
    """A place in a program (code object and instruction), the name stack there, and notes.

    ``of_caller`` marks the line that called a function of weft's own. Its program is shared by all
    callers: whoever inlines a call puts the call's line in its place.
    """

    __slots__ = ("code", "lasti", "name_stack", "notes", "of_caller")

    def __init__(
        self,
        code: CodeType | None,
        lasti: int,
        name_stack: NameStack = NO_NAMES,
        notes: tuple[tuple[str, object], ...] = (),
        of_caller: bool = False,
    ):
        self.code = code
        self.lasti = lasti
        self.name_stack = name_stack
        self.notes = notes
        self.of_caller = of_caller

    @property
    def file(self) -> str:
        """The file's name, as Python has it."""
        return "" if self.code is None else self.code.co_filename

    @property
    def function(self) -> str:
        """The qualified name of the function."""
        return "" if self.code is None else self.code.co_qualname

    @property
    def traceback(self) -> SourceInfo:
        """The place itself, under JAX's name for where an equation comes from."""
        return self

    def line(self) -> int:
        """The line number, or 0 where none is known."""
        if self.code is None:
            return 0
        for start, end, line in self.code.co_lines():
            if start <= self.lasti < end and line is not None:
                return line
        return self.code.co_firstlineno

    def replace(self, *, name_stack: NameStack) -> SourceInfo:
        """The same place under another name stack."""
        return SourceInfo(self.code, self.lasti, name_stack, self.notes, self.of_caller)

    def with_notes(self, notes: tuple[tuple[str, object], ...]) -> SourceInfo:
        """The same place with other notes, unless it has some."""
        if self.notes:
            return self
        return SourceInfo(self.code, self.lasti, self.name_stack, notes, self.of_caller)

    def is_at(self, other: SourceInfo) -> bool:
        """Whether two places are the same instruction."""
        return self.code is other.code and self.lasti == other.lasti

    def marked(self) -> SourceInfo:
        """The same place, as the line of a caller."""
        return SourceInfo(self.code, self.lasti, self.name_stack, self.notes, True)

    def called_from(self, caller: SourceInfo | None) -> SourceInfo:
        """The same place; that of a call in its stead, if it stands for the caller's line."""
        if not self.of_caller or caller is None:
            return self
        names, notes = self.name_stack, self.notes or caller.notes
        return SourceInfo(caller.code, caller.lasti, names, notes, caller.of_caller)

    def __repr__(self) -> str:
        return f"SourceInfo({summarize(self)})"


UNKNOWN = SourceInfo(None, 0)


def current(name_stack: NameStack = NO_NAMES, skip: int = 1) -> SourceInfo:
    """The innermost frame that is the user's, not weft's.

    The first ``skip`` callers are known to be weft's; to look at a frame is to build it.
    """
    frame: FrameType | None = sys._getframe(skip)
    known = _internal
    while frame is not None:
        code = frame.f_code
        internal = known.get(code.co_filename)
        if internal is None:
            internal = is_internal(code.co_filename)
        if not internal:
            if not is_generated(code):
                return SourceInfo(code, frame.f_lasti, name_stack)
        elif code is _on_behalf:
            place: SourceInfo = frame.f_locals["place"]
            return place.replace(name_stack=name_stack) if name_stack else place
        frame = frame.f_back
    return SourceInfo(None, 0, name_stack) if name_stack else UNKNOWN


def on_behalf_of(place: SourceInfo, rule: Callable[..., Result], *args: object) -> Result:
    """Call a rule for an equation at a place: what the rule does stands at its user's own lines, or
    at that place if it has none."""
    return rule(*args)


_on_behalf = on_behalf_of.__code__


def stack_level(through: tuple[str, ...] = ()) -> int:
    """The ``stacklevel`` that makes a warning of the caller point at the user's line; files named
    in ``through`` are not the user's."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None:
        code = frame.f_code
        name = code.co_filename
        if not (is_internal(name) or name in through or is_generated(code)):
            break
        frame = frame.f_back
        level += 1
    return level


class Warned(Exception):
    """What would be a warning, where warnings are refused."""


class Refusing(threading.local):
    """Whether this thread refuses warnings of weft's: see ``refusing_warnings``."""

    now = False


_refusing = Refusing()


@contextlib.contextmanager
def refusing_warnings() -> Iterator[None]:
    """Make warnings of weft's errors in this thread, which ``warnings`` itself cannot do."""
    before, _refusing.now = _refusing.now, True
    try:
        yield
    finally:
        _refusing.now = before


def warn(
    message: str, category: type[Warning] = UserWarning, through: tuple[str, ...] = ()
) -> None:
    """A warning that points at the user's line, called ``through`` files of libraries."""
    if _refusing.now:
        raise Warned(message)
    warnings.warn(message, category, stacklevel=stack_level(through))


def frames(limit: int | None = None) -> list[SourceInfo]:
    """The user's frames, innermost first."""
    found: list[SourceInfo] = []
    for frame in _walk(sys._getframe(1)):
        if not is_internal(frame.f_code.co_filename):
            found.append(SourceInfo(frame.f_code, frame.f_lasti))
            if limit is not None and len(found) >= limit:
                break
    return found


def _walk(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


_IPYTHON_CELL = r"<ipython-input-(\d+)-[0-9a-f]+>$"
_IPYKERNEL_FILE = r"ipykernel_\d+[/\\]\d+\.py$"


def display_name(filename: str) -> str:
    """A file's name as a person knows it: its last part, or the notebook cell.

    >>> display_name("src/model.py"), display_name("<ipython-input-3-0a1b2c>")
    ('model.py', 'In [3]')
    """
    cell = re.match(_IPYTHON_CELL, filename)
    if cell:
        return f"In [{cell.group(1)}]"
    if re.search(_IPYKERNEL_FILE, filename):
        return _kernel_cell(filename)
    if filename.startswith("<"):
        return filename
    return os.path.basename(filename)


def _kernel_cell(filename: str) -> str:
    """The number of a notebook cell, which ipykernel keeps in IPython's compiler cache."""
    main = sys.modules.get("__main__")
    shell_of = getattr(main, "get_ipython", None)
    shell = shell_of() if callable(shell_of) else None
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", None) or {}
    number = numbers.get(filename)
    return f"In [{number}]" if number is not None else "notebook cell"


def short_name(function: str) -> str:
    """A qualified name without the functions it is defined in.

    >>> short_name("train.<locals>.Model.forward")
    'Model.forward'
    """
    return function.rpartition("<locals>.")[2]


def scopes(infos: Iterable[SourceInfo | None]) -> list[str]:
    """The names of scopes and transformations around places, each once."""
    stacks = [info.name_stack for info in infos if info is not None]
    return list(dict.fromkeys(str(names) for names in stacks if names))


def summarize(info: SourceInfo | None) -> str:
    """A place as text, like "model.py:17 (forward)"."""
    if info is None or info.code is None:
        return "<unknown>"
    where = f"{display_name(info.file)}:{info.line()}"
    name = short_name(info.function)
    return where if name == "<module>" else f"{where} ({name})"
