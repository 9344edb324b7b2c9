"""Stubs run by Python, on numbers of NumPy: what their words stand for then."""

from types import FunctionType

import numpy as np

from weft.kernel.straight import static_names


class Cells:
    """A kind of numbers in arrays, whose places are numbers of elements."""

    def __init__(self, dtype):
        self.dtype = np.dtype(dtype)

    def __getitem__(self, at):
        return at[0][at[1]]

    def __setitem__(self, at, value):
        at[0][at[1]] = value

    def __call__(self, number):
        return self.dtype.type(number)


def fused(x, y, z):
    """A product and a sum of singles, exact but for the last rounding, or one in a billion."""
    return np.float32(np.float64(x) * np.float64(y) + np.float64(z))


def select(test, x, y):
    """Numbers written out are of the kind of the others."""
    return np.where(test, np.asarray(x, getattr(y, "dtype", None)), y)[()]


LANGUAGE = {"ptr": Cells(object), "i32": Cells(np.int32), "i64": int, "select": select}
LANGUAGE |= {"fma": fused, "fabs": np.abs, "root": np.sqrt}


def runnable(f, **names):
    """A stub as a function that Python runs, and with it those that it calls, with these names."""
    scope = f.__globals__ | LANGUAGE | names
    for name, g in list(scope.items()):
        if isinstance(g, FunctionType) and g.__annotations__.get("return") in ("values", "void"):
            scope = g.__globals__ | scope
            scope[name] = g
    for name, g in list(scope.items()):
        if isinstance(g, FunctionType) and g.__annotations__.get("return") in ("values", "void"):
            scope[name] = FunctionType(g.__code__, scope)
            static = [word for word in static_names(g) if word in names]
            scope[name].__kwdefaults__ = {word: names[word] for word in static}
    return scope[f.__name__]
