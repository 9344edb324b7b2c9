"""LLVM code as a value: functions and modules, of which text is made once, for LLVM.

Writers make functions of lines. A call of another function of the module is a line of its own kind,
which knows the name and the arguments, and a size that is not known yet is a hole in a line. So
modules are renamed, joined, divided and given sizes without anybody reading text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Self

from weft.base.record import Record

# What a hole begins and ends with: text of LLVM has no such character.
_BEGIN, _END = "%\0", "\0"
_PART = "; part\n"  # between the modules that one is written in


class Effort(Enum):
    """How much LLVM does for a module.

    ``KERNEL`` is code that needs none of LLVM's passes, ``OPTIMISE`` has all of them. ``INLINE``
    makes functions one without more, ``LIGHT`` does little besides moving variables to registers,
    ``LOOP`` also has what goes round in a loop there. The others are compiled as quickly as can be:
    after functions are made one (``BRIEF``), or as they are (``QUICK``). ``SOON`` is code of GPUs
    for the first calls of a program, which better code follows.
    """

    KERNEL = ""
    OPTIMISE = "optimise"
    INLINE = "inline"
    LIGHT = "light"
    BRIEF = "brief"
    QUICK = "quick"
    LOOP = "loop"
    SOON = "soon"

    @property
    def is_quick(self) -> bool:
        """Whether time to compile counts more than time to run."""
        return self in (Effort.BRIEF, Effort.QUICK, Effort.SOON)


class Call(str):
    """A line that calls a function of the module, or one that it declares."""

    __slots__ = ("arguments", "before", "name")

    before: str
    name: str
    arguments: tuple[str, ...]

    def __new__(cls, before: str, name: str, arguments: Iterable[str]) -> Call:
        given = tuple(arguments)
        self = super().__new__(cls, f"{before}@{name}({', '.join(given)})")
        self.before, self.name, self.arguments = before, name, given
        return self

    def __getnewargs__(self) -> tuple[str, str, tuple[str, ...]]:
        return self.before, self.name, self.arguments

    def renamed(self, names: Mapping[str, str]) -> Call:
        """The same with another function."""
        found = names.get(self.name)
        return self if found is None else Call(self.before, found, self.arguments)


# --- holes ----------------------------------------------------------------------------------------


def hole(name: str) -> str:
    """Stand in a line for a value that is not known yet; it reads like a register."""
    return f"{_BEGIN}{name}{_END}"


def _pieces(line: str) -> Iterator[tuple[str, str]]:
    """The text before each hole of a line, and the hole's name."""
    before, *rest = line.split(_BEGIN)
    for piece in rest:
        name, _, after = piece.partition(_END)
        yield before, name
        before = after


def _filled(line: str, values: Callable[[str, str], str]) -> str:
    """A line with its holes filled, by the text before each and its name."""
    if _BEGIN not in line:
        return line
    if isinstance(line, Call):
        given = [_filled(x, values) for x in line.arguments]
        return Call(_filled(line.before, values), line.name, given)
    made = [before + values(before, name) for before, name in _pieces(line)]
    return "".join(made) + line.rpartition(_END)[2]


# --- functions ------------------------------------------------------------------------------------


class Parameter(Record):
    """A parameter: its type, its name, and attributes such as ``noalias``."""

    kind: str
    name: str = ""
    attributes: str = ""

    def __str__(self) -> str:
        words = (self.kind, self.attributes, f"%{self.name}" if self.name else "")
        return " ".join([word for word in words if word])


def parameters(kind: str, *names: str) -> tuple[Parameter, ...]:
    """Parameters of one type."""
    return tuple([Parameter(kind, name) for name in names])


# The parameters of kernels, and of all functions that are run over a range.
RANGE = (Parameter("ptr", "buffers", "noalias"), *parameters("i64", "start", "stop"))


class Function(Record):
    """A function: its name, parameters, result and attributes, and the lines of its body.

    ``memory`` are the names of the module's constants and variables that it uses, ``prologue`` is
    machine code that takes the place of its body.
    """

    name: str
    parameters: tuple[Parameter, ...]
    lines: tuple[str, ...]
    result: str = "void"
    attributes: tuple[str, ...] = ("nounwind",)
    internal: bool = False
    convention: str = ""
    memory: frozenset[str] = frozenset()
    prologue: str = ""

    @property
    def calls(self) -> tuple[str, ...]:
        """The names of the functions that it calls, but for LLVM's own, in order."""
        return tuple(dict.fromkeys([x.name for x in self.lines if isinstance(x, Call)]))

    def head(self) -> str:
        """The line that it begins with."""
        words = ("define", "internal" * self.internal, self.convention, self.result)
        given = ", ".join(map(str, self.parameters))
        how = " ".join([*self.attributes, self.prologue]).rstrip()
        return f"{' '.join(filter(None, words))} @{self.name}({given}) {how} {{"

    def declaration(self) -> str:
        """The line that declares it where it is called from another module."""
        kinds = [str(p._replace(name="")) for p in self.parameters]
        return f"declare {self.result} @{self.name}({', '.join(kinds)})"

    def __str__(self) -> str:
        return "\n".join([self.head(), *self.lines, "}"])

    def renamed(self, names: Mapping[str, str]) -> Function:
        """The same, and the functions that it calls, under other names."""
        lines = self.lines
        if not names.keys().isdisjoint(self.calls):
            lines = tuple([x.renamed(names) if isinstance(x, Call) else x for x in lines])
        return self._replace(name=names.get(self.name, self.name), lines=lines)

    def without(self, *attributes: str) -> Function:
        """The same without some attributes."""
        return self._replace(attributes=tuple([x for x in self.attributes if x not in attributes]))

    def beginning(self, lines: Iterable[str]) -> Function:
        """The same with lines before its first one, but after the label ``entry``."""
        return self._replace(lines=(*self.lines[:1], *lines, *self.lines[1:]))

    def passing(self, first: Parameter, called: Iterable[str]) -> Function:
        """The same where ``called`` functions, itself if it is one, have a parameter in front that
        it passes on."""
        names, argument = set(called), str(first)
        lines = tuple(
            [
                Call(x.before, x.name, (argument, *x.arguments))
                if isinstance(x, Call) and x.name in names
                else x
                for x in self.lines
            ]
        )
        given = (first, *self.parameters) if self.name in names else self.parameters
        return self._replace(lines=lines, parameters=given)

    def holes(self) -> list[tuple[str, str]]:
        """The text before each hole of its lines, and the hole's name."""
        return [x for line in self.lines if _BEGIN in line for x in _pieces(line)]

    def filled(self, values: Callable[[str, str], str]) -> Function:
        """The same with holes filled, by the text before each and its name."""
        return self._replace(lines=tuple([_filled(line, values) for line in self.lines]))


class Memory(Record):
    """A constant or a variable of a module; equal constants may be in several modules."""

    name: str
    what: str
    constant: bool = True

    def __str__(self) -> str:
        return f"@{self.name} = {self.what}"


# --- modules --------------------------------------------------------------------------------------


class Module:
    """Functions, the constants and variables that they use, and the functions that they declare.

    ``declared`` are lines by name, ``groups`` the definitions of attributes that functions have by
    number, ``metadata`` LLVM's. ``parts`` are modules that are compiled apart and loaded together
    with this one. Modules with the same text are equal.
    """

    __slots__ = (
        "_text",
        "declared",
        "effort",
        "functions",
        "groups",
        "memory",
        "metadata",
        "parts",
    )

    # What it is made of, in the order of its parameters.
    FIELDS: ClassVar[tuple[str, ...]] = tuple(
        "functions declared memory effort groups metadata parts".split()
    )

    def __init__(
        self,
        functions: Iterable[Function],
        declared: Mapping[str, str] | None = None,
        memory: Iterable[Memory] = (),
        effort: Effort = Effort.KERNEL,
        groups: Sequence[str] = (),
        metadata: Sequence[str] = (),
        parts: Sequence[Module] = (),
    ) -> None:
        self.functions = tuple(functions)
        self.declared = dict(declared or {})
        self.memory = tuple(memory)
        self.effort = effort
        self.groups = tuple(groups)
        self.metadata = tuple(metadata)
        self.parts = tuple(parts)
        self._text = ""

    def __str__(self) -> str:
        if not self._text:
            head = "".join([f"; {note}\n" for note in self.notes()])
            declared = dict.fromkeys(self.declared.values())
            lines = [*declared, *map(str, self.memory), *map(str, self.functions)]
            own = head + "\n".join([*lines, *self.groups, *self.metadata, ""])
            self._text = _PART.join([*map(str, self.parts), own])
        return self._text

    def notes(self) -> list[str]:
        """What its text begins with, so that it says all that the module is."""
        return [self.effort.value] if self.effort.value else []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and str(self) == str(other))

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> Any:
        fields = [getattr(self, name) for name in self.FIELDS]
        return type(self), tuple(fields)

    def replaced(self, **changes: Any) -> Self:
        """The same with some fields changed."""
        fields = {name: getattr(self, name) for name in self.FIELDS}
        return type(self)(**(fields | changes))

    @property
    def line_count(self) -> int:
        """Lines of text."""
        return str(self).count("\n")

    @property
    def names(self) -> list[str]:
        """The names of its functions."""
        return [f.name for f in self.functions]

    def function(self, name: str) -> Function:
        """Its function of a name."""
        return next(f for f in self.functions if f.name == name)

    def counts(self, words: Iterable[str]) -> int:
        """How often its text has some words: types of vectors, say."""
        return sum(map(str(self).count, words))

    def with_effort(self, effort: Effort) -> Self:
        """The same, for LLVM to do more or less for."""
        return self if effort is self.effort else self.replaced(effort=effort)

    def after(self, *parts: Module) -> Self:
        """The same, loaded together with others that are compiled apart from it."""
        return self.replaced(parts=(*parts, *self.parts))

    def mapped(self, change: Callable[[Function], Function]) -> Self:
        """The same with each function changed."""
        return self.replaced(functions=[change(f) for f in self.functions])

    def renamed(self, names: Mapping[str, str]) -> Self:
        """The same with other names for some functions, wherever they are called."""
        declared = {name: line for name, line in self.declared.items() if name not in names}
        return self.replaced(
            functions=[f.renamed(names) for f in self.functions],
            declared=declared,
            parts=[part.renamed(names) for part in self.parts],
        )

    def filled(self, values: Mapping[str, str]) -> Self:
        """The same with holes filled, by their names; others stay."""
        return self.mapped(lambda f: f.filled(lambda _, name: values.get(name) or hole(name)))

    def joined(self, *others: Module) -> Self:
        """One module of several: what two of them define or declare is there once."""
        several: tuple[Module, ...] = (self, *others)
        functions = {f.name: f for m in several for f in m.functions}
        declared = {name: line for m in several for name, line in m.declared.items()}
        return self.replaced(
            functions=functions.values(),
            declared={name: x for name, x in declared.items() if name not in functions},
            memory={x.name: x for m in several for x in m.memory}.values(),
            groups=dict.fromkeys([x for m in several for x in m.groups]),
            metadata=dict.fromkeys([x for m in several for x in m.metadata]),
        )

    def selected(self, functions: Iterable[Function]) -> Self:
        """Some of its functions: those among the others that they call are declared, and constants
        that they do not use are left out."""
        own = tuple(functions)
        defined = {f.name for f in own}
        called = {name for f in own for name in f.calls} - defined
        used = {name for f in own for name in f.memory}
        declared = {f.name: f.declaration() for f in self.functions if f.name in called}
        return self.replaced(
            functions=own,
            declared=self.declared | declared,
            memory=[x for x in self.memory if x.name in used or not x.constant],
        )


class Verbatim(Module):
    """A module that was read from a file: it is compiled as it is."""

    __slots__ = ()

    def __init__(self, text: str, effort: Effort = Effort.KERNEL) -> None:
        super().__init__((), effort=effort)
        self._text = text

    def replaced(self, **changes: Any) -> Self:
        """Refuse: nobody knows what is in it."""
        raise TypeError("a module that was read from a file can't be changed")
