"""Kernels over the matrices of a stack: calls of LAPACK with memory of their own, and copies.

LAPACK wants columns one after another, arrays here have rows so: matrices are transposed on the
way in and out. What is done is given to a stub as steps; all sizes are numbers of a table.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.backends.cpu.routines.factorisations import stack_stubs as stubs
from weft.backends.cpu.routines.factorisations.transpose import turn_code
from weft.backends.cpu.routines.stub_text import calling_module
from weft.backends.cpu.sizes import hand_on
from weft.backends.llvm.code import Module
from weft.backends.llvm.tasks import Lowered, Place, Task
from weft.backends.llvm.text.stub import known_to
from weft.base.functional import lru
from weft.base.record import Record
from weft.base.sizes import computed
from weft.kernel.kinds import kind_of
from weft.lapack.openblas import lapack_routine

LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
# A stack is at most so many pieces of work, each with memory of its own, in all so many bytes.
MAX_UNITS, MAX_SCRATCH_BYTES = 64, 1 << 28


def _chunk(count: int, scratch: int) -> int:
    """Matrices of a piece of work, of so many that each want so many bytes of memory."""
    most = max(2, min(MAX_UNITS, MAX_SCRATCH_BYTES // max(1, scratch)))
    return max(1, -(-count // most))


class Array(Record):
    """An array of each matrix: its number among those of a kernel, its elements and their bytes."""

    number: int
    count: int  # type: ignore[assignment]  # a field, not the method of tuples
    itemsize: int


class Stack:
    """What a kernel is given that does the same with every matrix of a stack, of any size."""

    def __init__(self, dtype: np.dtype, count: int) -> None:
        self.dtype, self.count = dtype, count
        self.letter = LETTERS[dtype.name]
        self.complex = dtype.kind == "c"
        self.real = np.dtype(f"f{dtype.itemsize // 2}") if self.complex else dtype
        self.size = dtype.itemsize
        self.places = [Place("scratch", 0), Place("numbers", ())]
        self.numbers: list[int] = [1, 0]  # the matrices of a piece of work, and its bytes
        self.arrays: list[tuple[int, int, int]] = []
        self.calls: list[tuple[int, tuple]] = []
        self.steps: list[tuple] = []
        self.names: dict[str, Any] = {}
        self.used = 0

    def with_same_memory(self) -> Stack:
        """What another kernel is given beside the arrays of this one so far."""
        made = Stack(self.dtype, self.count)
        made.places, made.numbers = [*self.places], [*self.numbers]
        made.arrays, made.used = [*self.arrays], self.used
        return made

    # --- what stubs read --------------------------------------------------------------------------

    def word(self, number: int) -> int:
        """The place of a number in the table."""
        self.numbers.append(number)
        return len(self.numbers) - 1

    def place(self, kind: str, what: Any) -> int:
        """The number of a buffer."""
        self.places.append(Place(kind, what))
        return len(self.places) - 1

    def _array(self, buffer: int, number: int, offset: int, count: int, itemsize: int) -> Array:
        self.arrays.append((buffer, self.word(number), offset))
        return Array(len(self.arrays) - 1, count, itemsize)

    def operand(self, i: int, count: int, itemsize: int = 0, offset: int = 0) -> Array:
        """The part of an operand that belongs to a matrix, from so many bytes of it on."""
        size = itemsize or self.size
        return self._array(self.place("in", i), count * size, offset, count, size)

    def result(self, i: int, count: int, itemsize: int = 0) -> Array:
        """The part of a result that belongs to a matrix."""
        size = itemsize or self.size
        return self._array(self.place("out", i), count * size, 0, count, size)

    def scratch(self, count: int, itemsize: int = 0) -> Array:
        """Memory for so many numbers."""
        size, at = itemsize or self.size, self.used
        self.used += -(-computed(max, 1, count) * size // 64) * 64
        return self._array(0, at, 0, count, size)

    # --- steps ------------------------------------------------------------------------------------

    def step(self, what: int, *given: Any) -> None:
        """Something done with arrays and numbers, as `stack_stubs.steps` knows it."""
        self.steps.append((what, *map(self._given, given)))

    def _given(self, x: Any) -> tuple[bool, int]:
        """An array, a character or a number as stubs know it."""
        if isinstance(x, Array):
            return True, x.number
        return False, self.word(ord(x) if isinstance(x, str) else x)

    def turn(self, at: Array, step: int, to: Array, rows: int, columns: int) -> None:
        """Row r and column c of a matrix with rows ``step`` apart to row c, column r of another."""
        self.turns()
        self.step(stubs.TURN, at, step, to, rows, columns)

    def turns(self) -> None:
        """Have the function that transposes at hand."""
        if "TURN_CODE" not in self.names:
            module, name = turn_code(self.size)  # which takes LLVM longest
            self.names["TURN_CODE"] = self.place("code", hand_on(module, name))

    def columns(self, i: int, m: int, n: int) -> Array:
        """An operand's m by n matrix in memory, column after column."""
        found = self.scratch(m * n)
        self.turn(self.operand(i, m * n), n, found, m, n)
        return found

    def finite_columns(self, i: int, n: int) -> Array:
        """The same for a square matrix. One that is not finite becomes zeros and fails, as
        iterations of LAPACK need not end on NaN or infinity."""
        found = self.columns(i, n, n)
        self.step(stubs.CHECK, found, n * n * (2 if self.complex else 1), n * n * self.size)
        return found

    def rows(self, at: Array, i: int, m: int, n: int) -> Array:
        """An m by n matrix of columns as a result, row after row."""
        found = self.result(i, m * n)
        self.turn(at, m, found, n, m)
        return found

    def copy(self, to: Array, at: Array) -> Array:
        self.step(stubs.COPY, to, at, to.count * to.itemsize)
        return to

    def fail(self, *arrays: Array) -> None:
        """NaN in arrays of a matrix whose routine has failed."""
        for array in arrays:
            self.step(stubs.FAIL, array, array.count * array.itemsize // self.real.itemsize)

    def routine(self, name: str, given: Sequence[Any]) -> int:
        """The number of a call of a library's function with arrays, characters and integers."""
        words = tuple(map(self._given, given))
        self.calls.append((self.place("library", name), words))
        return len(self.calls) - 1

    def lapack(
        self, stem: str, given: Sequence[Any], spaces: Sequence[np.dtype] = (), after: Sequence = ()
    ) -> int:
        """The same of a routine of LAPACK, with work arrays of some dtypes behind what is given."""
        before = [None if isinstance(x, Array) else x for x in given]
        sizes = ask(stem, self.dtype, tuple(before), list(spaces), len(after))
        pairs = zip(sizes, spaces, strict=True)
        work = [x for n, kind in pairs for x in (self.scratch(n, kind.itemsize), n)]
        return self.routine(f"LAPACKE_{self.letter}{stem}_work", (*given, *work, *after))

    def call(self, *given: Any) -> None:
        """Call a routine of LAPACK."""
        self.steps.append((stubs.CALL, self.lapack(*given)))

    # --- tasks ------------------------------------------------------------------------------------

    def lowered(self, main: Any = stubs.steps) -> Lowered:
        """The finished operation, by a stub."""
        chunk = computed(_chunk, self.count, self.used)
        pieces = -(-self.count // chunk)
        self.numbers[:2] = chunk, self.used
        task = self.task(main, self.count, chunk)
        return Lowered([task], (computed(max, 64, pieces * self.used),))

    def task(self, main: Any, extent: int, chunk: int) -> Task:
        """The kernel as one task of several, which share their memory."""
        self.places[stubs.TABLE] = Place("numbers", tuple(self.numbers))
        names = {"ARRAYS": tuple(self.arrays), "CALLS": tuple(self.calls), **self.names}
        names["STEPS"] = tuple(self.steps)
        module, name = hand_on(_module(main, self.dtype, tuple(names.items())), main.__name__)
        return Task(module, name, tuple(self.places), extent, chunk)


@lru(256)
def _module(main: Any, dtype: np.dtype, names: tuple[tuple[str, Any], ...]) -> Module:
    parts = 1 + (dtype.kind == "c")
    known = {"F": kind_of(f"f{dtype.itemsize // parts}"), "PARTS": parts, "ITEM": dtype.itemsize}
    given = known_to(main, {**known, **dict(names)}, *stubs.CAREFUL)
    return calling_module(main, given, stubs.CAREFUL)


# --- memory of LAPACK's ---------------------------------------------------------------------------


def ask(stem: str, dtype: np.dtype, before: tuple, spaces: list[np.dtype], after: int = 0) -> list:
    """The lengths of the work arrays that a routine wants when asked with lengths of -1.

    ``before`` are its arguments up to them, where a pointer is None; ``spaces`` the dtypes of the
    work arrays; ``after`` the number of pointers that follow.
    """
    which = [i for i, x in enumerate(before) if x is not None and not isinstance(x, str)]
    head = tuple([None if i in which else x for i, x in enumerate(before)])
    kinds = tuple(spaces)
    lengths = [_length(i, stem, dtype, head, tuple(which), kinds, after) for i in range(len(kinds))]
    return [computed(length, *[before[i] for i in which]) for length in lengths]


@lru(256)
def _length(
    number: int, stem: str, dtype: np.dtype, head: tuple, which: tuple, spaces: tuple, after: int
) -> Callable[..., int]:
    """The length of a work array as a function of the whole numbers among a routine's arguments."""

    def length(*numbers: int) -> int:
        before = list(head)
        for i, n in zip(which, numbers, strict=True):
            before[i] = n
        return _asked(stem, dtype, tuple(before), spaces, after)[number]

    return length


@lru(256)
def _asked(
    stem: str, dtype: np.dtype, before: tuple, spaces: tuple[np.dtype, ...], after: int
) -> list[int]:
    answers = [np.zeros(1, kind) for kind in spaces]
    # Some routines look at the first numbers of a matrix even so.
    any_memory = np.zeros(4096)
    spot = ctypes.c_void_p(any_memory.ctypes.data)
    given = [
        spot if x is None else ord(x) if isinstance(x, str) else operator.index(x) for x in before
    ]
    tail = [x for a in answers for x in (ctypes.c_void_p(a.ctypes.data), -1)]
    lapack_routine(stem, dtype)(*given, *tail, *[spot] * after)
    return [max(1, int(a[0].real)) for a in answers]
