"""Named sizes in the functions of operations, which read them from a table as kernels do."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from weft.backends.llvm.text.sizes import read_sizes
from weft.base.sizes import LEAST, Size, is_same, is_writing, plain, size_named, writing
from weft.kernel.program import Lowered, Place, Task


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

    def named(self, given: Any, least: int = LEAST, place: str = "") -> Any:
        """Numbers with names instead, equal ones with the same, unless names are by their place;
        and tuples and records of them."""
        if type(given) is int and given >= least:
            name = place or f"n{given}"
            self.scope[name] = given
            return size_named(name, self.scope)
        if isinstance(given, tuple):
            places = [place and f"{place}.{i}" for i in range(len(given))]
            found = [self.named(n, least, p) for n, p in zip(given, places, strict=True)]
            return tuple.__new__(type(given), found)
        return given

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


# Texts by what they are written from, and the sizes that each reads.
_shared: OrderedDict[Any, tuple[str, list[Size]]] = OrderedDict()
MAX_SHARED_TEXTS = 256


def sized_task(key: Any, task: Task, write: Callable[[], str]) -> Task:
    """A task with the text that ``write`` writes of ``key``, which holds named sizes: in
    shape-generic programs as it is, otherwise a text that others with the same names have too."""
    if is_writing():
        return task._replace(text=write())
    key = (key, task.name, len(task.places))
    if key not in _shared:
        written = Written()
        with written.writing():
            text, numbers = _reading(write(), task.name, len(task.places))
        _shared[key] = text, [written.sizes[i] for i in numbers]
        if len(_shared) > MAX_SHARED_TEXTS:
            _shared.popitem(last=False)
    text, sizes = _shared[key]
    places = task.places
    if sizes:
        values = _scope_of(key)
        places = (*places, Place("numbers", tuple([size.at(values) for size in sizes])))
    return at_hand(task._replace(text=text, places=places))


def _scope_of(given: Any) -> Any:
    """The values of names in tuples and records."""
    if type(given) is Size:
        return given.scope
    if isinstance(given, tuple):
        return next((found for x in given if (found := _scope_of(x)) is not None), None)
    return None


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
    text = re.sub(r"\bi32 (%sized\d+)\b", r"i32 \1.i32", text)
    functions = text.split("\ndefine ")
    for i, function in enumerate(functions):
        head, entry, body = function.partition("entry:\n")
        used = _NAME.findall(body.partition("\n}")[0])
        main = f"@{name}(" in head
        if used or main:
            first = head.partition("(")[2].partition(",")[0].rpartition(" ")[2]
            places = sorted({int(place) for place, _ in used})
            lines = read_sizes(places, buffers if main else None, first)
            for place in sorted({int(place) for place, narrow in used if narrow}):
                lines.append(f"  %sized{place}.i32 = trunc i64 %sized{place} to i32")
            functions[i] = head + entry + "".join([f"{line}\n" for line in lines]) + body
    text = "\ndefine ".join(functions)
    for other in re.findall(r"^define internal [^@]*@(\w+)\(", text, re.MULTILINE):
        text = text.replace(f"@{other}(", f"@{other}(ptr %sized, ")
    return text.replace("ptr %sized, )", "ptr %sized)"), list(found)
