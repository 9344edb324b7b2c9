"""Named sizes in the functions of operations, which read them from a table as kernels do."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from weft.backends.llvm.tasks import Lowered, Place, Task
from weft.backends.llvm.text.sizes import read_sizes
from weft.base.record import Record
from weft.base.sizes import LEAST, Size, is_same, is_writing, plain, size_named, writing


class Written:
    """Named sizes in the functions of an operation, which its lowering writes as it writes numbers.

    A token stands for each in the texts; finished functions read them from a table.
    """

    def __init__(self) -> None:
        self.sizes: list[Size] = []
        self.scope: dict[str, int] = {}
        self.known: dict[Any, tuple[str, list[int]]] = {}  # finished texts

    def writing(self) -> Any:
        """What is written meanwhile are tokens."""
        return writing(self.token)

    def token(self, size: Size) -> str:
        for i, known in enumerate(self.sizes):
            if is_same(known, size):
                return f"%size{i}_"
        self.sizes.append(size)
        return f"%size{len(self.sizes) - 1}_"

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
        key = (task.text, task.name, len(task.places))
        found = self.known.get(key)
        text, numbers = found if found is not None else self.known.setdefault(key, _reading(*key))
        if not numbers:
            return task
        table = Place("numbers", tuple([self.sizes[i] for i in numbers]))
        return task._replace(text=text, places=(*task.places, table))


def at_hand(given: Any) -> Any:
    """Tasks, and what they are made of, with the numbers at hand in place of sizes."""
    if type(given) is list:
        return [at_hand(x) for x in given]
    if isinstance(given, tuple):
        return tuple.__new__(type(given), map(at_hand, given))
    return plain(given)


class Name(Record):
    """What stands for a number that a text reads: so many units of what has this name."""

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


Begin = Callable[[str, str, bool], None]
# Who takes texts of tasks, with their functions' names, as soon as they are written.
_taker: ContextVar[Begin | None] = ContextVar("taker", default=None)


@contextmanager
def handing_on(begin: Begin | None) -> Iterator[None]:
    """A scope in which texts are handed on while others of their operation are being written."""
    before = _taker.set(begin)
    try:
        yield
    finally:
        _taker.reset(before)


def hand_on(text: str, name: str) -> tuple[str, str]:
    """A text and its function's name, which are handed on in such a scope."""
    begin = _taker.get()
    if begin is not None:
        begin(text, name, True)
    return text, name


# Texts by what they are written from, and the sizes that each reads.
_shared: OrderedDict[Any, tuple[str, list[Size]]] = OrderedDict()
MAX_SHARED_TEXTS = 256


def sized_task(given: Any, values: dict[str, int], task: Task, write: Callable[[Any], str]) -> Task:
    """A task with the text that ``write`` writes of what is given: in shape-generic programs as it
    is, otherwise a text that others have too for which the same is given, whatever the values of
    its names are."""
    if is_writing():
        return task._replace(text=write(given))
    key = (given, task.name, len(task.places))
    if key not in _shared:
        written = Written()
        with written.writing():
            text, numbers = _reading(write(sizes(given, values)), task.name, len(task.places))
        _shared[key] = text, [written.sizes[i] for i in numbers]
        if len(_shared) > MAX_SHARED_TEXTS:
            _shared.popitem(last=False)
    text, read = _shared[key]
    hand_on(text, task.name)
    places = task.places
    if read:
        places = (*places, Place("numbers", tuple([size.at(values) for size in read])))
    return task._replace(text=text, places=places)


_TOKEN, _NAME = re.compile(r"%size(\d+)_"), re.compile(r"%sized(\d+)(\.i32)?")


def _reading(text: str, name: str, buffers: int) -> tuple[str, list[int]]:
    """A text whose functions read sizes where tokens stand for them, from a table behind so many
    buffers; and the numbers of the tokens. Private functions are given the table."""
    if "%size" not in text:
        return text, []
    found: dict[int, int] = {}
    text = _TOKEN.sub(lambda m: f"%sized{found.setdefault(int(m[1]), len(found))}", text)
    if not found:
        return text, []
    if "i32 %sized" in text:
        text = re.sub(r"\bi32 (%sized\d+)\b", r"i32 \1.i32", text)
    functions, private = text.split("\ndefine "), []
    for i, function in enumerate(functions):
        head, entry, body = function.partition("entry:\n")
        used = _NAME.findall(body.partition("\n}")[0])
        main = f"@{name}(" in head
        if head.startswith(("internal ", "define internal ")):
            private.append(head.partition("@")[2].partition("(")[0])
        if used or main:
            first = head.partition("(")[2].partition(",")[0].rpartition(" ")[2]
            places = sorted({int(place) for place, _ in used})
            lines = read_sizes(places, buffers if main else None, first)
            for place in sorted({int(place) for place, narrow in used if narrow}):
                lines.append(f"  %sized{place}.i32 = trunc i64 %sized{place} to i32")
            functions[i] = head + entry + "".join([f"{line}\n" for line in lines]) + body
    text = "\ndefine ".join(functions)
    for other in private:
        text = text.replace(f"@{other}(", f"@{other}(ptr %sized, ")
    return text.replace("ptr %sized, )", "ptr %sized)"), list(found)
