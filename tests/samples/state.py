"""Samples of mutable references: functions that make one, use it, and return what it holds."""

import numpy as np

import weft
from tests.samples import Sample, normal, whole

DTYPES = ("float32", "float64", "bfloat16", "complex64", "int32", "uint8", "bool")
NUMBERS = DTYPES[:-1]


def sample(prim, label, args, fun, dtypes=DTYPES, linear=None, **options):
    every = (tuple(range(len(args))),) if linear is None else linear
    name = f"{prim}_{label}"
    return Sample(name, prim, args, fun=fun, dtypes=dtypes, linear=every, **options)


def made(x):
    return weft.new_ref(x)[...]


def frozen(x, y):
    ref = weft.new_ref(x)
    ref[0] = y
    return weft.freeze(ref)


def freed(x):
    ref = weft.new_ref(x)
    value = ref[...]
    weft.ref.free_ref(ref)
    return value


def emptied(x):
    ref = weft.empty_ref(weft.typeof(x))
    ref[...] = x
    return ref[...]


def read_at(*index):
    return lambda x: weft.new_ref(x)[index]


def read_chosen(x, i):
    return weft.new_ref(x)[i]


def read_window(x, i):
    return weft.new_ref(x)[weft.ds(i[0], 2), 1:]


def read_strided(x, i):
    return weft.new_ref(x)[weft.ds(i[0], 2, 2)]


def swapped_at(*index):
    def swap(x, y):
        ref = weft.new_ref(x)
        before = weft.ref.swap(ref, index, y)
        return before, ref[...]

    return swap


def swap_chosen(x, y, i):
    ref = weft.new_ref(x)
    before = weft.ref.swap(ref, i, y)
    return before, ref[...]


def swap_window(x, y, i):
    ref = weft.new_ref(x)
    ref.at[weft.ds(i[0], 2)][0] = y
    return ref[...]


def added_at(*index):
    def add(x, y):
        ref = weft.new_ref(x)
        weft.ref.addupdate(ref, index, y)
        return ref[...]

    return add


def add_chosen(x, y, i):
    ref = weft.new_ref(x)
    ref.addupdate(y, i)
    return ref[...]


ROWS = np.array([2, 0, 2])
INDEX = whole(-5, 6, 3, dtype=np.int32)
NOT_INDEX = ((0,),)
PAIR = ((0, 1),)

SAMPLES = [
    sample("new_ref", "matrix", [normal(2, 3)], made),
    sample("new_ref", "scalar", [normal()], made),
    sample("empty_ref", "matrix", [normal(2, 3)], emptied),
    sample("freeze", "row", [normal(3, 2), normal(2)], frozen),
    sample("free_ref", "matrix", [normal(2, 3)], freed),
    sample("get", "row", [normal(3, 2)], read_at(1)),
    sample("get", "block", [normal(4, 5)], read_at(slice(1, 3), slice(None, None, 2))),
    sample("get", "corner", [normal(4, 5)], read_at(-1, ..., slice(-2, None))),
    sample("get", "rows", [normal(3, 2)], read_at(ROWS)),
    sample("get", "apart", [normal(3, 4, 5)], read_at(ROWS, slice(1, 3), ROWS)),
    sample("get", "empty", [normal(3, 2)], read_at(slice(1, 1))),
    sample("get", "chosen", [normal(3, 2), INDEX], read_chosen, linear=NOT_INDEX),
    sample("get", "window", [normal(3, 4), INDEX], read_window, linear=NOT_INDEX),
    sample("get", "strided", [normal(6), INDEX], read_strided, linear=NOT_INDEX),
    sample("swap", "whole", [normal(3, 2), normal(3, 2)], swapped_at()),
    sample("swap", "row", [normal(3, 2), normal(2)], swapped_at(-1)),
    sample("swap", "block", [normal(4, 5), normal(2, 5)], swapped_at(slice(1, 3))),
    sample("swap", "every", [normal(4, 5), normal(2, 5)], swapped_at(slice(None, None, 2))),
    sample("swap", "rows", [normal(3, 2), normal(2, 2)], swapped_at(np.array([2, 0])), linear=()),
    sample("swap", "chosen", [normal(3, 2), normal(2), whole(-5, 6, dtype=np.int32)], swap_chosen,
           linear=PAIR),
    sample("swap", "window", [normal(3, 2), normal(2), INDEX], swap_window, linear=PAIR),
    sample("addupdate", "whole", [normal(3, 2), normal(3, 2)], added_at(), NUMBERS),
    sample("addupdate", "row", [normal(3, 2), normal(2)], added_at(1), NUMBERS),
    sample("addupdate", "rows", [normal(3, 2), normal(3, 2)], added_at(ROWS), NUMBERS),
    sample("addupdate", "chosen", [normal(3, 2), normal(3, 2), INDEX], add_chosen, NUMBERS,
           linear=PAIR),
]  # fmt: skip
