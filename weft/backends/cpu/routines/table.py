"""Lowerings of operations with algorithms of their own: which file knows which primitive.

A file is loaded when the first program needs it.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.choices import ROUTINES
from weft.backends.cpu.routines.registry import FINISHING, LOWERINGS, SMALL
from weft.backends.cpu.sizes import Written, at_hand
from weft.backends.llvm.tasks import Lowered
from weft.base.lazy import Late
from weft.kernel.program import Finish, Type

_complex_products = Late("weft.backends.cpu.routines.products.complex_products")
_conv = Late("weft.backends.cpu.routines.contractions.conv")
_cumulative = Late("weft.backends.cpu.routines.cumulative")
_dot = Late("weft.backends.cpu.routines.products.dot")
_fft = Late("weft.backends.cpu.routines.fourier.fft")
_largest = Late("weft.backends.cpu.routines.sorting.largest")
_linalg = Late("weft.backends.cpu.routines.factorisations.linalg")
_sampling = Late("weft.backends.cpu.routines.draws.sampling")
_scatter = Late("weft.backends.cpu.routines.scatter.scatter")
_sort = Late("weft.backends.cpu.routines.sorting.sort")
_special = Late("weft.backends.cpu.routines.special")
_sylvester = Late("weft.backends.cpu.routines.factorisations.sylvester")
_window = Late("weft.backends.cpu.routines.contractions.window")

_NAMES = {
    _conv: ROUTINES["convolutions"],
    _cumulative: ROUTINES["cumulative"],
    _complex_products: "reduce_prod",
    _dot: ROUTINES["products"],
    _fft: ROUTINES["fourier"],
    _linalg: "cholesky lu geqrf geqp3 householder_product ormqr qr eigh"
    " svd eig schur hessenberg tridiagonal tridiagonal_solve triangular_solve",
    _sylvester: "triangular_sylvester",
    _sampling: ROUTINES["draws"],
    _scatter: ROUTINES["scatter"],
    _sort: ROUTINES["sorting"],
    _largest: "top_k approx_top_k",
    _special: ROUTINES["special"],
    _window: ROUTINES["windows"],
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}
# Files with lowerings to code that does for all shapes in all programs.
_ANY_SIZE = frozenset([_linalg])


def has(name: str) -> bool:
    """Whether an operation has a routine, or a library does it."""
    return name in _WHERE


def load(name: str) -> None:
    """Have an operation's file loaded before a program needs it."""
    _WHERE[name].LOWERINGS  # noqa: B018 -- loads the file, which fills the table


def lower(
    name: str, ins: list[Type], outs: list[Type], params: Any, finish: Finish | None = None
) -> Lowered | None:
    """The tasks of an operation, or None where its reference does it.

    With a kernel that goes on with the result: the tasks of both, or None where they stay apart.
    """
    if name not in _WHERE:
        return None
    load(name)
    if finish is not None:
        finishing = FINISHING.get(name)
        return None if finishing is None else finishing(ins, outs, params, finish)
    lowering = LOWERINGS.get(name)
    if lowering is None or _WHERE[name] not in _ANY_SIZE:
        return None if lowering is None else lowering(ins, outs, params)
    written = Written()
    ins, outs = ([t._replace(shape=written.named(t.shape)) for t in ts] for ts in (ins, outs))
    with written.writing():
        found = lowering(ins, outs, params)
    return None if found is None else at_hand(written.finished(found))


def lower_sized(
    name: str, ins: list[Type], outs: list[Type], params: Any, small: bool
) -> Lowered | None:
    """The same for types of named sizes: code reads them, and does for other shapes as well;
    ``small`` code does for those of few elements."""
    if name not in _WHERE:
        return None
    load(name)
    written, found = Written(), None
    with written.writing():
        for table in (SMALL, LOWERINGS) if small else (LOWERINGS,):
            if found is None and name in table:
                found = table[name](ins, outs, params)
    return None if found is None else written.finished(found)
