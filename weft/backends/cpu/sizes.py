"""Named sizes in the functions of operations, which read them from a table as kernels do."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from weft.backends.llvm.code import Module, Parameter, hole
from weft.backends.llvm.tasks import Lowered, Place, Task
from weft.backends.llvm.text.sizes import read_sizes
from weft.base.record import Record
from weft.base.sizes import LEAST, Size, is_same, is_writing, plain, size_named, writing


class Written:
    """Named sizes in the functions of an operation, which its lowering writes as it writes numbers.

    A hole stands for each in the functions; finished ones read them from a table.
    """

    def __init__(self) -> None:
        self.sizes: list[Size] = []
        self.scope: dict[str, int] = {}
        self.known: dict[Any, tuple[Module, list[int]]] = {}  # finished modules

    def writing(self) -> Any:
        """What is written meanwhile are holes."""
        return writing(self.hole)

    def hole(self, size: Size) -> str:
        for i, known in enumerate(self.sizes):
            if is_same(known, size):
                return hole(str(i))
        self.sizes.append(size)
        return hole(str(len(self.sizes) - 1))

    def named(self, given: Any) -> Any:
        """Numbers with names instead, equal ones with the same; and tuples of them."""
        if isinstance(given, tuple):
            return tuple(map(self.named, given))
        if given < LEAST:
            return given
        self.scope[f"n{given}"] = given
        return size_named(f"n{given}", self.scope)

    def finished(self, lowered: Lowered) -> Lowered:
        """An operation whose functions read their sizes; a table is the last buffer of each."""
        inside = None if lowered.in_place is None else self.finished(lowered.in_place)
        return lowered._replace(tasks=[self.task(t) for t in lowered.tasks], in_place=inside)

    def task(self, task: Task) -> Task:
        assert task.module is not None
        key = (task.module, task.name, len(task.places))
        found = self.known.get(key)
        module, numbers = found or self.known.setdefault(key, _reading(*key))
        if not numbers:
            return task
        table = Place("numbers", tuple([self.sizes[i] for i in numbers]))
        return task._replace(module=module, places=(*task.places, table))


def at_hand(given: Any) -> Any:
    """Tasks, and what they are made of, with the numbers at hand in place of sizes."""
    if type(given) is list:
        return [at_hand(x) for x in given]
    if isinstance(given, tuple):
        return tuple.__new__(type(given), map(at_hand, given))
    return plain(given)


class Name(Record):
    """What stands for a number that code reads: so many units of what has this name."""

    name: str
    unit: int = 1


def named(given: Any, values: dict[str, int], least: int = LEAST, unit: int = 1) -> Any:
    """A number with a name instead, whose value is kept; and tuples and records of numbers."""
    if isinstance(given, tuple):
        return tuple.__new__(type(given), [named(n, values, least) for n in given])
    if type(given) is not int or given < least:
        return given
    name = f"n{len(values)}"
    values[name] = given // unit
    return Name(name, unit)


def sizes(given: Any, values: dict[str, int]) -> Any:
    """The same with sizes in place of names."""
    if type(given) is Name:
        return given.unit * size_named(given.name, values)
    if isinstance(given, tuple):
        return tuple.__new__(type(given), [sizes(x, values) for x in given])
    return given


Begin = Callable[[Module, str, bool], None]
# Who takes modules of tasks, with their functions' names, as soon as they are written.
_taker: ContextVar[Begin | None] = ContextVar("taker", default=None)


@contextmanager
def handing_on(begin: Begin | None) -> Iterator[None]:
    """A scope in which modules are handed on while others of their operation are being written."""
    before = _taker.set(begin)
    try:
        yield
    finally:
        _taker.reset(before)


def hand_on(module: Module, name: str) -> tuple[Module, str]:
    """A module and its function's name, which are handed on in such a scope."""
    begin = _taker.get()
    if begin is not None:
        begin(module, name, True)
    return module, name


# Modules by what they are written from, and the sizes that each reads.
_shared: OrderedDict[Any, tuple[Module, list[Size]]] = OrderedDict()
MAX_SHARED = 256


def sized_task(
    given: Any, values: dict[str, int], task: Task, write: Callable[[Any], Module]
) -> Task:
    """A task with the module that ``write`` writes of what is given: in shape-generic programs as
    it is, otherwise one that others have too for which the same is given, whatever the values of
    its names are."""
    if is_writing():
        return task._replace(module=write(given))
    key = (given, task.name, len(task.places))
    if key not in _shared:
        written = Written()
        with written.writing():
            module, numbers = _reading(write(sizes(given, values)), task.name, len(task.places))
        _shared[key] = module, [written.sizes[i] for i in numbers]
        if len(_shared) > MAX_SHARED:
            _shared.popitem(last=False)
    module, read = _shared[key]
    hand_on(module, task.name)
    places = task.places
    if read:
        places = (*places, Place("numbers", tuple([size.at(values) for size in read])))
    return task._replace(module=module, places=places)


def _reading(module: Module, name: str, buffers: int) -> tuple[Module, list[int]]:
    """A module whose functions read sizes where holes stand for them, from a table behind so many
    buffers; and the numbers of the holes. Private functions are given the table."""
    found: dict[str, int] = {}
    for f in module.functions:
        for _, number in f.holes():
            found.setdefault(number, len(found))
    if not found:
        return module, []

    def register(before: str, number: str) -> str:
        return f"%sized{found[number]}{'.i32' * before.endswith('i32 ')}"

    private = [f.name for f in module.functions if f.internal]
    functions = []
    for f in module.functions:
        used = [(found[number], before.endswith("i32 ")) for before, number in f.holes()]
        main = f.name == name
        if used or main:
            places = sorted({place for place, _ in used})
            lines = read_sizes(places, buffers if main else None, f"%{f.parameters[0].name}")
            for place in sorted({place for place, narrow in used if narrow}):
                lines.append(f"  %sized{place}.i32 = trunc i64 %sized{place} to i32")
            f = f.filled(register).beginning(lines)
        functions.append(f.passing(Parameter("ptr", "sized"), private))
    return module.replaced(functions=functions), list(map(int, found))
