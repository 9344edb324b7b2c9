"""Documents that lay themselves out within a width, after Wadler's "A prettier printer".

A document is text, breaks, nesting and groups; a group is printed on one line if it fits there,
and otherwise with its breaks as new lines. Layout uses an explicit stack, so depth is no limit.
"""

from __future__ import annotations

from collections.abc import Iterable


class Doc:
    """A piece of text whose line breaks are not chosen yet."""

    __slots__ = ()

    def __add__(self, other: Doc) -> Doc:
        return Concat((self, other))

    def format(
        self, width: int = 80, *, use_color: bool = False, annotation_prefix: str = " # "
    ) -> str:
        """The text, with lines of at most `width` characters where the document allows."""
        return _layout(self, width, use_color, annotation_prefix)

    def __str__(self) -> str:
        return self.format()


class Text(Doc):
    """Characters without a break; the annotation goes to the end of the line."""

    __slots__ = ("annotation", "content")

    def __init__(self, content: str, annotation: str | None = None):
        self.content = content
        self.annotation = annotation


class Concat(Doc):
    """Documents one after another."""

    __slots__ = ("children",)

    def __init__(self, children: Iterable[Doc]):
        self.children = tuple(children)


class Break(Doc):
    """A new line, or `flat` where the group around it fits on one line."""

    __slots__ = ("flat",)

    def __init__(self, flat: str):
        self.flat = flat


class Group(Doc):
    """A document that stays on one line if it fits."""

    __slots__ = ("child",)

    def __init__(self, child: Doc):
        self.child = child


class Nest(Doc):
    """A document whose new lines are indented further."""

    __slots__ = ("child", "indent")

    def __init__(self, indent: int, child: Doc):
        self.indent = indent
        self.child = child


class Styled(Doc):
    """A document in a colour of the terminal, and bold or not."""

    __slots__ = ("bold", "child", "color")

    def __init__(self, child: Doc, color: int, bold: bool):
        self.child = child
        self.color = color
        self.bold = bold


_NIL = Concat(())


def nil() -> Doc:
    """The empty document."""
    return _NIL


def text(content: str, annotation: str | None = None) -> Doc:
    """Characters that stay together."""
    return Text(content, annotation)


def concat(children: Iterable[Doc]) -> Doc:
    """Documents one after another."""
    return Concat(children)


def brk(flat: str = " ") -> Doc:
    """A break: a new line, or `flat` in a group that fits."""
    return Break(flat)


def group(child: Doc) -> Doc:
    """Print on one line if that fits.

    >>> words = join(brk(), [text("some"), text("words")])
    >>> group(words).format(80)
    'some words'
    >>> group(words).format(6)
    'some\\nwords'
    """
    return Group(child)


def nest(indent: int, child: Doc) -> Doc:
    """Indent the new lines inside by so much more."""
    return Nest(indent, child)


def join(separator: Doc, docs: Iterable[Doc]) -> Doc:
    """Documents with a separator between them."""
    parts: list[Doc] = []
    for doc in docs:
        if parts:
            parts.append(separator)
        parts.append(doc)
    return Concat(parts)


_DEFAULT, _BLUE, _MAGENTA = 39, 34, 35


def keyword(child: Doc) -> Doc:
    """In the style of keywords."""
    return Styled(child, _BLUE, True)


def type_annotation(child: Doc) -> Doc:
    """In the style of types."""
    return Styled(child, _MAGENTA, False)


def _fits(doc: Doc, room: int) -> bool:
    """Whether the document printed on one line takes at most `room` characters."""
    stack = [doc]
    while stack:
        doc = stack.pop()
        kind = type(doc)
        if kind is Text:
            room -= len(doc.content)  # type: ignore[attr-defined]
        elif kind is Break:
            room -= len(doc.flat)  # type: ignore[attr-defined]
        elif kind is Concat:
            stack.extend(reversed(doc.children))  # type: ignore[attr-defined]
        else:
            stack.append(doc.child)  # type: ignore[attr-defined]
        if room < 0:
            return False
    return True


class _Page:
    """Lines under construction, with what is to be written behind each."""

    def __init__(self, use_color: bool):
        self.lines: list[tuple[str, int, list[str]]] = []
        self.use_color = use_color
        self.parts: list[str] = []
        self.column = 0
        self.notes: list[str] = []
        self.style = (_DEFAULT, False)

    def write(self, content: str, style: tuple[int, bool]) -> None:
        if self.use_color and style != self.style:
            self.parts.append(_escape(self.style, style))
            self.style = style
        self.parts.append(content)
        self.column += len(content)

    def new_line(self, indent: int) -> None:
        if self.notes:
            self.write("", (_DEFAULT, False))
        self.lines.append(("".join(self.parts), self.column, self.notes))
        self.parts = [" " * indent]
        self.column = indent
        self.notes = []

    def finish(self, prefix: str) -> str:
        self.write("", (_DEFAULT, False))
        self.new_line(0)
        margin = max(width for _, width, _ in self.lines)
        dim, normal = ("\x1b[2m", "\x1b[22m") if self.use_color else ("", "")
        out: list[str] = []
        for line, width, notes in self.lines:
            if not notes:
                out.append(line)
            for note in notes:
                out.append(f"{line}{dim}{' ' * (margin - width)}{prefix}{note}{normal}")
                line, width = "", 0
        return "\n".join(out)


def _escape(old: tuple[int, bool], new: tuple[int, bool]) -> str:
    codes = []
    if old[0] != new[0]:
        codes.append(str(new[0]))
    if old[1] != new[1]:
        codes.append("1" if new[1] else "22")
    return f"\x1b[{';'.join(codes)}m"


def _layout(doc: Doc, width: int, use_color: bool, annotation_prefix: str) -> str:
    page = _Page(use_color)
    stack: list[tuple[Doc, int, bool, tuple[int, bool]]] = [(doc, 0, False, (_DEFAULT, False))]
    while stack:
        doc, indent, flat, style = stack.pop()
        if isinstance(doc, Text):
            page.write(doc.content, style)
            if doc.annotation is not None:
                page.notes.append(doc.annotation)
        elif isinstance(doc, Concat):
            stack.extend((child, indent, flat, style) for child in reversed(doc.children))
        elif isinstance(doc, Break):
            if flat:
                page.write(doc.flat, style)
            else:
                page.new_line(indent)
        elif isinstance(doc, Group):
            on_one_line = flat or _fits(doc.child, width - page.column)
            stack.append((doc.child, indent, on_one_line, style))
        elif isinstance(doc, Nest):
            stack.append((doc.child, indent + doc.indent, flat, style))
        elif isinstance(doc, Styled):
            stack.append((doc.child, indent, flat, (doc.color, doc.bold)))
    return page.finish(annotation_prefix)


def bytes_text(count: float) -> str:
    """A number of bytes as people write it.

    >>> bytes_text(12), bytes_text(4096), bytes_text(3_500_000_000)
    ('12 bytes', '4.1 kB', '3.5 GB')
    """
    if count < 1000:
        return f"{count:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 999.5 or unit == "GB":
            break
    return f"{count:.2g} {unit}" if count < 10 else f"{count:,.0f} {unit}"


def seconds_text(seconds: float) -> str:
    """A time as people write it.

    >>> seconds_text(2.5), seconds_text(0.0123), seconds_text(4e-6)
    ('2.5 s', '12 ms', '4 µs')
    """
    unit, size = ("µs", 1e-6) if seconds < 1e-3 else ("ms", 1e-3) if seconds < 1 else ("s", 1.0)
    value = seconds / size
    return f"{value:.2g} {unit}" if value < 10 else f"{value:.0f} {unit}"
